//! A server as a child process: newline-delimited JSON on its stdin and stdout (MCP, transports, stdio).

mod child;
mod stderr_log;
mod stdin;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::ports::ToClient;
use crate::domain::upstream::{Answer, ClientKey, ServerFacts, Target, UpstreamError};
use crate::domain::version::Era;
use crate::transport::LastWords;

use super::context::UpstreamContext;
use super::duplex::{Duplex, ProcessListener};
use super::handshake::{Handshake, HandshakeStep};
use super::late::late;
use super::request_failure::RequestFailure;
use super::wire::{self, McpRequest};

/// The longest wait for an answer to `server/discover`. Old servers may never send one.
const DISCOVERY: Duration = Duration::from_secs(10);

/// A process after its handshake. When the process ends or this value is dropped, the whole process group is ended.
#[derive(Debug)]
pub(super) struct ServerProcess {
    duplex: Duplex,
    facts: ServerFacts,
}

impl ServerProcess {
    /// Starts the target's process and performs the handshake within `limit`. `before` is the era of the last
    /// handshake. `of` is the client that the process is for; `None` if it is for all. If the process ends before it
    /// answers `server/discover`, it is started once more, and the handshake begins with the legacy era if the setting
    /// allows this.
    pub(super) async fn connect(
        target: &Target,
        shared: &Arc<UpstreamContext>,
        before: Option<Era>,
        limit: Duration,
        of: Option<&ClientKey>,
    ) -> Result<Self, UpstreamError> {
        let last_words = Arc::default();
        let start = |before| {
            let handshake = Handshake::new(target.plan.era, before);
            Self::start(target, shared, handshake, limit, of, &last_words)
        };
        let handshake = async {
            match start(before).await {
                Err((UpstreamError::Exited { .. } | UpstreamError::Lost(_), HandshakeStep::Discover)) => {
                    last_words.clear();
                    start(Some(Era::Legacy)).await
                }
                outcome => outcome,
            }
        };
        match tokio::time::timeout(limit, handshake).await {
            Ok(Ok(process)) => Ok(process),
            Ok(Err((UpstreamError::Lost(reason), _))) => Err(UpstreamError::Connect(reason)),
            Ok(Err((UpstreamError::Timeout(_), _))) | Err(_) => {
                let wrote = last_words.text();
                let seen = if wrote.is_empty() { wrote } else { format!("it wrote last: {wrote}") };
                Err(late(&target.plan, limit, &seen))
            }
            Ok(Err((error, _))) => Err(error),
        }
    }

    /// Starts the process once and performs the handshake. An error comes with the step that was tried last.
    async fn start(
        target: &Target,
        shared: &Arc<UpstreamContext>,
        mut handshake: Handshake,
        limit: Duration,
        of: Option<&ClientKey>,
        last_words: &Arc<LastWords>,
    ) -> Result<Self, (UpstreamError, HandshakeStep)> {
        let (duplex, ready) =
            child::start(target, shared, of, last_words).map_err(|error| (error, HandshakeStep::Initialize))?;
        let capabilities = of.map(|client| client.capabilities.clone()).unwrap_or_default();
        // Ends the process on every return except the successful one.
        let guard = duplex.stop.clone().drop_guard();
        let mut step = handshake.first();
        loop {
            let outcome = match &step {
                HandshakeStep::Discover => {
                    let asked = duplex.ask(McpRequest::Discover, Era::Modern, None);
                    let limit = handshake.patience(DISCOVERY, limit);
                    tokio::time::timeout(limit, asked).await.unwrap_or(Err(UpstreamError::Timeout(limit).into()))
                }
                _ => duplex.ask(McpRequest::Initialize(&capabilities), Era::Legacy, None).await,
            };
            match handshake.next(outcome.map_err(UpstreamError::from)) {
                HandshakeStep::Done(facts) => {
                    if facts.era == Era::Legacy
                        && let Err(failure) = duplex.out.send(wire::INITIALIZED.into()).await
                    {
                        return Err((duplex.why_ended(failure.into()).await, HandshakeStep::Initialize));
                    }
                    guard.disarm();
                    ready.cancel();
                    return Ok(Self { duplex, facts });
                }
                HandshakeStep::Failed(error) => return Err((duplex.why_ended(error).await, step)),
                next => step = next,
            }
        }
    }

    pub(super) fn facts(&self) -> &ServerFacts {
        &self.facts
    }

    pub(super) fn is_open(&self) -> bool {
        self.duplex.is_open()
    }

    /// Opens streams of notifications of the process.
    pub(super) fn listener(&self) -> ProcessListener {
        ProcessListener::new(&self.duplex)
    }

    /// Ends the process in the background.
    pub(super) fn stop(&self) {
        self.duplex.stop.cancel();
    }

    /// A token that is cancelled when the process has ended or is told to end.
    pub(super) fn ended(&self) -> CancellationToken {
        self.duplex.ended.clone()
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn ask(
        &self,
        request: McpRequest<'_>,
        to: Option<&dyn ToClient>,
    ) -> Result<Answer, RequestFailure> {
        self.duplex.ask(request, self.facts.era, to).await
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.stop();
    }
}
