//! How servers are reached while a Secret that an edit names is not there yet. A pod gets the files of such a Secret only when it
//! is replaced, and until then its calls go on as before.

use super::link::LinkedUpstream;
use super::secret_values::missing_value;
use crate::domain::ids::ObjectId;
use crate::domain::plan::{PhasePluginPlan, Plan, TransportPlan, UpstreamPlan};
use crate::domain::ports::Secrets;
use crate::domain::problem::Problem;

/// Leaves the connections of `running` as they are where those of `plan` need values that are not there. Everything else of an
/// upstream is as the plan has it, such as the tools that it offers. Returns a Problem for each of these upstreams.
pub(in crate::engine) fn keep_connections(
    plan: &mut Plan,
    running: &[LinkedUpstream],
    secrets: &impl Secrets,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for upstream in plan.upstreams.iter_mut().filter(|upstream| upstream.enabled && upstream.refusing.is_none()) {
        let before = running.iter().find(|known| known.target.plan.key == upstream.key);
        let Some(before) = before.filter(|before| before.refusing.is_none()).map(|before| &before.target.plan) else {
            continue;
        };
        if !can_stay(before, upstream) || missing_value(&before.transport, secrets).is_some() {
            continue;
        }
        let Some((missing, field)) = missing_value(&upstream.transport, secrets) else { continue };
        let object = ObjectId::new(upstream.kind(), upstream.key.clone());
        let message = format!("{}; until then, the gateway goes on as before this change", missing.message);
        problems.push(Problem::error(missing.reason, object, field, message));
        upstream.transport = before.transport.clone();
        (upstream.era, upstream.http_transport) = (before.era, before.http_transport);
    }
    problems
}

/// Whether an upstream can go on with the transport that it had. A pipeline can only if clients see the same tool, because another
/// object can have its former name, and if no plugin of its former steps is gone: nobody checks their consent any more.
fn can_stay(before: &UpstreamPlan, now: &UpstreamPlan) -> bool {
    before.enabled
        && before.transport != now.transport
        && match (&before.transport, &now.transport) {
            (TransportPlan::Pipeline(before), TransportPlan::Pipeline(now)) => {
                let stays = |step: &PhasePluginPlan| now.plugins().any(|other| other.key == step.key);
                let helps = |helper: &PhasePluginPlan| now.helpers.iter().any(|other| other.key == helper.key);
                before.definition == now.definition && before.plugins().all(stays) && before.helpers.iter().all(helps)
            }
            (TransportPlan::Pipeline(_), _) | (_, TransportPlan::Pipeline(_)) => false,
            _ => true,
        }
}
