//! Evaluates an entry's `when` for the content of a call, of a question of its server, or of a list.

use serde_json::{Value, json};

use super::content::{Content, ShownContent};
use super::routed_call::{CallFacts, Routed};
use crate::config::access::condition_values::{ItemNames, Names, arguments, identity, tool, upstream};
use crate::config::expr::{Expression, Values};
use crate::domain::item::Item;
use crate::domain::method::Method;
use crate::domain::plan::UpstreamPlan;
use crate::domain::plugin::ContentType;
use crate::engine::plan::link::LinkedEntry;

/// The input of a `when` expression: an item, the call that uses it, and the current content of the request phase.
pub(crate) struct WhenInput<'a> {
    pub(crate) facts: &'a CallFacts,
    pub(crate) item: &'a Item,
    pub(crate) upstream: &'a UpstreamPlan,
    /// The method of the content.
    pub(crate) method: Method,
    pub(crate) names: ItemNames<'a>,
    /// The content of the call's request phase; of a list, `{}`.
    pub(crate) request: &'a str,
}

impl Routed<'_> {
    /// Returns the input of `when` expressions for this call with this content of the request phase.
    pub(crate) fn when<'a>(&'a self, request: &'a str) -> WhenInput<'a> {
        let (item, upstream, method) = (&self.route.item, self.plan(), self.request.kind.used_by());
        let names = ItemNames::of(self.route, upstream);
        WhenInput { facts: &self.facts, item, upstream, method, names, request }
    }
}

impl WhenInput<'_> {
    /// Whether the entry's `when` holds for this content, with either form of the item's name. Without a `when`, the entry always
    /// runs.
    ///
    /// # Errors
    /// The reason why the expression cannot be evaluated. The entry then runs too, so that an error does not make a call
    /// bypass a Guard.
    pub(crate) fn holds(&self, entry: &LinkedEntry, content: &Content) -> Result<bool, String> {
        let Some(when) = &entry.when else { return Ok(true) };
        if when.reads_member("call", "arguments") && self.facts.of_task {
            return Err("the arguments of the call that began the task are not known".to_owned());
        }
        let seen = when.reads("content").then(|| content.shown(self.method, entry.plan.view, entry.rules.role));
        let size = self.size(when, seen.as_ref().map_or(0, |seen| seen.text.len()));
        let mut holds =
            self.names.forms().map(|names| when.evaluate(size, || self.variables(when, names, seen.as_ref())));
        holds.find(|holds| *holds != Ok(false)).unwrap_or(Ok(false))
    }

    /// Returns the size in bytes of what the expression reads and can be large. Nothing is parsed for that.
    fn size(&self, when: &Expression, content: usize) -> usize {
        let read = |variable, member, size| if when.reads_member(variable, member) { size } else { 0 };
        read("content", "text", content)
            + read("call", "arguments", self.request.len())
            + read("call", "userQuery", self.facts.user_query.as_ref().map_or(0, |query| query.len()))
            + read("tool", "_meta", self.item.meta.as_ref().map_or(0, |meta| meta.get().len()))
    }

    /// Returns the variables that the expression reads. A member that is read and can be large is left out if the
    /// expression does not read it.
    fn variables(
        &self,
        when: &Expression,
        names: &Names<'_>,
        content: Option<&ShownContent<'_>>,
    ) -> Result<Values, String> {
        let mut variables = Vec::new();
        if when.reads("call") {
            variables.push(("call", self.call(names, when.reads_member("call", "arguments"))?));
        }
        if when.reads("tool") {
            variables.push(("tool", tool(self.item, names, when.reads_member("tool", "_meta"))?));
        }
        if when.reads("upstream") {
            variables.push(("upstream", upstream(&self.upstream.key, &self.upstream.labels)));
        }
        if when.reads("identity") {
            variables.push(("identity", identity(&self.facts.caller.identity)));
        }
        if let Some(content) = content {
            let text = if when.reads_member("content", "text") { &*content.text } else { "" };
            let kind = if content.kind == ContentType::Text { "text" } else { "json" };
            variables.push(("content", json!({"text": text, "type": kind, "size": content.text.len()})));
        }
        Ok(variables)
    }

    fn call(&self, names: &Names<'_>, with_arguments: bool) -> Result<Value, String> {
        Ok(json!({
            "method": self.method.as_str(),
            "name": names.public,
            "arguments": if with_arguments { arguments(self.facts.kind, self.request)? } else { Value::Null },
            "userQuery": self.facts.user_query.as_deref().unwrap_or_default(),
            "maxTokens": self.facts.max_tokens.unwrap_or(0),
            "session": *self.facts.caller.session,
        }))
    }
}
