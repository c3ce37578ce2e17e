//! Sends requests to one upstream over HTTP. Those to a legacy server belong to a session.

use crate::domain::budget::Reservation;
use crate::domain::header_text::encode;
use crate::domain::item::ItemKind;
use crate::domain::upstream::{Target, UpstreamError};
use crate::domain::version::Era;
use crate::telemetry::trace_context::members_of;
use crate::transport::flow::UNASKED;
use crate::transport::rate_limit::RateLimit;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::client::ServerClient;
use super::paced_body::PacedBody;
use super::params::ParamHeaders;
use super::response_body::{self, Messages};
use crate::upstream::call_questions::{Replies, Replying};
use crate::upstream::context::UpstreamContext;
use crate::upstream::notices::{Notices, Users};
use crate::upstream::oauth::Tokens;
use crate::upstream::server_message::ServerMessage;
use crate::upstream::wire::McpRequest;

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

pub(super) const METHOD: HeaderName = HeaderName::from_static("mcp-method");

pub(super) const NAME: HeaderName = HeaderName::from_static("mcp-name");

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How long it may take to send a cancellation, an answer to the server, or the end of a session, and to read an event
/// stream to its end.
pub(super) const SMALL: Duration = Duration::from_secs(5);

/// One upstream over HTTP: the state that outlives its sessions.
#[derive(Debug)]
pub(in crate::upstream) struct HttpEndpoint {
    pub(super) target: Target,
    pub(super) shared: Arc<UpstreamContext>,
    pub(super) client: ServerClient,
    pub(super) params: Arc<ParamHeaders>,
    pub(super) next_id: AtomicU64,
}

impl HttpEndpoint {
    /// Creates the endpoint for the target's URL. The endpoint does not connect yet.
    pub(in crate::upstream) fn new(
        target: &Target,
        url: &str,
        shared: &Arc<UpstreamContext>,
    ) -> Result<Self, UpstreamError> {
        let (target, shared, client) =
            (Arc::clone(target), Arc::clone(shared), ServerClient::new(target, url, &shared.instance)?);
        let (params, next_id) = (Arc::default(), AtomicU64::new(1));
        Ok(Self { target, shared, client, params, next_id })
    }

    /// Returns the same endpoint for requests that carry the tokens of a user.
    pub(in crate::upstream) fn for_user(&self, tokens: Arc<Tokens>) -> Self {
        let (target, shared, params) = (Arc::clone(&self.target), Arc::clone(&self.shared), Arc::clone(&self.params));
        Self { target, shared, client: self.client.for_user(tokens), params, next_id: AtomicU64::new(1) }
    }

    /// Gets the access token that requests need, if they need one.
    pub(in crate::upstream) async fn prepare(&self) -> Result<(), UpstreamError> {
        self.client.prepare().await
    }

    /// Returns the access tokens that requests carry; `None` if they carry none.
    pub(in crate::upstream) fn tokens(&self) -> Option<&Arc<Tokens>> {
        self.client.tokens()
    }

    /// Returns a reservation for one response.
    pub(super) fn reservation(&self) -> Reservation {
        self.shared.reservation(&self.target.plan.key)
    }

    /// Reads the body of a response to a request as events.
    pub(super) fn events(&self, body: PacedBody, rate: RateLimit) -> Messages {
        Messages::new(body, self.target.max_response_size, self.reservation(), rate)
    }

    /// Reads the body of a response as events that no call waits for, whose size is limited further.
    pub(super) fn unasked_events(&self, body: PacedBody) -> Messages {
        let limit = self.target.max_response_size.min(UNASKED);
        Messages::new(body, limit, self.reservation(), RateLimit::default())
    }
}

/// The data that all requests of one session share.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) endpoint: Arc<HttpEndpoint>,
    pub(super) era: Era,
    /// The URI of the endpoint, or the URI that the endpoint redirected to.
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) stop: CancellationToken,
    /// The clients that use the connection.
    pub(super) users: Users,
}

impl Connection {
    /// Whether the server gave a session id.
    pub(super) fn is_in_session(&self) -> bool {
        self.era == Era::Legacy && self.headers.contains_key(SESSION_ID)
    }

