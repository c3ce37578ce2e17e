//! A seat is the right to run one call at a time on a worker. Most workers have one seat; those of plugins with
//! `pool.concurrency` have several. This module does not depend on pools.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::last_words::{is_out_of_memory, reported_error, with_limit_of_files};
use super::metrics::{KillCause, RecycleCause};
use super::process::Tasks;
use super::protocol::channel::Channel;
use super::protocol::lines::LinesPipes;
use super::protocol::once::OncePipes;
use super::protocol::shared::SharedWire;
use super::protocol::wire::ExclusiveWire;
use super::protocol::{ExchangeOutcome, PluginCall};
use super::worker::{Disposition, Place, Worker};
use crate::domain::plugin::{Failure, Output};
use crate::domain::ports::WorkerState;
use crate::domain::reason::Reason;

/// How long a process may take to exit on its own once its worker is no longer needed.
pub(super) const GRACE: Duration = Duration::from_secs(1);
/// How long to wait for the exit status of a process whose socket has closed, and for its last output.
const STATUS_WAIT: Duration = Duration::from_millis(100);
/// How long to wait for the output of a process that goes on after a call has failed.
const OUTPUT_WAIT: Duration = Duration::from_millis(10);

/// How calls reach a worker.
#[derive(Debug)]
pub enum Transport {
    /// Exchanges frames with the worker, for one call at a time.
    Module(Box<Channel<ExclusiveWire>>),
    /// Exchanges frames with the worker, which serves several calls at the same time.
    Shared(Box<Channel<SharedWire>>),
    /// The pipes of a script that serves one call.
    Once(OncePipes),
    /// The pipes of a script that serves many calls, one at a time.
    Lines(LinesPipes),
}

impl Transport {
    /// Whether a worker can be told that its call is given up for this `cause`, instead of being killed.
    pub fn can_cancel(&self, cause: KillCause) -> bool {
        match self {
            Self::Module(_) => cause == KillCause::Cancelled,
            Self::Shared(_) => matches!(cause, KillCause::Cancelled | KillCause::Timeout),
            Self::Once(_) | Self::Lines(_) => false,
        }
    }
}

/// The right to run one call at a time on a worker, and the transport for these calls.
#[derive(Debug)]
pub struct Seat {
    /// The worker that serves this seat.
    pub worker: Arc<Worker>,
    /// How calls reach the worker.
    pub transport: Transport,
    /// The place that a call on this seat takes.
    pub place: Arc<Place>,
    /// When the seat was last released, or created.
    pub rested: Instant,
    /// Whether a call was started on this seat and the seat has not been released since.
    busy: bool,
    /// Whether the call on this seat makes the worker [suspect](Worker::is_suspect).
    suspects: bool,
}

impl Seat {
    /// Creates the only seat of a worker.
    pub fn only(worker: Worker, transport: Transport) -> Self {
        Self::at(Arc::new(worker), transport)
    }

    fn at(worker: Arc<Worker>, transport: Transport) -> Self {
        let place = Place::at(&worker);
        Self { worker, transport, place, rested: Instant::now(), busy: false, suspects: false }
    }

    /// Creates another seat of a worker, in the place of one whose call has left its own. `None` if the worker has none to share.
    pub fn beside(worker: &Arc<Worker>) -> Option<Self> {
        let channel = Channel::beside(worker.absences.wires.get()?, worker.log_mask.clone())?;
        Some(Self::at(Arc::clone(worker), Transport::Shared(Box::new(channel))))
    }

    /// Splits this seat, the only one of its worker, into `seats` seats. If its transport cannot be shared, returns
    /// only this seat. Plugins that are not middleware share it also if there is one seat, since calls leave their places.
    pub fn split(self, seats: usize) -> Vec<Self> {
        let Self { worker, transport, .. } = self;
        match transport {
            Transport::Module(channel) if seats > 1 || worker.stats.is_typed() => {
                let channels = channel.share(seats, max_output(&worker));
                if worker.stats.is_typed()
                    && let Some(channel) = channels.first()
                {
                    worker.absences.wires.get_or_init(|| channel.maker());
                }
                let seat = |channel| Self::at(Arc::clone(&worker), Transport::Shared(Box::new(channel)));
                channels.into_iter().map(seat).collect()
            }
            transport => vec![Self::at(worker, transport)],
        }
    }

