//! A server over Streamable HTTP (MCP, transports): one POST for each request, answered as JSON or as an event stream.
//! Modern requests stand alone; legacy ones belong to a session that the server may name.

mod body;
mod client;
mod params;
mod reply;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use hyper::body::Incoming;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::domain::budget::Held;
use crate::domain::header_text::encode;
use crate::domain::ports::ToClient;
use crate::domain::tool::Listed;
use crate::domain::upstream::{Answer, Era, ServerFacts, Target, UpstreamError, UpstreamEvent};
use crate::domain::version::{BATCH_VERSION, MODERN_VERSION};

use self::client::{Client, same_origin_redirect};
use self::params::ParamHeaders;
use self::reply::Reply;
use super::handshake::{Handshake, HopRefusal, Step, is_of_version};
use super::link::Failure;
use super::shared::Shared;
use super::wire::{self, Request};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// How long a cancellation, an answer to the server, or the end of a session may take.
const SMALL: Duration = Duration::from_secs(5);
/// The longest wait for an answer to `server/discover`.
const DISCOVERY: Duration = Duration::from_secs(10);
/// The longest session id that is taken.
const LONGEST_SESSION_ID: usize = 1024;

/// One upstream over HTTP: what outlives its sessions.
#[derive(Debug)]
pub(super) struct Endpoint {
    target: Target,
    shared: Arc<Shared>,
    client: Client,
    params: ParamHeaders,
    next_id: AtomicU64,
}

impl Endpoint {
    /// For the target's URL. Nothing is connected yet.
    pub(super) fn new(target: &Target, url: &str, shared: &Arc<Shared>) -> Result<Self, UpstreamError> {
        let (target, shared, client) =
            (Arc::clone(target), Arc::clone(shared), Client::new(target, url, &shared.instance)?);
        Ok(Self { target, shared, client, params: ParamHeaders::default(), next_id: AtomicU64::new(1) })
    }
}

/// A server after its handshake.
#[derive(Debug)]
pub(super) struct Session {
    open: AtomicBool,
    line: Arc<Line>,
    facts: ServerFacts,
}

/// What requests of one session are sent with.
#[derive(Debug)]
struct Line {
    endpoint: Arc<Endpoint>,
    era: Era,
    /// The endpoint, or where it redirected to.
    uri: Uri,
    headers: HeaderMap,
    stop: CancellationToken,
}

impl Session {
    /// Shakes hands within `limit`. `before` is what the server was found to speak earlier.
    pub(super) async fn connect(
        endpoint: &Arc<Endpoint>,
        before: Option<Era>,
        limit: Duration,
    ) -> Result<Self, UpstreamError> {
        match tokio::time::timeout(limit, Self::shake_hands(endpoint, before, limit)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(UpstreamError::Timeout(limit)),
        }
    }

    async fn shake_hands(
        endpoint: &Arc<Endpoint>,
        before: Option<Era>,
        limit: Duration,
    ) -> Result<Self, UpstreamError> {
        let mut handshake = Handshake::new(endpoint.target.plan.era, before);
        let mut step = handshake.first();
        loop {
            let (request, era) = match &step {
                Step::Discover => (Request::Discover, Era::Modern),
                _ => (Request::Initialize, Era::Legacy),
            };
            let limit = if era == Era::Modern { DISCOVERY.min(limit / 2) } else { limit };
            let asked = tokio::time::timeout(limit, First::ask(endpoint, request, era)).await;
            let (outcome, first) = match asked.unwrap_or(Err(UpstreamError::Timeout(limit))) {
                Ok((answer, first)) => (Ok(answer), Some(first)),
                Err(error) => (Err(error), None),
            };
            match (handshake.next(outcome), first) {
                (Step::Done(facts), Some(first)) => {
                    let session = Self { open: AtomicBool::new(true), line: Arc::new(first.join(&facts)?), facts };
                    if session.facts.era == Era::Legacy {
                        session.line.tell(wire::INITIALIZED.to_owned()).await?;
                        stream::listen(&session.line);
                    }
                    return Ok(session);
                }
                (Step::Failed(error), _) => return Err(error),
                (next, _) => step = next,
            }
        }
    }