    /// Takes what the server says that is not for the caller of one request.
    pub(super) fn take_notice(self: &Arc<Self>, message: ServerMessage<'_>) {
        let HttpEndpoint { target, shared, .. } = &*self.endpoint;
        Notices { upstream: &target.plan.key, shared, users: &self.users, server: self }.take(message);
    }

    pub(super) fn request_headers(&self, request: &McpRequest<'_>) -> Result<HeaderMap, UpstreamError> {
        let mut headers = self.headers.clone();
        if self.era == Era::Legacy {
            return Ok(headers);
        }
        headers.insert(METHOD, HeaderValue::from_static(request.method().as_str()));
        if let McpRequest::Use(call) = request {
            let name = call.task.as_ref().map_or(&call.name, |task| &task.id);
            let name = HeaderValue::from_str(&encode(name));
            headers.insert(
                NAME,
                name.map_err(|_| UpstreamError::Protocol("the item's name is not a header value".into()))?,
            );
            if call.kind == ItemKind::Tool && call.task.is_none() {
                self.endpoint.params.add(&mut headers, &call.name, call.arguments());
            }
        }
        Ok(headers)
    }

    pub(super) async fn post(&self, request: &McpRequest<'_>, id: u64) -> Result<Response<PacedBody>, UpstreamError> {
        let (mut headers, text) = (self.request_headers(request)?, request.render(self.era, id));
        // Servers and proxies that know nothing of MCP read the context of a trace here. While traces are off there is none.
        for (name, value) in members_of(&Span::current()) {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        self.endpoint.client.send(Method::POST, &self.uri, headers, text).await
    }

    /// Sends a notification or an answer. Of the server's response only the head is returned; this fails only if there
    /// is no response.
    pub(super) async fn notify(&self, text: String) -> Result<Parts, UpstreamError> {
        let sent = self.endpoint.client.send(Method::POST, &self.uri, self.headers.clone(), text.into_bytes());
        let (head, body) = sent.await?.into_parts();
        // The response is read to its end, so that the connection can be used again.
        let reservation = self.endpoint.reservation();
        let read = response_body::whole(body, self.endpoint.target.max_response_size, &reservation);
        let _ = tokio::time::timeout(SMALL, read).await;
        Ok(head)
    }

    /// Like [`Self::notify`], but runs in the background and ignores failures.
    pub(super) fn notify_later(self: &Arc<Self>, text: String) {
        let connection = Arc::clone(self);
        self.endpoint.shared.notify_later(&self.endpoint.target.plan.key, async move {
            let sent = tokio::time::timeout(SMALL, connection.notify(text)).await;
            if !matches!(sent, Ok(Ok(_))) {
                tracing::debug!(upstream = %connection.endpoint.target.plan.key, "a message could not be sent");
            }
        });
    }

    /// Asks for a stream of events: that of the session, or the stream whose last event has the id `last`.
    pub(super) async fn get(&self, last: Option<HeaderValue>) -> Result<Response<PacedBody>, UpstreamError> {
        let mut headers = self.headers.clone();
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = last {
            headers.insert(LAST_EVENT_ID, last);
        }
        self.endpoint.client.send(Method::GET, &self.uri, headers, Vec::new()).await
    }

    pub(super) async fn delete(&self) {
        let sent = self.endpoint.client.send(Method::DELETE, &self.uri, self.headers.clone(), Vec::new());
        let outcome = tokio::time::timeout(SMALL, sent).await;
        let refused = |status: StatusCode| !status.is_success() && status != StatusCode::METHOD_NOT_ALLOWED;
        if !matches!(&outcome, Ok(Ok(response)) if !refused(response.status())) {
            tracing::debug!(upstream = %self.endpoint.target.plan.key, "its session could not be ended");
        }
    }
}

impl Replies for Arc<Connection> {
    fn reply(&self, text: String) -> Replying<'_> {
        Box::pin(async move {
            let why = match tokio::time::timeout(SMALL, self.notify(text)).await {
                Ok(Ok(head)) if head.status.is_success() => return Ok(()),
                Ok(Ok(head)) => format!("HTTP {}", head.status.as_u16()),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("it did not take it within {SMALL:?}"),
            };
            Err(UpstreamError::Lost(format!("the client's answer to its question could not be delivered: {why}")))
        })
    }

    fn reply_later(&self, text: String) {
        self.notify_later(text);
    }
}
