//! A call whose tool was found, with the data that the next steps need.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::meta::CallMeta;
use crate::domain::plan::{Refusal, ToolOverride, UpstreamPlan};
use crate::domain::record::CallRecord;
use crate::domain::route::Route;
use crate::domain::upstream::ClientKey;
use crate::engine::plan::link::LinkedUpstream;
use crate::engine::plan::snapshot::{LinkedItem, Snapshot};
use crate::engine::request::{CallRequest, Caller};

/// A call on its way through the chains to its upstream. `route`, `item` and `upstream` belong to one snapshot.
pub(crate) struct Routed<'a> {
    pub(crate) request: &'a CallRequest<'a>,
    pub(crate) meta: &'a CallMeta,
    pub(crate) route: &'a Route,
    pub(crate) item: &'a LinkedItem,
    pub(crate) upstream: &'a LinkedUpstream,
    /// How long to wait for the upstream's answer.
    pub(crate) timeout: Duration,
    pub(crate) facts: Arc<CallFacts>,
    /// The tool's override.
    pub(super) change: Option<&'a ToolOverride>,
}

impl<'a> Routed<'a> {
    /// Collects the data of the call. `record` supplies the id and the start time of the call.
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        route: &'a Route,
        request: &'a CallRequest<'a>,
        meta: &'a CallMeta,
        record: &CallRecord,
    ) -> Self {
        let upstream = &snapshot.linked.upstreams[route.upstream];
        let plan = &upstream.target.plan;
        let change = route.change.and_then(|index| plan.overrides.get(index));
        let timeout = change.and_then(|change| change.timeout_ms).or(plan.call_timeout_ms);
        let timeout = timeout.unwrap_or(snapshot.plan().gateway.limits.call_timeout_ms);
        Self {
            request,
            meta,
            route,
            item: &snapshot.items[route.index],
            upstream,
            timeout: Duration::from_millis(u64::from(timeout)),
            facts: Arc::new(CallFacts::new(request, record, &plan.key.name, &route.item.name, meta)),
            change,
        }
    }

    /// The arguments as the client sent them; `{}` if there are none.
    pub(crate) fn arguments(&self) -> &'a str {
        self.request.arguments.map_or("{}", RawValue::get)
    }

    /// The client that the server may ask: none during a call of a plugin.
    pub(crate) fn client_key(&self) -> ClientKey {
        if self.request.within.is_some() {
            return ClientKey::default();
        }
        let Caller { capabilities, session, .. } = self.request.caller;
        ClientKey { capabilities: *capabilities, session: session.clone() }
    }

    pub(crate) fn plan(&self) -> &'a UpstreamPlan {
        &self.upstream.target.plan
    }

    /// Why the upstream, or its override of the tool, refuses calls; `None` if neither does.
    pub(crate) fn refusing(&self) -> Option<&'a Refusal> {
        self.upstream.refusing.as_ref().or(self.change.and_then(|change| change.refusing.as_ref()))
    }

    /// Names the manifest field that sets the timeout of the upstream's answer, for error messages.
    pub(crate) fn timeout_field(&self) -> String {
        let of_tool = self.route.change.filter(|_| self.change.is_some_and(|change| change.timeout_ms.is_some()));
        let field = of_tool.map_or_else(|| "timeouts.callMs".to_owned(), |i| format!("tools.overrides[{i}].timeoutMs"));
        format!("spec.{field} of MCPUpstream {}", self.plan().key)
    }
}

/// The facts about a call that every entry can use.
pub(crate) struct CallFacts {
    pub(crate) request_id: String,
    /// The call's start in RFC 3339.
    pub(crate) timestamp: String,
    /// `{upstream}/{tool}`.
    pub(crate) tool_name: String,
    pub(crate) upstream: String,
    pub(crate) tool: String,
    pub(crate) caller: Caller,
    /// How many calls enclose this one: 0 for a call of a client, 1 for a call that a plugin makes during such a call,
    /// and so on.
    pub(crate) depth: u32,
    pub(crate) user_query: Option<String>,
    /// From the call's `_meta`. An entry's own setting takes precedence.
    pub(crate) max_tokens: Option<u32>,
}

impl CallFacts {
    fn new(request: &CallRequest<'_>, record: &CallRecord, upstream: &str, tool: &str, meta: &CallMeta) -> Self {
        Self {
            request_id: record.request_id.clone(),
            timestamp: timestamp(record.started_at),
            tool_name: format!("{upstream}/{tool}"),
            upstream: upstream.to_owned(),
            tool: tool.to_owned(),
            caller: request.caller.clone(),
            depth: request.depth(),
            user_query: meta.user_query.clone(),
            max_tokens: meta.max_tokens,
        }
    }
}

/// Formats a time as RFC 3339, in UTC with milliseconds.
pub(crate) fn timestamp(unix_millis: u64) -> String {
    let time = Timestamp::from_millisecond(i64::try_from(unix_millis).unwrap_or(i64::MAX)).unwrap_or_default();
    format!("{time:.3}")
}
