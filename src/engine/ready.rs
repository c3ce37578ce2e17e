//! Whether what guards a call can run, asked before anything is sent; and `when`, for this question and for chains.

use serde_json::Value;

use super::call::CallRequest;
use super::chain::{Traces, When};
use super::content::Content;
use super::link::LinkedEntry;
use super::replies::Culprit;
use super::snapshot::{Selected, ToolLink};
use super::{Engine, Ports};
use crate::config::variables::{self, Variables};
use crate::domain::plan::{Refusal, UpstreamPlan};
use crate::domain::plugin::{ContentType, Failure, FailurePolicy, Mode, Phase};
use crate::domain::ports::RunPlugin;
use crate::domain::record::EntryOutcome;
use crate::domain::route::Route;
use crate::domain::upstream::Target;

/// Why a call is refused before it is sent.
pub(super) struct Refusing {
    pub(super) culprit: Culprit,
    pub(super) text: String,
}

impl Refusing {
    /// The gateway or upstream itself refuses.
    pub(super) fn gateway(refusal: &Refusal) -> Self {
        let culprit = Culprit { chain: None, plugin: None, reason: refusal.reason.to_string() };
        Self { culprit, text: format!("This call is refused: {}.", refusal.message) }
    }
}

/// What a call is about, for `when`.
pub(super) struct Selection<'a> {
    pub(super) request: &'a CallRequest<'a>,
    pub(super) route: &'a Route,
    pub(super) upstream: &'a UpstreamPlan,
    pub(super) target: &'a Target,
    pub(super) meta_query: Option<&'a str>,
    pub(super) max_tokens: Option<u32>,
}

/// A selection with the arguments of the moment.
pub(super) struct WhenOf<'a> {
    selection: &'a Selection<'a>,
    arguments: &'a str,
}

impl<'a> Selection<'a> {
    /// `when`s are to be asked with these arguments.
    pub(super) fn when(&'a self, arguments: &'a str) -> WhenOf<'a> {
        WhenOf { selection: self, arguments }
    }
}

impl When for WhenOf<'_> {
    /// An expression that errs counts as true: in doubt the plugin runs.
    fn holds(&self, entry: &LinkedEntry, content: &Content) -> bool {
        let Some(when) = &entry.when else { return true };
        let (uses, s) = (when.uses(), self.selection);
        let caller = s.request.caller;
        let seen = uses.content.then(|| content.see(entry.plan.view));
        let hints = s.route.tool.hints;
        let read = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
        let variables = Variables {
            call: uses.call.then(|| variables::Call {
                method: "tools/call",
                name: s.request.name,
                arguments: if uses.arguments { read(self.arguments) } else { Value::Null },
                user_query: s.meta_query.unwrap_or_default(),
                max_tokens: s.max_tokens.map_or(0, i64::from),
                session: &caller.session,
            }),
            tool: uses.tool.then(|| variables::Tool {
                name: s.request.name,
                upstream_name: &s.route.tool.name,
                annotations: variables::Annotations {
                    read_only_hint: hints.read_only,
                    destructive_hint: hints.destructive,
                    idempotent_hint: hints.idempotent,
                    open_world_hint: hints.open_world,
                },
                meta: s.route.tool.meta.as_deref().map_or(Value::Null, |meta| read(meta.get())),
            }),
            upstream: uses.upstream.then(|| variables::Upstream {
                name: &s.upstream.key.name,
                namespace: &s.upstream.key.namespace,
                labels: &s.upstream.labels,
            }),
            identity: uses.identity.then(|| variables::Identity {
                method: "anonymous",
                subject: &caller.principal,
                groups: &[],
                claims: Value::Object(serde_json::Map::new()),
                scopes: &[],
            }),
            content: seen.as_ref().map(|seen| variables::Content {
                text: &seen.text,
                kind: if seen.kind == ContentType::Text { "text" } else { "json" },
                size: i64::try_from(seen.text.len()).unwrap_or(i64::MAX),
            }),
        };
        when.evaluate(&variables).unwrap_or(true)
    }
}

impl<P: Ports> Engine<P> {
    /// The first thing that guards this call and cannot run here. A response that would have to be withheld is no
    /// reason to run the tool, so both phases are asked before anything is sent.
    pub(super) fn cannot_guard(
        &self,
        tool: &ToolLink,
        selection: &Selection<'_>,
        arguments: &str,
        traces: &mut Traces,
    ) -> Option<Refusing> {
        let mut first = 0;
        for selected in tool.request.iter().chain(&tool.response) {
            let chain = &selected.chain;
            if let Some(refusal) = &chain.plan.refusing {
                let reason = refusal.reason.to_string();
                let culprit = Culprit { chain: Some(chain.name.clone()), plugin: None, reason };
                return Some(Refusing { culprit, text: format!("This call is refused: {}.", refusal.message) });
            }
            if let Some((place, entry, failure)) = self.first_unable(selected, selection, arguments) {
                traces.set(first + place, EntryOutcome::Failed(failure.reason));
                let (phase, reason) = (chain.plan.phase.wire(), failure.reason.as_str());
                self.metrics.entry(&entry.name, &chain.name, phase, "enforce", "failed", reason);
                let culprit = Culprit {
                    chain: Some(chain.name.clone()),
                    plugin: Some(entry.name.clone()),
                    reason: reason.to_owned(),
                };
                let text = format!("This call is refused: plugin {} guards it and cannot run ({reason}).", entry.name);
                return Some(Refusing { culprit, text });
            }
            first += chain.entries.len();
        }
        None
    }

    fn first_unable<'a>(
        &self,
        selected: &'a Selected,
        selection: &Selection<'_>,
        arguments: &str,
    ) -> Option<(usize, &'a LinkedEntry, Failure)> {
        let content = Content::Arguments(arguments.to_owned());
        let when = selection.when(arguments);
        selected.chain.entries.iter().zip(&selected.admitted).enumerate().find_map(|(place, (entry, admitted))| {
            let must_run = entry.enabled
                && *admitted
                && entry.plan.mode == Mode::Enforce
                && entry.rules.policy == FailurePolicy::Fail;
            if !must_run {
                return None;
            }
            let failure = match &entry.plugin {
                Err(failure) => failure.clone(),
                Ok(plugin) => self.plugins.availability(plugin).err()?,
            };
            // What a response would hold is not known yet, so there `when` cannot excuse it.
            let excused = selected.chain.plan.phase == Phase::Request && !when.holds(entry, &content);
            (!excused).then_some((place, &**entry, failure))
        })
    }
}