    /// What is known of the server.
    pub(super) fn facts(&self) -> &ServerFacts {
        &self.facts
    }

    /// Whether the session may still be used.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Cancelled when the session ends.
    pub(super) fn ended(&self) -> CancellationToken {
        self.line.stop.clone()
    }

    /// Ends the session, in the background.
    pub(super) fn stop(&self) {
        self.line.stop.cancel();
        if self.open.swap(false, Ordering::AcqRel) && self.line.headers.contains_key(SESSION_ID) {
            let line = Arc::clone(&self.line);
            let Endpoint { target, shared, .. } = &*self.line.endpoint;
            shared.tell_later(&target.plan.key.name, async move { line.delete().await });
        }
    }

    /// Keeps which arguments of these tools are mirrored in headers, and drops tools whose marks are not valid.
    pub(super) fn note_tools(&self, listed: &mut Listed) {
        if self.line.era == Era::Modern {
            self.line.endpoint.params.learn(listed);
        }
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn ask(&self, request: Request<'_>, to: Option<&dyn ToClient>) -> Result<Answer, Failure> {
        match self.line.ask(request, to).await? {
            Reply::Answer(Answer::Result(result)) => Ok(Answer::Result(result)),
            Reply::Answer(Answer::Error(error)) => self.judged(error, false),
            Reply::Refused(error) => self.judged(error, true),
            Reply::SessionEnded => {
                // The server ended it: there is nothing to delete.
                self.open.store(false, Ordering::Release);
                self.line.stop.cancel();
                Err(Failure::Stale(UpstreamError::Protocol("it ended the session again and again".into())))
            }
        }
    }

    /// An error that a client may have. `refused` is whether the status of its response said too that nothing ran.
    fn judged(&self, error: Box<RawValue>, refused: bool) -> Result<Answer, Failure> {
        if let Some(refusal) = HopRefusal::over_http(self.facts.era, &error, refused) {
            return Err(Failure::Refused(refusal));
        }
        if is_of_version(&error) {
            // It may be a tool's own, or of a server that is legacy no more: a probe shows which.
            let Endpoint { target, shared, .. } = &*self.line.endpoint;
            shared.events.tell(UpstreamEvent::Doubtful(target.plan.key.clone()));
        }
        Ok(Answer::Error(error))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The first exchange of a handshake.
struct First {
    line: Arc<Line>,
    session_id: Option<HeaderValue>,
}

impl First {
    /// Follows one redirect.
    async fn ask(endpoint: &Arc<Endpoint>, request: Request<'_>, era: Era) -> Result<(Answer, Self), UpstreamError> {
        let mut headers = endpoint.client.headers().clone();
        if era == Era::Modern {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(MODERN_VERSION));
        }
        let line = |uri, headers| {
            let (endpoint, stop) = (Arc::clone(endpoint), CancellationToken::new());
            Arc::new(Line { endpoint, era, uri, headers, stop })
        };
        let id = endpoint.next_id.fetch_add(1, Ordering::Relaxed);
        let mut used = line(endpoint.client.uri().clone(), headers.clone());
        let mut response = used.post(&request, id).await?;
        if let Some(uri) = same_origin_redirect(&used.uri, response.status(), response.headers()) {
            used = line(uri, headers);
            response = used.post(&request, id).await?;
        }
        let session_id = response.headers().get(SESSION_ID).cloned();
        match reply::read(&used, response, id, None).await? {
            Reply::Answer(answer) => Ok((answer, Self { line: used, session_id })),
            Reply::Refused(error) => Ok((Answer::Error(error), Self { line: used, session_id })),
            Reply::SessionEnded => Err(UpstreamError::Protocol("it wants a session before there is one".into())),
        }
    }

    /// How requests are sent after what the handshake agreed on.
    fn join(self, facts: &ServerFacts) -> Result<Line, UpstreamError> {
        let Line { endpoint, era, uri, headers, .. } = &*self.line;
        let mut headers = headers.clone();
        let version = HeaderValue::from_str(&facts.version);
        let version = version.map_err(|_| UpstreamError::Protocol("its version is no header value".into()))?;
        headers.insert(PROTOCOL_VERSION, version);
        if let Some(id) = self.session_id.filter(|_| *era == Era::Legacy) {
            if id.len() > LONGEST_SESSION_ID || !id.as_bytes().iter().all(u8::is_ascii_graphic) {
                return Err(UpstreamError::Protocol("its session id is not 1 to 1024 visible ASCII characters".into()));
            }
            headers.insert(SESSION_ID, id);
        }
        let (endpoint, uri, stop) = (Arc::clone(endpoint), uri.clone(), CancellationToken::new());
        Ok(Line { endpoint, era: *era, uri, headers, stop })
    }
}

impl Line {
    /// Whether the version that was agreed on has batches.
    fn has_batches(&self) -> bool {
        self.headers.get(PROTOCOL_VERSION).is_some_and(|version| version == BATCH_VERSION)
    }

    fn request_headers(&self, request: &Request<'_>) -> Result<HeaderMap, UpstreamError> {
        let mut headers = self.headers.clone();
        if self.era == Era::Legacy {
            return Ok(headers);
        }
        headers.insert(METHOD, HeaderValue::from_static(request.method()));
        if let Request::CallTool(call) = request {
            let name = HeaderValue::from_str(&encode(&call.tool));
            headers
                .insert(NAME, name.map_err(|_| UpstreamError::Protocol("the tool's name is no header value".into()))?);
            self.endpoint.params.add(&mut headers, &call.tool, call.arguments.as_deref());
        }
        Ok(headers)
    }

    async fn ask(self: &Arc<Self>, request: Request<'_>, to: Option<&dyn ToClient>) -> Result<Reply, UpstreamError> {
        let id = self.endpoint.next_id.fetch_add(1, Ordering::Relaxed);
        let tell = self.era == Era::Legacy && request.may_be_cancelled();
        let mut pending = Pending { line: self, id, tell };
        let answered = async { reply::read(self, self.post(&request, id).await?, id, to).await }.await;
        pending.tell = false;
        answered
    }

    async fn post(&self, request: &Request<'_>, id: u64) -> Result<Response<Incoming>, UpstreamError> {
        let (headers, text) = (self.request_headers(request)?, request.render(self.era, id));
        self.endpoint.client.send(Method::POST, &self.uri, headers, text).await
    }

    /// Sends a notification or an answer; whatever the server says to it is passed over, except that it is not there.
    async fn tell(&self, text: String) -> Result<(), UpstreamError> {
        let sent = self.endpoint.client.send(Method::POST, &self.uri, self.headers.clone(), text.into_bytes());
        let response = sent.await?;
        // Read to its end, so that the connection is used again.
        let place = self.endpoint.shared.budget.place(Held::Answer);
        let read = body::whole(response.into_body(), self.endpoint.target.max_response_size, &place);
        let _ = tokio::time::timeout(SMALL, read).await;
        Ok(())
    }

    /// The same off the path of calls, and failures passed over.
    fn tell_later(self: &Arc<Self>, text: String) {
        let line = Arc::clone(self);
        self.endpoint.shared.tell_later(&self.endpoint.target.plan.key.name, async move {
            let sent = tokio::time::timeout(SMALL, line.tell(text)).await;
            if !matches!(sent, Ok(Ok(()))) {
                tracing::debug!(upstream = %line.endpoint.target.plan.key, "a message could not be sent");
            }
        });
    }

    async fn delete(&self) {
        let sent = self.endpoint.client.send(Method::DELETE, &self.uri, self.headers.clone(), Vec::new());
        let outcome = tokio::time::timeout(SMALL, sent).await;
        let refused = |status: StatusCode| !status.is_success() && status != StatusCode::METHOD_NOT_ALLOWED;
        if !matches!(&outcome, Ok(Ok(response)) if !refused(response.status())) {
            tracing::debug!(upstream = %self.endpoint.target.plan.key, "its session could not be ended");
        }
    }
}

/// A legacy request that waits. Dropped before its answer, it is taken back; a modern one is taken back by closing
/// its response.
struct Pending<'a> {
    line: &'a Arc<Line>,
    id: u64,
    tell: bool,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.tell {
            self.line.tell_later(wire::cancelled(self.id));
        }
    }
}
