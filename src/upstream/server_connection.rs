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

use super::request_failure::RequestFailure;
use super::stdio::ServerProcess;
use super::streamable::HttpSession;
use super::wire::McpRequest;

/// A connection after its handshake.
#[derive(Debug)]
pub(super) enum ServerConnection {
    Process(ServerProcess),
    /// A legacy session, or modern requests that are independent of each other, over Streamable HTTP.
    Http(HttpSession),
}

impl ServerConnection {
    /// What the handshake found out about the server.
    pub(super) fn facts(&self) -> &ServerFacts {
        match self {
            Self::Process(process) => process.facts(),
            Self::Http(session) => session.facts(),
        }
    }

    /// Whether requests can still be sent.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Process(process) => process.is_open(),
            Self::Http(session) => session.is_open(),
        }
    }

    pub(super) fn is_process(&self) -> bool {
        matches!(self, Self::Process(_))
    }

    /// A token that is cancelled when the connection has ended or is told to end.
    pub(super) fn ended(&self) -> CancellationToken {
        match self {
            Self::Process(process) => process.ended(),
            Self::Http(session) => session.ended(),
        }
    }

    /// Ends the connection in the background. If the server is a process, its requests in flight fail.
    pub(super) fn stop(&self) {
        match self {
            Self::Process(process) => process.stop(),
            Self::Http(session) => session.stop(),
        }
    }

    /// Over HTTP with a modern server, stores which arguments of the tools must be repeated in headers, and removes the
    /// tools whose marks for this are not valid. Does nothing otherwise.
    pub(super) fn note_tools(&self, listed: &mut Listed) {
        if let Self::Http(session) = self {
            session.note_tools(listed);
        }
    }

    /// Sends a request and waits for its answer. Waits for at most `limit`, counted from now or, if progress extends
    /// the timeout of the request, from the last progress. The time in which the client is asked something does not count. If this future is dropped before the answer arrives, the
    /// request is cancelled at the server, unless it is `initialize` or `server/discover`.
    pub(super) async fn ask(
        &self,
        request: McpRequest<'_>,
        to: Option<&dyn ToClient>,
        limit: Duration,
    ) -> Result<Answer, RequestFailure> {
        let patience = to.map(|client| Patience::new(client, limit));
        let to = patience.as_ref().map(|patience| patience as &dyn ToClient);
        let answered = async {
            match self {
                Self::Process(process) => process.ask(request, to).await,
                Self::Http(session) => session.ask(request, to).await,
            }
        };
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
struct OpenQuestion<'a>(&'a Patience<'a>);

impl<'a> OpenQuestion<'a> {
    fn new(patience: &'a Patience<'a>) -> Self {
        let mut state = patience.lock();
        if state.open == 0 {
            state.since = Instant::now();
        }
        state.open += 1;
        Self(patience)
    }
}

impl Drop for OpenQuestion<'_> {
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

    fn ask(&self, question: Question) -> Answering<'_> {
        let open = OpenQuestion::new(self);
        Box::pin(async move {
            let answer = self.client.ask(question).await;
            drop(open);
            answer
        })
    }
}
