//! The audit trail as the engine writes it: rows of calls, of the admin API and of plans.

use std::sync::Arc;

use crate::domain::audit::{AuditAdmin, AuditError, AuditMode, AuditRow};
use crate::domain::plan::{Plan, UpstreamPlan};
use crate::domain::ports::{Audit, Clock};
use crate::engine::plan::in_force::InForce;

/// Writes rows by the mode of the gateway in force.
pub struct AuditTrail {
    /// The store of the trail; `None` if there is none.
    pub(in crate::engine) port: Option<Arc<dyn Audit>>,
    pub(in crate::engine) in_force: Arc<InForce>,
    pub(in crate::engine) clock: Arc<dyn Clock>,
}

impl AuditTrail {
    /// The mode of the gateway; `Off` if there is no store and none is required.
    pub(in crate::engine) fn mode(&self) -> AuditMode {
        match self.in_force.snapshot().plan().gateway.audit {
            AuditMode::BestEffort if !self.port.as_ref().is_some_and(|audit| audit.is_open()) => AuditMode::Off,
            mode => mode,
        }
    }

    /// Queues a row now. The future waits until it is stored, if the mode is Required.
    pub(in crate::engine) fn queue(
        &self,
        mode: AuditMode,
        row: AuditRow,
    ) -> impl Future<Output = Result<(), AuditError>> + use<> {
        let required = match &self.port {
            None => Some(None),
            Some(audit) if mode == AuditMode::Required => Some(Some(audit.store(row))),
            Some(audit) => {
                audit.record(row);
                None
            }
        };
        async move {
            match required {
                None => Ok(()),
                Some(None) => Err(AuditError::NoStore),
                Some(Some(stored)) => stored.await,
            }
        }
    }

    /// Adds a row about a change apart from calls. It is queued when this returns; the future waits until it is stored if the
    /// mode is Required. The change is made in any case: an operator must be able to stop a gateway whose store is down.
    pub(crate) fn admin(&self, row: AuditAdmin) -> impl Future<Output = ()> + use<> {
        let mode = self.mode();
        let action = row.action;
        let stored = (mode != AuditMode::Off).then(|| self.queue(mode, AuditRow::Admin(row)));
        async move {
            if let Some(stored) = stored
                && let Err(why) = stored.await
            {
                tracing::warn!(action, "an action of the admin API is not in the audit trail: {why}");
            }
        }
    }

    /// Adds rows about what a new plan does as an operator does it by the admin API.
    pub(crate) fn plan_changes(&self, before: &Plan, plan: &Plan) {
        let row = |action, via, target| AuditAdmin {
            at: self.clock.unix_millis(),
            action,
            by: plan.revision.clone(),
            method: "plan",
            issuer: String::new(),
            via,
            address: None,
            target,
            outcome: "done",
        };
        let gateway = &plan.gateway;
        let switched = (before.gateway.stopped != gateway.stopped).then(|| {
            let action = if gateway.stopped { "stop" } else { "resume" };
            row(action, "spec.stopped", format!("gateway {}", gateway.key))
        });
        let was_other = |new: &UpstreamPlan| {
            new.enable.is_some() && before.upstreams.iter().any(|old| old.key == new.key && old.enable != new.enable)
        };
        let enabled = plan.upstreams.iter().filter(|upstream| was_other(upstream));
        let enabled = enabled.map(|it| row("enable", "hawsepipe.dev/enable", format!("upstream {}", it.key)));
        // A plan does not wait for the store.
        switched.into_iter().chain(enabled).for_each(|row| drop(self.admin(row)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;

    use super::*;
    use crate::domain::audit::AuditTotals;
    use crate::engine::tests::Time;

    /// A store that is open, and that stores what it has to if this is set.
    #[derive(Default)]
    struct Store {
        stores: AtomicBool,
        rows: Mutex<Vec<&'static str>>,
    }

    impl Audit for Store {
        fn is_open(&self) -> bool {
            true
        }

        fn is_ready(&self) -> bool {
            true
        }

        fn record(&self, _: AuditRow) {
            self.rows.lock().unwrap().push("recorded");
        }

        fn store(&self, _: AuditRow) -> BoxFuture<'static, Result<(), AuditError>> {
            self.rows.lock().unwrap().push("stored");
            let stored = self.stores.load(Ordering::Relaxed);
            let result = if stored { Ok(()) } else { Err(AuditError::Store("down".into())) };
            Box::pin(std::future::ready(result))
        }

        fn totals(&self) -> AuditTotals {
            AuditTotals::default()
        }
    }

    fn trail(port: Option<Arc<dyn Audit>>) -> AuditTrail {
        AuditTrail { port, in_force: Arc::new(InForce::new(Arc::default())), clock: Time::start() }
    }

    fn row() -> AuditRow {
        AuditRow::Admin(AuditAdmin {
            at: 0,
            action: "stop",
            by: String::new(),
            method: "plan",
            issuer: String::new(),
            via: "spec.stopped",
            address: None,
            target: String::new(),
            outcome: "done",
        })
    }

    #[test]
    fn only_a_required_row_is_waited_for() {
        let store = Arc::new(Store::default());
        let trail = trail(Some(Arc::clone(&store) as _));
        let queued = |mode| trail.queue(mode, row()).now_or_never().unwrap();
        assert_eq!(queued(AuditMode::BestEffort), Ok(()));
        assert!(matches!(queued(AuditMode::Required), Err(AuditError::Store(_))));
        store.stores.store(true, Ordering::Relaxed);
        assert_eq!(queued(AuditMode::Required), Ok(()));
        assert_eq!(*store.rows.lock().unwrap(), ["recorded", "stored", "stored"]);
    }

    #[test]
    fn without_a_store_a_required_row_is_an_error_and_other_modes_are_off() {
        let trail = trail(None);
        assert_eq!(trail.queue(AuditMode::Required, row()).now_or_never(), Some(Err(AuditError::NoStore)));
        assert_eq!(trail.mode(), AuditMode::Off);
    }
}
