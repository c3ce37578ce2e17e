//! Tests of which tokens are accepted and which are refused.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{EncodingKey, encode, get_current_timestamp};
use serde_json::{Value, json};

use super::*;

/// A signing key of the API server.
struct Signer {
    private: EncodingKey,
    public: Jwk,
}

impl Signer {
    fn new() -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        let der = pair.to_pkcs8v1().unwrap();
        // An uncompressed point is the byte 4 followed by both coordinates.
        let point = pair.public_key().as_ref();
        let part = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let public = json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "one",
            "x": part(&point[1..33]), "y": part(&point[33..])});
        Self { private: EncodingKey::from_ec_der(der.as_ref()), public: serde_json::from_value(public).unwrap() }
    }

    fn sign(&self, claims: &Value) -> String {
        encode(&header(Algorithm::ES256), claims, &self.private).unwrap()
    }

    fn check(&self, token: &str) -> Result<(), String> {
        let wanted = ExpectedClaims {
            issuer: "https://issuer",
            account: &account(),
            audience: "hawsepipe.dev/gateway/uid-1".into(),
        };
        verify(token, &decode_header(token).unwrap(), &self.public, &wanted)
    }
}

fn header(algorithm: Algorithm) -> Header {
    Header { kid: Some("one".into()), ..Header::new(algorithm) }
}

fn account() -> ServiceAccountName {
    "hawsepipe/operator".parse().unwrap()
}

/// Returns valid claims with these changes; `null` removes a claim.
fn claims(changes: &Value) -> Value {
    let now = get_current_timestamp();
    let mut claims = json!({
        "iss": "https://issuer", "aud": ["hawsepipe.dev/gateway/uid-1"], "exp": now + 600, "nbf": now,
        "sub": "system:serviceaccount:hawsepipe:operator",
    });
    let members = claims.as_object_mut().unwrap();
    for (name, value) in changes.as_object().unwrap() {
        members.insert(name.clone(), value.clone());
    }
    members.retain(|_, value| !value.is_null());
    claims
}

const OTHER: &str = "it is not for the audience hawsepipe.dev/gateway/uid-1";

#[test]
fn only_the_operators_own_tokens_for_gateways_are_accepted() {
    let signer = Signer::new();
    let now = get_current_timestamp();
    for (changes, why) in [
        (json!({}), None),
        (json!({"aud": "hawsepipe.dev/gateway/uid-1"}), None),
        (json!({"aud": ["other", "hawsepipe.dev/gateway/uid-1"]}), None),
        (json!({"exp": now - 10}), None),
        (json!({"nbf": now + 10}), None),
        (json!({"nbf": null}), None),
        (json!({"exp": now - 60}), Some("it has expired")),
        (json!({"nbf": now + 60}), Some("it is not valid yet")),
        (json!({"aud": ["https://kubernetes.default.svc"]}), Some(OTHER)),
        (json!({"aud": ["hawsepipe.dev/gateway/uid-2"]}), Some(OTHER)),
        (json!({"aud": ["hawsepipe.dev/gateway"]}), Some(OTHER)),
        (json!({"aud": null}), Some("it has no aud")),
        (json!({"exp": null}), Some("it has no exp")),
        (json!({"iss": "https://evil"}), Some("it is of another issuer than the API server")),
        (json!({"sub": "system:serviceaccount:hawsepipe:other"}), Some("it is of another account than the operator's")),
        (json!({"sub": "system:serviceaccount:other:operator"}), Some("it is of another account than the operator's")),
        (json!({"sub": null}), Some("it has no sub")),
    ] {
        let token = signer.sign(&claims(&changes));
        assert_eq!(signer.check(&token).err().as_deref(), why, "{changes}");
    }
}

#[test]
fn signatures_of_others_and_other_algorithms_are_refused() {
    let signer = Signer::new();
    let forged = Signer::new().sign(&claims(&json!({})));
    assert_eq!(signer.check(&forged).unwrap_err(), "its signature is not valid");
    let good = signer.sign(&claims(&json!({})));
    let (start, _) = good.rsplit_once('.').unwrap();
    assert!(signer.check(&format!("{start}.")).is_err(), "no signature");
    let secret = EncodingKey::from_secret(signer.public.common.key_id.as_ref().unwrap().as_bytes());
    let symmetric = encode(&header(Algorithm::HS256), &claims(&json!({})), &secret).unwrap();
    assert_eq!(signer.check(&symmetric).unwrap_err(), "it is signed with another algorithm than RS256 or ES256");
}

#[test]
fn accounts_are_named_in_two_parts() {
    assert_eq!(account().to_string(), "system:serviceaccount:hawsepipe:operator");
    for bad in ["operator", "/operator", "hawsepipe/", "a/b/c"] {
        assert!(bad.parse::<ServiceAccountName>().is_err(), "{bad}");
    }
}
