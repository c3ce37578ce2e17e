//! A worker: a process that has loaded a plugin, with statistics of its calls. Calls reach a worker through a
//! [`Seat`](super::seat::Seat).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tokio::time::Instant;

use super::egress::Egress;
use super::log_mask::LogMask;
use super::metrics::{KillCause, RecycleCause};
use super::output_drain::OutputDrain;
use super::process::ChildProcess;
use super::protocol::shared::WireMaker;
use super::stats::WorkerStats;
use crate::domain::plan::PluginPlan;
use crate::domain::plugin::Protocol;

/// The place of a call at its worker. A call that waits for the gateway leaves it: only its memory stays there.
#[derive(Debug)]
pub struct Place {
    worker: Weak<Worker>,
    is_left: AtomicBool,
}

impl Place {
    /// The place of a call that has not begun.
    pub fn at(worker: &Arc<Worker>) -> Arc<Self> {
        Arc::new(Self { worker: Arc::downgrade(worker), is_left: AtomicBool::new(false) })
    }

    /// The worker; `None` if it has ended.
    pub fn worker(&self) -> Option<Arc<Worker>> {
        self.worker.upgrade()
    }

    /// Sets whether the call has left the place, and returns whether it had before. Called under the lock of the pool.
    pub fn set_left(&self, is_left: bool) -> bool {
        self.is_left.swap(is_left, Ordering::Relaxed)
    }
}

/// The calls of a worker that have left their places. Changed under the lock of the pool.
#[derive(Debug, Default)]
pub struct Absences {
    /// How many there are.
    pub away: AtomicUsize,
    /// How many places more than the worker has are taken, because calls came back that found none free.
    pub surplus: AtomicUsize,
    /// Makes further wires to the worker; unset if calls keep their places.
    pub wires: OnceLock<WireMaker>,
    /// Set if the worker was killed although calls waited, because too many workers were being replaced.
    pub outlived: OnceLock<()>,
}

/// What happens to a worker after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It keeps serving.
    Keep,
    /// Its process has ended, or will exit on its own because it has served its only call.
    Spent,
    /// It could keep serving, but must be replaced.
    Recycle(RecycleCause),
    /// It is killed immediately.
    Kill(KillCause),
}

/// A worker, shared by its seats. The worker ends with the last of them.
#[derive(Debug)]
pub struct Worker {
    /// Identifies the worker within this gateway process. Never reused.
    pub id: u64,
    /// The worker's process.
    pub process: ChildProcess,
    /// Reads what the process prints besides its answers.
    pub drained: Arc<OutputDrain>,
    /// Removes secrets from the worker's output and errors.
    pub log_mask: LogMask,
    /// The worker's connections; `None` if its plugin lists no `egress`.
    pub egress: Option<Egress>,
    /// Statistics that the list of workers shows.
    pub stats: Arc<WorkerStats>,
    /// How many calls the worker may serve.
    pub max_executions: u64,
    /// When the process was started.
    pub born: Instant,
    /// When a successor is started, shortly before the worker expires.
    pub ages: Instant,
    /// When the worker stops receiving calls.
    pub expires: Instant,
    /// Bytes that the process may print besides its answers until its next call begins. A worker that exceeds this is
    /// replaced when a call ends, or before it gets another call.
    pub max_noise: u64,
    /// Bytes that the process may have mapped for data after a call. The sandbox allows more, so that a worker whose
    /// plugin leaks memory is replaced before a call fails.
    pub max_data: u64,
    /// Why a successor of the worker was started; unset if it has none.
    pub succeeded: OnceLock<RecycleCause>,
    /// How many of the worker's seats are leased. Changed under the lock of its pool.
    pub leased: AtomicUsize,
    /// Calls that have left their places, because they wait for the gateway.
    pub absences: Absences,
    /// How many of the worker's calls are past their deadline while it is unknown whether the worker still responds.
    pub suspects: AtomicUsize,
    /// Set once the worker must end. The worker then receives no further calls, and ends with the last of its seats.
    pub leaving: OnceLock<Disposition>,
}

