//! What replicas of one gateway prove to each other with the key that they share: by its token, that one of them sent a
//! request; by its seal, that one of them answered it.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::requester::Requester;
use crate::domain::digest::sha256_hex;
use crate::domain::identity::{ANONYMOUS, Identity};
use crate::domain::ids::ObjectKey;
use crate::engine::access::seal::Seals;
use crate::transport::Channel;
use crate::transport::mcp_headers::{LAST_EVENT_ID, SESSION_HEADER};

/// The path at which replicas take forwarded requests, whatever the path of their endpoints. Nothing else is served there:
/// see the rule for `path` of listeners in `api/gateway`.
pub(super) const FORWARD_PATH: &str = "/hawsepipe/forward";
/// The header with the token of a forwarded request.
pub(super) const FORWARDED: HeaderName = HeaderName::from_static("hawsepipe-forwarded");
/// The header with the seal of the answer to a forwarded request.
pub(super) const ANSWERED: HeaderName = HeaderName::from_static("hawsepipe-answered");

/// The purpose of the seal of a token and the version of the sealed data.
const REQUEST: &str = "hawsepipe forward 2";
/// The same of the seal of an answer.
const ANSWER: &str = "hawsepipe forward answer 1";
/// How long a token is valid, which is also how much the clocks of replicas may differ, in milliseconds.
const VALID_MS: u64 = 60_000;

/// Whether a request was forwarded by another replica. Those that say so without a token of one are refused before.
pub(super) fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(FORWARDED)
}

/// Where a token is valid. A token that was sealed for one scope cannot be opened in another.
#[derive(Clone, Copy)]
pub(super) struct TokenScope<'a> {
    pub(super) gateway: &'a ObjectKey,
    /// The replica that the request is sent to.
    pub(super) to: SocketAddr,
    /// The headers of the request. Of these, the session and the last event are those that count.
    pub(super) headers: &'a HeaderMap,
}

impl TokenScope<'_> {
    fn to_context(self) -> String {
        let Self { gateway, to, headers } = self;
        let text =
            |name: &HeaderName| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let (session, last) = (text(&SESSION_HEADER), text(&LAST_EVENT_ID));
        json!([REQUEST, gateway.namespace, gateway.name, to, session, last]).to_string()
    }
}

/// What a token says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Token {
    /// The end of its validity, in Unix milliseconds.
    #[serde(rename = "t")]
    expires_at: u64,
    /// The forwarded request; `None` if the sender only wants to know whether a replica answers.
    #[serde(rename = "r")]
    pub(super) request: Option<SentRequest>,
}

/// A forwarded request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SentRequest {
    #[serde(rename = "m")]
    method: String,
    /// The path of the endpoint.
    #[serde(rename = "p")]
    pub(super) path: String,
    /// The address of the client.
    #[serde(rename = "c")]
    pub(super) client: IpAddr,
    /// The key and the subject of the client's identity.
    #[serde(rename = "i", default = "anonymous")]
    identity: (String, String),
    /// SHA-256 of the body, in hex.
    #[serde(rename = "b")]
    body: String,
    /// The size of the sealed identity behind the body, in bytes; 0 if there is none.
    #[serde(rename = "w", default, skip_serializing_if = "is_zero")]
    pub(super) identity_size: u64,
}

fn is_zero(size: &u64) -> bool {
    *size == 0
}

/// The identity that replicas name that know no other.
fn anonymous() -> (String, String) {
    (ANONYMOUS.to_owned(), ANONYMOUS.to_owned())
}

impl SentRequest {
    /// A request whose body ends with a sealed identity of this size.
    pub(super) fn new(method: &Method, path: String, sender: &Requester, (body, identity_size): (&[u8], u64)) -> Self {
        let identity = (sender.identity.key().to_owned(), sender.identity.subject.clone());
        let (method, body) = (method.as_str().to_owned(), sha256_hex(body));
        Self { method, path, client: sender.address, identity, body, identity_size }
    }

    /// The identity of the client, which the sender has checked.
    pub(super) fn identity(&self) -> Identity {
        Identity::forwarded(&self.identity.0, &self.identity.1)
    }

    /// The method; `None` if it is none.
    pub(super) fn method(&self) -> Option<Method> {
        self.method.parse().ok()
    }

    /// Whether this is a request with this body.
    pub(super) fn has_body(&self, body: &[u8]) -> bool {
        self.body == sha256_hex(body)
    }
}

impl Token {
    /// Makes a token. `now` is in Unix milliseconds.
    pub(super) fn new(request: Option<SentRequest>, now: u64) -> Self {
        Self { expires_at: now.saturating_add(VALID_MS), request }
    }

    /// Seals the token; `None` only if the system provides no random numbers.
    pub(super) fn seal(&self, seals: &Seals, scope: TokenScope<'_>) -> Option<String> {
        seals.seal(&scope.to_context(), serde_json::to_vec(self).ok()?)
    }

    /// Opens a token that a replica sealed for this scope and that is valid at `now`, in Unix milliseconds. Returns `None`
    /// for every other text.
    pub(super) fn open(seals: &Seals, scope: TokenScope<'_>, text: &str, now: u64) -> Option<Self> {
        let token: Self = serde_json::from_slice(&seals.open_shared(&scope.to_context(), text)?).ok()?;
        (token.expires_at > now && token.expires_at <= now.saturating_add(2 * VALID_MS)).then_some(token)
    }
}

