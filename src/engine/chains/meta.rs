//! The keys of a call's `_meta` that the gateway reads, and those that it forwards.

use serde_json::value::RawValue;

use tracing::Span;

use crate::domain::own_keys::OWN_KEYS;
use crate::domain::pipeline::RUN;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::section::Place;
use crate::telemetry::trace_context::{Cause, MEMBERS, members_of};

/// The key with the user's question, which plugins get.
pub(crate) const USER_QUERY: &str = "hawsepipe.dev/userQuery";

/// The keys of a call's `_meta`, parsed.
pub(crate) struct CallMeta {
    /// `hawsepipe.dev/trace`: whether the client wants the trace in the result.
    pub(crate) trace: bool,
    /// `hawsepipe.dev/userQuery`: passed on to plugins.
    pub(crate) user_query: Option<String>,
    /// `hawsepipe.dev/maxTokens`: passed on to plugins. `None` if it is not a positive integer.
    pub(crate) max_tokens: Option<u32>,
    /// `hawsepipe.dev/section`: the place in a document that the call comes from, or what is wrong with it.
    pub(crate) section: Result<Option<Box<Place>>, String>,
    /// `hawsepipe.dev/run`: the conversation that a run of a pipeline belongs to.
    pub(crate) run: Option<Box<RawValue>>,
    /// The keys that are forwarded to the upstream: all except the protocol's own and `hawsepipe.dev/` keys.
    pub(crate) onward: Vec<(String, Box<RawValue>)>,
}

impl CallMeta {
    /// Parses `_meta`. A value that is not an object counts as missing.
    pub(crate) fn read(meta: Option<&RawValue>) -> Self {
        let object = meta.and_then(|meta| RawObject::parse(meta.get()).ok()).unwrap_or_default();
        let flag = |key: &str| object.get(key).is_some_and(|value| value.get() == "true");
        let number = |key: &str| object.get(key).and_then(|value| value.get().parse::<u32>().ok());
        // The gateway sends its own values of the protocol's keys to the upstream. Keys that begin with
        // `hawsepipe.dev/` are meant for the gateway alone.
        let ours = |key: &str| {
            key == "progressToken" || key.starts_with(OWN_KEYS) || key.starts_with("io.modelcontextprotocol/")
        };
        let onward = object.iter().filter(|(key, _)| !ours(key)).map(|(key, value)| (key.to_owned(), value.to_owned()));
        Self {
            trace: flag("hawsepipe.dev/trace"),
            user_query: object.get_str(USER_QUERY),
            max_tokens: number("hawsepipe.dev/maxTokens").filter(|n| *n > 0),
            run: object.get(RUN).map(ToOwned::to_owned),
            section: Place::of_meta(meta).map(|place| place.map(Box::new)),
            onward: onward.collect(),
        }
    }

    /// The place that the call comes from, if the client names a valid one.
    pub(crate) fn place(&self) -> Option<&Place> {
        self.section.as_ref().ok()?.as_deref()
    }

    /// The trace that the call belongs to, if the client says.
    pub(crate) fn cause(&self) -> Cause {
        let member = |name: &str| self.onward.iter().rev().find(|(key, _)| key == name);
        Cause::of_meta(|name| serde_json::from_str(member(name)?.1.get()).ok())
    }

    /// The members to send on in a request that `span` stands for. While traces are on, they tell of that span instead
    /// of the client's.
    pub(crate) fn sent_in(&self, span: &Span) -> Vec<(String, Box<RawValue>)> {
        let mut members = self.onward.clone();
        let context = members_of(span);
        if !context.is_empty() {
            members.retain(|(key, _)| !MEMBERS.contains(&key.as_str()));
            members.extend(context.into_iter().map(|(name, value)| (name.to_owned(), to_raw(&value))));
        }
        members
    }
}
