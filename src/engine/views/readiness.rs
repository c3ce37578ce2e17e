//! Whether this process is ready for calls, as `/readyz` of the admin port says.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Views;
use crate::domain::audit::AuditMode;

/// How long the first readiness waits for plugins. A plugin that never loads must not keep a gateway out of its Service:
/// tools that the plugin does not guard can be called.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why this process is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// Nothing can be called yet.
    #[error("no plan is in force yet")]
    NoPlan,
    /// Calls would wait for workers.
    #[error("plugins are still being loaded")]
    Loading,
    /// Calls would be refused.
    #[error("audit.mode is Required, and the store of the audit trail was not reached yet")]
    Unaudited,
    /// The shutdown has begun.
    #[error("this gateway is about to end")]
    Draining,
}

impl Views {
    /// Waits until the MCP endpoints have followed the plan in force. Returns at once if no task opens and closes them.
    pub async fn endpoints_followed(&self) {
        self.endpoints.settle(|| self.in_force.snapshot().plan().revision.clone()).await;
    }

    /// Checks whether this process is ready for calls. The first time, it is ready once every plugin of the plan has a
    /// worker, is stood in for by an older form that has one, or has failed to load; or 20 seconds after the first plan.
    /// Afterwards plugins do not count, because replicas load those of a new plan at the same time: all of them would
    /// leave their Service at once. If the audit trail is required, its store must have been reached once too: until then
    /// every call is refused, while pods of a rollout that are not replaced yet may serve them.
    ///
    /// # Errors
    /// Why the process is not ready.
    pub fn readiness(&self) -> Result<(), NotReady> {
        let Some(since) = self.in_force.since.get() else { return Err(NotReady::NoPlan) };
        if self.gate.is_draining() {
            return Err(NotReady::Draining);
        }
        if self.was_ready.load(Ordering::Acquire) {
            return Ok(());
        }
        let late = self.loads.unserved_plugins();
        if !late.is_empty() && self.clock.monotonic().saturating_sub(*since) < PATIENCE {
            return Err(NotReady::Loading);
        }
        let is_required = self.in_force.snapshot().plan().gateway.audit == AuditMode::Required;
        if is_required && self.audit.port.as_ref().is_some_and(|audit| !audit.is_ready()) {
            return Err(NotReady::Unaudited);
        }
        // Of requests at the same time, only one logs.
        if !self.was_ready.swap(true, Ordering::AcqRel) && !late.is_empty() {
            let plugins: Vec<_> = late.iter().map(ToString::to_string).collect();
            let plugins = plugins.join(", ");
            tracing::warn!(plugins, "ready, although these plugins are not loaded yet");
        }
        Ok(())
    }
}
