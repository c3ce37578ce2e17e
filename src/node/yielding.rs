//! Releases an execution's permit, its place at its worker and its share of the content in flight while its plugin waits for
//! an answer from the gateway, and takes them again before the plugin gets the answer. Otherwise, executions that wait for
//! nested calls or for users could hold all of them, and no other plugin could run.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;

use super::execution_limits::{ExecutionLimits, LimitReservation};
use super::seat_lease::LeasedPlace;
use crate::domain::plugin::Failure;
use crate::domain::ports::{Answering, Host, PluginProgress};

/// The host of one execution. It holds the execution's permit.
pub(super) struct Yielding<'a> {
    host: &'a dyn Host,
    admission: &'a ExecutionLimits,
    /// `None` if the execution keeps its place while it waits.
    place: Option<LeasedPlace>,
    content: LimitReservation,
    held: Mutex<PermitState>,
}

/// An execution's permit, and the number of answers that its plugin waits for.
struct PermitState {
    /// `None` while the plugin waits for an answer.
    permit: Option<OwnedSemaphorePermit>,
    waiting: usize,
}

impl<'a> Yielding<'a> {
    /// Wraps `host` for an execution that has this permit, content and place.
    pub(super) fn new(
        host: &'a dyn Host,
        admission: &'a ExecutionLimits,
        (permit, content, place): (OwnedSemaphorePermit, LimitReservation, Option<LeasedPlace>),
    ) -> Self {
        let held = Mutex::new(PermitState { permit: Some(permit), waiting: 0 });
        Self { host, admission, place, content, held }
    }

    fn lock(&self) -> MutexGuard<'_, PermitState> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        let mut held = self.lock();
        held.waiting += 1;
        held.permit = None;
        if let Some(place) = &self.place {
            self.content.suspend();
            place.leave();
        }
    }

    /// Called when an answer has arrived. If the plugin waits for no other answer, it will continue, so this waits for
    /// a permit before it returns. The execution's deadline also limits this wait.
    async fn end(&self) {
        let is_last = {
            let mut held = self.lock();
            held.waiting -= 1;
            held.waiting == 0
        };
        if is_last {
            let permit = self.admission.again().await;
            let mut held = self.lock();
            // The plugin may have made another request in the meantime.
            held.permit = permit.filter(|_| held.waiting == 0);
            if let Some(place) = self.place.as_ref().filter(|_| held.waiting == 0) {
                self.content.resume();
                place.take();
            }
        }
    }
}

impl Host for Yielding<'_> {
    fn progress(&self, progress: PluginProgress) {
        self.host.progress(progress);
    }

    fn call_tool<'a>(&'a self, tool: &'a str, arguments: Option<&'a RawValue>) -> Answering<'a> {
        Box::pin(async move {
            self.begin();
            let answer = self.host.call_tool(tool, arguments).await;
            self.end().await;
            answer
        })
    }

    fn callback<'a>(&'a self, op: &'a str, arguments: Option<&'a RawValue>) -> Answering<'a> {
        Box::pin(async move {
            let mut answering = self.host.callback(op, arguments);
            // Most requests of this kind wait for nobody.
            if let Some(answer) = (&mut answering).now_or_never() {
                return answer;
            }
            self.begin();
            let answer = answering.await;
            self.end().await;
            answer
        })
    }

    fn refusal(&self, reason: &str, message: &str) -> Option<Failure> {
        self.host.refusal(reason, message)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::super::execution_queue::ExecutionClient;
    use super::super::fixture::runtime;
    use super::super::process::Tasks;
    use super::*;
    use crate::domain::raw::to_raw;
    use crate::domain::upstream::Answer;

    /// Records how many permits are in use whenever a tool is called.
    struct Looks<'a> {
        admission: &'a ExecutionLimits,
        in_use: Mutex<Vec<u32>>,
    }

    impl Host for Looks<'_> {
        fn progress(&self, _: PluginProgress) {}

        fn call_tool<'a>(&'a self, _: &'a str, _: Option<&'a RawValue>) -> Answering<'a> {
            Box::pin(async {
                self.in_use.lock().unwrap().push(self.admission.load().permits_in_use);
                Answer::Result(to_raw(&0))
            })
        }
    }

    #[tokio::test]
    async fn the_permit_is_given_back_for_as_long_as_an_answer_is_waited_for() {
        let admission = ExecutionLimits::new(Tasks::here());
        admission.apply(&runtime(1, 1, 1));
        let permit = admission.permit(Instant::now(), &mut admission.place(ExecutionClient(None))).await.unwrap();
        let host = Looks { admission: &admission, in_use: Mutex::default() };
        let yielding = Yielding::new(&host, &admission, (permit, admission.content(0).unwrap(), None));
        for _ in 0..2 {
            yielding.call_tool("t", None).await;
            assert_eq!(admission.load().permits_in_use, 1, "the execution goes on");
        }
        assert_eq!(*host.in_use.lock().unwrap(), [0, 0]);
        drop(yielding);
        assert_eq!(admission.load().permits_in_use, 0);
    }
}
