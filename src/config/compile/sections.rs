//! Compiles bindings of sections: which ones the gateway takes, and whether their upstreams can be used.

use super::life_cycle::{Planned, PlannedKind, compile, in_order};
use super::takes::{Consent, shared};
use super::world::World;
use super::{FieldFault, bounds, id, is_invalid};
use crate::config::input::{Inputs, Labels, SectionInput, UpstreamInput};
use crate::config::nearest::nearest;
use crate::config::sections::document_glob;
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{GatewayTakes, Plan, Refusal, SectionPlan, Takes, UpstreamPlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// The glob of a binding whose own glob is not valid: it counts in every document.
const EVERY_DOCUMENT: &str = "**";

/// Bindings of sections to upstreams of the plan.
pub(super) struct Sections<'a> {
    pub(super) world: World<'a>,
    pub(super) upstreams: &'a [UpstreamPlan],
}

impl PlannedKind for Sections<'_> {
    type Input = SectionInput;
    type Plan = SectionPlan;
    const KIND: Kind = Kind::SectionBinding;
    const FIELD: &'static str = "sections";
    const WANTED: fn(&GatewayTakes) -> &Takes = |takes| &takes.sections;
    const WRITTEN: fn(&Inputs) -> &[SectionInput] = |inputs| &inputs.sections;
    const PLANNED: fn(&Plan) -> Vec<Planned<'_, SectionPlan>> =
        |plan| plan.sections.iter().map(|it| (&it.key, None, it)).collect();
    const REFUSED: &'static str = "No accepted form of it is known, so nothing is visible in its part of any document";

    fn about(input: &SectionInput) -> (&ObjectKey, &Labels, Consent<'_>) {
        (&input.plan.key, &input.labels, Consent::Gateways(&input.gateways))
    }

    fn accept(&self, input: &SectionInput, _: &mut Vec<Problem>) -> Result<SectionPlan, Vec<FieldFault>> {
        let plan = &input.plan;
        let glob = document_glob(&plan.glob);
        let glob = glob.map_err(|why| (Reason::InvalidPattern, "spec.document.glob".to_owned(), why));
        let checked = glob.and_then(|_| bounds::check(self.world.inputs, &id(Self::KIND, &plan.key), plan));
        checked.map(|()| plan.clone()).map_err(|fault| vec![fault])
    }

    fn accepted(before: &SectionPlan) -> Option<SectionPlan> {
        let is_wrong = before.refusing.as_ref().is_some_and(|refusal| refusal.reason == Reason::InvalidPattern);
        (!is_wrong).then(|| SectionPlan { refusing: None, ..before.clone() })
    }

    /// The form counts in every document.
    fn refusing(&self, input: &SectionInput, _: Option<&SectionPlan>, fault: &FieldFault) -> SectionPlan {
        let refusing = Some(Refusal { reason: fault.0, message: format!("{}. {}", fault.2, Self::REFUSED) });
        SectionPlan { glob: EVERY_DOCUMENT.to_owned(), refusing, ..input.plan.clone() }
    }
}

impl Sections<'_> {
    /// Returns the bindings that the gateway takes. Of equally specific ones, the first counts.
    pub(super) fn compile(&self, problems: &mut Vec<Problem>) -> Vec<SectionPlan> {
        let mut plans = in_order(compile(self, &self.world, problems));
        for plan in &mut plans {
            let refusal = self.refusal(plan, problems);
            plan.refusing = plan.refusing.take().or(refusal);
        }
        report_conflicts(&plans, problems);
        plans
    }

    /// Returns why the upstream of a binding cannot be used; `None` if it can.
    fn refusal(&self, plan: &SectionPlan, problems: &mut Vec<Problem>) -> Option<Refusal> {
        let (reason, why) = self.unusable(plan)?;
        let message = format!("{why}. Until then, nothing is visible in the section, and calls from it are refused");
        let object = id(Kind::SectionBinding, &plan.key);
        problems.push(Problem::error(reason, object, "spec.upstream", message));
        Some(Refusal { reason, message: why })
    }

    fn unusable(&self, plan: &SectionPlan) -> Option<(Reason, String)> {
        let (upstream, own) = (&plan.upstream, &plan.key.namespace);
        let input = self.world.inputs.upstreams.iter().find(|input| input.plan.key == *upstream);
        let is_known = input.is_some() || is_invalid(self.world.inputs, Kind::MCPUpstream, upstream);
        let permits =
            |input: &UpstreamInput| shared(input.share_with.as_ref(), &upstream.namespace, own, self.world.inputs);
        // An upstream that is not valid any more consents to what it consented to before; that of its own namespace is not needed.
        let mut before = self.world.previous.iter().flat_map(|before| &before.sections);
        let mut had_it = || before.any(|it| it.key == plan.key && it.upstream == *upstream && it.refusing.is_none());
        let is_served = self.upstreams.iter().any(|served| served.key == *upstream);
        // One that is not served needs no consent either. Else the next plan would give another reason.
        if is_known && !input.map_or_else(|| upstream.namespace == *own || !is_served || had_it(), permits) {
            let why = format!("{upstream} is not shared with {own}: name {own} in spec.shareWith of the upstream");
            return Some((Reason::RefNotPermitted, why));
        }
        if is_served {
            return None;
        }
        let why = match is_known {
            true => {
                format!(
                    "{} does not serve MCPUpstream {upstream}: see spec.upstreams of the gateway",
                    self.world.gateway.key
                )
            }
            false => {
                let beside = self.upstreams.iter().filter(|served| served.key.namespace == upstream.namespace);
                let near = nearest(&upstream.name, beside.map(|served| served.key.name.as_str()));
                let meant = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                format!("there is no MCPUpstream {upstream}{meant}")
            }
        };
        Some((Reason::UpstreamNotFound, why))
    }
}

/// Reports each binding that is as specific as an earlier one with the same glob, for another upstream.
fn report_conflicts(plans: &[SectionPlan], problems: &mut Vec<Problem>) {
    for (place, plan) in plans.iter().enumerate() {
        let Some(message) = plan.conflict(&plans[..place]) else { continue };
        problems.push(Problem::error(Reason::Conflicted, id(Kind::SectionBinding, &plan.key), "spec", message));
    }
}
