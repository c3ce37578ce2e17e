//! Forwards a request to the replica that has what the request is about. The replica's address comes from an id that a
//! replica sealed, or from another replica, never from a client. Nothing is sent before the server at the address has proved
//! that it is a replica (`replica_connector.rs`), and no answer counts that is not sealed by one. The request carries a token,
//! for this one request, by which the replica knows that one of its own sent it. What was forwarded is not forwarded again,
//! but by the replica that began a session to others that use it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Incoming;

use super::forward_token::{AnswerScope, FORWARD_PATH, FORWARDED, SentRequest, Token, TokenScope};
use super::forwarded_body::ForwardedBody;
use super::forwarded_identity::with_identity;
use super::listener_context::{ListenerContext, PathEndpoint};
use super::replica_client::{NotForwarded, send};
use super::replicas::{ForwardedRequest, ForwardingQuota};
use super::requester::Requester;
use crate::domain::identity::Identity;
use crate::domain::limits::Tracker;
use crate::domain::reason::Reason;
use crate::engine::access::session::Session;
use crate::transport::mcp_headers::{LAST_EVENT_ID, SESSION_HEADER, VERSION_HEADER};

/// The headers of a client's request that are forwarded, besides those of MCP.
const PASSED: [HeaderName; 6] = [
    header::ACCEPT,
    header::CONTENT_TYPE,
    LAST_EVENT_ID,
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("baggage"),
];
/// The headers of a replica's response that are returned.
const RETURNED: [HeaderName; 4] =
    [header::CONTENT_TYPE, header::CACHE_CONTROL, header::ALLOW, HeaderName::from_static("x-accel-buffering")];

/// A request that another replica is to answer.
pub(super) struct Forwarding<'a> {
    method: Method,
    endpoint: &'a PathEndpoint,
    headers: HeaderMap,
    body: Bytes,
    /// The client that has caused it.
    client: Requester,
    /// Counts what is forwarded for the client in its session.
    session: Option<Arc<Tracker>>,
    share: ForwardingQuota,
}

/// What is forwarded in a session.
#[derive(Clone)]
pub(super) enum OfSession {
    /// An answer of its client, and the client's identity.
    Answer(Bytes, Arc<Identity>),
    /// A cancellation of its client.
    Cancellation(Bytes),
    /// Its end.
    End,
    /// A message between replicas about where it is used.
    Use(Bytes),
}

impl<'a> Forwarding<'a> {
    /// A client's request as it came, with these headers: a call, or the stream of one.
    pub(super) fn request(
        method: Method,
        endpoint: &'a PathEndpoint,
        headers: &HeaderMap,
        body: Bytes,
        client: &Requester,
    ) -> Self {
        let is_passed = |name: &HeaderName| PASSED.contains(name) || name.as_str().starts_with("mcp-");
        let passed = headers.iter().filter(|(name, _)| is_passed(name));
        let headers = passed.map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { method, endpoint, headers, body, client: client.clone(), session: None, share: ForwardingQuota::Calls }
    }

    /// What is to be known of a session at another replica.
    pub(super) fn in_session(endpoint: &'a PathEndpoint, session: &Session, sent: OfSession, client: IpAddr) -> Self {
        let mut identity = None;
        let (method, body, share) = match sent {
            OfSession::Answer(body, answered_by) => {
                identity = Some(answered_by);
                (Method::POST, body, ForwardingQuota::Answers)
            }
            OfSession::Cancellation(body) => (Method::POST, body, ForwardingQuota::Cancellations),
            OfSession::End => (Method::DELETE, Bytes::new(), ForwardingQuota::Ends),
            OfSession::Use(body) => (Method::POST, body, ForwardingQuota::Sessions),
        };
        let of_session = [(SESSION_HEADER, &session.id), (VERSION_HEADER, &session.version)];
        let of_session = of_session.map(|(name, text)| Some((name, text.parse().ok()?)));
        let media = HeaderValue::from_static("application/json");
        let of_message = [header::ACCEPT, header::CONTENT_TYPE].map(|name| (name, media.clone()));
        let headers = of_session.into_iter().flatten().chain(of_message).collect();
        let client = Requester {
            address: client,
            identity: identity.unwrap_or_else(|| Arc::new(session.identity())),
            token: None,
        };
        Self { method, endpoint, headers, body, client, session: Some(Arc::clone(&session.forwarded)), share }
    }
}

/// A request as it is sent, and its token.
struct ToSend {
    request: hyper::Request<Bytes>,
    token: String,
}

