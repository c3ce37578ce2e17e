//! Whether an entry's `when` holds for a call.

use serde_json::{Map, Value};

use super::call::CallRequest;
use super::content::Content;
use super::link::LinkedEntry;
use crate::config::variables::{self, Variables};
use crate::domain::ids::ObjectKey;
use crate::domain::plan::UpstreamPlan;
use crate::domain::plugin::ContentType;
use crate::domain::route::Route;
use crate::domain::upstream::Target;

/// What a call is about.
pub(super) struct Selection<'a> {
    pub(super) request: &'a CallRequest<'a>,
    pub(super) route: &'a Route,
    pub(super) upstream: &'a UpstreamPlan,
    pub(super) target: &'a Target,
    pub(super) meta_query: Option<&'a str>,
    pub(super) max_tokens: Option<u32>,
}

/// A selection with the arguments of the moment.
pub(super) struct When<'a> {
    selection: &'a Selection<'a>,
    arguments: &'a str,
}

impl<'a> Selection<'a> {
    /// `when`s are to be asked with these arguments.
    pub(super) fn when(&'a self, arguments: &'a str) -> When<'a> {
        When { selection: self, arguments }
    }

    fn call(&self, arguments: Value) -> variables::Call<'_> {
        variables::Call {
            method: "tools/call",
            name: self.request.name,
            arguments,
            user_query: self.meta_query.unwrap_or_default(),
            max_tokens: self.max_tokens.map_or(0, i64::from),
            session: &self.request.caller.session,
        }
    }

    fn tool(&self) -> variables::Tool<'_> {
        let (tool, hints) = (&self.route.tool, self.route.tool.hints);
        variables::Tool {
            name: self.request.name,
            upstream_name: &tool.name,
            annotations: variables::Annotations {
                read_only_hint: hints.read_only,
                destructive_hint: hints.destructive,
                idempotent_hint: hints.idempotent,
                open_world_hint: hints.open_world,
            },
            meta: tool.meta.as_deref().map_or(Value::Null, |meta| read(meta.get())),
        }
    }

    fn upstream(&self) -> variables::Upstream<'_> {
        let ObjectKey { name, namespace } = &self.upstream.key;
        variables::Upstream { name, namespace, labels: &self.upstream.labels }
    }

    fn identity(&self) -> variables::Identity<'_> {
        variables::Identity {
            method: "anonymous",
            subject: &self.request.caller.principal,
            groups: &[],
            claims: Value::Object(Map::new()),
            scopes: &[],
        }
    }
}

impl When<'_> {
    /// Whether the entry's `when` holds for this content. An entry without one always runs. So does one whose
    /// expression errs: in doubt the plugin runs.
    pub(super) fn holds(&self, entry: &LinkedEntry, content: &Content) -> bool {
        let Some(when) = &entry.when else { return true };
        let (uses, selection) = (when.uses(), self.selection);
        let seen = uses.content.then(|| content.see(entry.plan.view));
        let arguments = || if uses.arguments { read(self.arguments) } else { Value::Null };
        let variables = Variables {
            call: uses.call.then(|| selection.call(arguments())),
            tool: uses.tool.then(|| selection.tool()),
            upstream: uses.upstream.then(|| selection.upstream()),
            identity: uses.identity.then(|| selection.identity()),
            content: seen.as_ref().map(|seen| variables::Content {
                text: &seen.text,
                kind: if seen.kind == ContentType::Text { "text" } else { "json" },
                size: i64::try_from(seen.text.len()).unwrap_or(i64::MAX),
            }),
        };
        when.evaluate(&variables).unwrap_or(true)
    }
}

/// Null for what is no JSON.
fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}
