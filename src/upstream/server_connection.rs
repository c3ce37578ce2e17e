//! One connection to a server, over any transport.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::domain::item::Listed;
use crate::domain::ports::{Answering, ToClient};
use crate::domain::question::Question;
use crate::domain::upstream::{Answer, ServerFacts, UpstreamError};

use super::duplex::{ProcessListenStream, ProcessListener};
use super::request_failure::RequestFailure;
use super::server_message::within_depth;
use super::stdio::ServerProcess;
use super::streamable::{HttpListenStream, HttpListener, HttpSession, SseSession};
use super::wire::McpRequest;

/// A connection after its handshake.
#[derive(Debug)]
pub(super) enum ServerConnection {
    Process(ServerProcess),
    /// A legacy session, or modern requests that are independent of each other, over Streamable HTTP.
    Http(HttpSession),
    /// A legacy session over HTTP+SSE.
    Sse(SseSession),
}

impl ServerConnection {
    /// What the handshake found out about the server.
    pub(super) fn facts(&self) -> &ServerFacts {
        match self {
            Self::Process(process) => process.facts(),
            Self::Http(session) => session.facts(),
            Self::Sse(session) => session.facts(),
        }
    }

    /// Opens streams of notifications over this connection; `None` over HTTP+SSE, which no modern server speaks.
    pub(super) fn listener(&self) -> Option<SubscriptionOpener> {
        match self {
            Self::Process(process) => Some(SubscriptionOpener::Process(process.listener())),
            Self::Http(session) => Some(SubscriptionOpener::Http(session.listener())),
            Self::Sse(_) => None,
        }
    }

    /// Whether requests can still be sent.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Process(process) => process.is_open(),
            Self::Http(session) => session.is_open(),
            Self::Sse(session) => session.is_open(),
        }
    }

    /// Whether all that the server sends comes in on one stream.
    pub(super) fn is_duplex(&self) -> bool {
        matches!(self, Self::Process(_) | Self::Sse(_))
    }

    /// How often something was read of the event stream over which all comes in; `None` if there is no such stream.
    pub(super) fn heard(&self) -> Option<u64> {
        match self {
            Self::Sse(session) => Some(session.heard()),
            Self::Process(_) | Self::Http(_) => None,
        }
    }

    /// Whether something was read of the event stream since this was asked last. Always true where there is no such stream.
    pub(super) fn was_heard(&self) -> bool {
        match self {
            Self::Sse(session) => session.was_heard(),
            Self::Process(_) | Self::Http(_) => true,
        }
    }

    /// A token that is cancelled when the connection has ended or is told to end.
    pub(super) fn ended(&self) -> CancellationToken {
        match self {
            Self::Process(process) => process.ended(),
            Self::Http(session) => session.ended(),
            Self::Sse(session) => session.ended(),
        }
    }

    /// Ends the connection in the background. Unless it is Streamable HTTP, its requests in flight fail.
    pub(super) fn stop(&self) {
        match self {
            Self::Process(process) => process.stop(),
            Self::Http(session) => session.stop(),
            Self::Sse(session) => session.stop(),
        }
    }

    /// Over HTTP with a modern server, stores which arguments of the tools must be repeated in headers, and removes the
    /// tools whose marks for this are not valid. Does nothing otherwise.
    pub(super) fn note_tools(&self, listed: &mut Listed) {
        if let Self::Http(session) = self {
            session.note_tools(listed);
        }
    }

    /// Over Streamable HTTP, gets the access token that the next request needs, so that nothing is waited for once it is sent.
    pub(super) async fn prepare(&self) -> Result<(), UpstreamError> {
        match self {
            Self::Http(session) => session.prepare().await,
            Self::Process(_) | Self::Sse(_) => Ok(()),
        }
    }

    /// Sends a request and waits for its answer. Waits for at most `limit`, counted from now or, if progress extends
    /// the timeout of the request, from the last progress. The time in which the client is asked something does not count. If
    /// this future is dropped before the answer arrives, the request is cancelled at the server, unless it is `initialize` or
    /// `server/discover`.
    pub(super) async fn ask(
        &self,
        request: McpRequest<'_>,
        to: Option<&dyn ToClient>,
        limit: Duration,
    ) -> Result<Answer, RequestFailure> {
        let patience = to.map(|client| Patience::new(client, limit));
        let to = patience.as_ref().map(|patience| patience as &dyn ToClient);
        let answered = self.ask_once(request, to);
        tokio::pin!(answered);
        let mut until = Instant::now() + limit;
        loop {
            if let Ok(answer) = tokio::time::timeout_at(until, &mut answered).await {
                return answer;
            }
            let extended = patience.as_ref().map(|patience| patience.until(request.extends_on_progress()));
            match extended {
                Some(later) if later > until => until = later,
                _ => return Err(RequestFailure::Final(UpstreamError::Timeout(limit))),
            }
        }
    }
}

