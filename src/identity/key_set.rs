//! The keys that an issuer publishes (RFC 7517).

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{DecodingKey, Header};
use serde::Deserialize;
use serde_json::Value;

use crate::domain::quoted::Quoted;

/// The maximum number of keys of one issuer that are read.
const MAX_KEYS: usize = 128;
/// The maximum number of keys that a line of the log names.
const MAX_NAMED: usize = 16;

/// The keys of an issuer that can verify signatures.
pub(super) struct KeySet {
    keys: Vec<Key>,
    /// The ids of the published keys that are not read.
    unread: Vec<String>,
}

struct Key {
    id: Option<String>,
    /// The only algorithm that the key is for; `None` if the issuer names none.
    algorithm: Option<String>,
    /// The algorithms that a key of its type, and of its curve, is for.
    fitting: &'static [&'static str],
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
        let mut published = published.keys.into_iter();
        let keys: Vec<_> = published.by_ref().take(MAX_KEYS).filter_map(Key::read).collect();
        let id = |key: Value| key.get("kid").and_then(Value::as_str).unwrap_or("a key without an id").to_owned();
        let unread = published.map(id).collect();
        if keys.is_empty() {
            Err("it has no key that can verify signatures".to_owned())
        } else {
            Ok(Self { keys, unread })
        }
    }

    /// Logs which keys are not read, if `previous` does not have the same.
    pub(super) fn log_unread(&self, issuer: &str, previous: Option<&Self>) {
        if !self.unread.is_empty() && previous.is_none_or(|previous| previous.unread != self.unread) {
            let named: Vec<_> = self.unread.iter().take(MAX_NAMED).map(|id| Quoted(id, 64).to_string()).collect();
            let (unread, named) = (self.unread.len(), named.join(", "));
            tracing::warn!(
                issuer,
                unread,
                "the key set of an issuer has more than {MAX_KEYS} keys. Tokens by these are not accepted: {named}"
            );
        }
    }

    /// Says why there is no key for a token with this header.
    pub(super) fn lacks(&self, header: &Header) -> String {
        match &header.kid {
            Some(id) if self.unread.contains(id) => {
                format!("its key is not among the first {MAX_KEYS} that its issuer publishes")
            }
            Some(_) => "its issuer publishes no such key for it".to_owned(),
            None => "it names no key, and its issuer does not publish exactly one for its algorithm".to_owned(),
        }
    }

    /// Returns the ids of the keys that have one.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().filter_map(|key| key.id.as_deref())
    }

    /// Returns the key that a token with this header is verified with: the one that it names, or the only one for its
    /// algorithm if it names none. Nothing else of a header is followed, such as `jku`, `x5u` or `jwk`.
    pub(super) fn find(&self, header: &Header) -> Option<&DecodingKey> {
        let algorithm = format!("{:?}", header.alg);
        let mut fitting = self.keys.iter().filter(|key| key.fits(&algorithm, header.kid.as_deref()));
        let found = fitting.next()?;
        fitting.next().is_none().then_some(&found.key)
    }
}

impl Key {
    fn read(published: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(published).ok()?;
        // RFC 7518, 3.1; RFC 8037, 3.1.
        let fitting: &[_] = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
            AlgorithmParameters::EllipticCurve(key) => match key.curve {
                EllipticCurve::P256 => &["ES256"],
                EllipticCurve::P384 => &["ES384"],
                _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(_) => &["EdDSA"],
            AlgorithmParameters::OctetKey(_) => return None,
        };
        let common = &jwk.common;
        let verifies = common.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify));
        if !verifies || matches!(common.public_key_use, Some(PublicKeyUse::Encryption)) {
            return None;
        }
        let algorithm = common.key_algorithm.map(|algorithm| algorithm.to_string());
        Some(Self { id: common.key_id.clone(), algorithm, fitting, key: DecodingKey::from_jwk(&jwk).ok()? })
    }

    fn fits(&self, algorithm: &str, id: Option<&str>) -> bool {
        self.fitting.contains(&algorithm)
            && self.algorithm.as_deref().is_none_or(|only| only == algorithm)
            && id.is_none_or(|id| self.id.as_deref() == Some(id))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(id: &str, kind: &str) -> Value {
        // The base points of the curves, and any number as a modulus.
        let [x, y] = ["axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY", "T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU"];
        match kind {
            "P-256" => json!({"kid": id, "kty": "EC", "crv": kind, "x": x, "y": y}),
            "P-384" => json!({"kid": id, "kty": "EC", "crv": kind,
                "x": "qofKIr6LBTeOscce8yCtdG4dO2KLp5uYWfdB4IJUKjhVAvJdv1UpbDpUXjhydgq3",
                "y": "NhfeSpYmLG9dnpi_kpLcKfj0Hb0omhR86doxE7XwuMAKYLHOHX6BnXpDHXyQ6g5f"}),
            "Ed25519" => json!({"kid": id, "kty": "OKP", "crv": kind, "x": x}),
            "enc" => json!({"kid": id, "kty": "EC", "crv": "P-256", "x": x, "y": y, "use": "enc"}),
            "wrapKey" => json!({"kid": id, "kty": "EC", "crv": "P-256", "x": x, "y": y, "key_ops": ["wrapKey"]}),
            "RSA" => json!({"kid": id, "kty": "RSA", "n": x, "e": "AQAB"}),
            only => json!({"kid": id, "kty": "RSA", "n": x, "e": "AQAB", "alg": only}),
        }
    }

    #[test]
    fn a_token_that_names_no_key_takes_the_only_one_for_its_algorithm() {
        for (kinds, algorithm, is_found) in [
            (&["P-256"] as &[&str], "ES256", true),
            (&["P-256", "P-384"], "ES256", true),
            (&["P-256", "P-384"], "ES384", true),
            (&["P-256", "P-256"], "ES256", false),
            (&["P-256", "enc", "wrapKey", "RSA"], "ES256", true),
            (&["P-384"], "ES256", false),
            (&["Ed25519", "RSA", "P-256"], "EdDSA", true),
            (&["RSA", "P-256"], "PS256", true),
            (&["RS256", "RS512"], "RS512", true),
            (&["RSA-OAEP", "RS256"], "RS256", true),
            (&["RSA", "RS256"], "RS256", false),
            (&["RS256"], "PS256", false),
        ] {
            let keys: Vec<_> = kinds.iter().enumerate().map(|(at, kind)| key(&at.to_string(), kind)).collect();
            let keys = KeySet::read(json!({"keys": keys}).to_string().as_bytes()).unwrap();
            let header = Header::new(algorithm.parse().unwrap());
            assert_eq!(keys.find(&header).is_some(), is_found, "{kinds:?} {algorithm}");
            let named = Header { kid: Some("0".into()), ..header };
            assert_eq!(keys.find(&named).is_some(), keys.keys[0].fits(algorithm, None), "{kinds:?} {algorithm} by id");
        }
    }

    #[test]
    fn keys_beyond_the_limit_are_named() {
        let keys: Vec<_> = (0..MAX_KEYS + 2).map(|at| key(&format!("key-{at}"), "P-256")).collect();
        let keys = KeySet::read(json!({"keys": keys}).to_string().as_bytes()).unwrap();
        assert_eq!((keys.keys.len(), keys.unread.join(" ")), (MAX_KEYS, "key-128 key-129".to_owned()));
        let lacks = |id: &str| keys.lacks(&Header { kid: Some(id.into()), ..Header::default() });
        assert_eq!(lacks("key-129"), "its key is not among the first 128 that its issuer publishes");
        assert_eq!(lacks("key-130"), "its issuer publishes no such key for it");
    }
}
