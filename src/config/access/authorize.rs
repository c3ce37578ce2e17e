//! Decides what a client may do, by the rules of the gateway (`spec.authorization`): the only place that does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::condition_values::{ItemNames, Names, arguments, identity, tool, upstream};
use crate::config::expr::condition::{Condition, EvaluateParts, Outcomes};
use crate::config::expr::{Expression, SharedValue, SharedVariables, Val};
use crate::config::variables::OF_RULES;
use crate::domain::digest::sha256_hex;
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
    /// What the conditions read of the identity; see [`Condition::paths`].
    paths: BTreeSet<Vec<String>>,
    reads_session: bool,
}

/// A compiled rule.
pub(crate) struct Rule {
    pub(crate) plan: RulePlan,
    /// `None` if this version does not accept the condition, which then counts as one that fails.
    when: Option<Condition>,
    /// What the parts of the condition read.
    parts: Vec<PartReads>,
}

/// What a part of a condition reads.
struct PartReads {
    /// Whether it reads what only a call has.
    call: bool,
    /// If it reads nothing but the client, its number among such parts of all rules.
    client: Option<usize>,
}

/// What the rules are asked about: an item, and who uses it.
pub(crate) struct AccessRequest<'a> {
    pub(crate) identity: &'a Identity,
    /// The id of the session; empty if there is none.
    pub(crate) session: &'a str,
    pub(crate) item: &'a Item,
    pub(crate) names: ItemNames<'a>,
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
        let mut of_client = 0;
        let rules: Vec<_> = plan.rules.iter().map(|rule| Rule::new(rule, &mut of_client)).collect();
        let conditions = || rules.iter().filter_map(|rule| rule.when.as_ref());
        let paths = conditions().flat_map(|when| when.paths().iter().cloned()).collect();
        let reads_session = conditions().flat_map(Condition::parts).any(|part| part.reads_member("call", "session"));
        Self { allows_by_default: plan.allows_by_default, rules, paths, reads_session }
    }

    /// Whether a change of the content of a call can change the decision about it.
    pub(crate) fn read_calls(&self) -> bool {
        self.rules.iter().any(Rule::reads_call)
    }

    /// Returns a digest of all that the rules read of a client, with the id of its session: for clients with the same one, they
    /// decide the same.
    pub(crate) fn digest_of(&self, client: &Identity, session: &str) -> String {
        let values = identity(client);
        let read = |path: &Vec<String>| path.iter().try_fold(&values, |value, member| value.get(member));
        // A member that is null is not one that is missing.
        let read: Vec<_> = self.paths.iter().map(|path| read(path).map(|value| [value])).collect();
        let scopes: Vec<_> = self.rules.iter().map(|rule| rule.has_scopes(client)).collect();
        let session = self.reads_session.then_some(session);
        sha256_hex(&serde_json::to_vec(&(read, scopes, session)).unwrap_or_default())
    }

    /// Decides about a call. A Deny beats an Allow; an Allow holds only with its scopes; an Allow that fails does not allow, and a Deny that fails denies.
    pub(crate) fn decide(&self, request: &AccessRequest<'_>) -> Decision<'_> {
        let (mut allowed, mut unscoped) = (None, None);
        for rule in self.of_effect(false).filter(|_| !self.allows_by_default) {
            match rule.outcome(request) {
                Outcome::Holds if rule.has_scopes(request.identity) => {
                    allowed = Some(rule);
                    break;
                }
                Outcome::Holds => drop(unscoped.get_or_insert(rule)),
                _ => {}
            }
        }
        let could = |rule: &Rule| rule.reads_call() && rule.outcomes(request, false).include(Outcomes::TRUE);
        let may = self.allows_by_default || allowed.is_some() || unscoped.is_some();
        if !may && !self.of_effect(false).any(could) {
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
    /// Compiles a rule. `of_client` is how many parts of the rules before it read nothing but the client.
    fn new(plan: &RulePlan, of_client: &mut usize) -> Self {
        let when = Condition::compile(&plan.when, OF_RULES, "identity").ok();
        let reads = |part: &Expression| {
            let mut reads = part.all_reads();
            let is_of_client = reads.all(|read| matches!(read, ("identity", _) | ("call", Some("session"))));
            let client = is_of_client.then(|| {
                *of_client += 1;
                *of_client - 1
            });
            PartReads { call: OF_CALLS.iter().any(|it| part.reads_member("call", it)), client }
        };
        let parts = when.iter().flat_map(Condition::parts).map(reads).collect();
        Self { plan: plan.clone(), when, parts }
    }

    /// Returns the text for a client whose call the rule denies.
    pub(crate) fn message(&self) -> String {
        let own = || format!("The rule {} of this gateway denies this call.", self.plan.name);
        self.plan.message.clone().filter(|message| !message.trim().is_empty()).unwrap_or_else(own)
    }

    pub(crate) fn has_scopes(&self, identity: &Identity) -> bool {
        self.plan.scopes.iter().all(|scope| identity.scopes.contains(scope))
    }

    /// Whether the condition reads what only a call has.
    pub(crate) fn reads_call(&self) -> bool {
        self.parts.iter().any(|part| part.call)
    }

    /// Whether the condition reads which item a call uses: its name, or something of the tool or of its upstream.
    pub(crate) fn reads_item(&self) -> bool {
        let reads =
            |part: &Expression| part.reads("tool") || part.reads("upstream") || part.reads_member("call", "name");
        self.when.as_ref().is_none_or(|when| when.parts().iter().any(reads))
    }

    /// Returns whether the rule applies. Without a call, that can be undecided.
    pub(crate) fn outcome(&self, request: &AccessRequest<'_>) -> Outcome {
        let outcomes = self.outcomes(request, request.call.is_some());
        match self.plan.denies {
            _ if outcomes == Outcomes::FAILED => Outcome::Failed,
            true if !outcomes.include(Outcomes::FALSE) => Outcome::Holds,
            false if !outcomes.include(Outcomes::TRUE) => Outcome::HoldsNot,
            _ if outcomes == Outcomes::TRUE => Outcome::Holds,
            _ if outcomes == Outcomes::FALSE => Outcome::HoldsNot,
            _ => Outcome::Undecided,
        }
    }

    /// Returns the results that the condition can have, whatever the call is if that is not known. With two forms of the item's
    /// name, a Deny applies to either of them, and an Allow to both.
    fn outcomes(&self, request: &AccessRequest<'_>, with_call: bool) -> Outcomes {
        let Some(when) = &self.when else { return Outcomes::FAILED };
        let of_form = |form, names| when.outcomes(&Evaluation { rule: self, request, with_call, form, names });
        let outcomes = of_form(0, &request.names.as_sent);
        match &request.names.normal {
            Some(names) if self.plan.denies => outcomes.or(of_form(1, names)),
            Some(names) => outcomes.and(of_form(1, names)),
            None => outcomes,
        }
    }
}

/// The evaluation of the condition of a rule.
struct Evaluation<'a> {
    rule: &'a Rule,
    request: &'a AccessRequest<'a>,
    with_call: bool,
    /// Which form of the item's name is meant.
    form: usize,
    names: &'a Names<'a>,
}

impl EvaluateParts for Evaluation<'_> {
    fn outcomes(&self, index: usize, part: &Expression) -> Outcomes {
        let (reads, request) = (&self.rule.parts[index], self.request);
        if reads.call && !self.with_call {
            return Outcomes::OPEN;
        }
        let evaluate = || match part.evaluate_shared(request.size(part), &self.variables(part)) {
            Ok(true) => Outcomes::TRUE,
            Ok(false) => Outcomes::FALSE,
            Err(_) => Outcomes::FAILED,
        };
        match reads.client {
            Some(number) => request.values.client.outcomes(number, evaluate),
            None => evaluate(),
        }
    }

    /// In a list, what reads the client alone is evaluated for the first item only.
    fn cost(&self, index: usize, part: &Expression) -> u8 {
        match self.rule.parts[index].client {
            Some(_) if !self.with_call => 0,
            _ if part.has_macro() => 2,
            _ => 1,
        }
    }
}

