//! Decides what a client may do, by the rules of the gateway (`spec.authorization`): the only place that does.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::condition_values::{arguments, identity, tool, upstream};
use crate::config::expr::{Expression, SharedValue, SharedVariables, Val};
use crate::config::variables::OF_RULES;
use crate::domain::identity::Identity;
use crate::domain::ids::ObjectKey;
use crate::domain::item::Item;
use crate::domain::method::Method;
use crate::domain::plan::{AuthorizationPlan, RulePlan};

/// The members of `call` that only a call has: in a list, they are not known.
const OF_CALLS: [&str; 3] = ["arguments", "userQuery", "maxTokens"];

/// The rules of a gateway.
pub(crate) struct Rules {
    allows_by_default: bool,
    rules: Vec<Rule>,
}

/// A compiled rule.
pub(crate) struct Rule {
    pub(crate) plan: RulePlan,
    /// `None` if this version does not accept the condition, which then counts as one that fails.
    when: Option<Expression>,
    /// Whether the condition reads what only a call has.
    reads_call: bool,
}

/// What the rules are asked about: an item, and who uses it.
pub(crate) struct AccessRequest<'a> {
    pub(crate) identity: &'a Identity,
    /// The id of the session; empty if there is none.
    pub(crate) session: &'a str,
    pub(crate) item: &'a Item,
    /// The name of the item on the endpoint for all upstreams.
    pub(crate) name: Cow<'a, str>,
    pub(crate) upstream: &'a ObjectKey,
    pub(crate) labels: &'a BTreeMap<String, String>,
    /// The method of the call, also if the question is whether the item is listed.
    pub(crate) method: Method,
    /// `None` if the question is whether the item is listed.
    pub(crate) call: Option<CallContent<'a>>,
    pub(crate) values: RequestValues,
}

/// What only a call has.
#[derive(Clone, Copy)]
pub(crate) struct CallContent<'a> {
    /// The content of the request phase.
    pub(crate) content: &'a str,
    pub(crate) user_query: &'a str,
    pub(crate) max_tokens: u32,
}

/// What the rules decide about a call.
#[derive(Clone, Copy)]
pub(crate) enum Decision<'r> {
    /// The call is made: this rule allows it, or it is allowed by default.
    Allowed(Option<&'r Rule>),
    /// This rule would allow the call if the client's token had its scopes.
    Unscoped(&'r Rule),
    /// The call is denied, by this rule or because none allows it.
    Denied(Option<&'r Rule>),
    /// No rule could allow a call of the item, whatever its arguments are: the client is not told that the item is there.
    Unknown,
}

impl<'r> Decision<'r> {
    /// Returns the effect in a word, and the rule that has it.
    pub(crate) fn effect(self) -> (&'static str, Option<&'r Rule>) {
        match self {
            Self::Allowed(rule) => ("Allow", rule),
            Self::Denied(rule) => ("Deny", rule),
            Self::Unscoped(rule) => ("InsufficientScope", Some(rule)),
            Self::Unknown => ("Deny", None),
        }
    }
}

/// The result of a condition.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Holds,
    HoldsNot,
    Failed,
    /// It depends on what only a call has.
    Undecided,
}

impl Rules {
    pub(crate) fn new(plan: &AuthorizationPlan) -> Self {
        let rules = plan.rules.iter().map(|rule| {
            let when = Expression::compile(&rule.when, OF_RULES).ok();
            let reads_call = when.as_ref().is_some_and(|when| OF_CALLS.iter().any(|it| when.reads_member("call", it)));
            Rule { plan: rule.clone(), when, reads_call }
        });
        Self { allows_by_default: plan.allows_by_default, rules: rules.collect() }
    }

    /// Whether a change of the content of a call can change the decision about it.
    pub(crate) fn read_calls(&self) -> bool {
        self.rules.iter().any(|rule| rule.reads_call)
    }

    /// Decides about a call. A Deny beats an Allow; an Allow holds only with its scopes; an Allow that fails does not allow, and a Deny that fails denies.
    pub(crate) fn decide(&self, request: &AccessRequest<'_>) -> Decision<'_> {
        let (mut allowed, mut unscoped, mut could) = (None, None, self.allows_by_default);
        for rule in self.of_effect(false).filter(|_| !self.allows_by_default) {
            match rule.outcome(request) {
                Outcome::Holds if rule.has_scopes(request.identity) => {
                    allowed = Some(rule);
                    break;
                }
                Outcome::Holds => drop(unscoped.get_or_insert(rule)),
                _ => could |= rule.reads_call,
            }
        }
        if !could && allowed.is_none() && unscoped.is_none() {
            return Decision::Unknown;
        }
        let denies = |rule: &&Rule| matches!(rule.outcome(request), Outcome::Holds | Outcome::Failed);
        match self.of_effect(true).find(denies) {
            Some(rule) => Decision::Denied(Some(rule)),
            None if allowed.is_some() || self.allows_by_default => Decision::Allowed(allowed),
            None => unscoped.map_or(Decision::Denied(None), Decision::Unscoped),
        }
    }

    /// Whether an item is listed: some rule could allow a call of it, and none denies it whatever its arguments are.
    pub(crate) fn list(&self, request: &AccessRequest<'_>) -> bool {
        let could = |rule: &Rule| {
            rule.has_scopes(request.identity) && matches!(rule.outcome(request), Outcome::Holds | Outcome::Undecided)
        };
        let denies = |rule: &Rule| matches!(rule.outcome(request), Outcome::Holds | Outcome::Failed);
        (self.allows_by_default || self.of_effect(false).any(could)) && !self.of_effect(true).any(denies)
    }

    pub(crate) fn all(&self) -> &[Rule] {
        &self.rules
    }

    pub(crate) fn allow_by_default(&self) -> bool {
        self.allows_by_default
    }

    fn of_effect(&self, denies: bool) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.plan.denies == denies)
    }
}

