//! Shutting a gateway down, gracefully or immediately.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Engine;

impl Engine {
    /// Shuts down gracefully: refuses new calls, waits up to `patience` for running ones, then ends every worker and
    /// connection.
    pub async fn shutdown(&self, patience: Duration) {
        self.state.draining.store(true, Ordering::Release);
        self.probes.stop();
        let calls_end = async {
            while self.state.calls.in_flight() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = tokio::time::timeout(patience, calls_end).await;
        tokio::join!(self.plugins.shutdown(), self.upstreams.shutdown());
    }

    /// Shuts down immediately, aborting calls in flight.
    pub async fn abort(&self) {
        self.state.draining.store(true, Ordering::Release);
        self.probes.stop();
        tokio::join!(self.plugins.shutdown(), self.upstreams.abort());
    }
}
