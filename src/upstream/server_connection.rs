//! One connection to a server, over any transport.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::domain::item::Listed;
use crate::domain::ports::ToClient;
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
    /// the timeout of the request, from the last progress. If this future is dropped before the answer arrives, the
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
            let extended = patience.as_ref().filter(|_| request.extends_on_progress()).map(Patience::until);
            match extended {
                Some(later) if later > until => until = later,
                _ => return Err(RequestFailure::Final(UpstreamError::Timeout(limit))),
            }
        }
    }
}

/// Passes notifications on to the client, and records when the request would time out if the time were counted from the
/// last progress.
struct Patience<'a> {
    client: &'a dyn ToClient,
    limit: Duration,
    until: Mutex<Instant>,
}

impl<'a> Patience<'a> {
    fn new(client: &'a dyn ToClient, limit: Duration) -> Self {
        Self { client, limit, until: Mutex::new(Instant::now() + limit) }
    }

    fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToClient for Patience<'_> {
    fn progress(&self, params: Box<RawValue>) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + self.limit;
        self.client.progress(params);
    }

    fn message(&self, params: Box<RawValue>) {
        self.client.message(params);
    }
}
