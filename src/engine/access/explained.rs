//! Explains what the rules of a gateway mean for a client and an item, without a call.

use schemars::JsonSchema;
use serde::Serialize;

use crate::config::access::authorize::{AccessRequest, Outcome, Rule, Rules};

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
    /// Explains a request that has no call.
    pub(crate) fn explain(&self, request: &AccessRequest<'_>) -> AccessExplanation {
        let outcomes: Vec<_> = self.all().iter().map(|rule| (rule, rule.outcome(request))).collect();
        let explained = outcomes.iter().map(|(rule, outcome)| RuleExplanation {
            rule: rule.plan.name.clone(),
            effect: if rule.plan.denies { "Deny" } else { "Allow" }.to_owned(),
            outcome: words(rule, *outcome, request),
        });
        let (allowed, decision) = self.decision(&outcomes, request);
        AccessExplanation { subject: request.identity.subject.clone(), rules: explained.collect(), allowed, decision }
    }

    /// Returns whether the item is allowed, if that is known without a call, and the decision in words.
    fn decision(&self, outcomes: &[(&Rule, Outcome)], request: &AccessRequest<'_>) -> (Option<bool>, String) {
        let named = |denies: bool, wanted: &dyn Fn(&Rule, Outcome) -> bool| {
            let found = outcomes.iter().find(|(rule, outcome)| rule.plan.denies == denies && wanted(rule, *outcome));
            found.map(|(rule, _)| &rule.plan)
        };
        let is_undecided = |_: &Rule, outcome: Outcome| outcome == Outcome::Undecided;
        if let Some(rule) = named(true, &|_, outcome| matches!(outcome, Outcome::Holds | Outcome::Failed)) {
            return (Some(false), format!("denied by the rule {}", rule.name));
        }
        let allowing =
            match named(false, &|rule, outcome| outcome == Outcome::Holds && rule.has_scopes(request.identity)) {
                _ if self.allow_by_default() => Some("allowed by default".to_owned()),
                Some(rule) => Some(format!("allowed by the rule {}", rule.name)),
                None => None,
            };
        let unscoped = || named(false, &|_, outcome| outcome == Outcome::Holds);
        match (allowing, named(true, &is_undecided)) {
            (Some(allowed), None) => (Some(true), allowed),
            (Some(allowed), Some(rule)) => (None, format!("{allowed}, unless the rule {} denies the call", rule.name)),
            (None, _) => match (named(false, &is_undecided), unscoped()) {
                (Some(rule), _) => (None, format!("listed; the rule {} decides at the call", rule.name)),
                (None, Some(rule)) => {
                    (Some(false), format!("refused: the rule {} needs the scopes {}", rule.name, rule.scopes.join(" ")))
                }
                (None, None) => (Some(false), "unknown to the client: no rule allows it".to_owned()),
            },
        }
    }
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