impl Rule {
    /// Returns the text for a client whose call the rule denies.
    pub(crate) fn message(&self) -> String {
        let own = || format!("The rule {} of this gateway denies this call.", self.plan.name);
        self.plan.message.clone().filter(|message| !message.trim().is_empty()).unwrap_or_else(own)
    }

    pub(crate) fn has_scopes(&self, identity: &Identity) -> bool {
        self.plan.scopes.iter().all(|scope| identity.scopes.contains(scope))
    }

    pub(crate) fn outcome(&self, request: &AccessRequest<'_>) -> Outcome {
        if self.reads_call && request.call.is_none() {
            return Outcome::Undecided;
        }
        let Some(when) = &self.when else { return Outcome::Failed };
        match when.evaluate_shared(request.size(when), &request.variables(when)) {
            Ok(true) => Outcome::Holds,
            Ok(false) => Outcome::HoldsNot,
            Err(_) => Outcome::Failed,
        }
    }
}

impl AccessRequest<'_> {
    /// Returns the size in bytes of what the condition reads and can be large.
    fn size(&self, when: &Expression) -> usize {
        let of_call = |member, size| if when.reads_member("call", member) { size } else { 0 };
        let meta = self.item.meta.as_ref().filter(|_| when.reads_member("tool", "_meta"));
        let call = self.call.as_ref();
        of_call("arguments", call.map_or(0, |call| call.content.len()))
            + of_call("userQuery", call.map_or(0, |call| call.user_query.len()))
            + meta.map_or(0, |meta| meta.get().len())
    }

    fn variables<'r>(&'r self, when: &Expression) -> RuleVariables<'r> {
        RuleVariables {
            request: self,
            with_arguments: when.reads_member("call", "arguments"),
            with_meta: when.reads_member("tool", "_meta"),
        }
    }

    fn call_variable(&self, with_arguments: bool) -> Result<Value, String> {
        let CallContent { content, user_query, max_tokens } =
            self.call.unwrap_or(CallContent { content: "{}", user_query: "", max_tokens: 0 });
        Ok(json!({
            "method": self.method.as_str(),
            "name": self.name,
            "arguments": if with_arguments { arguments(self.item.kind, content)? } else { Value::Null },
            "userQuery": user_query,
            "maxTokens": max_tokens,
            "session": self.session,
        }))
    }
}

/// The values of variables for one request, which its rules share.
#[derive(Default)]
pub(crate) struct RequestValues {
    /// Without and with the arguments.
    call: [SharedValue; 2],
    /// Without and with `_meta`.
    tool: [SharedValue; 2],
    upstream: SharedValue,
    identity: SharedValue,
}

/// The variables that one rule reads.
struct RuleVariables<'a> {
    request: &'a AccessRequest<'a>,
    with_arguments: bool,
    with_meta: bool,
}

impl SharedVariables for RuleVariables<'_> {
    fn variable(&self, name: &str) -> Option<&dyn Val> {
        let (request, values) = (self.request, &self.request.values);
        match name {
            "call" => {
                values.call[usize::from(self.with_arguments)].get_or_make(|| request.call_variable(self.with_arguments))
            }
            "tool" => values.tool[usize::from(self.with_meta)]
                .get_or_make(|| tool(request.item, &request.name, self.with_meta)),
            "upstream" => values.upstream.get_or_make(|| Ok(upstream(request.upstream, request.labels))),
            "identity" => values.identity.get_or_make(|| Ok(identity(request.identity))),
            _ => None,
        }
    }
}
