//! The keys that an issuer publishes (RFC 7517).

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, PublicKeyUse};
use jsonwebtoken::{DecodingKey, Header};
use serde::Deserialize;
use serde_json::Value;

/// The maximum number of keys of one issuer that are read.
const MAX_KEYS: usize = 128;

/// The keys of an issuer that can verify signatures.
pub(super) struct KeySet(Vec<Key>);

struct Key {
    id: Option<String>,
    /// The only algorithm that the key is for; `None` if the issuer names none.
    algorithm: Option<String>,
    /// `RSA`, `EC` or `OKP`.
    kind: &'static str,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct Published {
    keys: Vec<Value>,
}

impl KeySet {
    /// Reads a published key set. Keys that verify no signatures are left out.
    ///
    /// # Errors
    /// If it is no key set, or has no usable key.
    pub(super) fn read(json: &[u8]) -> Result<Self, String> {
        let published: Published = serde_json::from_slice(json).map_err(|_| "it is no JSON Web Key Set".to_owned())?;
        let keys: Vec<_> = published.keys.into_iter().take(MAX_KEYS).filter_map(Key::read).collect();
        if keys.is_empty() { Err("it has no key that can verify signatures".to_owned()) } else { Ok(Self(keys)) }
    }

    /// Returns the ids of the keys that have one.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|key| key.id.as_deref())
    }

    /// Returns the key that a token with this header is verified with: the one that it names, or the only one for its
    /// algorithm if it names none. Nothing else of a header is followed, such as `jku`, `x5u` or `jwk`.
    pub(super) fn find(&self, header: &Header) -> Option<&DecodingKey> {
        let algorithm = format!("{:?}", header.alg);
        let mut fitting = self.0.iter().filter(|key| key.fits(&algorithm, header.kid.as_deref()));
        let found = fitting.next()?;
        fitting.next().is_none().then_some(&found.key)
    }
}

impl Key {
    fn read(published: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(published).ok()?;
        let kind = match jwk.algorithm {
            AlgorithmParameters::RSA(_) => "RSA",
            AlgorithmParameters::EllipticCurve(_) => "EC",
            AlgorithmParameters::OctetKeyPair(_) => "OKP",
            AlgorithmParameters::OctetKey(_) => return None,
        };
        let common = &jwk.common;
        if matches!(common.public_key_use, Some(PublicKeyUse::Encryption)) {
            return None;
        }
        let algorithm = common.key_algorithm.map(|algorithm| algorithm.to_string());
        Some(Self { id: common.key_id.clone(), algorithm, kind, key: DecodingKey::from_jwk(&jwk).ok()? })
    }

    fn fits(&self, algorithm: &str, id: Option<&str>) -> bool {
        let kind = match algorithm.get(..2) {
            Some("RS" | "PS") => "RSA",
            Some("ES") => "EC",
            _ => "OKP",
        };
        self.kind == kind
            && self.algorithm.as_deref().is_none_or(|only| only == algorithm)
            && id.is_none_or(|id| self.id.as_deref() == Some(id))
    }
}
