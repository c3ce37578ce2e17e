//! Evaluates an entry's `when` for the content of a call, of a question of its server, or of a list.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::content::Content;
use super::routed_call::{CallFacts, Routed};
use crate::config::expr::{Reads, Uses};
use crate::config::variables::{self, Variables};
use crate::domain::item::{Item, ItemKind};
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
    /// The name of the item on the endpoint for all upstreams, whichever endpoint the client uses, so that a condition
    /// holds for the same calls on each. A tool or prompt that has no name there gets the one with its upstream's prefix.
    /// Of a resource, its URI.
    pub(crate) name: Cow<'a, str>,
    /// The content of the call's request phase; of a list, `{}`.
    pub(crate) request: &'a str,
}

impl Routed<'_> {
    /// Returns the input of `when` expressions for this call with this content of the request phase.
    pub(crate) fn when<'a>(&'a self, request: &'a str) -> WhenInput<'a> {
        let prefixed = || format!("{}__{}", self.plan().key.name, self.route.own);
        let name = match self.route.public.as_deref() {
            Some(public) => Cow::Borrowed(public),
            None if self.request.kind.has_name() => Cow::Owned(prefixed()),
            None => Cow::Borrowed(&*self.route.own),
        };
        let (item, upstream, method) = (&self.route.item, self.plan(), self.request.kind.used_by());
        WhenInput { facts: &self.facts, item, upstream, method, name, request }
    }
}

impl WhenInput<'_> {
    /// Whether the entry's `when` holds for this content. Without a `when`, the entry always runs. It also runs if the
    /// expression fails, so that an error does not make a call bypass a Guard.
    pub(crate) fn holds(&self, entry: &LinkedEntry, content: &Content) -> bool {
        let Some(when) = &entry.when else { return true };
        let uses = when.uses();
        // The arguments of the call that began a task are not known when its result is fetched.
        if uses.arguments && self.facts.of_task {
            return true;
        }
        let seen = uses.content.then(|| content.shown(self.method, entry.plan.view, entry.rules.role));
        let reads = self.reads(uses, seen.as_ref().map_or("", |seen| &seen.text));
        let variables = || Variables {
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
        when.evaluate(reads, variables).unwrap_or(true)
    }

    /// Returns the size of what an expression with these uses reads. Nothing is parsed for that.
    fn reads(&self, uses: Uses, content: &str) -> Reads {
        let mut reads = Reads::default();
        reads.add_text(content);
        if uses.call {
            reads.add_text(&self.name);
            reads.add_text(self.facts.user_query.as_deref().unwrap_or_default());
            reads.add_text(&self.facts.caller.session);
        }
        if uses.identity {
            reads.add_text(&self.facts.caller.principal);
        }
        if uses.tool {
            reads.add_text(&self.name);
            reads.add_text(&self.item.name);
        }
        if uses.arguments {
            reads.add_json(self.request);
        }
        if let Some(meta) = self.item.meta.as_deref().filter(|_| uses.tool) {
            reads.add_json(meta.get());
        }
        if uses.upstream {
            reads.add_values(self.upstream.labels.len());
            let texts = [&self.upstream.key.name, &self.upstream.key.namespace].into_iter().map(|text| &**text);
            let labels = self.upstream.labels.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
            texts.chain(labels).for_each(|text| reads.add_text(text));
        }
        reads
    }

    fn call(&self, with_arguments: bool) -> variables::CallVariable<'_> {
        variables::CallVariable {
            method: self.method.as_str(),
            name: &self.name,
            arguments: if with_arguments { self.read_arguments() } else { Value::Null },
            user_query: self.facts.user_query.as_deref().unwrap_or_default(),
            max_tokens: self.facts.max_tokens.map_or(0, i64::from),
            session: &self.facts.caller.session,
        }
    }

    /// Parses the arguments of the call. Of a prompt, they are a part of the content; a resource has none.
    fn read_arguments(&self) -> Value {
        let content = read(self.request);
        match self.facts.kind {
            ItemKind::Tool => content,
            _ => content.get("arguments").cloned().unwrap_or_else(|| Value::Object(Map::new())),
        }
    }

    fn tool(&self) -> variables::ToolVariable<'_> {
        let Item { name, hints, meta, .. } = self.item;
        variables::ToolVariable {
            name: &self.name,
            upstream_name: name,
            annotations: variables::AnnotationsVariable {
                read_only_hint: hints.read_only,
                destructive_hint: hints.destructive,
                idempotent_hint: hints.idempotent,
                open_world_hint: hints.open_world,
            },
            meta: meta.as_deref().map_or_else(|| Value::Object(Map::new()), |meta| read(meta.get())),
        }
    }

    fn upstream(&self) -> variables::UpstreamVariable<'_> {
        let plan = self.upstream;
        variables::UpstreamVariable { name: &plan.key.name, namespace: &plan.key.namespace, labels: &plan.labels }
    }

    fn identity(&self) -> variables::IdentityVariable<'_> {
        variables::IdentityVariable {
            method: "anonymous",
            subject: &self.facts.caller.principal,
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
