//! Asks the rules of the gateway about a call: before its request chains, and again if something changed what is sent.

use super::cause::Cause;
use super::outcome::{CallEnd, Denial, DenialKind};
use super::recorder::CallRecorder;
use super::routed_call::Routed;
use crate::config::access::authorize::{CallContent, Decision, Rule};
use crate::domain::plan::RulePlan;
use crate::domain::reason::Reason;
use crate::domain::record::CallOutcome;
use crate::domain::rpc::RpcError;
use crate::domain::upstream::OutMembers;
use crate::engine::Engine;
use crate::engine::plan::snapshot::Lookup;
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

impl Engine {
    /// Returns the end of a call that the rules do not allow.
    pub(super) fn denied(&self, call: &Routed<'_>, recorder: &mut CallRecorder) -> Option<CallEnd> {
        let end = self.denied_with(call, &call.content, "received")?;
        recorder.routed(&call.facts.upstream, &call.facts.shown);
        Some(end)
    }

    /// Returns the end of a call that the rules do not allow as it would be sent.
    pub(super) fn denied_as_sent(&self, call: &Routed<'_>, sent: &OutMembers) -> Option<CallEnd> {
        call.snapshot.linked.rules.as_ref().filter(|rules| rules.read_calls())?;
        let content = call.as_content(sent);
        if content == call.content { None } else { self.denied_with(call, &content, "changed") }
    }

    /// `stage` is that of the call, for metrics.
    fn denied_with(&self, call: &Routed<'_>, content: &str, stage: &str) -> Option<CallEnd> {
        call.snapshot.linked.rules.as_ref()?;
        let request = call.request;
        let user_query = call.facts.user_query.as_deref().unwrap_or_default();
        let of_call = CallContent { content, user_query, max_tokens: call.facts.max_tokens.unwrap_or(0) };
        let decision = call.snapshot.decide(request.caller, call.route, of_call);
        let (effect, rule) = decision.effect();
        self.metrics.access.decided(stage, effect, rule.map_or("", |rule| &rule.plan.name));
        match decision {
            Decision::Allowed(_) => None,
            Decision::Unscoped(rule) => Some(unscoped(&rule.plan)),
            Decision::Denied(rule) => {
                let cause = rule.map(|rule| Cause::rule(&rule.plan)).unwrap_or_default();
                Some(CallEnd { cause, ..self.refused(request.kind, by_rule(rule)) })
            }
            Decision::Unknown => {
                let end = self.not_found(call.snapshot, request.item(), request.caller.era, &Lookup::Unknown);
                Some(CallEnd { reason: Some(Reason::NotAuthorized.to_string()), ..end })
            }
        }
    }
}