impl Evaluation<'_> {
    fn variables(&self, part: &Expression) -> RuleVariables<'_> {
        RuleVariables {
            evaluation: self,
            with_arguments: part.reads_member("call", "arguments"),
            with_meta: part.reads_member("tool", "_meta"),
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

    fn call_variable(&self, name: &str, with_arguments: bool) -> Result<Value, String> {
        let CallContent { content, user_query, max_tokens } =
            self.call.unwrap_or(CallContent { content: "{}", user_query: "", max_tokens: 0 });
        Ok(json!({
            "method": self.method.as_str(),
            "name": name,
            "arguments": if with_arguments { arguments(self.item.kind, content)? } else { Value::Null },
            "userQuery": user_query,
            "maxTokens": max_tokens,
            "session": self.session,
        }))
    }
}

/// The values of variables for one item and call, which its rules share.
#[derive(Default)]
pub(crate) struct RequestValues {
    /// By the form of the item's name, without and with the arguments.
    call: [[SharedValue; 2]; 2],
    /// By the form of the item's name, without and with `_meta`.
    tool: [[SharedValue; 2]; 2],
    upstream: SharedValue,
    client: Arc<ClientValues>,
}

/// What the rules of one plan have found out about one client, whatever the item is.
#[derive(Default)]
pub(crate) struct ClientValues {
    identity: SharedValue,
    /// The results of parts of conditions, by their numbers.
    parts: Mutex<Vec<Option<Outcomes>>>,
}

impl RequestValues {
    /// Creates the values for one of several items, about which the rules are asked for the same client.
    pub(crate) fn of(client: &Arc<ClientValues>) -> Self {
        Self { client: Arc::clone(client), ..Self::default() }
    }
}

impl ClientValues {
    fn outcomes(&self, number: usize, evaluate: impl FnOnce() -> Outcomes) -> Outcomes {
        let known = self.parts.lock().unwrap_or_else(PoisonError::into_inner).get(number).copied().flatten();
        known.unwrap_or_else(|| {
            let outcomes = evaluate();
            let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            if parts.len() <= number {
                parts.resize(number + 1, None);
            }
            parts[number] = Some(outcomes);
            outcomes
        })
    }
}

/// The variables that a part of a condition reads.
struct RuleVariables<'a> {
    evaluation: &'a Evaluation<'a>,
    with_arguments: bool,
    with_meta: bool,
}

impl SharedVariables for RuleVariables<'_> {
    fn variable(&self, name: &str) -> Option<&dyn Val> {
        let Evaluation { request, form, names, .. } = self.evaluation;
        let values = &request.values;
        match name {
            "call" => values.call[*form][usize::from(self.with_arguments)]
                .get_or_make(|| request.call_variable(&names.public, self.with_arguments)),
            "tool" => values.tool[*form][usize::from(self.with_meta)]
                .get_or_make(|| tool(request.item, names, self.with_meta)),
            "upstream" => values.upstream.get_or_make(|| Ok(upstream(request.upstream, request.labels))),
            "identity" => values.client.identity.get_or_make(|| Ok(identity(request.identity))),
            _ => None,
        }
    }
}
