//! One connection to a server, whatever carries it.

use std::time::Duration;

use crate::domain::ports::ToClient;
use crate::domain::tool::Tool;
use crate::domain::upstream::{Answer, ServerFacts, UpstreamError};

use super::stdio::Process;
use super::streamable::Session;
use super::wire::Request;

/// A connection after its handshake.
#[derive(Debug)]
pub(super) enum Link {
    /// A child process.
    Process(Process),
    /// A session, or stateless requests, over Streamable HTTP.
    Http(Session),
}

/// Why a request has no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// It was not executed, and another connection may do better.
    Stale(UpstreamError),
    /// Any other reason.
    Final(UpstreamError),
}

impl From<UpstreamError> for Failure {
    fn from(error: UpstreamError) -> Self {
        Self::Final(error)
    }
}

impl From<Failure> for UpstreamError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Stale(error) | Failure::Final(error) => error,
        }
    }
}

impl Link {
    /// What is known of the server.
    pub(super) fn facts(&self) -> &ServerFacts {
        match self {
            Self::Process(process) => process.facts(),
            Self::Http(session) => session.facts(),
        }
    }

    /// Whether requests may still be sent.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Process(process) => process.is_open(),
            Self::Http(session) => session.is_open(),
        }
    }

    /// Ends it, in the background; requests in flight on a process are told.
    pub(super) fn stop(&self) {
        match self {
            Self::Process(process) => process.stop(),
            Self::Http(session) => session.stop(),
        }
    }

    /// Keeps what later calls need of a whole tool list, and drops tools that the protocol forbids to call.
    pub(super) fn note_tools(&self, tools: &mut Vec<Tool>) {
        if let Self::Http(session) = self {
            session.note_tools(tools);
        }
    }

    /// Sends a request and waits for its answer. Dropped before, it tells the server so.
    pub(super) async fn ask(
        &self,
        request: Request<'_>,
        progress: Option<&dyn ToClient>,
        limit: Duration,
    ) -> Result<Answer, Failure> {
        let answered = async {
            match self {
                Self::Process(process) => process.ask(request, progress).await,
                Self::Http(session) => session.ask(request, progress).await,
            }
        };
        match tokio::time::timeout(limit, answered).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure::Final(UpstreamError::Timeout(limit))),
        }
    }
}
