//! The exclusive right to one worker for one call. However it ends, the worker goes back to its pool or dies; where
//! nobody waits for the call any more, the worker is told so first.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout_at;

use super::metrics::KillCause;
use super::pool::Pool;
use super::protocol::Call;
use super::worker::{Fate, Worker};
use crate::domain::plugin::{Failure, Output};
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

    /// Runs the call. At its deadline it is answered, and the worker killed behind it; `timeout` is how that is put.
    ///
    /// # Errors
    /// See [`Reason`]'s list of one execution.
    pub async fn run(mut self, call: &Call<'_>, timeout: Duration) -> Result<Output, Failure> {
        let Some(worker) = &mut self.worker else {
            return Err(Failure::new(Reason::Crashed, "ended before it was asked"));
        };
        self.fate = Fate::Kill(KillCause::Cancelled);
        let Ok(exchange) = timeout_at(call.deadline, worker.execute(call)).await else {
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
        let Some(worker) = self.worker.take() else { return };
        match self.fate {
            Fate::Kill(KillCause::Cancelled) if worker.can_be_told() => self.pool.wind_down(worker),
            fate => self.pool.give_back(worker, fate, self.went_well),
        }
    }
}
