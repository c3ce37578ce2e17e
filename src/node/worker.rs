//! A worker: a process that has loaded a plugin, and what it has served. Whoever may call it has a
//! [`Seat`](super::seat::Seat).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::time::Instant;

use super::egress::Egress;
use super::log_mask::LogMask;
use super::metrics::{KillCause, RecycleCause};
use super::output_drain::OutputDrain;
use super::process::ChildProcess;
use super::stats::WorkerStats;
use crate::domain::plan::PluginPlan;
use crate::domain::plugin::Protocol;

/// What becomes of a worker after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It serves on.
    Keep,
    /// It has served as many calls as it may.
    Spent,
    /// It could serve on, but must be replaced.
    Recycle(RecycleCause),
    /// It is killed at once.
    Kill(KillCause),
}

/// A worker, shared by its seats. It ends with the last of them.
#[derive(Debug)]
pub struct Worker {
    /// Its number in this process, never used again.
    pub id: u64,
    /// Its process.
    pub process: ChildProcess,
    /// Reads what it prints besides its answers.
    pub drained: Arc<OutputDrain>,
    /// What must not be seen in what it says.
    pub log_mask: LogMask,
    /// Its connections, where its plugin may have any.
    pub egress: Option<Egress>,
    /// What others may know of it.
    pub stats: Arc<WorkerStats>,
    /// Calls that it may serve.
    pub max_executions: u64,
    /// When its process was made.
    pub born: Instant,
    /// When the start of its replacement begins.
    pub ages: Instant,
    /// Until when it may serve.
    pub expires: Instant,
    /// Bytes that it may print besides, a call.
    pub max_noise: u64,
    /// Bytes that its process may have mapped for data after a call: less than it may at all, so that one whose plugin
    /// leaks is replaced before it fails a call.
    pub max_data: u64,
    /// Why the worker that takes its place was started already.
    pub succeeded: OnceLock<RecycleCause>,
    /// Seats that somebody has; changed under the lock of its pool.
    pub leased: AtomicUsize,
    /// Calls past their deadline of which it is not known whether it still listens.
    pub suspects: AtomicUsize,
    /// What was decided of it: it gets no further calls, and ends with the last of its seats.
    pub leaving: OnceLock<Disposition>,
}

impl Worker {
    /// Why it must be replaced soon: it is in its last twentieth of calls or of time.
    pub fn nearly_worn(&self) -> Option<RecycleCause> {
        if self.stats.executions() >= self.max_executions - self.max_executions / 20 {
            Some(RecycleCause::Executions)
        } else {
            (Instant::now() >= self.ages).then_some(RecycleCause::Lifetime)
        }
    }

    /// Why it should not serve another call, whichever way it is spoken with.
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

    /// Whether it may not listen any more: until that is known it gets no calls.
    pub fn is_suspect(&self) -> bool {
        self.suspects.load(Ordering::Relaxed) > 0
    }

    /// What a call is told whose worker was killed for another one.
    pub fn killed_with(&self) -> Option<&'static str> {
        match self.leaving.get() {
            Some(Disposition::Kill(KillCause::Broken)) => Some("was ended with its worker, which another call broke"),
            Some(Disposition::Kill(_)) => Some("was ended with its worker, which another call kept busy"),
            _ => None,
        }
    }
}

/// What a Once script leaves behind when it is run again in one process is not known: document 000's bound.
const REUSED_EXECUTIONS: u64 = 1000;
/// A Module or Lines worker is made to stay. Its start costs more than a thousand of its calls, and what grows in it is
/// bounded by `limits.memory`.
const MODULE_EXECUTIONS: u64 = 100_000;

/// How many calls a worker of a plugin serves: what the plugin says, else `default`, else what its protocol has; with
/// `jitter`, but for a script that is run once.
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
