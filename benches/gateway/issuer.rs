//! An issuer of tokens, for the gateway with authentication: its key is made with each run.

use std::sync::LazyLock;

use anyhow::{Context, Result};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use http::HeaderValue;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use serde_json::{Value, json};

const ISSUER: &str = "https://login.example.com";
const AUDIENCE: &str = "https://mcp.example.com/mcp";
const KEY_ID: &str = "bench";
/// How long a token lasts, in seconds: longer than a run.
const LIFETIME: u64 = 24 * 3600;

static KEY: LazyLock<Option<EncodingKey>> = LazyLock::new(|| {
    let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).ok()?;
    Some(EncodingKey::from_ec_der(pair.as_ref()))
});

fn key() -> Result<&'static EncodingKey> {
    KEY.as_ref().context("no key was made")
}

/// Returns the value of `Authorization` for a client.
pub fn authorization() -> Result<HeaderValue> {
    authorization_of("ann", &["staff".to_owned(), "bench".to_owned()])
}

/// Returns the value of `Authorization` for a client in these groups.
pub fn authorization_of(subject: &str, groups: &[String]) -> Result<HeaderValue> {
    let header = Header { kid: Some(KEY_ID.to_owned()), ..Header::new(Algorithm::ES256) };
    let expiry = get_current_timestamp() + LIFETIME;
    let claims = json!({"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "exp": expiry, "groups": groups});
    Ok(format!("Bearer {}", encode(&header, &claims, key()?)?).parse()?)
}

/// Returns the members of a gateway's spec that accept these tokens and decide by ten rules, nine of which do not apply.
pub fn spec() -> String {
    let denials = (0..9).map(|n| {
        json!({"name": format!("deny-{n}"), "effect": "Deny",
            "when": format!(r#""group-{n}" in identity.groups && has(call.arguments.path)"#)})
    });
    let allow = json!({"name": "staff", "effect": "Allow", "when": r#""staff" in identity.groups"#});
    let rules: Vec<_> = denials.chain([allow]).collect();
    spec_with(Some(&json!({ "rules": rules })))
}

/// Returns the members of a gateway's spec that accept these tokens, with this `authorization`.
pub fn spec_with(authorization: Option<&Value>) -> String {
    let keys = json!({"configMapKeyRef": {"name": "issuer-keys", "key": "jwks.json"}});
    let authentication = json!({"jwt": [{"issuer": ISSUER, "audiences": [AUDIENCE], "jwks": keys}]});
    let authorization = authorization.map(|rules| format!("  authorization: {rules}\n")).unwrap_or_default();
    format!("  authentication: {authentication}\n{authorization}")
}

/// Returns the manifest of the ConfigMap with the public key.
pub fn keys_manifest() -> Result<String> {
    let mut public = Jwk::from_encoding_key(key()?, Algorithm::ES256)?;
    public.common.key_id = Some(KEY_ID.to_owned());
    let keys = json!({ "keys": [public] }).to_string();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "issuer-keys"},
        "data": {"jwks.json": keys}});
    Ok(format!("---\n{map}\n"))
}