    /// Runs one call. If this future is dropped before it completes, the call must be given up before the seat is used
    /// again.
    pub async fn execute(&mut self, call: &PluginCall<'_>) -> ExchangeOutcome {
        self.worker.stats.used();
        self.busy = true;
        self.worker.drained.reset();
        if let Some(egress) = &self.worker.egress {
            egress.begin_call();
        }
        let mut exchange = self.exchange(call).await;
        // Messages and metadata are shown to people, so secrets are removed from them. The text is the content of the
        // call and stays unchanged.
        let log_mask = &self.worker.log_mask;
        exchange.output = exchange.output.map(|output| Output {
            metadata: output.metadata.map(|metadata| log_mask.masked_json(metadata)),
            error: output.error.map(|error| log_mask.masked(error).into_owned()),
            ..output
        });
        let masked = |said| with_limit_of_files(log_mask.masked(said).into_owned());
        exchange.output = exchange.output.map_err(|failure| failure.map(masked));
        exchange
    }

    async fn exchange(&mut self, call: &PluginCall<'_>) -> ExchangeOutcome {
        let process = &self.worker.process;
        let mut exchange = match &mut self.transport {
            Transport::Once(pipes) => ExchangeOutcome::last(pipes.exchange(process, call.input, call.max_output).await),
            Transport::Lines(lines) => lines.exchange(process, call.input, call.max_output).await,
            Transport::Module(channel) => channel.exchange(call).await,
            Transport::Shared(channel) => channel.exchange(call).await,
        };
        if let Err(failure) = &mut exchange.output {
            let is_module = matches!(self.transport, Transport::Module(_) | Transport::Shared(_));
            if is_module && failure.reason == Reason::Crashed {
                if let Some(why) = self.worker.killed_with() {
                    failure.message = why.into();
                    return exchange;
                }
                if let Ok(Some(status)) = timeout(STATUS_WAIT, process.exited()).await {
                    failure.message = format!("ended before it answered ({status})");
                }
            }
            let wait = if exchange.reusable { OUTPUT_WAIT } else { STATUS_WAIT };
            explain(failure, &self.worker, wait).await;
        }
        exchange
    }

    /// Whether the worker can serve other calls at the same time.
    pub fn is_shared(&self) -> bool {
        matches!(self.transport, Transport::Shared(_))
    }

    /// Marks the worker as suspect until the seat is [released](Seat::release): the seat's call is past its deadline,
    /// and it is unknown whether the worker still responds.
    pub fn suspect(&mut self) {
        self.worker.suspects.fetch_add(1, Ordering::Relaxed);
        self.suspects = true;
    }

    /// Records that the call on this seat is over, however it ended.
    pub fn release(&mut self) {
        if std::mem::take(&mut self.busy) {
            self.worker.stats.released();
        }
        if std::mem::take(&mut self.suspects) {
            self.worker.suspects.fetch_sub(1, Ordering::Relaxed);
        }
        self.rested = Instant::now();
    }

    /// Tells the worker that the call on this seat is given up, and waits until the worker has ended the call. Returns
    /// what happens to the worker: it is killed for `cause` if its protocol cannot give up calls or the worker is
    /// broken.
    pub async fn give_up(&mut self, cause: KillCause) -> Disposition {
        let max_output = max_output(&self.worker);
        let ended = match &mut self.transport {
            Transport::Module(channel) => channel.give_up(max_output).await,
            Transport::Shared(channel) => channel.give_up(max_output).await,
            Transport::Once(_) | Transport::Lines(_) => false,
        };
        match ended {
            true => self.worn().map_or(Disposition::Keep, Disposition::Recycle),
            false => Disposition::Kill(cause),
        }
    }

