//! A server over HTTP: the predecessor of Streamable HTTP (`sse`), and Streamable HTTP itself (MCP, transports): one POST for
//! each request, answered as JSON or as an event stream. Modern requests are independent of each other; legacy ones belong to a
//! session, for which the server may set an id.

mod client;
mod connection;
mod continued;
mod http_reply;
mod listen;
mod media;
mod paced_body;
mod params;
mod response;
pub mod response_body;
mod said;
mod sse;
mod stream;
mod too_many;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use http::{HeaderValue, StatusCode};
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::domain::item::Listed;
use crate::domain::plan::EraSetting;
use crate::domain::ports::ToClient;
use crate::domain::upstream::{Answer, ClientKey, ServerFacts, UpstreamError, UpstreamEvent};
use crate::domain::version::{Era, MODERN_VERSION};
use crate::transport::retry_after::retry_after;

use self::client::same_origin_redirect;
pub(super) use self::connection::HttpEndpoint;
use self::connection::{Connection, PROTOCOL_VERSION, SESSION_ID};
use self::http_reply::HttpReply;
pub(super) use self::listen::{HttpListenStream, HttpListener};
pub(super) use self::sse::SseSession;
use super::call_questions::CallQuestions;
use super::handshake::{Handshake, HandshakeStep};
use super::late::late;
use super::notices::Users;
use super::pauses::Pauses;
use super::request_failure::{HopRefusal, RequestFailure, is_of_version};
use super::wire::{self, McpRequest};

/// The longest wait for an answer to `server/discover`.
const DISCOVERY: Duration = Duration::from_secs(10);
/// How long the first call of a client waits for the stream on which the server may ask.
const STREAM: Duration = Duration::from_millis(500);
/// The maximum number of bytes of a session id.
const LONGEST_SESSION_ID: usize = 8 << 10;

/// A server over HTTP, after the handshake.
#[derive(Debug)]
pub(super) struct HttpSession {
    open: AtomicBool,
    connection: Arc<Connection>,
    facts: ServerFacts,
}

impl HttpSession {
    /// Gets the access token that requests need, if they need one.
    pub(super) async fn prepare(&self) -> Result<(), UpstreamError> {
        self.connection.endpoint.prepare().await
    }

    /// Performs the handshake within `limit`. `before` is the era of the last handshake. `of` is the client that the
    /// session is for; `None` if it is for all. An error comes with whether the server may be one of HTTP+SSE.
    pub(super) async fn connect(
        endpoint: &Arc<HttpEndpoint>,
        before: Option<Era>,
        limit: Duration,
        of: Option<&ClientKey>,
    ) -> Result<Self, (UpstreamError, bool)> {
        let last = LastStatus::default();
        match Self::shake_hands(endpoint, before, limit, of, &last).await {
            Err(UpstreamError::Timeout(_)) => Err((late(&endpoint.target.plan, limit, ""), false)),
            outcome => outcome.map_err(|error| (error, last.may_be_sse())),
        }
    }

    async fn shake_hands(
        endpoint: &Arc<HttpEndpoint>,
        before: Option<Era>,
        limit: Duration,
        of: Option<&ClientKey>,
        last: &LastStatus,
    ) -> Result<Self, UpstreamError> {
        let capabilities = of.map(|client| client.capabilities.clone()).unwrap_or_default();
        let setting = endpoint.target.plan.era;
        let mut handshake = Handshake::new(setting, before);
        let (mut step, mut time) = (handshake.first(), HandshakeTime::new(limit));
        loop {
            let (request, era) = match &step {
                HandshakeStep::Discover => (McpRequest::Discover, Era::Modern),
                _ => (McpRequest::Initialize(&capabilities), Era::Legacy),
            };
            let limit = if era == Era::Modern { handshake.patience(DISCOVERY, limit) } else { limit };
            let (outcome, first) = match First::ask_patiently(endpoint, request, era, last, (&mut time, limit)).await {
                Ok((answer, first)) => (Ok(answer), Some(first)),
                // Each request can have a connection of its own, so that its end says nothing of the next one.
                Err(UpstreamError::Lost(why)) if step == HandshakeStep::Discover && setting != EraSetting::Modern => {
                    (Err(UpstreamError::Protocol(why)), None)
                }
                Err(error) => (Err(error), None),
            };
            match (handshake.next(outcome), first) {
                (HandshakeStep::Done(facts), Some(first)) => {
                    let connection = first.join(&facts, Users::of(of))?;
                    let session = Self { open: AtomicBool::new(true), connection: Arc::new(connection), facts };
                    if session.facts.era == Era::Legacy {
                        session.connection.initialized(&mut time).await?;
                        let listening = stream::listen(&session.connection);
                        if of.is_some() {
                            // Questions that are sent on the stream before it is open may be lost. Servers may hold its
                            // head back until there is something to send, so the wait is short.
                            let _ = tokio::time::timeout(STREAM, listening.cancelled()).await;
                        }
                    }
                    return Ok(session);
                }
                (HandshakeStep::Failed(error), _) => return Err(error),
                (next, _) => step = next,
            }
        }
    }