impl Worker {
    /// Why the worker must be replaced soon: it is in the last twentieth of its calls or of its lifetime.
    pub fn nearly_worn(&self) -> Option<RecycleCause> {
        if self.stats.executions() >= self.max_executions - self.max_executions / 20 {
            Some(RecycleCause::Executions)
        } else {
            (Instant::now() >= self.ages).then_some(RecycleCause::Lifetime)
        }
    }

    /// Why the worker should not serve another call, apart from reasons that only its transport knows.
    pub fn worn(&self) -> Option<RecycleCause> {
        if let Some(disposition) = self.leaving.get() {
            Some(match disposition {
                Disposition::Recycle(cause) => *cause,
                Disposition::Keep | Disposition::Spent | Disposition::Kill(_) => RecycleCause::Exited,
            })
        } else if self.stats.executions() >= self.max_executions {
            Some(RecycleCause::Executions)
        } else if Instant::now() >= self.expires {
            Some(RecycleCause::Lifetime)
        } else if self.drained.bytes() > self.max_noise {
            Some(RecycleCause::Stderr)
        } else if self.stats.data() > self.max_data {
            Some(RecycleCause::Memory)
        } else {
            None
        }
    }

    /// Whether the worker may have stopped responding. A suspect worker receives no calls until it has proved that it
    /// responds.
    pub fn is_suspect(&self) -> bool {
        self.suspects.load(Ordering::Relaxed) > 0
    }

    /// The failure message for a call whose worker was killed because of another call; `None` if the worker was not
    /// killed.
    pub fn killed_with(&self) -> Option<&'static str> {
        match self.leaving.get() {
            _ if self.absences.outlived.get().is_some() => {
                Some("was ended with its worker, which was replaced while the call waited")
            }
            Some(Disposition::Kill(KillCause::Broken)) => Some("was ended with its worker, which another call broke"),
            Some(Disposition::Kill(_)) => Some("was ended with its worker, which another call kept busy"),
            _ => None,
        }
    }
}

/// The number of calls for a Once script that is run again in the same process. It is the limit in document 000,
/// because such a script may leave anything behind in the process.
const REUSED_EXECUTIONS: u64 = 1000;
/// The number of calls for Module and Lines. Such a worker is meant to serve many calls: starting another one costs
/// more than a thousand calls do, and `limits.memory` bounds how much memory it can leak.
const MODULE_EXECUTIONS: u64 = 100_000;

/// Returns how many calls a worker of the plugin serves: the plugin's own number, else `default`, else the number for
/// its protocol. `jitter` changes that number. A Once script that is not reused serves one call.
pub fn executions_of(plugin: &PluginPlan, default: Option<u64>, jitter: impl Fn(u64) -> u64) -> u64 {
    let by_protocol = match plugin.protocol {
        Protocol::Once if !plugin.reuse => return 1,
        Protocol::Once => REUSED_EXECUTIONS,
        Protocol::Module | Protocol::Lines => MODULE_EXECUTIONS,
    };
    jitter(plugin.max_executions.map(u64::from).or(default).unwrap_or(by_protocol))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::fixture;

    #[test]
    fn a_worker_serves_as_many_calls_as_its_plugin_or_its_protocol_has() {
        let plain = |n| n;
        for (protocol, reuse, calls) in [
            (Protocol::Module, false, 100_000),
            (Protocol::Lines, false, 100_000),
            (Protocol::Once, true, 1000),
            (Protocol::Once, false, 1),
        ] {
            let mut plugin = PluginPlan { protocol, reuse, max_executions: None, ..fixture::plugin().plan.clone() };
            assert_eq!(executions_of(&plugin, None, plain), calls, "{protocol:?}");
            plugin.max_executions = Some(7);
            assert_eq!(executions_of(&plugin, Some(8), plain), calls.min(7), "{protocol:?}");
        }
    }
}