    /// Whether the worker still serves other calls while the one on this seat does not end.
    pub fn serves_others(&self) -> bool {
        matches!(&self.transport, Transport::Shared(channel) if channel.is_awake())
    }

    /// Returns what happens to the worker after this exchange.
    pub fn disposition_after(&self, exchange: &ExchangeOutcome) -> Disposition {
        if exchange.reusable {
            if exchange.output.is_err() {
                // The call may have failed because memory ran out, and memory that is still in use may make the next
                // call fail too.
                self.worker.stats.measure();
            }
            return self.worn().map_or(Disposition::Keep, Disposition::Recycle);
        }
        let over = self.worker.process.status().is_some();
        let is_done = match &exchange.output {
            Ok(_) => matches!(self.transport, Transport::Once(_)),
            Err(failure) => failure.reason == Reason::ExitCode,
        };
        if over || is_done { Disposition::Spent } else { Disposition::Kill(KillCause::Broken) }
    }

    /// If the worker has served no call yet and `cause` is a fault that a new worker would have too, returns a message
    /// about the fault.
    pub fn stillborn(&self, cause: RecycleCause) -> Option<String> {
        let worker = &self.worker;
        match cause {
            _ if worker.stats.executions() > 0 => None,
            RecycleCause::Exited => {
                let status = worker.process.status().map(|status| format!(" ({status})")).unwrap_or_default();
                let error = worker.drained.first_error().map(|error| format!("; {error}")).unwrap_or_default();
                Some(format!("ended while it was idle{status}{error}"))
            }
            RecycleCause::Stray => Some(SPOKE_FIRST.into()),
            RecycleCause::Memory => {
                let limit = worker.stats.plugin.plan.limits.memory;
                Some(format!("took more than three quarters of limits.memory ({limit} bytes) before its first call"))
            }
            _ => None,
        }
    }

    /// Whether the worker, which has served no call yet, has started properly.
    pub fn is_sound(&self) -> bool {
        self.worn().is_none_or(|cause| self.stillborn(cause).is_none())
    }

    /// Whether the worker has ended, is leaving, or may have stopped responding.
    pub fn is_useless(&self) -> bool {
        self.worker.leaving.get().is_some() || self.worker.is_suspect() || self.worn() == Some(RecycleCause::Exited)
    }

    /// Why this seat should not serve another call; `None` if it can.
    pub fn worn(&self) -> Option<RecycleCause> {
        let status = self.worker.process.status();
        if status.is_some_and(|status| !(status.success() && matches!(self.transport, Transport::Once(_)))) {
            return Some(RecycleCause::Exited);
        }
        let stray =
            || matches!(&self.transport, Transport::Lines(lines) if lines.has_spoken()).then_some(RecycleCause::Stray);
        self.worker.worn().or_else(stray)
    }

    /// Ends the seat. The worker ends with its last seat. The worker's process then has a short time to exit, in which a
    /// plugin that is not middleware shuts down. But if `disposition` is `Kill`, the process is killed immediately, and
    /// the calls on the worker's other seats fail.
    pub fn end(self, disposition: Disposition, tasks: &Tasks) {
        self.worker.stats.set_state(WorkerState::Unhealthy);
        drop(self.transport);
        let is_killed = matches!(disposition, Disposition::Kill(_));
        if is_killed {
            self.worker.process.kill();
        }
        match Arc::into_inner(self.worker) {
            Some(worker) if !is_killed && worker.stats.is_typed() && worker.process.status().is_none() => {
                tasks.spawn(shut_down(worker));
            }
            Some(worker) => worker.process.end_within(GRACE, tasks),
            None => {}
        }
    }
}