    pub(super) fn facts(&self) -> &ServerFacts {
        &self.facts
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Opens streams of notifications of the server.
    pub(super) fn listener(&self) -> HttpListener {
        HttpListener(Arc::clone(&self.connection))
    }

    /// A token that is cancelled when the session ends.
    pub(super) fn ended(&self) -> CancellationToken {
        self.connection.stop.clone()
    }

    /// Ends the session in the background.
    pub(super) fn stop(&self) {
        self.connection.stop.cancel();
        if self.open.swap(false, Ordering::AcqRel) && self.connection.headers.contains_key(SESSION_ID) {
            let connection = Arc::clone(&self.connection);
            let HttpEndpoint { target, shared, .. } = &*self.connection.endpoint;
            shared.notify_later(&target.plan.key, async move { connection.delete().await });
        }
    }

    /// For a modern server, stores which arguments of these tools are repeated in headers, and removes the tools whose
    /// marks for this are not valid. Does nothing for a legacy server.
    pub(super) fn note_tools(&self, listed: &mut Listed) {
        if self.connection.era == Era::Modern {
            self.connection.endpoint.params.learn(listed);
        }
    }

    pub(super) async fn ask(
        &self,
        request: McpRequest<'_>,
        to: Option<&dyn ToClient>,
    ) -> Result<Answer, RequestFailure> {
        match self.connection.ask(request, to).await? {
            HttpReply::Answer(Answer::Result(result)) => Ok(Answer::Result(result)),
            HttpReply::Answer(Answer::Error(error)) => self.classify_error(error, false),
            HttpReply::Refused(error) => self.classify_error(error, true),
            // The error of another request is not passed on, so it keeps the time to wait.
            HttpReply::TooMany(too_many) if matches!(request, McpRequest::Use(_)) => Ok(too_many.into_answer()?),
            HttpReply::TooMany(too_many) => Err(UpstreamError::from(too_many).into()),
            HttpReply::SessionEnded => {
                // The server has ended the session, so there is nothing to delete.
                self.open.store(false, Ordering::Release);
                self.connection.stop.cancel();
                Err(RequestFailure::Stale(UpstreamError::Protocol("it ended the session again and again".into())))
            }
        }
    }

    /// Decides whether an error from the server is the answer for the client. `refused` tells whether the HTTP status
    /// shows that nothing was executed.
    fn classify_error(&self, error: Box<RawValue>, refused: bool) -> Result<Answer, RequestFailure> {
        if let Some(refusal) = HopRefusal::over_http(self.facts.era, &error, refused) {
            return Err(RequestFailure::Refused(refusal));
        }
        if is_of_version(&error) {
            // The error may come from a tool, or from a server that is no longer legacy. A probe determines which is
            // the case.
            let HttpEndpoint { target, shared, .. } = &*self.connection.endpoint;
            shared.events.push(UpstreamEvent::Doubtful(target.plan.key.clone()));
        }
        Ok(Answer::Error(error))
    }
}

impl Drop for HttpSession {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The time of a handshake. Pauses for a server that takes no more requests at the moment do not count.
struct HandshakeTime {
    limit: Duration,
    until: Instant,
    pauses: Pauses,
}

impl HandshakeTime {
    fn new(limit: Duration) -> Self {
        Self { limit, until: Instant::now() + limit, pauses: Pauses::default() }
    }

    /// Waits for what is part of the handshake, for at most `limit`.
    async fn within<T>(
        &self,
        limit: Duration,
        part: impl Future<Output = Result<T, UpstreamError>>,
    ) -> Result<T, UpstreamError> {
        let until = self.until.min(Instant::now() + limit);
        tokio::time::timeout_at(until, part).await.unwrap_or(Err(UpstreamError::Timeout(limit)))
    }

