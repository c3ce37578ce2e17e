//! A server over HTTP+SSE (MCP 2024-11-05, transports): a GET opens the stream of all that the server sends, whose first
//! event names the URI to which messages are posted.

mod body_reader;
mod endpoint_uri;
mod poster;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Response, StatusCode, Uri};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use self::body_reader::BodyReader;
use self::endpoint_uri::endpoint_uri;
use self::poster::Poster;
use super::client::same_origin_redirect;
use super::connection::HttpEndpoint;
use super::media::{encoding, is_event_stream};
use super::paced_body::PacedBody;
use crate::domain::plan::EraSetting;
use crate::domain::ports::ToClient;
use crate::domain::upstream::{Answer, ClientKey, ServerFacts, UpstreamError, UpstreamEvent};
use crate::domain::version::Era;
use crate::transport::retry_after::retry_after;
use crate::upstream::duplex::{Duplex, DuplexReader, EventLines, Outgoing};
use crate::upstream::handshake::{Handshake, HandshakeStep};
use crate::upstream::late::late;
use crate::upstream::request_failure::RequestFailure;
use crate::upstream::wire::{self, ENVELOPE, McpRequest};

/// What a stream lacks that is open and silent.
const NO_ENDPOINT: &str = "its event stream sent no event `endpoint`, which names the URI to post to";

/// A server over HTTP+SSE, after the handshake.
#[derive(Debug)]
pub(in crate::upstream) struct SseSession {
    duplex: Duplex,
    facts: ServerFacts,
    /// Counts how often something was read of the stream.
    heard: Arc<AtomicU64>,
    /// What `heard` was when this was last asked.
    noted: AtomicU64,
}

impl SseSession {
    /// Opens the stream and performs the handshake within `limit`. `of` is the client that the session is for; `None` if
    /// it is for all.
    pub(in crate::upstream) async fn connect(
        endpoint: &Arc<HttpEndpoint>,
        limit: Duration,
        of: Option<&ClientKey>,
    ) -> Result<Self, UpstreamError> {
        let unnamed = AtomicBool::new(false);
        match tokio::time::timeout(limit, Self::shake_hands(endpoint, of, &unnamed)).await {
            Ok(Err(UpstreamError::Timeout(_))) | Err(_) => {
                let said = if unnamed.into_inner() { NO_ENDPOINT } else { "" };
                Err(late(&endpoint.target.plan, limit, said))
            }
            Ok(outcome) => outcome,
        }
    }

    /// `unnamed` is set while the stream is open and has not named the URI to post to.
    async fn shake_hands(
        endpoint: &Arc<HttpEndpoint>,
        of: Option<&ClientKey>,
        unnamed: &AtomicBool,
    ) -> Result<Self, UpstreamError> {
        let (uri, stream) = open(endpoint).await?;
        unnamed.store(true, Ordering::Relaxed);
        let (poster, ready) = (Arc::new(Poster::new(endpoint)), CancellationToken::new());
        let duplex = Duplex::new(endpoint.target.plan.key.clone(), Arc::clone(&poster) as _, of);
        // Closes the stream on every return except the successful one.
        let guard = duplex.stop.clone().drop_guard();
        let (heard, is_shared) = (Arc::default(), of.is_none());
        let stream = BodyReader::new(stream.into_body(), Arc::clone(&heard));
        let named = listen(endpoint, &duplex, stream, ready.clone(), is_shared);
        let named = named.await.map_err(|_| ended("before it named the URI to post to"))?;
        unnamed.store(false, Ordering::Relaxed);
        poster.set_uri(endpoint_uri(&uri, &named)?);
        let capabilities = of.map(|client| client.capabilities.clone()).unwrap_or_default();
        let mut handshake = Handshake::new(EraSetting::Legacy, Some(Era::Legacy));
        let answer = duplex.ask(McpRequest::Initialize(&capabilities), Era::Legacy, None).await;
        let facts = match handshake.next(answer.map_err(UpstreamError::from)) {
            HandshakeStep::Done(facts) => facts,
            HandshakeStep::Failed(error) => return Err(duplex.why_ended(error).await),
            HandshakeStep::Discover | HandshakeStep::Initialize => return Err(ended("in the middle of the handshake")),
        };
        poster.set_version(&facts.version);
        poster.send(wire::INITIALIZED.into()).await?;
        guard.disarm();
        ready.cancel();
        Ok(Self { duplex, facts, heard, noted: AtomicU64::new(0) })
    }