/// The answer to one request: what its seal is for. Tokens are sealed at random, so that no two requests have the same.
#[derive(Clone, Copy)]
pub(super) struct AnswerScope<'a> {
    pub(super) gateway: &'a ObjectKey,
    /// The token of the request, as it was sent.
    pub(super) token: &'a str,
    pub(super) status: StatusCode,
    /// The TLS connection of the answer to a challenge: whoever relays it to another connection is no replica.
    pub(super) channel: Option<Channel>,
}

impl AnswerScope<'_> {
    /// Seals the answer; `None` only if the system provides no random numbers.
    pub(super) fn seal(self, seals: &Seals) -> Option<HeaderValue> {
        HeaderValue::try_from(seals.seal(&self.to_context(), Vec::new())?).ok()
    }

    /// Whether an answer with these headers comes from a replica that got this request.
    pub(super) fn is_sealed(self, seals: &Seals, headers: &HeaderMap) -> bool {
        let seal = headers.get(ANSWERED).and_then(|seal| seal.to_str().ok());
        seal.is_some_and(|seal| seals.open_shared(&self.to_context(), seal).is_some())
    }

    fn to_context(self) -> String {
        let Self { gateway, token, status, channel } = self;
        let answer = json!([ANSWER, gateway.namespace, gateway.name, token, status.as_u16()]).to_string();
        match channel {
            None => answer,
            Some(Channel(channel)) => json!([answer, channel]).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
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

    fn foreign_seals() -> Seals {
        seals_of("AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=")
    }

    fn headers(session: &'static str, last: &'static str) -> HeaderMap {
        let header = |name, value| (name, HeaderValue::from_static(value));
        HeaderMap::from_iter([header(SESSION_HEADER, session), header(LAST_EVENT_ID, last)])
    }

    #[test]
    fn a_token_is_for_one_request_to_one_replica_for_a_minute() {
        let [gateway, other] = ["main", "other"].map(|name| ObjectKey::new("mcp", name));
        let [own, another_session, another_event] = [headers("s", "e"), headers("t", "e"), headers("s", "f")];
        let scope = TokenScope { gateway: &gateway, to: "10.0.0.1:8080".parse().unwrap(), headers: &own };
        let (seals, client) = (seals(), "10.9.9.9".parse().unwrap());
        let sender = Requester { address: client, identity: Identity::forwarded("jwt:1", "ann").into(), token: None };
        let request = Some(SentRequest::new(&Method::POST, "/mcp".to_owned(), &sender, (b"body", 0)));
        let text = Token::new(request.clone(), 1000).seal(&seals, scope).unwrap();
        let open = |scope: TokenScope<'_>, now: u64| Token::open(&seals, scope, &text, now);
        let opened = open(scope, 1000).and_then(|token| token.request).expect("it is for this request");
        assert_eq!((opened.client, opened.method(), &*opened.path), (client, Some(Method::POST), "/mcp"));
        assert_eq!((opened.identity().key(), &*opened.identity().subject), ("jwt:1", "ann"));
        assert!(opened.has_body(b"body") && !opened.has_body(b"other"));
        for foreign in [
            TokenScope { gateway: &other, ..scope },
            TokenScope { to: "10.0.0.2:8080".parse().unwrap(), ..scope },
            TokenScope { to: "10.0.0.1:8081".parse().unwrap(), ..scope },
            TokenScope { headers: &another_session, ..scope },
            TokenScope { headers: &another_event, ..scope },
        ] {
            assert!(open(foreign, 1000).is_none(), "{}", foreign.to_context());
        }
        let end = 1000 + VALID_MS;
        assert!(open(scope, end - 1).is_some() && open(scope, end).is_none());
        let early = Token::new(request, 1001 + VALID_MS).seal(&seals, scope).unwrap();
        assert!(Token::open(&seals, scope, &early, 1000).is_none(), "it is from too far in the future");
        assert!(Token::open(&foreign_seals(), scope, &text, 1000).is_none(), "the key is another");
    }

    #[test]
    fn an_answer_is_sealed_for_one_token_and_status() {
        let [gateway, other] = ["main", "other"].map(|name| ObjectKey::new("mcp", name));
        let scope = AnswerScope { gateway: &gateway, token: "token", status: StatusCode::OK, channel: None };
        let headers = HeaderMap::from_iter([(ANSWERED, scope.seal(&seals()).unwrap())]);
        assert!(scope.is_sealed(&seals(), &headers));
        for foreign in [
            AnswerScope { gateway: &other, ..scope },
            AnswerScope { token: "other", ..scope },
            AnswerScope { status: StatusCode::ACCEPTED, ..scope },
            AnswerScope { channel: Some(Channel([1; 32])), ..scope },
        ] {
            assert!(!foreign.is_sealed(&seals(), &headers), "{}", foreign.to_context());
        }
        assert!(!scope.is_sealed(&foreign_seals(), &headers), "the key is another");
        assert!(!scope.is_sealed(&seals(), &HeaderMap::new()), "there is no seal");
        let token = Token::new(None, 1)
            .seal(&seals(), TokenScope { gateway: &gateway, to: "10.0.0.1:1".parse().unwrap(), headers: &headers });
        let repeated = HeaderMap::from_iter([(ANSWERED, HeaderValue::try_from(token.unwrap()).unwrap())]);
        assert!(!scope.is_sealed(&seals(), &repeated), "a token is no seal of an answer");
    }
}
