//! A server as a child process: newline-delimited JSON on its stdin and stdout (MCP, transports, stdio).

mod child;
mod listen;
mod open_requests;
mod pipes;
mod stderr_log;
mod stdout_reader;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::domain::capabilities::ClientCapabilities;
use crate::domain::ports::ToClient;
use crate::domain::upstream::{Answer, ServerFacts, Target, UpstreamError};
use crate::domain::version::{BATCH_VERSION, Era};
use crate::transport::LastWords;

pub(super) use self::listen::{ProcessListenStream, ProcessListener};
use self::open_requests::OpenRequest;
use self::pipes::ProcessPipes;
use super::context::UpstreamContext;
use super::handshake::{Handshake, HandshakeStep, late};
use super::request_failure::RequestFailure;
use super::under_way::UnderWay;
use super::wire::{self, McpRequest};

/// The longest wait for an answer to `server/discover`. Old servers may never send one.
const DISCOVERY: Duration = Duration::from_secs(10);
/// How long to wait for the end of a process that does not read any more, and so for the reason.
const END: Duration = Duration::from_secs(1);
/// How long a request still waits after the process has written a line that quotes the answer. A server that logs its
/// messages to stdout may still send the answer itself.
const DOUBT: Duration = Duration::from_secs(1);

/// A process after its handshake. When the process ends or this value is dropped, the whole process group is ended.
#[derive(Debug)]
pub(super) struct ServerProcess {
    wire: ProcessPipes,
    facts: ServerFacts,
}

impl ServerProcess {
    /// Starts the target's process and performs the handshake within `limit`. `before` is the era of the last
    /// handshake. If the process ends before it answers `server/discover`, it is started once more, and the handshake
    /// begins with the legacy era if the setting allows this.
    pub(super) async fn connect(
        target: &Target,
        shared: &Arc<UpstreamContext>,
        before: Option<Era>,
        limit: Duration,
    ) -> Result<Self, UpstreamError> {
        let last_words = Arc::default();
        let start = |before| {
            let handshake = Handshake::new(target.plan.era, before);
            Self::start(target, shared, handshake, limit, &last_words)
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
            Ok(Err((UpstreamError::Timeout(_), _))) | Err(_) => Err(late(&target.plan, limit, &last_words.text())),
            Ok(Err((error, _))) => Err(error),
        }
    }

    /// Starts the process once and performs the handshake. An error comes with the step that was tried last.
    async fn start(
        target: &Target,
        shared: &Arc<UpstreamContext>,
        mut handshake: Handshake,
        limit: Duration,
        last_words: &Arc<LastWords>,
    ) -> Result<Self, (UpstreamError, HandshakeStep)> {
        let (wire, ready) =
            child::start(target, shared, last_words).map_err(|error| (error, HandshakeStep::Initialize))?;
        // Ends the process on every return except the successful one.
        let guard = wire.stop.clone().drop_guard();
        let mut step = handshake.first();
        loop {
            let outcome = match &step {
                HandshakeStep::Discover => {
                    let asked = wire.ask(McpRequest::Discover, Era::Modern, None, None);
                    let limit = handshake.patience(DISCOVERY, limit);
                    tokio::time::timeout(limit, asked).await.unwrap_or(Err(UpstreamError::Timeout(limit).into()))
                }
                _ => wire.ask(McpRequest::Initialize(&ClientCapabilities::default()), Era::Legacy, None, None).await,
            };
            match handshake.next(outcome.map_err(UpstreamError::from)) {
                HandshakeStep::Done(facts) => {
                    if facts.era == Era::Legacy
                        && let Err(failure) = wire.send(wire::INITIALIZED.into()).await
                    {
                        return Err((wire.why_ended(failure.into()).await, HandshakeStep::Initialize));
                    }
                    wire.batches.store(facts.version == BATCH_VERSION, Ordering::Release);
                    guard.disarm();
                    ready.cancel();
                    return Ok(Self { wire, facts });
                }
                HandshakeStep::Failed(error) => return Err((wire.why_ended(error).await, step)),
                next => step = next,
            }
        }
    }