    pub(in crate::upstream) fn facts(&self) -> &ServerFacts {
        &self.facts
    }

    pub(in crate::upstream) fn is_open(&self) -> bool {
        self.duplex.is_open()
    }

    /// Closes the stream, which ends the session. Requests in flight fail.
    pub(in crate::upstream) fn stop(&self) {
        self.duplex.stop.cancel();
    }

    /// A token that is cancelled when the stream has ended or is told to end.
    pub(in crate::upstream) fn ended(&self) -> CancellationToken {
        self.duplex.ended.clone()
    }

    /// How often something was read of the stream.
    pub(in crate::upstream) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// Whether something was read of the stream since this was asked last.
    pub(in crate::upstream) fn was_heard(&self) -> bool {
        let heard = self.heard();
        self.noted.swap(heard, Ordering::Relaxed) != heard
    }

    /// Sends a request and waits for its answer.
    pub(in crate::upstream) async fn ask(
        &self,
        request: McpRequest<'_>,
        to: Option<&dyn ToClient>,
    ) -> Result<Answer, RequestFailure> {
        self.duplex.ask(request, Era::Legacy, to).await
    }
}

impl Drop for SseSession {
    fn drop(&mut self) {
        self.stop();
    }
}

fn ended(when: &str) -> UpstreamError {
    UpstreamError::Lost(format!("its event stream ended {when}"))
}

/// Opens the stream, following at most one redirect. Returns the URI that it is at, too.
async fn open(endpoint: &HttpEndpoint) -> Result<(Uri, Response<PacedBody>), UpstreamError> {
    let mut uri = endpoint.client.uri().clone();
    let mut response = get(endpoint, &uri).await?;
    if let Some(to) = same_origin_redirect(&uri, response.status(), response.headers()) {
        uri = to;
        response = get(endpoint, &uri).await?;
    }
    let status = response.status();
    match status {
        StatusCode::OK if !is_event_stream(response.headers()) => {
            Err(UpstreamError::Protocol("it answers GET with something else than text/event-stream".into()))
        }
        StatusCode::OK => match encoding(response.headers()) {
            None => Ok((uri, response)),
            Some(encoding) => Err(UpstreamError::Encoded(encoding)),
        },
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Err(UpstreamError::Unauthorized { status: status.as_u16(), said: String::new() })
        }
        StatusCode::TOO_MANY_REQUESTS => {
            Err(UpstreamError::RateLimited { said: String::new(), retry_after: retry_after(response.headers()) })
        }
        _ if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => {
            Err(UpstreamError::Lost(format!("HTTP {}", status.as_u16())))
        }
        _ => Err(UpstreamError::Protocol(format!("it answers GET with HTTP {}", status.as_u16()))),
    }
}

async fn get(endpoint: &HttpEndpoint, uri: &Uri) -> Result<Response<PacedBody>, UpstreamError> {
    let mut headers = endpoint.client.headers().clone();
    headers.remove(CONTENT_TYPE);
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    endpoint.client.send(Method::GET, uri, headers, Vec::new()).await
}

/// Reads the stream in the background until it ends or is told to. Its end is reported if `ready` is cancelled by then
/// and the session is for all clients. Returns the receiver of the URI to post to, as the server names it.
fn listen(
    endpoint: &Arc<HttpEndpoint>,
    duplex: &Duplex,
    stream: BodyReader,
    ready: CancellationToken,
    is_shared: bool,
) -> oneshot::Receiver<String> {
    let (sender, named) = oneshot::channel();
    let limit = endpoint.target.max_response_size.saturating_add(ENVELOPE);
    let events = EventLines::new(usize::try_from(limit).unwrap_or(usize::MAX), endpoint.reservation(), sender);
    let reader =
        DuplexReader::new(&endpoint.target, &endpoint.shared, duplex.clone(), Arc::default()).of_events(events);
    let (duplex, endpoint) = (duplex.clone(), Arc::clone(endpoint));
    let tasks = endpoint.shared.tasks.clone();
    tasks.spawn(async move {
        let stopped = tokio::select! {
            () = duplex.stop.cancelled() => true,
            () = reader.run(stream) => false,
        };
        duplex.ended.cancel();
        duplex.close(UpstreamError::Lost("its event stream ended".into()));
        if !stopped && ready.is_cancelled() && is_shared {
            endpoint.shared.events.push(UpstreamEvent::Disconnected(endpoint.target.plan.key.clone()));
        }
    });
    named
}
