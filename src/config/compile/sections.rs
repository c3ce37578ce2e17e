//! Compiles bindings of sections: which ones the gateway takes, and whether their upstreams can be used.

use super::takes::{by_both, includes, shared, takes};
use super::{FieldFault, bounds, id, is_invalid};
use crate::config::input::{Inputs, SectionInput, UpstreamInput};
use crate::config::nearest::nearest;
use crate::config::sections::document_glob;
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{GatewayTakes, Plan, Refusal, SectionPlan, Takes, UpstreamPlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// The glob of a binding whose own glob is not valid: it counts in every document.
const EVERY_DOCUMENT: &str = "**";

/// What bindings are compiled for.
struct SectionContext<'a> {
    inputs: &'a Inputs,
    previous: Option<&'a Plan>,
    gateway: &'a ObjectKey,
    /// Bindings that the gateway takes; `None` means all.
    takes: Option<&'a Takes>,
    upstreams: &'a [UpstreamPlan],
}

/// Returns the bindings that the gateway takes; `takes` decides which. Of equally specific ones, the first counts.
pub(super) fn compile(
    inputs: &Inputs,
    previous: Option<&Plan>,
    gateway: &ObjectKey,
    takes: Option<&GatewayTakes>,
    upstreams: &[UpstreamPlan],
    problems: &mut Vec<Problem>,
) -> Vec<SectionPlan> {
    let takes = takes.map(|takes| &takes.sections);
    let context = SectionContext { inputs, previous, gateway, takes, upstreams };
    let mut plans = Vec::new();
    for section in &context.inputs.sections {
        if context.is_taken(section, problems) {
            plans.push(context.compile_one(section, problems));
        }
    }
    // A binding that is not valid any more keeps its form and its place, if the gateway still takes it.
    let before = context.previous.iter().flat_map(|plan| plan.sections.iter().enumerate());
    for (place, kept) in before.filter(|(_, kept)| context.keeps(kept)) {
        plans.insert(place.min(plans.len()), accepted(kept));
    }
    for plan in &mut plans {
        let refusal = context.refusal(plan, problems);
        plan.refusing = plan.refusing.take().or(refusal);
    }
    report_conflicts(&plans, problems);
    plans
}

impl SectionContext<'_> {
    fn is_taken(&self, section: &SectionInput, problems: &mut Vec<Problem>) -> bool {
        let (Some(wanted), key) = (self.takes, &section.plan.key) else { return true };
        let taken = takes(wanted, &self.gateway.namespace, &key.namespace, &section.labels, self.inputs);
        by_both((self.gateway, taken, "spec.sections"), id(Kind::SectionBinding, key), &section.gateways, problems)
    }

    /// Whether the binding is invalid now, and the gateway still takes its namespace. A mistake can be in its labels.
    fn keeps(&self, kept: &SectionPlan) -> bool {
        let (own, namespace) = (&self.gateway.namespace, &kept.key.namespace);
        let keeps = |wanted: &Takes| includes(&wanted.namespaces, own, namespace, self.inputs);
        is_invalid(self.inputs, Kind::SectionBinding, &kept.key) && self.takes.is_none_or(keeps)
    }

    /// Returns the binding as written; if that is not accepted, its last accepted form; if there is none, a form that
    /// refuses calls from its part of every document.
    fn compile_one(&self, section: &SectionInput, problems: &mut Vec<Problem>) -> SectionPlan {
        let plan = &section.plan;
        let (reason, field, mut message) = match self.accept(plan) {
            Ok(()) => return plan.clone(),
            Err(fault) => fault,
        };
        let before = self.previous.iter().flat_map(|before| &before.sections).find(|before| before.key == plan.key);
        let form = match before.map(accepted).filter(|before| before.refusing.is_none()) {
            Some(before) => {
                message.push_str(". The last accepted form runs on");
                before
            }
            None => {
                message
                    .push_str(". No accepted form of it is known, so nothing is visible in its part of any document");
                let refusing = Some(Refusal { reason, message: message.clone() });
                SectionPlan { glob: EVERY_DOCUMENT.to_owned(), refusing, ..plan.clone() }
            }
        };
        problems.push(Problem::error(reason, id(Kind::SectionBinding, &plan.key), field, message));
        form
    }

    fn accept(&self, plan: &SectionPlan) -> Result<(), FieldFault> {
        document_glob(&plan.glob).map_err(|why| (Reason::InvalidPattern, "spec.document.glob".to_owned(), why))?;
        bounds::check(self.inputs, &id(Kind::SectionBinding, &plan.key), plan)
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
        let input = self.inputs.upstreams.iter().find(|input| input.plan.key == *upstream);
        let is_known = input.is_some() || is_invalid(self.inputs, Kind::MCPUpstream, upstream);
        let permits = |input: &UpstreamInput| shared(input.share_with.as_ref(), &upstream.namespace, own, self.inputs);
        // An upstream that is not valid any more consents to what it consented to before; that of its own namespace is not needed.
        let mut before = self.previous.iter().flat_map(|before| &before.sections);
        let mut had_it = || before.any(|it| it.key == plan.key && it.upstream == *upstream && it.refusing.is_none());
        if is_known && !input.map_or_else(|| upstream.namespace == *own || had_it(), permits) {
            let why = format!("{upstream} is not shared with {own}: name {own} in spec.shareWith of the upstream");
            return Some((Reason::RefNotPermitted, why));
        }
        if self.upstreams.iter().any(|served| served.key == *upstream) {
            return None;
        }
        let why = match is_known {
            true => {
                format!("{} does not serve MCPUpstream {upstream}: see spec.upstreams of the gateway", self.gateway)
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

/// Returns an earlier form without what it was refused for then, unless it was never accepted.
fn accepted(before: &SectionPlan) -> SectionPlan {
    let is_wrong = |refusal: &Refusal| refusal.reason == Reason::InvalidPattern;
    SectionPlan { refusing: before.refusing.clone().filter(is_wrong), ..before.clone() }
}

/// Reports each binding that is as specific as an earlier one with the same glob, for another upstream.
fn report_conflicts(plans: &[SectionPlan], problems: &mut Vec<Problem>) {
    for (place, plan) in plans.iter().enumerate() {
        let Some(message) = plan.conflict(&plans[..place]) else { continue };
        problems.push(Problem::error(Reason::Conflicted, id(Kind::SectionBinding, &plan.key), "spec", message));
    }
}