impl ListenerContext {
    /// Forwards a request to the replica `to` and returns its response, whose body is passed on as it arrives. The head of
    /// the response must arrive within `limit`.
    pub(super) async fn forward(
        &self,
        to: SocketAddr,
        request: Forwarding<'_>,
        limit: Duration,
    ) -> Result<Response, NotForwarded> {
        let under_way = self.replicas.shares.enter(request.share, request.client.address, request.session.as_ref());
        let under_way = under_way.ok_or_else(|| {
            self.engine.metrics().refused(Reason::ForwardedRequests);
            NotForwarded::TooMany
        })?;
        let ToSend { request, token } = self.to_send(to, request).ok_or(NotForwarded::Unable)?;
        let response = send(&self.replicas.client, to, request, limit).await?;
        let (snapshot, status) = (self.engine.in_force.snapshot(), response.status());
        let scope = AnswerScope { gateway: &snapshot.plan().gateway.key, token: &token, status, channel: None };
        if !scope.is_sealed(self.engine.gate.sessions().seals(), response.headers()) {
            tracing::warn!(replica = %to, "an answer that no replica sealed was dropped");
            return Err(NotForwarded::Broken);
        }
        if status == StatusCode::FORBIDDEN {
            return Err(NotForwarded::Refused);
        }
        Ok(returned(response, under_way))
    }

    /// Returns the request as it is sent; `None` if the plan in force has not this listener, or the system provides no random
    /// numbers.
    fn to_send(&self, to: SocketAddr, forwarding: Forwarding<'_>) -> Option<ToSend> {
        let Forwarding { method, endpoint, mut headers, body, client, .. } = forwarding;
        let snapshot = self.engine.in_force.snapshot();
        let listener = self.listener.current(&snapshot.plan().gateway)?;
        let (path, scheme) = (endpoint.path(&listener.path), if listener.tls.is_some() { "https" } else { "http" });
        let scope = TokenScope { gateway: &snapshot.plan().gateway.key, to, headers: &headers };
        let gateway = &snapshot.plan().gateway.key;
        // Only messages have a body, and only rules need more than the key and the subject.
        let (body, identity_size) = match method == Method::POST && snapshot.has_rules() {
            true => with_identity(self.engine.gate.sessions().seals(), gateway, body, &client.identity),
            false => (body, 0),
        };
        let sent = SentRequest::new(&method, path, &client, (&body, identity_size));
        let token = Token::new(Some(sent), self.engine.now()).seal(self.engine.gate.sessions().seals(), scope)?;
        headers.insert(FORWARDED, HeaderValue::try_from(&token).ok()?);
        let mut request = hyper::Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() =
            Uri::builder().scheme(scheme).authority(to.to_string()).path_and_query(FORWARD_PATH).build().ok()?;
        *request.headers_mut() = headers;
        Some(ToSend { request, token })
    }

    /// Sends a message of a client to the replica `to`, which has what the message is about. The client is not told if that
    /// fails: it cannot do anything about it, and there are clients that end their session when an answer of theirs is
    /// refused. The error says that the replica has not got it.
    pub(super) async fn pass_on(&self, to: SocketAddr, forwarding: Forwarding<'_>) -> Result<(), NotForwarded> {
        /// How long a replica has to take a message.
        const SMALL: Duration = Duration::from_secs(5);
        let response = self.forward(to, forwarding, SMALL).await.inspect_err(|why| {
            tracing::warn!(replica = %to, "a message is lost: {why}");
        })?;
        if !response.status().is_success() {
            tracing::debug!(replica = %to, status = response.status().as_u16(), "a message was not taken");
        }
        Ok(())
    }
}

/// Returns the response of a replica as that of this one. The request counts until the body has ended.
fn returned(response: hyper::Response<Incoming>, under_way: ForwardedRequest) -> Response {
    let (head, body) = response.into_parts();
    let mut returned = Response::new(Body::new(ForwardedBody::new(body, under_way)));
    *returned.status_mut() = head.status;
    let headers =
        RETURNED.into_iter().filter_map(|name| head.headers.get(&name).map(|value| (name.clone(), value.clone())));
    returned.headers_mut().extend(headers);
    returned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::capabilities::ClientCapabilities;
    use crate::domain::ids::ObjectKey;
    use crate::engine::access::session_id::{SessionFacts, SessionScope};
    use crate::engine::access::sessions::SessionTable;

    #[test]
    fn each_message_of_a_session_is_forwarded_in_a_share_of_its_kind() {
        let gateway = ObjectKey::new("mcp", "main");
        let scope = SessionScope { gateway: &gateway, principal: "", upstream: None };
        let (version, capabilities) = ("2025-11-25".to_owned(), ClientCapabilities::default());
        let facts = SessionFacts { version, client: String::new(), capabilities, created_at: 0, replica: None };
        let session = SessionTable::default().open(facts, scope).unwrap();
        let client = "10.0.0.1".parse().unwrap();
        let body = Bytes::from_static(b"{}");
        for (sent, method, share) in [
            (OfSession::Answer(body.clone(), Identity::anonymous()), Method::POST, ForwardingQuota::Answers),
            (OfSession::Cancellation(body.clone()), Method::POST, ForwardingQuota::Cancellations),
            (OfSession::End, Method::DELETE, ForwardingQuota::Ends),
            (OfSession::Use(body.clone()), Method::POST, ForwardingQuota::Sessions),
        ] {
            let forwarding = Forwarding::in_session(&PathEndpoint::All, &session, sent, client);
            assert_eq!((forwarding.method, forwarding.share), (method, share));
            assert!(Arc::ptr_eq(&forwarding.session.unwrap(), &session.forwarded));
        }
    }
}
