//! The end of a gateway, in order or at once.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Engine;

impl Engine {
    /// Ends: no new calls, running ones may end, then every worker and connection is closed.
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

    /// Ends at once: calls in flight are cut off.
    pub async fn abort(&self) {
        self.state.draining.store(true, Ordering::Release);
        self.probes.stop();
        tokio::join!(self.plugins.shutdown(), self.upstreams.abort());
    }
}
