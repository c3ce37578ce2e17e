//! The calls in flight, and those that ended last.

pub mod invocation;
mod open_questions;
pub mod parked_call;
pub mod pending_call;
pub mod requests;
pub mod run;
pub mod run_task;
pub mod run_view;
pub mod table;

use self::invocation::InvocationEntry;
use self::parked_call::ParkedCall;
use self::requests::Requests;
use self::run::RunEntry;
use self::run_task::RunTask;
use self::table::{Limits, Table};
use crate::domain::question::Question;
use crate::domain::upstream::Answer;

/// The number of invocations that are kept.
pub const MAX_INVOCATIONS: usize = 1000;
/// The number of runs that are kept, unless more are in progress.
pub const MAX_RUNS: usize = 500;
/// The maximum number of calls that are parked, and that of runs which go on as tasks.
const MAX_PARKED: usize = 256;

/// The calls in flight of this process, and those that ended last.
pub struct InFlight {
    /// All calls, by their ids.
    pub(in crate::engine) requests: Requests,
    /// Invocations, by their ids.
    pub invocations: Table<String, InvocationEntry>,
    /// Runs of pipelines, by the ids of their calls.
    pub runs: Table<String, RunEntry>,
    /// Calls that wait for the client to send them once more with the input that their server asked for, by handle.
    pub parked: Table<u64, ParkedCall>,
    /// Runs of pipelines that go on as tasks, by handle.
    pub tasks: Table<u64, RunTask>,
}

impl Default for InFlight {
    fn default() -> Self {
        let any = Limits { in_progress: usize::MAX, total: usize::MAX, ended: usize::MAX, ended_bytes: u64::MAX };
        let invocations = Limits { in_progress: MAX_INVOCATIONS, total: MAX_INVOCATIONS, ended_bytes: 32 << 20, ..any };
        let tasks = Limits { in_progress: MAX_PARKED, ended: 1024, ended_bytes: 16 << 20, ..any };
        Self {
            requests: Requests::default(),
            invocations: Table::new(invocations),
            runs: Table::new(Limits { total: MAX_RUNS, ..any }),
            parked: Table::new(Limits { in_progress: MAX_PARKED, ..any }),
            tasks: Table::new(tasks),
        }
    }
}

impl InFlight {
    /// Cancels the calls that were parked for too long, and removes the tasks that are not kept any more. `now` is in
    /// Unix milliseconds.
    pub fn expire(&self, now: u64) {
        self.parked.expire(now);
        self.tasks.expire(now);
    }

    /// Cancels all calls whose clients would have to come back, and keeps no further ones: the process is about to end.
    pub fn close(&self) {
        self.parked.close();
        self.tasks.close();
    }

    /// Waits for the answer to a question of this call: that of its client, or, if the call is a run, that of
    /// [`RunEntry::answer`], whichever is first.
    pub(in crate::engine) async fn asked(
        &self,
        call: &str,
        question: &Question,
        client: impl Future<Output = Answer>,
    ) -> Answer {
        let answered = self.runs.find(call).and_then(|entry| entry.ask(question));
        let Some(answered) = answered else { return client.await };
        tokio::select! {
            answer = client => answer,
            Ok(answer) = answered => answer,
        }
    }
}
