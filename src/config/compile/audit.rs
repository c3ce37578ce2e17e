//! Checks the settings of the audit trail.

use crate::domain::audit::AuditMode;
use crate::domain::ids::Kind;
use crate::domain::plan::GatewayPlan;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Warns of a gateway that cannot store the rows which it requires.
pub(super) fn check(gateway: &GatewayPlan, problems: &mut Vec<Problem>) {
    if gateway.audit == AuditMode::Required && gateway.history.store.is_none() {
        let message = "Required needs a store, and spec.history.store is not set: every call is refused, unless the gateway is \
                       started with --store";
        let object = super::id(Kind::MCPGateway, &gateway.key);
        problems.push(Problem::warning(Reason::AuditUnavailable, object, "spec.audit.mode", message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::compile::tests::folder;
    use crate::domain::plan::{HistoryPlan, StorePlan};

    #[test]
    fn required_rows_need_a_store() {
        let mut gateway = super::super::implicit(&folder());
        let embedded = Some(StorePlan::Embedded { max_size: HistoryPlan::MAX_SIZE });
        for (mode, store, warns) in [
            (AuditMode::Required, None, true),
            (AuditMode::Required, embedded, false),
            (AuditMode::BestEffort, None, false),
            (AuditMode::Off, None, false),
        ] {
            (gateway.audit, gateway.history.store) = (mode, store);
            let mut problems = Vec::new();
            check(&gateway, &mut problems);
            let found: Vec<_> = problems.iter().map(|problem| (problem.is_error(), &*problem.field)).collect();
            assert_eq!(found == [(false, "spec.audit.mode")], warns, "{mode:?} {found:?}");
        }
    }
}
