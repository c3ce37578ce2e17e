//! Shutting a gateway down, gracefully or immediately.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::admission::Counted;
use super::gate::Gate;

impl Gate {
    /// Begins the shutdown: the gateway reports that it is not ready and opens no session that would end with it, but
    /// still accepts calls.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether the shutdown has begun.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Runs `work` in a task of its own, which goes on where the request that began it is gone. The shutdown waits for it as
    /// for a call. The task returns `None` if it was ended like one. The caller bounds the number of such tasks.
    pub fn run_detached<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        let (gate, counted) = (Arc::clone(self), Counted::enter(&self.detached, None, None));
        tokio::spawn(async move {
            let _counted = counted;
            tokio::select! {
                biased;
                done = work => Some(done),
                () = gate.ended.cancelled() => None,
            }
        })
    }

    /// Whether clients have calls or sessions here, or can come from another replica.
    pub fn may_have_clients(&self) -> bool {
        self.calls.in_flight() > 0 || self.sessions().count() > 0 || self.sessions().is_shared()
    }

    /// Waits until no call is running, no observer or shadow is running in the background, and no task that goes on without
    /// its request.
    pub async fn calls_ended(&self) {
        let running = [&self.calls, &self.background, &self.detached];
        while running.iter().any(|running| running.in_flight() > 0) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Refuses new calls, and answers running ones with an error.
    pub fn end_calls(&self) {
        self.ended.cancel();
    }
}