    pub(super) fn facts(&self) -> &ServerFacts {
        &self.facts
    }

    pub(super) fn is_open(&self) -> bool {
        self.wire.calls.is_open() && !self.wire.stop.is_cancelled() && !self.wire.ended.is_cancelled()
    }

    /// The requests of clients that are under way.
    pub(super) fn under_way(&self) -> &UnderWay {
        &self.wire.under_way
    }

    /// Opens streams of notifications of the process.
    pub(super) fn listener(&self) -> ProcessListener {
        ProcessListener(self.wire.clone())
    }

    /// Ends the process in the background.
    pub(super) fn stop(&self) {
        self.wire.stop.cancel();
    }

    /// A token that is cancelled when the process has ended or is told to end.
    pub(super) fn ended(&self) -> CancellationToken {
        self.wire.stop.clone()
    }

    /// Sends a request and waits for its answer. `number` is that of the request among those that are under way.
    pub(super) async fn ask(
        &self,
        request: McpRequest<'_>,
        to: Option<&dyn ToClient>,
        number: Option<u64>,
    ) -> Result<Answer, RequestFailure> {
        self.wire.ask(request, self.facts.era, to, number).await
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.stop();
    }
}

impl ProcessPipes {
    /// Returns how the process ended, in the place of the loss of the connection that was noticed first.
    async fn why_ended(&self, error: UpstreamError) -> UpstreamError {
        match error {
            UpstreamError::Lost(_) => tokio::time::timeout(END, self.calls.closed()).await.unwrap_or(error),
            other => other,
        }
    }

    async fn ask(
        &self,
        request: McpRequest<'_>,
        era: Era,
        to: Option<&dyn ToClient>,
        number: Option<u64>,
    ) -> Result<Answer, RequestFailure> {
        let OpenRequest { id, mut answer, doubt, mut progress } = self.calls.open().map_err(RequestFailure::Stale)?;
        if let Some(number) = number {
            self.under_way.sent_as(number, id);
        }
        let strays = self.strays.load(Ordering::Relaxed);
        let mut pending = RequestGuard { wire: self, id, cancels: false, strays };
        self.send(request.render(era, id)).await?;
        pending.cancels = request.may_be_cancelled();
        let doubted = doubted(doubt);
        tokio::pin!(doubted);
        let answered = loop {
            tokio::select! {
                biased;
                Some(params) = progress.recv() => if let Some(to) = to { to.progress(params) },
                answered = &mut answer => {
                    pending.cancels = false;
                    break answered;
                }
                reason = &mut doubted => break Ok(Err(reason)),
            }
        };
        match answered {
            Ok(answered) => Ok(answered?),
            Err(_) => Err(RequestFailure::Final(UpstreamError::Lost("it ended".into()))),
        }
    }
}

/// Waits for a reason for doubt, and returns it [`DOUBT`] later. Never completes if no reason is reported.
async fn doubted(doubt: oneshot::Receiver<UpstreamError>) -> UpstreamError {
    match doubt.await {
        Ok(reason) => {
            tokio::time::sleep(DOUBT).await;
            reason
        }
        Err(_) => std::future::pending().await,
    }
}

/// A request that waits for its answer. If this value is dropped before the answer arrives, the request is forgotten
/// and, if `cancels` is set, cancelled at the server.
struct RequestGuard<'a> {
    wire: &'a ProcessPipes,
    id: u64,
    cancels: bool,
    /// The number of stray lines that the process had written when the request was sent.
    strays: u64,
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        if !self.wire.calls.forget(self.id) {
            return;
        }
        if self.cancels {
            self.wire.offer(wire::cancelled(self.id));
        }
        let lines = self.wire.strays.load(Ordering::Relaxed).saturating_sub(self.strays);
        if lines > 0 {
            tracing::warn!(
                upstream = %self.wire.key,
                lines,
                "a request was given up, and what the process wrote to stdout meanwhile answers nothing that it was asked"
            );
        }
    }
}
