//! An issuer of tokens whose key a test has, and which therefore can sign everything.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use serde_json::{Value, json};

use super::AUDIENCE;

/// The name of the issuer in tokens; its keys are on this machine.
pub const ISSUER: &str = "https://login.test";

/// A pair of keys, and the name of the public one.
pub struct SigningKey {
    pub kid: &'static str,
    pub key: EncodingKey,
}

impl SigningKey {
    pub fn new(kid: &'static str) -> Self {
        let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        Self { kid, key: EncodingKey::from_ec_der(pair.as_ref()) }
    }

    pub fn public(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.key, Algorithm::ES256).unwrap();
        jwk.common.key_id = Some(self.kid.to_owned());
        serde_json::to_value(jwk).unwrap()
    }

    /// A header that names the key.
    pub fn header(&self) -> Header {
        Header { kid: Some(self.kid.to_owned()), ..Header::new(Algorithm::ES256) }
    }

    /// A token with these claims, which take the place of the usual ones; `null` takes one out.
    pub fn token(&self, claims: &Value) -> String {
        self.token_with(&self.header(), claims)
    }

    pub fn token_with(&self, header: &Header, claims: &Value) -> String {
        encode(header, &claims_of(claims), &self.key).unwrap()
    }
}

/// The usual claims with these in their place.
pub fn claims_of(claims: &Value) -> Value {
    let mut all = json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": get_current_timestamp() + 600});
    for (name, value) in claims.as_object().unwrap() {
        match value {
            Value::Null => drop(all.as_object_mut().unwrap().remove(name)),
            value => all[name] = value.clone(),
        }
    }
    all
}

/// Serves the public keys.
pub struct KeyServer {
    pub url: String,
    keys: Arc<Mutex<Value>>,
    asked: Arc<AtomicUsize>,
}

impl KeyServer {
    pub fn start(keys: &[&SigningKey]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let server = Self { url, keys: Arc::default(), asked: Arc::default() };
        server.set(keys);
        let (keys, asked) = (Arc::clone(&server.keys), Arc::clone(&server.asked));
        std::thread::spawn(move || {
            for mut client in listener.incoming().map_while(Result::ok) {
                asked.fetch_add(1, Ordering::SeqCst);
                let _ = client.read(&mut [0; 4096]);
                let body = keys.lock().unwrap().to_string();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                let _ = client.write_all((head + &body).as_bytes());
            }
        });
        server
    }

    /// Replaces the keys.
    pub fn set(&self, keys: &[&SigningKey]) {
        let keys: Vec<_> = keys.iter().map(|key| key.public()).collect();
        *self.keys.lock().unwrap() = json!({"keys": keys});
    }

    /// How many requests there were.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// The authentication of a gateway that accepts tokens of this issuer.
    pub fn authentication(&self) -> Value {
        json!({
            "jwt": [{"issuer": ISSUER, "audiences": [AUDIENCE], "jwks": {"uri": self.url}}],
            "resourceMetadata": {"resource": AUDIENCE, "scopesSupported": ["mcp.read"]},
        })
    }
}