/// Waits until a worker has run `shutdown` of its plugin and has exited, kills it after [`GRACE`], and logs a failure.
async fn shut_down(worker: Worker) {
    let why = match timeout(GRACE, worker.process.exited()).await {
        Ok(Some(status)) if status.success() => return,
        Ok(_) => {
            let _ = timeout(STATUS_WAIT, worker.drained.ended()).await;
            worker.drained.thrown().map_or_else(|| "its process gave no reason".to_owned(), |thrown| thrown.summary())
        }
        Err(_) => format!("it has not ended within {GRACE:?}"),
    };
    let (plugin, why) = (worker.log_mask.name(), worker.log_mask.masked(why));
    tracing::warn!(plugin, "shutdown() of Plugin '{plugin}' failed: {why}");
}

/// Adds to the failure of a call why its process has ended or gave an exit code, as far as its last lines say so.
async fn explain(failure: &mut Failure, worker: &Worker, wait: Duration) {
    if !matches!(failure.reason, Reason::Crashed | Reason::ExitCode) {
        if is_out_of_memory(failure.full()) {
            *failure = std::mem::replace(failure, Failure::new(failure.reason, ""))
                .map(|message| format!("{}: {message}", over_memory(worker)));
        }
        return;
    }
    // An error means that the process still runs, or that a process that it started holds its output.
    let _ = timeout(wait, worker.drained.ended()).await;
    let (lines, thrown) = (worker.drained.last_lines(), worker.drained.thrown());
    if lines.iter().chain(thrown.as_ref().map(|thrown| &thrown.message)).any(|line| is_out_of_memory(line)) {
        failure.message = format!("{} ({failure})", over_memory(worker));
    } else if let Some(thrown) = thrown {
        *failure = thrown.failure(failure.reason, &failure.message);
    } else if let Some(line) = lines.iter().rfind(|line| !line.trim().is_empty()) {
        let text = format!("{failure}: {}", reported_error(line));
        let message = format!("{failure} (the log has its last output at level debug)");
        *failure = Failure::new(failure.reason, message).with_text(text);
    }
}

/// Logs why a worker ended while no call was running.
pub(super) async fn log_end(worker: Arc<Worker>) {
    let Some(status) = worker.process.status() else { return };
    let when = if worker.stats.executions() > 0 { "between calls" } else { "before its first call" };
    let mut failure = Failure::new(Reason::Crashed, format!("ended {when} ({status})"));
    explain(&mut failure, &worker, STATUS_WAIT).await;
    let (plugin, message) = (worker.log_mask.name(), worker.log_mask.masked(failure.message));
    tracing::warn!(plugin, "a worker of Plugin '{plugin}' {message}");
}

/// The message about a worker that ran out of memory.
pub(super) fn over_memory(worker: &Worker) -> String {
    let limit = worker.stats.plugin.plan.limits.memory;
    let unit = if limit.is_multiple_of(1 << 20) { format!("{}Mi", limit >> 20) } else { format!("{limit} bytes") };
    format!("exceeded its memory limit of {unit}")
}

fn max_output(worker: &Worker) -> usize {
    usize::try_from(worker.stats.plugin.plan.limits.max_output).unwrap_or(usize::MAX)
}

/// The message about a script that prints before it receives a call.
pub(super) const SPOKE_FIRST: &str = "printed something on standard output before it was asked";

#[cfg(test)]
mod tests {
    use super::super::log_mask::LogMask;
    use super::super::protocol::socket::Socket;
    use super::*;

    #[tokio::test]
    async fn a_worker_that_may_still_listen_is_told_that_a_call_is_given_up() {
        let channel = || {
            let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            Channel::new(Socket::new(ours).unwrap(), LogMask::named("p"))
        };
        let told = |transport: &Transport| {
            let causes = [KillCause::Cancelled, KillCause::Timeout, KillCause::Broken];
            causes.map(|cause| transport.can_cancel(cause))
        };
        // A worker that exceeds the deadline of its only call does not read messages. One with several seats may still
        // read them.
        assert_eq!(told(&Transport::Module(Box::new(channel()))), [true, false, false]);
        let shared = channel().share(2, 1000).pop().unwrap();
        assert_eq!(told(&Transport::Shared(Box::new(shared))), [true, true, false]);
    }
}
