//! The exclusive right to one worker for one call. However it ends, the worker goes back to its pool or dies.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::metrics::KillCause;
use super::pool::Pool;
use super::worker::{Fate, Worker};
use crate::domain::plugin::{Failure, Input, Output};
use crate::domain::reason::Reason;

/// A worker that is nobody else's.
#[derive(Debug)]
pub struct Lease {
    worker: Option<Worker>,
    pool: Arc<Pool>,
    fate: Fate,
    went_well: bool,
}

impl Lease {
    /// The pool counts `worker` as leased.
    pub fn new(worker: Worker, pool: &Arc<Pool>) -> Self {
        Self { worker: Some(worker), pool: Arc::clone(pool), fate: Fate::Keep, went_well: false }
    }

    /// The worker, untouched, to whom nobody listens.
    pub fn into_worker(mut self) -> Option<Worker> {
        self.worker.take()
    }

    /// The worker's process id.
    pub fn pid(&self) -> Option<u32> {
        self.worker.as_ref().map(|worker| worker.process.pid())
    }

    /// Runs the call. At `deadline` it is answered, and the worker killed behind it; `timeout` is how that is put.
    ///
    /// # Errors
    /// See [`Reason`]'s list of one execution.
    pub async fn run(
        mut self,
        input: &Input<'_>,
        max_output: u64,
        deadline: Instant,
        timeout: Duration,
    ) -> Result<Output, Failure> {
        let max_output = usize::try_from(max_output).unwrap_or(usize::MAX);
        let Some(worker) = &mut self.worker else {
            return Err(Failure::new(Reason::Crashed, "ended before it was asked"));
        };
        self.fate = Fate::Kill(KillCause::Cancelled);
        let Ok(exchange) = timeout_at(deadline, worker.execute(input, max_output)).await else {
            self.fate = Fate::Kill(KillCause::Timeout);
            return Err(Failure::new(Reason::Timeout, format!("timed out after {}ms", timeout.as_millis())));
        };
        self.fate = worker.fate_after(&exchange);
        self.went_well = exchange.reusable || exchange.output.is_ok();
        exchange.output
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            self.pool.give_back(worker, self.fate, self.went_well);
        }
    }
}
