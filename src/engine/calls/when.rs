//! Evaluates an entry's `when` for the content of a call, of a question of its server, or of a list.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::content::{Content, ShownContent};
use super::routed_call::{CallFacts, Routed};
use crate::config::access::condition_values::{arguments, identity, public_name, tool, upstream};
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
    /// See [`public_name`].
    pub(crate) name: Cow<'a, str>,
    /// The content of the call's request phase; of a list, `{}`.
    pub(crate) request: &'a str,
}

impl Routed<'_> {
    /// Returns the input of `when` expressions for this call with this content of the request phase.
    pub(crate) fn when<'a>(&'a self, request: &'a str) -> WhenInput<'a> {
        let name = public_name(self.route, self.request.kind, self.plan());
        let (item, upstream, method) = (&self.route.item, self.plan(), self.request.kind.used_by());
        WhenInput { facts: &self.facts, item, upstream, method, name, request }
    }
}

impl WhenInput<'_> {
    /// Whether the entry's `when` holds for this content. Without a `when`, the entry always runs.
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
        when.evaluate(size, || self.variables(when, seen.as_ref()))
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
    fn variables(&self, when: &Expression, content: Option<&ShownContent<'_>>) -> Result<Values, String> {
        let mut variables = Vec::new();
        if when.reads("call") {
            variables.push(("call", self.call(when.reads_member("call", "arguments"))?));
        }
        if when.reads("tool") {
            variables.push(("tool", tool(self.item, &self.name, when.reads_member("tool", "_meta"))?));
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

    fn call(&self, with_arguments: bool) -> Result<Value, String> {
        Ok(json!({
            "method": self.method.as_str(),
            "name": self.name,
            "arguments": if with_arguments { arguments(self.facts.kind, self.request)? } else { Value::Null },
            "userQuery": self.facts.user_query.as_deref().unwrap_or_default(),
            "maxTokens": self.facts.max_tokens.unwrap_or(0),
            "session": *self.facts.caller.session,
        }))
    }
}
