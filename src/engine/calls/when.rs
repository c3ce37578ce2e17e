//! Evaluates an entry's `when` for a call.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::content::Content;
use super::routed_call::Routed;
use crate::config::variables::{self, Variables};
use crate::domain::item::ItemKind;
use crate::domain::plugin::ContentType;
use crate::engine::plan::link::LinkedEntry;

/// The input of a `when` expression: a call, and its current content in the request phase.
pub(crate) struct WhenInput<'a> {
    call: &'a Routed<'a>,
    /// The name of the item on the endpoint for all upstreams, whichever endpoint the client uses, so that a condition
    /// holds for the same calls on each. A tool or prompt that has no name there gets the one with its upstream's prefix.
    /// Of a resource, its URI.
    name: Cow<'a, str>,
    content: &'a str,
}

impl Routed<'_> {
    /// Returns the input of `when` expressions for this call with this content of the request phase.
    pub(crate) fn when<'a>(&'a self, content: &'a str) -> WhenInput<'a> {
        let prefixed = || format!("{}__{}", self.plan().key.name, self.route.own);
        let name = match self.route.public.as_deref() {
            Some(public) => Cow::Borrowed(public),
            None if self.request.kind.has_name() => Cow::Owned(prefixed()),
            None => Cow::Borrowed(&*self.route.own),
        };
        WhenInput { call: self, name, content }
    }
}

impl WhenInput<'_> {
    /// Whether the entry's `when` holds for this content. Without a `when`, the entry always runs. It also runs if the
    /// expression fails, so that an error does not make a call bypass a Guard.
    pub(crate) fn holds(&self, entry: &LinkedEntry, content: &Content) -> bool {
        let Some(when) = &entry.when else { return true };
        let uses = when.uses();
        let seen = uses.content.then(|| content.shown(self.call.request.kind, entry.plan.view, entry.rules.role));
        let variables = Variables {
            call: uses.call.then(|| self.call(uses.arguments)),
            tool: uses.tool.then(|| self.tool()),
            upstream: uses.upstream.then(|| self.upstream()),
            identity: uses.identity.then(|| self.identity()),
            content: seen.as_ref().map(|seen| variables::ContentVariable {
                text: &seen.text,
                kind: if seen.kind == ContentType::Text { "text" } else { "json" },
                size: i64::try_from(seen.text.len()).unwrap_or(i64::MAX),
            }),
        };
        when.evaluate(&variables).unwrap_or(true)
    }

    fn call(&self, with_arguments: bool) -> variables::CallVariable<'_> {
        let (request, meta) = (self.call.request, self.call.meta);
        variables::CallVariable {
            method: self.call.request.kind.used_by().as_str(),
            name: &self.name,
            arguments: if with_arguments { self.read_arguments() } else { Value::Null },
            user_query: meta.user_query.as_deref().unwrap_or_default(),
            max_tokens: meta.max_tokens.map_or(0, i64::from),
            session: &request.caller.session,
        }
    }

    /// Parses the arguments. Of a prompt, they are a part of the content; a resource has none.
    fn read_arguments(&self) -> Value {
        let content = read(self.content);
        match self.call.request.kind {
            ItemKind::Tool => content,
            _ => content.get("arguments").cloned().unwrap_or_else(|| Value::Object(Map::new())),
        }
    }

    fn tool(&self) -> variables::ToolVariable<'_> {
        let tool = &self.call.route.item;
        variables::ToolVariable {
            name: &self.name,
            upstream_name: &tool.name,
            annotations: variables::AnnotationsVariable {
                read_only_hint: tool.hints.read_only,
                destructive_hint: tool.hints.destructive,
                idempotent_hint: tool.hints.idempotent,
                open_world_hint: tool.hints.open_world,
            },
            meta: tool.meta.as_deref().map_or(Value::Null, |meta| read(meta.get())),
        }
    }

    fn upstream(&self) -> variables::UpstreamVariable<'_> {
        let plan = self.call.plan();
        variables::UpstreamVariable { name: &plan.key.name, namespace: &plan.key.namespace, labels: &plan.labels }
    }

    fn identity(&self) -> variables::IdentityVariable<'_> {
        variables::IdentityVariable {
            method: "anonymous",
            subject: &self.call.request.caller.principal,
            groups: &[],
            claims: Value::Object(Map::new()),
            scopes: &[],
        }
    }
}

/// Parses JSON. Returns null if the text is not JSON.
fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}
