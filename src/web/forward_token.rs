//! The token of a forwarded request: it proves to a replica that another one of the same gateway sent this very request.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, Method};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::domain::digest::sha256_hex;
use crate::domain::ids::ObjectKey;
use crate::engine::access::seal::Seals;
use crate::transport::mcp_headers::{LAST_EVENT_ID, SESSION_HEADER};

/// The purpose of the seal and the version of the sealed data.
const PURPOSE: &str = "hawsepipe forward 1";
/// How long a token is valid, which is also how much the clocks of replicas may differ, in milliseconds.
const VALID_MS: u64 = 60_000;

/// The request that a token is for, but for its body, whose digest is in the token. A token that was sealed for one request
/// cannot be opened for another.
#[derive(Clone, Copy)]
pub(super) struct TokenScope<'a> {
    pub(super) gateway: &'a ObjectKey,
    /// The replica that the request is sent to.
    pub(super) to: SocketAddr,
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    /// The headers of the request. Of these, the session and the last event are those that count.
    pub(super) headers: &'a HeaderMap,
}

impl TokenScope<'_> {
    fn to_context(self) -> String {
        let Self { gateway, to, method, path, headers } = self;
        let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let (session, last) = (text(SESSION_HEADER), text(LAST_EVENT_ID));
        json!([PURPOSE, gateway.namespace, gateway.name, to, method.as_str(), path, session, last]).to_string()
    }
}

/// What a token says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Token {
    /// The end of its validity, in Unix milliseconds.
    #[serde(rename = "t")]
    expires_at: u64,
    /// The address of the client.
    #[serde(rename = "c")]
    pub(super) client: IpAddr,
    /// SHA-256 of the body, in hex.
    #[serde(rename = "b")]
    body: String,
}

impl Token {
    /// Makes the token of a request of a client with this body. `now` is in Unix milliseconds.
    pub(super) fn new(client: IpAddr, body: &[u8], now: u64) -> Self {
        Self { expires_at: now.saturating_add(VALID_MS), client, body: sha256_hex(body) }
    }

    /// Seals the token; `None` only if the system provides no random numbers.
    pub(super) fn seal(&self, seals: &Seals, scope: TokenScope<'_>) -> Option<String> {
        seals.seal(&scope.to_context(), serde_json::to_vec(self).ok()?)
    }

    /// Opens a token that a replica sealed for this request and that is valid at `now`, in Unix milliseconds. Returns `None`
    /// for every other text.
    pub(super) fn open(seals: &Seals, scope: TokenScope<'_>, text: &str, now: u64) -> Option<Self> {
        let token: Self = serde_json::from_slice(&seals.open_shared(&scope.to_context(), text)?).ok()?;
        (token.expires_at > now && token.expires_at <= now.saturating_add(2 * VALID_MS)).then_some(token)
    }

    /// Whether the token is for a request with this body.
    pub(super) fn is_for(&self, body: &[u8]) -> bool {
        self.body == sha256_hex(body)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;
    use crate::domain::secret::SecretText;
    use crate::engine::SealKeys;

    fn seals_of(key: &str) -> Seals {
        let (seals, key) = (Seals::default(), SecretText::new(key));
        seals.share(SealKeys::parse(&key).unwrap_or_else(|why| panic!("{why}")));
        seals
    }

    fn seals() -> Seals {
        seals_of("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=")
    }

    fn headers(session: &'static str, last: &'static str) -> HeaderMap {
        let header = |name, value| (HeaderName::from_static(name), HeaderValue::from_static(value));
        HeaderMap::from_iter([header(SESSION_HEADER, session), header(LAST_EVENT_ID, last)])
    }

    #[test]
    fn a_token_is_for_one_request_to_one_replica_for_a_minute() {
        let [gateway, other] = ["main", "other"].map(|name| ObjectKey::new("mcp", name));
        let [own, another_session, another_event] = [headers("s", "e"), headers("t", "e"), headers("s", "f")];
        let to = "10.0.0.1:8080".parse().unwrap();
        let scope = TokenScope { gateway: &gateway, to, method: &Method::POST, path: "/mcp", headers: &own };
        let (seals, client) = (seals(), "10.9.9.9".parse().unwrap());
        let text = Token::new(client, b"body", 1000).seal(&seals, scope).unwrap();
        let open = |scope: TokenScope<'_>, now: u64| Token::open(&seals, scope, &text, now);
        let opened = open(scope, 1000).expect("it is for this request");
        assert!(opened.client == client && opened.is_for(b"body") && !opened.is_for(b"other"));
        for foreign in [
            TokenScope { gateway: &other, ..scope },
            TokenScope { to: "10.0.0.2:8080".parse().unwrap(), ..scope },
            TokenScope { to: "10.0.0.1:8081".parse().unwrap(), ..scope },
            TokenScope { method: &Method::GET, ..scope },
            TokenScope { path: "/up/mcp", ..scope },
            TokenScope { headers: &another_session, ..scope },
            TokenScope { headers: &another_event, ..scope },
        ] {
            assert!(open(foreign, 1000).is_none(), "{}", foreign.to_context());
        }
        let end = 1000 + VALID_MS;
        assert!(open(scope, end - 1).is_some() && open(scope, end).is_none());
        let early = Token::new(client, b"body", 1001 + VALID_MS).seal(&seals, scope).unwrap();
        assert!(Token::open(&seals, scope, &early, 1000).is_none(), "it is from too far in the future");
        let others = seals_of("AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=");
        assert!(Token::open(&others, scope, &text, 1000).is_none(), "the key is another");
    }

    #[test]
    fn a_token_that_was_changed_is_not_opened() {
        let (gateway, headers, seals) = (ObjectKey::new("mcp", "main"), headers("s", "e"), seals());
        let to = "[fd00::1]:8080".parse().unwrap();
        let scope = TokenScope { gateway: &gateway, to, method: &Method::POST, path: "/mcp", headers: &headers };
        let text = Token::new("10.9.9.9".parse().unwrap(), b"", 0).seal(&seals, scope).unwrap();
        for place in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(Token::open(&seals, scope, &changed, 0).is_none(), "{place}");
        }
    }
}
