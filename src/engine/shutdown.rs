//! Shutting a gateway down, gracefully or immediately.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Engine;

impl Engine {
    /// Begins the shutdown: the gateway reports that it is not ready and opens no session that would end with it, but
    /// still accepts calls.
    pub fn drain(&self) {
        self.state.draining.store(true, Ordering::Release);
    }

    /// Whether the shutdown has begun.
    pub fn is_draining(&self) -> bool {
        self.state.draining.load(Ordering::Acquire)
    }

    /// Waits until no call is running, and no observer or shadow is running in the background.
    pub async fn calls_ended(&self) {
        while self.state.calls.in_flight() > 0 || self.state.background.in_flight() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Refuses new calls, and answers running ones with an error.
    pub fn end_calls(&self) {
        self.state.ended.cancel();
    }

    /// Ends every worker and connection. Running calls should have ended before.
    pub async fn shutdown(&self) {
        self.end();
        tokio::join!(self.plugins.shutdown(), self.upstreams.shutdown());
    }

    /// Like [`Self::shutdown`], but kills the child processes of upstreams instead of letting them exit.
    pub async fn abort(&self) {
        self.end();
        tokio::join!(self.plugins.shutdown(), self.upstreams.abort());
    }

    fn end(&self) {
        self.drain();
        self.end_calls();
        self.probes.stop();
    }
}
