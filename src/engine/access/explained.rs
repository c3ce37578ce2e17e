//! Explains what the rules of a gateway mean for a client and an item, without a call.

use schemars::JsonSchema;
use serde::Serialize;

use crate::config::access::authorize::{AccessRequest, Decision, Outcome, Rule, Rules};

/// What the rules mean for a client.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessExplanation {
    /// The subject of the client.
    pub subject: String,
    /// Whether the client may use the item; absent if that depends on the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<bool>,
    /// The decision in words, with the rule that decides.
    pub decision: String,
    /// All rules in their order.
    pub rules: Vec<RuleExplanation>,
}

/// What one rule means for a client.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleExplanation {
    /// The name of the rule.
    pub rule: String,
    /// `Allow` or `Deny`.
    pub effect: String,
    /// Whether the rule applies, in words.
    pub outcome: String,
}

impl Rules {
    /// Explains a request. If it has a call, the decision is that of [`Self::decide`].
    pub(crate) fn explain(&self, request: &AccessRequest<'_>) -> AccessExplanation {
        let outcomes: Vec<_> = self.all().iter().map(|rule| (rule, rule.outcome(request))).collect();
        let explained = outcomes.iter().map(|(rule, outcome)| RuleExplanation {
            rule: rule.plan.name.clone(),
            effect: if rule.plan.denies { "Deny" } else { "Allow" }.to_owned(),
            outcome: words(rule, *outcome, request),
        });
        let (allowed, decision) = match &request.call {
            Some(_) => of_call(self.decide(request)),
            None => self.decision(&outcomes, request),
        };
        AccessExplanation { subject: request.identity.subject.clone(), rules: explained.collect(), allowed, decision }
    }

    /// Returns whether the item is allowed, if that is known without a call, and the decision in words.
    fn decision(&self, outcomes: &[(&Rule, Outcome)], request: &AccessRequest<'_>) -> (Option<bool>, String) {
        let named = |denies: bool, wanted: &dyn Fn(&Rule, Outcome) -> bool| {
            let found = outcomes.iter().find(|(rule, outcome)| rule.plan.denies == denies && wanted(rule, *outcome));
            found.map(|(rule, _)| *rule)
        };
        let is_undecided = |_: &Rule, outcome: Outcome| outcome == Outcome::Undecided;
        if let Some(rule) = named(true, &|_, outcome| matches!(outcome, Outcome::Holds | Outcome::Failed)) {
            return (Some(false), format!("denied by the rule {}", rule.plan.name));
        }
        let allowing =
            match named(false, &|rule, outcome| outcome == Outcome::Holds && rule.has_scopes(request.identity)) {
                _ if self.allow_by_default() => Some("allowed by default".to_owned()),
                Some(rule) => Some(format!("allowed by the rule {}", rule.plan.name)),
                None => None,
            };
        let unscoped = || named(false, &|_, outcome| outcome == Outcome::Holds);
        match (allowing, named(true, &is_undecided)) {
            (Some(allowed), None) => (Some(true), allowed),
            (Some(allowed), Some(rule)) => {
                (None, format!("{allowed}, unless the rule {} denies the call", rule.plan.name))
            }
            (None, _) => match (named(false, &is_undecided), unscoped()) {
                (Some(rule), _) => (None, format!("listed; the rule {} decides at the call", rule.plan.name)),
                (None, Some(rule)) => (Some(false), needs_scopes(rule)),
                (None, None) => (Some(false), UNKNOWN.to_owned()),
            },
        }
    }
}

/// Returns whether a call is allowed, and the decision in words.
fn of_call(decision: Decision<'_>) -> (Option<bool>, String) {
    let words = match decision {
        Decision::Allowed(Some(rule)) => format!("allowed by the rule {}", rule.plan.name),
        Decision::Allowed(None) => "allowed by default".to_owned(),
        Decision::Denied(Some(rule)) => format!("denied by the rule {}", rule.plan.name),
        Decision::Denied(None) => "denied: no rule allows the call".to_owned(),
        Decision::Unscoped(rule) => needs_scopes(rule),
        Decision::Unknown => UNKNOWN.to_owned(),
    };
    (Some(matches!(decision, Decision::Allowed(_))), words)
}

/// The decision about an item that the client does not see.
const UNKNOWN: &str = "unknown to the client: no rule allows it";

fn needs_scopes(rule: &Rule) -> String {
    format!("refused: the rule {} needs the scopes {}", rule.plan.name, rule.plan.scopes.join(" "))
}

fn words(rule: &Rule, outcome: Outcome, request: &AccessRequest<'_>) -> String {
    match outcome {
        Outcome::Holds if !rule.has_scopes(request.identity) => format!("lacks scopes: {}", rule.plan.scopes.join(" ")),
        Outcome::Holds => "applies".to_owned(),
        Outcome::HoldsNot => "does not apply".to_owned(),
        Outcome::Failed if rule.plan.denies => "applies, because its condition cannot be evaluated".to_owned(),
        Outcome::Failed => "does not apply, because its condition cannot be evaluated".to_owned(),
        Outcome::Undecided => "reads the call, which decides".to_owned(),
    }
}