    /// Waits before a part is tried again.
    ///
    /// # Errors
    /// `too_many`, if that would take too long.
    async fn pause(
        &mut self,
        asked: Option<Duration>,
        too_many: impl FnOnce() -> UpstreamError,
    ) -> Result<(), UpstreamError> {
        let pause = self.pauses.take(asked).ok_or_else(too_many)?;
        self.until += pause;
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// The HTTP status of the last response in a handshake.
#[derive(Debug, Default)]
struct LastStatus(AtomicU16);

impl LastStatus {
    /// Whether servers of HTTP+SSE refuse a POST to the URI of their stream in this way (MCP 2025-03-26, backwards
    /// compatibility).
    fn may_be_sse(&self) -> bool {
        matches!(self.0.load(Ordering::Relaxed), 400 | 404 | 405)
    }
}

/// A request of the handshake that has been answered. The connection that it was sent over becomes that of the session.
struct First {
    connection: Arc<Connection>,
    session_id: Option<HeaderValue>,
}

impl First {
    /// Sends the request until the server takes it, each time for at most `limit`.
    async fn ask_patiently(
        endpoint: &Arc<HttpEndpoint>,
        request: McpRequest<'_>,
        era: Era,
        last: &LastStatus,
        (time, limit): (&mut HandshakeTime, Duration),
    ) -> Result<(Answer, Self), UpstreamError> {
        loop {
            let (reply, first) = time.within(limit, Self::ask(endpoint, request, era, last)).await?;
            match reply {
                HttpReply::Answer(answer) => return Ok((answer, first)),
                HttpReply::Refused(error) => return Ok((Answer::Error(error), first)),
                HttpReply::SessionEnded => {
                    return Err(UpstreamError::Protocol("it wants a session before there is one".into()));
                }
                HttpReply::TooMany(too_many) => time.pause(too_many.retry_after, || too_many.into()).await?,
            }
        }
    }

    /// Sends the request, and follows at most one redirect.
    async fn ask(
        endpoint: &Arc<HttpEndpoint>,
        request: McpRequest<'_>,
        era: Era,
        last: &LastStatus,
    ) -> Result<(HttpReply, Self), UpstreamError> {
        let mut headers = endpoint.client.headers().clone();
        if era == Era::Modern {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(MODERN_VERSION));
        }
        let connection = |uri, headers| {
            let (endpoint, stop) = (Arc::clone(endpoint), CancellationToken::new());
            Arc::new(Connection { endpoint, era, uri, headers, stop, users: Users::of(None) })
        };
        let id = endpoint.next_id.fetch_add(1, Ordering::Relaxed);
        let mut used = connection(endpoint.client.uri().clone(), headers.clone());
        let mut response = used.post(&request, id).await?;
        if let Some(uri) = same_origin_redirect(&used.uri, response.status(), response.headers()) {
            used = connection(uri, headers);
            response = used.post(&request, id).await?;
        }
        last.0.store(response.status().as_u16(), Ordering::Relaxed);
        let session_id = response.headers().get(SESSION_ID).cloned();
        let reply = response::read(&used, response, id, None, &mut CallQuestions::none()).await?;
        Ok((reply, Self { connection: used, session_id }))
    }

    /// Returns the connection for the requests after the handshake, with the headers that the handshake determined.
    fn join(self, facts: &ServerFacts, users: Users) -> Result<Connection, UpstreamError> {
        let Connection { endpoint, era, uri, headers, .. } = &*self.connection;
        let mut headers = headers.clone();
        let version = HeaderValue::from_str(&facts.version);
        let version = version.map_err(|_| UpstreamError::Protocol("its version is not a header value".into()))?;
        headers.insert(PROTOCOL_VERSION, version);
        if let Some(id) = self.session_id.filter(|_| *era == Era::Legacy) {
            if id.len() > LONGEST_SESSION_ID || !id.as_bytes().iter().all(u8::is_ascii_graphic) {
                return Err(UpstreamError::Protocol("its session id is not 1 to 8192 visible ASCII characters".into()));
            }
            headers.insert(SESSION_ID, id);
        }
        let (endpoint, uri, stop) = (Arc::clone(endpoint), uri.clone(), CancellationToken::new());
        Ok(Connection { endpoint, era: *era, uri, headers, stop, users })
    }
}

impl Connection {
    /// Sends the notification that ends a legacy handshake, until the server takes it.
    async fn initialized(&self, time: &mut HandshakeTime) -> Result<(), UpstreamError> {
        loop {
            let response = time.within(time.limit, self.notify(wire::INITIALIZED.to_owned())).await?;
            if response.status != StatusCode::TOO_MANY_REQUESTS {
                return Ok(());
            }
            let wait = retry_after(&response.headers);
            time.pause(wait, || UpstreamError::RateLimited { said: String::new(), retry_after: wait }).await?;
        }
    }

    async fn ask(
        self: &Arc<Self>,
        request: McpRequest<'_>,
        to: Option<&dyn ToClient>,
    ) -> Result<HttpReply, UpstreamError> {
        let id = self.endpoint.next_id.fetch_add(1, Ordering::Relaxed);
        let cancels = self.era == Era::Legacy && request.may_be_cancelled();
        let mut pending = LegacyRequestGuard { connection: self, id, cancels };
        let mut asked = CallQuestions::new(self, self.users.askable.as_ref(), &request, self.era, to);
        // Servers may send the head of the response only with its first event, after the answer to a question that they
        // sent elsewhere.
        let answered = async {
            let response = asked.during(pin!(self.post(&request, id))).await??;
            response::read(self, response, id, to, &mut asked).await
        };
        let answered = answered.await;
        // A server that did not get an answer to its question may wait for it.
        pending.cancels &= asked.has_undelivered();
        answered
    }
}

/// A request that waits for its answer. If this value is dropped before the answer arrives, a legacy request is
/// cancelled with a notification. A modern request is cancelled by closing its response.
struct LegacyRequestGuard<'a> {
    connection: &'a Arc<Connection>,
    id: u64,
    cancels: bool,
}

impl Drop for LegacyRequestGuard<'_> {
    fn drop(&mut self) {
        if self.cancels {
            self.connection.notify_later(wire::cancelled(self.id));
        }
    }
}
