//! The ends of calls that the rules of the gateway do not allow.

use super::cause::Cause;
use super::ends::CallEnds;
use super::outcome::{CallEnd, Denial, DenialKind};
use super::routed_call::Routed;
use crate::config::access::authorize::{Decision, Rule};
use crate::domain::plan::RulePlan;
use crate::domain::reason::Reason;
use crate::domain::record::CallOutcome;
use crate::domain::rpc::RpcError;
use crate::engine::plan::snapshot::{Lookup, Snapshot};
use crate::engine::request::Reply;

/// Returns the denial of a call by a rule, or because none allows it.
fn by_rule(rule: Option<&Rule>) -> Denial {
    let text = rule.map_or_else(|| "No rule of this gateway allows this call.".to_owned(), Rule::message);
    let kind = DenialKind::Unauthorized(rule.map(|rule| rule.plan.name.clone()));
    Denial { kind, chain: None, plugin: None, text }
}

/// Returns the end of a call that a rule would allow if the client's token had its scopes.
fn unscoped(rule: &RulePlan) -> CallEnd {
    let scopes = &rule.scopes;
    let message = format!("the token lacks a scope that this call needs: {}", scopes.join(" "));
    let error = RpcError::refused(Reason::InsufficientScope, message);
    let error = RpcError { scopes: scopes.clone(), ..error };
    let end = CallEnd::new(Reply::Error(error), CallOutcome::Denied, Reason::InsufficientScope);
    CallEnd { cause: Cause::rule(rule), ..end }
}

impl CallEnds {
    /// Returns the end of a call that the rules do not allow with this content. `stage` is that of the call, for metrics.
    pub(in crate::engine) fn denied_with(&self, call: &Routed<'_>, content: &str, stage: &str) -> Option<CallEnd> {
        call.snapshot.linked.rules.as_ref()?;
        let decision = call.snapshot.decide(call.request.caller, call.route, call.access_content(content));
        self.not_allowed(call, call.snapshot, decision, stage)
    }

    /// Counts a decision of the rules of `snapshot`, and returns the end of a call that it does not allow. `stage` is that of the
    /// call, for metrics.
    pub(in crate::engine) fn not_allowed(
        &self,
        call: &Routed<'_>,
        snapshot: &Snapshot,
        decision: Decision<'_>,
        stage: &str,
    ) -> Option<CallEnd> {
        let request = call.request;
        let (effect, rule) = decision.effect();
        self.metrics.access.decided(stage, effect, rule.map_or("", |rule| &rule.plan.name));
        match decision {
            Decision::Allowed(_) => None,
            Decision::Unscoped(rule) => Some(unscoped(&rule.plan)),
            Decision::Denied(rule) => {
                let cause = rule.and_then(|rule| Cause::rule(&rule.plan));
                Some(CallEnd { cause, ..self.refused(request.kind, by_rule(rule)) })
            }
            Decision::Unknown => {
                let end = self.not_there(snapshot, request, call.meta, &Lookup::Unknown);
                Some(CallEnd { reason: Some(Reason::NotAuthorized.to_string()), ..end })
            }
        }
    }
}
