//! Verifies service account tokens (RFC 7519) with the keys that the API server publishes. A TokenReview would need a
//! permission that gateway pods do not have.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::errors::{Error as TokenError, ErrorKind};
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::owner::GatewayUid;

/// The start of a token's audience. The uid of the MCPGateway follows.
const AUDIENCE: &str = "hawsepipe.dev/gateway/";
/// The tolerated difference between clocks, in seconds.
const LEEWAY: u64 = 30;
/// The shortest time between two requests for the keys.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// How long the API server can take to answer a request.
const ANSWER: Duration = Duration::from_secs(5);
/// The longest token that is parsed, in bytes.
const MAX_TOKEN: usize = 16 << 10;

/// The name of a service account. It is parsed from `NAMESPACE/NAME`, and displayed as a token's subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccountName {
    /// The namespace of the account.
    pub namespace: String,
    /// The name of the account within its namespace.
    pub name: String,
}

impl FromStr for ServiceAccountName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err("give NAMESPACE/SERVICEACCOUNT".to_owned()),
        }
    }
}

impl fmt::Display for ServiceAccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

/// The claims that are checked here. The library checks the other required ones.
#[derive(Deserialize)]
struct Claims {
    #[serde(default)]
    sub: String,
}

/// The API server's OpenID Connect Discovery document.
#[derive(Deserialize)]
struct OidcDiscovery {
    issuer: String,
}

/// The issuer and the keys that the API server publishes.
struct Published {
    issuer: String,
    keys: JwkSet,
}

/// The published keys, and when they were last requested.
#[derive(Default)]
struct KeyCache {
    published: Option<Arc<Published>>,
    asked: Option<Instant>,
}

/// Checks tokens: accepts only tokens of one service account for one gateway.
pub struct OperatorTokens {
    client: Client,
    account: ServiceAccountName,
    gateway: GatewayUid,
    keys: Mutex<KeyCache>,
}

impl OperatorTokens {
    /// Creates a check that accepts tokens of `account` for the pods of `gateway`. The keys are requested at the first
    /// check.
    pub fn new(client: Client, account: ServiceAccountName, gateway: GatewayUid) -> Self {
        Self { client, account, gateway, keys: Mutex::default() }
    }

    /// Checks the signature, issuer, audience, lifetime and subject of a token.
    ///
    /// # Errors
    /// Returns why the token is not accepted. The text is sent to the client and contains no part of the token.
    pub async fn check(&self, token: &str) -> Result<(), String> {
        if token.len() > MAX_TOKEN {
            return Err(format!("it is longer than {MAX_TOKEN} bytes"));
        }
        let header = decode_header(token).map_err(|_| "it is not a JSON Web Token".to_owned())?;
        let kid = header.kid.as_deref().ok_or("it does not name its key")?;
        let published = self.published(kid).await?;
        let key = published.keys.find(kid).ok_or("the API server does not publish its key")?;
        let uid = self.gateway.get().ok_or("this pod has seen no index of its MCPGateway yet")?;
        let wanted =
            ExpectedClaims { issuer: &published.issuer, account: &self.account, audience: format!("{AUDIENCE}{uid}") };
        verify(token, &header, key, &wanted)
    }

    /// Returns the published keys. They are requested again if the known keys do not include `kid`, but not sooner than
    /// [`ASK_AGAIN`] after the last request.
    async fn published(&self, kid: &str) -> Result<Arc<Published>, String> {
        let mut keys = self.keys.lock().await;
        let is_due = keys.asked.is_none_or(|asked| asked.elapsed() >= ASK_AGAIN);
        let holds_it = keys.published.as_ref().is_some_and(|published| published.keys.find(kid).is_some());
        if !holds_it && is_due {
            keys.asked = Some(Instant::now());
            match self.ask().await {
                Ok(published) => keys.published = Some(Arc::new(published)),
                Err(error) => tracing::warn!("the keys of service accounts cannot be read: {error}"),
            }
        }
        keys.published.clone().ok_or_else(|| "the API server's keys cannot be read now".to_owned())
    }

    async fn ask(&self) -> Result<Published, String> {
        let OidcDiscovery { issuer } = self.get("/.well-known/openid-configuration").await?;
        Ok(Published { issuer, keys: self.get("/openid/v1/jwks").await? })
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
        let answer = tokio::time::timeout(ANSWER, self.client.request(request)).await;
        answer.map_err(|_| format!("no answer within {ANSWER:?}"))?.map_err(|error| format!("{path}: {error}"))
    }
}

/// The claims that a token must have.
struct ExpectedClaims<'a> {
    issuer: &'a str,
    account: &'a ServiceAccountName,
    audience: String,
}

fn verify(token: &str, header: &Header, key: &Jwk, wanted: &ExpectedClaims<'_>) -> Result<(), String> {
    let ExpectedClaims { issuer, account, audience } = wanted;
    if !matches!(header.alg, Algorithm::RS256 | Algorithm::ES256) {
        return Err("it is signed with another algorithm than RS256 or ES256".to_owned());
    }
    let key = DecodingKey::from_jwk(key).map_err(|_| "its key cannot be used".to_owned())?;
    let mut wanted = Validation::new(header.alg);
    wanted.leeway = LEEWAY;
    wanted.validate_nbf = true;
    wanted.set_audience(&[audience]);
    wanted.set_issuer(&[issuer]);
    wanted.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
    let claims = decode::<Claims>(token, &key, &wanted).map_err(|error| why(&error, audience))?.claims;
    if claims.sub != account.to_string() {
        return Err("it is of another account than the operator's".to_owned());
    }
    Ok(())
}

fn why(error: &TokenError, audience: &str) -> String {
    match error.kind() {
        ErrorKind::ExpiredSignature => "it has expired".to_owned(),
        ErrorKind::ImmatureSignature => "it is not valid yet".to_owned(),
        ErrorKind::InvalidAudience => format!("it is not for the audience {audience}"),
        ErrorKind::InvalidIssuer => "it is of another issuer than the API server".to_owned(),
        ErrorKind::MissingRequiredClaim(claim) => format!("it has no {claim}"),
        _ => "its signature is not valid".to_owned(),
    }
}

#[cfg(test)]
mod tests;