impl ServerConnection {
    /// Sends a request and waits for its answer, however long that takes.
    async fn ask_once(&self, request: McpRequest<'_>, to: Option<&dyn ToClient>) -> Result<Answer, RequestFailure> {
        let answer = match self {
            Self::Process(process) => process.ask(request, to).await,
            Self::Http(session) => session.ask(request, to).await,
            Self::Sse(session) => session.ask(request, to).await,
        }?;
        // A reader of lists looks at each item.
        let is_list = matches!(request, McpRequest::List(..));
        if is_list { Ok(answer) } else { within_depth(answer).map_err(RequestFailure::Final) }
    }
}

/// Opens streams of notifications over one connection (MCP 2026-07-28, `subscriptions/listen`).
pub(super) enum SubscriptionOpener {
    Process(ProcessListener),
    Http(HttpListener),
}

/// A stream of notifications. They are handled while it is read. Dropping this value closes the stream.
pub(super) enum ListenStream {
    Process(ProcessListenStream),
    Http(Box<HttpListenStream>),
}

impl SubscriptionOpener {
    /// A token that is cancelled when the connection has ended or is told to end.
    pub(super) fn ended(&self) -> CancellationToken {
        match self {
            Self::Process(listener) => listener.ended(),
            Self::Http(listener) => listener.ended(),
        }
    }

    /// Opens a stream of what `filter` names, which is a JSON object.
    pub(super) async fn open(&self, filter: &str) -> Result<ListenStream, UpstreamError> {
        Ok(match self {
            Self::Process(listener) => ListenStream::Process(listener.open(filter).await?),
            Self::Http(listener) => ListenStream::Http(Box::new(listener.open(filter).await?)),
        })
    }
}

impl ListenStream {
    /// Reads until the server acknowledges the stream, and returns the resources whose changes it reports. `None` if the
    /// stream ends.
    pub(super) async fn next(&mut self) -> Option<Vec<String>> {
        match self {
            Self::Process(stream) => stream.next().await,
            Self::Http(stream) => stream.next().await,
        }
    }
}

/// Passes notifications and questions on to the client, and records when the request would time out.
struct Patience<'a> {
    client: &'a dyn ToClient,
    limit: Duration,
    state: Mutex<PatienceState>,
}

struct PatienceState {
    /// When the request times out, if progress does not extend that.
    until: Instant,
    /// When the request times out, if progress extends that.
    until_of_progress: Instant,
    /// The number of questions that the client has not answered.
    open: u32,
    /// Since when there was always one.
    since: Instant,
}

impl<'a> Patience<'a> {
    fn new(client: &'a dyn ToClient, limit: Duration) -> Self {
        let until = Instant::now() + limit;
        Self {
            client,
            limit,
            state: Mutex::new(PatienceState { until, until_of_progress: until, open: 0, since: Instant::now() }),
        }
    }

    /// When the request times out, as it looks now.
    fn until(&self, extended: bool) -> Instant {
        let state = self.lock();
        match (state.open, extended) {
            (0, false) => state.until,
            (0, true) => state.until_of_progress,
            _ => Instant::now() + self.limit,
        }
    }

    fn lock(&self) -> MutexGuard<'_, PatienceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that waits for the client. The time of the request stands still until it is answered or withdrawn.
struct PausedDeadline<'a>(&'a Patience<'a>);

impl<'a> PausedDeadline<'a> {
    fn new(patience: &'a Patience<'a>) -> Self {
        let mut state = patience.lock();
        if state.open == 0 {
            state.since = Instant::now();
        }
        state.open += 1;
        Self(patience)
    }
}

impl Drop for PausedDeadline<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.open -= 1;
        if state.open == 0 {
            let waited = state.since.elapsed();
            state.until += waited;
            state.until_of_progress += waited;
        }
    }
}

impl ToClient for Patience<'_> {
    fn progress(&self, params: Box<RawValue>) {
        self.lock().until_of_progress = Instant::now() + self.limit;
        self.client.progress(params);
    }

    fn message(&self, params: Box<RawValue>) {
        self.client.message(params);
    }

    fn stream_ended(&self, retry: Option<Duration>) {
        self.client.stream_ended(retry);
    }

    fn ask(&self, question: Question) -> Answering<'_> {
        let open = PausedDeadline::new(self);
        Box::pin(async move {
            let answer = self.client.ask(question).await;
            drop(open);
            answer
        })
    }
}
