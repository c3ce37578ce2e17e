//! HTTP+SSE of 2024-11-05, for old clients: a GET opens the stream on which the gateway sends all messages. Its first
//! event, `endpoint`, names the URI to which the client posts its own. The stream is the session: both end together.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::exchange::{OpenStream, RunningMessage};
use super::gate::{Gate, PathEndpoint};
use super::legacy::scope;
use super::post::{self, Door};
use super::response::{RpcResponse, refuse};
use super::session_stream::SessionStream;
use super::sse_connections::SseConnection;
use super::stream_place::StreamPlace;
use crate::domain::reason::Reason;
use crate::domain::version::Era;
use crate::engine::exchange::{Exchange, Next};
use crate::telemetry::trace_context::Cause;
use crate::transport::mcp_headers::{LAST_EVENT_ID, SESSION_HEADER, VERSION_HEADER};
use crate::transport::sse::{event, event_stream, written};
use crate::transport::{Accept, peer_address};

/// How long a client has to send `initialize`.
const BEGIN_WITHIN: Duration = Duration::from_secs(30);
/// How often a stream at the end of the gateway looks whether all calls were answered.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The maximum number of messages of one client that are being handled.
const MAX_POSTS: u32 = 64;

/// Whether a GET at the path of Streamable HTTP opens a stream of HTTP+SSE: it names nothing of a session.
pub(super) fn is_opening(headers: &HeaderMap) -> bool {
    ![&SESSION_HEADER, &VERSION_HEADER, &LAST_EVENT_ID].iter().any(|name| headers.contains_key(*name))
}

/// GET: opens a stream. `all` is the listener's path for all upstreams.
pub(super) fn open(gate: &Arc<Gate>, endpoint: &PathEndpoint, all: &str, request: &Request) -> Response {
    if !Accept::read(request.headers()).events {
        return refuse(StatusCode::NOT_ACCEPTABLE, "Accept must name text/event-stream");
    }
    if let Err(error) = gate.engine.admit_stream() {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, error.message);
    }
    let place = match StreamPlace::take(gate, peer_address(request.extensions())) {
        Ok(place) => place,
        Err(error) => return refuse(StatusCode::TOO_MANY_REQUESTS, error.message),
    };
    let (id, connection, received) = gate.sse.add(endpoint.upstream());
    let uri = format!("{}?sessionId={id}", endpoint.messages_path(all));
    let first = Bytes::from(format!("event: endpoint\ndata: {uri}\n\n"));
    let until = Instant::now() + BEGIN_WITHIN;
    let open = OpenStream::new(&gate.engine, Era::Legacy);
    let sse = SseStream {
        gate: Arc::clone(gate),
        at: (endpoint.clone(), all.to_owned()),
        plans: gate.engine.plans(),
        id,
        connection,
        received,
        first: Some(first),
        until,
        place: Some(place),
        listening: None,
        _open: open,
    };
    let events = stream::unfold(sse, |mut sse| async move {
        let event = sse.next().await?;
        Some((Ok::<_, Infallible>(event), sse))
    });
    event_stream(Body::from_stream(events))
}

/// The stream of one client.
struct SseStream {
    gate: Arc<Gate>,
    /// The endpoint, and the listener's path for all upstreams.
    at: (PathEndpoint, String),
    plans: watch::Receiver<()>,
    id: String,
    connection: Arc<SseConnection>,
    received: mpsc::Receiver<Bytes>,
    /// The event `endpoint`.
    first: Option<Bytes>,
    /// When the session must have begun.
    until: Instant,
    /// The place of the stream, until the session has begun.
    place: Option<StreamPlace>,
    /// The notifications of the session, once it has begun.
    listening: Option<SessionStream>,
    _open: OpenStream,
}

impl SseStream {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            if self.listening.is_none()
                && let Some(session) = self.connection.session.get()
            {
                self.listening = Some(SessionStream::open(self.place.take()?, session)?);
            }
            let has_begun = self.listening.is_some();
            let notified = async {
                match &mut self.listening {
                    Some(listening) => listening.next().await,
                    None => std::future::pending().await,
                }
            };
            let is_ending = self.gate.shutdown.is_cancelled();
            tokio::select! {
                biased;
                received = self.received.recv() => return received,
                // Calls that are under way are still answered.
                () = tokio::time::sleep(LOOK_AGAIN), if is_ending => {
                    if self.connection.posts.in_flight() == 0 && self.received.is_empty() {
                        return None;
                    }
                }
                () = self.gate.shutdown.cancelled(), if !is_ending => {}
                event = notified, if !is_ending => return event,
                told = self.plans.changed() => {
                    if told.is_err() || !self.is_served() {
                        return None;
                    }
                }
                () = self.connection.begun.cancelled(), if !has_begun => {}
                () = tokio::time::sleep_until(self.until), if !has_begun => return None,
            }
        }
    }

    /// Whether the client could still post messages.
    fn is_served(&self) -> bool {
        let (endpoint, all) = &self.at;
        let snapshot = self.gate.engine.snapshot();
        let plan = snapshot.plan();
        let listener = self.gate.listener.current(&plan.gateway);
        listener.is_some_and(|listener| listener.legacy_sse && listener.path == *all)
            && endpoint.upstream().is_none_or(|upstream| plan.upstream(upstream).is_some())
    }
}

