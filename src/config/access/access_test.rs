//! The tests of rules that an MCPGateway has (`spec.authorization.tests`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::authorize::{AccessRequest, CallContent, Decision, RequestValues, Rules};
use super::condition_values::ItemNames;
use crate::domain::identity::Identity;
use crate::domain::ids::ObjectKey;
use crate::domain::item::Item;
use crate::domain::method::Method;

/// A call of a tool, and the decision that is expected for it.
#[derive(Clone, Debug)]
pub struct AccessTest {
    /// Who calls.
    pub identity: Arc<Identity>,
    /// The name of the tool on the endpoint for all upstreams.
    pub name: String,
    /// The tool.
    pub item: Item,
    /// The upstream of the tool; its name can be empty.
    pub upstream: ObjectKey,
    /// The labels of the upstream.
    pub labels: BTreeMap<String, String>,
    /// The arguments, as JSON.
    pub arguments: String,
    /// Whether the call is to be allowed.
    pub allows: bool,
}

impl AccessTest {
    /// Returns how the rules differ from what is expected; `None` if they do not.
    pub(crate) fn failure(&self, rules: &Rules) -> Option<String> {
        let call = CallContent { content: &self.arguments, user_query: "", max_tokens: 0 };
        let decision = rules.decide(&AccessRequest {
            identity: &self.identity,
            session: "",
            item: &self.item,
            names: ItemNames::new(self.item.kind, Cow::Borrowed(&self.name), &self.item.name, &self.upstream.name),
            upstream: &self.upstream,
            labels: &self.labels,
            method: Method::CallTool,
            call: Some(call),
            values: RequestValues::default(),
        });
        let found = match decision {
            Decision::Allowed(Some(rule)) => format!("the rule {} allows it", rule.plan.name),
            Decision::Allowed(None) => "it is allowed by default".to_owned(),
            Decision::Unscoped(rule) => {
                format!("the rule {} needs the scopes {}", rule.plan.name, rule.plan.scopes.join(" "))
            }
            Decision::Denied(Some(rule)) => format!("the rule {} denies it", rule.plan.name),
            Decision::Denied(None) | Decision::Unknown => "no rule allows it".to_owned(),
        };
        let expected = if self.allows { "allow" } else { "deny" };
        let (subject, tool) = (&self.identity.subject, &self.name);
        (matches!(decision, Decision::Allowed(_)) != self.allows)
            .then(|| format!("the test expects `{expected}` for a call of {tool:?} by {subject:?}, but {found}"))
    }
}