impl Drop for SseStream {
    fn drop(&mut self) {
        self.gate.sse.remove(&self.id);
        self.connection.closed.cancel();
        if let Some(session) = self.connection.session.get() {
            self.gate.engine.end_session(&session.id);
        }
    }
}

/// POST: takes a message. What answers it is sent on the stream.
pub(super) async fn take(gate: &Arc<Gate>, endpoint: PathEndpoint, mut request: Request, limit: u64) -> Response {
    let id = request.uri().query().and_then(|query| query.split('&').find_map(|part| part.strip_prefix("sessionId=")));
    let Some(connection) = id.and_then(|id| gate.sse.find(id, endpoint.upstream())) else {
        let message = "Session not found: its stream has ended, or another replica has it; open another";
        return refuse(StatusCode::NOT_FOUND, message);
    };
    let Some(counted) = Counted::enter(&connection) else {
        gate.engine.metrics().refused(Reason::SessionMessages);
        let message = format!("{MAX_POSTS} messages of this client are being handled, as many as may");
        return refuse(StatusCode::TOO_MANY_REQUESTS, message);
    };
    let cause = Cause::of_headers(request.headers());
    // The stream says which session and version a message is of.
    let headers = request.headers_mut();
    headers.remove(&SESSION_HEADER);
    headers.remove(&VERSION_HEADER);
    if let Some(session) = connection.session.get()
        && let Ok(id) = HeaderValue::from_str(&session.id)
    {
        headers.insert(SESSION_HEADER, id);
    }
    let (post, exchange) = match post::receive(gate, endpoint.clone(), request, limit, Door::Sse).await {
        Ok(received) => received,
        Err(refusal) => return *refusal,
    };
    let mut running = post.running(cause);
    // The message is begun before the next one is read: a cancellation finds the call that it is about.
    let begun = poll_fn(|cx| Poll::Ready(Pin::new(&mut running).poll(cx))).await;
    let answering = Answering { gate: Arc::clone(gate), endpoint, connection, exchange, _counted: counted };
    tokio::spawn(answering.run(running, begun));
    let mut response = Response::new(Body::from("Accepted"));
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// Counts a message that is being handled.
struct Counted(Arc<SseConnection>);

impl Counted {
    fn enter(connection: &Arc<SseConnection>) -> Option<Self> {
        connection.posts.enter(Some(MAX_POSTS), None).ok()?;
        Some(Self(Arc::clone(connection)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.posts.leave();
    }
}

/// A message whose answer goes to the stream.
struct Answering {
    gate: Arc<Gate>,
    endpoint: PathEndpoint,
    connection: Arc<SseConnection>,
    exchange: Arc<Exchange>,
    _counted: Counted,
}

impl Answering {
    /// Handles the message in a task of its own, because a client that reads slowly must not delay a call, and sends what
    /// belongs to it. The end of the stream cancels it.
    async fn run(self, running: RunningMessage, begun: Poll<RpcResponse>) {
        let answering = Arc::new(self);
        let of_task = Arc::clone(&answering);
        let task = tokio::spawn(async move {
            let answer = match begun {
                Poll::Ready(answer) => answer,
                Poll::Pending => running.await,
            };
            of_task.finish(answer);
        });
        let _task = AbortOnDropHandle::new(task);
        tokio::select! {
            () = answering.connection.closed.cancelled() => {}
            () = answering.send() => {}
        }
    }

    fn finish(&self, answer: RpcResponse) {
        if let Some(id) = answer.session() {
            self.begin(id);
        }
        let events = answer.into_events();
        if events.is_empty() { self.exchange.abandon() } else { self.exchange.finish(events) }
    }

    /// Makes the session that `initialize` began that of the stream.
    fn begin(&self, id: &str) {
        let engine = &self.gate.engine;
        let snapshot = engine.snapshot();
        let session = engine.sessions().find(id, scope(&snapshot, &self.endpoint), engine.now());
        let Some(session) = session else { return };
        // Each stream has one session, which ends with it: the stream may have ended meanwhile.
        if self.connection.session.set(session).is_err() || self.connection.closed.is_cancelled() {
            engine.end_session(id);
        }
        self.connection.begun.cancel();
    }

    async fn send(&self) {
        let (mut reader, mut after) = (self.exchange.attach(), 0);
        loop {
            let (event, is_last) = match self.exchange.wait(reader, after).await {
                Next::Message(number, message) => {
                    after = number;
                    (event(&message), false)
                }
                Next::Answer(_, answer) => (written(answer, Some(Arc::clone(self.exchange.reservation()))), true),
                // This stream does not end with that of the server.
                Next::Leave(_) => {
                    reader = self.exchange.attach();
                    continue;
                }
                Next::Pending | Next::End => return,
            };
            if self.connection.out.send(event).await.is_err() || is_last {
                return;
            }
        }
    }
}
