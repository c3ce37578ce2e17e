//! A call whose item was found, with the data that the next steps need.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::meta::CallMeta;
use crate::config::access::authorize::CallContent;
use crate::domain::budget::Account;
use crate::domain::extensions::TASKS;
use crate::domain::identity::Identity;
use crate::domain::item::{Item, ItemKind};
use crate::domain::method::Method;
use crate::domain::plan::{Refusal, ToolOverride, UpstreamPlan};
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::record::CallRecord;
use crate::domain::route::Route;
use crate::domain::upstream::{ClientKey, OutMembers, UpstreamTarget};
use crate::engine::plan::link::LinkedUpstream;
use crate::engine::plan::linked_item::LinkedItem;
use crate::engine::plan::snapshot::{Found, Snapshot};
use crate::engine::request::{CallRequest, Caller};

/// Members of `params` that are no content: what the gateway reads and writes itself.
pub(in crate::engine) const ENVELOPE: [&str; 3] = ["_meta", "inputResponses", "requestState"];

/// A call on its way through the chains to its upstream. `route`, `item` and `upstream` belong to `snapshot`.
pub(crate) struct Routed<'a> {
    pub(crate) request: &'a CallRequest<'a>,
    pub(crate) meta: &'a CallMeta,
    pub(crate) route: &'a Route,
    pub(crate) item: &'a LinkedItem,
    /// The content of the request phase as JSON: the arguments of a tool call, `{}` if there are none; of other
    /// requests, `params` with the server's own name and without [`ENVELOPE`].
    pub(crate) content: Cow<'a, str>,
    pub(crate) upstream: &'a LinkedUpstream,
    pub(crate) snapshot: &'a Snapshot,
    /// How long to wait for the upstream's answer.
    pub(crate) timeout: Duration,
    pub(crate) facts: Arc<CallFacts>,
    /// The tool's override.
    pub(in crate::engine) change: Option<&'a ToolOverride>,
}

impl<'a> Routed<'a> {
    /// Collects the data of the call. `record` supplies the id and the start time of the call.
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        found: &'a Found,
        request: &'a CallRequest<'a>,
        meta: &'a CallMeta,
        record: &CallRecord,
    ) -> Self {
        let (route, item) = (&*found.route, &*found.item);
        let upstream = &snapshot.linked.upstreams[route.upstream];
        let plan = &upstream.target.plan;
        let change = route.change.and_then(|index| plan.overrides.get(index));
        let timeout = change.and_then(|change| change.timeout_ms).or(plan.call_timeout_ms);
        let timeout = timeout.unwrap_or(snapshot.plan().gateway.limits.call_timeout_ms);
        Self {
            request,
            meta,
            route,
            item,
            content: content(request, item, &route.item.name),
            upstream,
            snapshot,
            timeout: Duration::from_millis(u64::from(timeout)),
            facts: Arc::new(CallFacts::new(request, record, upstream, &route.item.name, meta)),
            change,
        }
    }

    /// For the result of a task, waits as long as calls may take at most: the server answers once the task has ended.
    pub(in crate::engine) fn wait_for_task(&mut self, method: Method) {
        if method == Method::TaskResult {
            let ceiling_ms = self.snapshot.plan().gateway.limits.call_ceiling_ms;
            self.timeout = Duration::from_millis(u64::from(ceiling_ms));
        }
    }

    /// The client that the server serves, and may ask. A call of a plugin has the client of its enclosing call.
    pub(crate) fn client_key(&self) -> ClientKey {
        let Caller { capabilities, session, identity, .. } = self.request.caller;
        let user = if self.plan().exchanges_tokens() { identity.token_key() } else { String::new() };
        // The plugin waits for the answer, so its call cannot go on as a task.
        let capabilities = match self.request.within {
            Some(_) => capabilities.without_extension(TASKS),
            None => capabilities.clone(),
        };
        ClientKey { capabilities, session: session.clone(), user }
    }

    /// Whether the client answers questions of this method.
    pub(crate) fn client_answers(&self, method: Method) -> bool {
        self.client_key().capabilities.answers(method)
    }

    pub(crate) fn plan(&self) -> &'a UpstreamPlan {
        &self.upstream.target.plan
    }

    /// Why the upstream, or its override of the tool, refuses calls; `None` if neither does.
    pub(crate) fn refusing(&self) -> Option<&'a Refusal> {
        self.upstream.refusing.as_ref().or(self.change.and_then(|change| change.refusing.as_ref()))
    }

    /// Returns the content of the request phase that these members are.
    pub(in crate::engine) fn as_content(&self, members: &OutMembers) -> String {
        if self.request.kind == ItemKind::Tool {
            return members.first().map_or_else(|| "{}".to_owned(), |(_, arguments)| arguments.get().to_owned());
        }
        let mut params = RawObject::default();
        members.iter().for_each(|(member, value)| params.set(member, value.clone()));
        params.to_raw().get().to_owned()
    }

    /// Returns what rules can read of the call with this content.
    pub(in crate::engine) fn access_content<'c>(&'c self, content: &'c str) -> CallContent<'c> {
        let user_query = self.facts.user_query.as_deref().unwrap_or_default();
        CallContent { content, user_query, max_tokens: self.facts.max_tokens.unwrap_or(0) }
    }

    /// Names the manifest field that sets the timeout of the upstream's answer, for error messages.
    pub(crate) fn timeout_field(&self) -> String {
        let of_tool = self.route.change.filter(|_| self.change.is_some_and(|change| change.timeout_ms.is_some()));
        let field = of_tool.map_or_else(|| "timeouts.callMs".to_owned(), |i| format!("tools.overrides[{i}].timeoutMs"));
        format!("spec.{field} of MCPUpstream {}", self.plan().key)
    }
}

fn content<'a>(request: &CallRequest<'a>, item: &LinkedItem, own_name: &str) -> Cow<'a, str> {
    if request.kind == ItemKind::Tool {
        let arguments = request.input.map_or("{}", RawValue::get);
        return item.arguments.coerced(arguments).map_or(Cow::Borrowed(arguments), Cow::Owned);
    }
    let mut params = request.input.and_then(|params| RawObject::parse(params.get()).ok()).unwrap_or_default();
    ENVELOPE.iter().for_each(|member| params.remove(member));
    params.set(request.kind.name_member(), to_raw(&own_name));
    Cow::Owned(params.to_raw().get().to_owned())
}

/// The facts about a call that every entry can use.
pub(crate) struct CallFacts {
    pub(crate) request_id: String,
    /// The call's start in RFC 3339.
    pub(crate) timestamp: String,
    /// The kind of the item that the call uses.
    pub(crate) kind: ItemKind,
    /// `{upstream}/{name}`, with the server's own name for the item.
    pub(crate) tool_name: String,
    pub(crate) upstream: String,
    pub(crate) tool: String,
    /// The server's own name for the item as logs and records show it.
    pub(crate) shown: String,
    pub(crate) caller: Caller,
    /// The account of the client's address; `None` if it is not known.
    pub(crate) account: Option<Arc<Account>>,
    /// How many calls enclose this one: 0 for a call of a client, 1 for a call that a plugin makes during such a call,
    /// and so on.
    pub(crate) depth: u32,
    pub(crate) user_query: Option<String>,
    /// From the call's `_meta`. An entry's own setting takes precedence.
    pub(crate) max_tokens: Option<u32>,
    /// Whether the request is about a task that an earlier call began.
    pub(crate) of_task: bool,
}

impl CallFacts {
    fn new(
        request: &CallRequest<'_>,
        record: &CallRecord,
        upstream: &LinkedUpstream,
        tool: &str,
        meta: &CallMeta,
    ) -> Self {
        let shown = request.kind.shown(tool);
        // A URI can contain what the gateway sends to the server as a secret.
        let shown = if request.kind.has_name() { shown } else { upstream.target.mask().masked(shown).into_owned() };
        let upstream = &*upstream.target.plan.key.name;
        Self {
            request_id: record.request_id.clone(),
            kind: request.kind,
            timestamp: timestamp(record.started_at),
            tool_name: format!("{upstream}/{tool}"),
            upstream: upstream.to_owned(),
            tool: tool.to_owned(),
            shown,
            caller: request.caller.clone(),
            account: request.reservation.account().cloned(),
            depth: request.depth(),
            user_query: meta.user_query.clone(),
            max_tokens: meta.max_tokens,
            of_task: request.open_task().is_some(),
        }
    }
}

impl CallFacts {
    /// Returns the facts of the filtering of an item's definition, which no client asked for.
    pub(crate) fn of_definition(target: &UpstreamTarget, item: &Item, unix_millis: u64) -> Self {
        Self {
            kind: item.kind,
            tool_name: format!("{}/{}", target.plan.key.name, item.name),
            tool: item.name.clone(),
            shown: target.mask().masked(item.kind.shown(&item.name)).into_owned(),
            ..Self::of_list(&target.plan, unix_millis)
        }
    }

    /// Returns the facts of the making of a list of tools, which no client asked for.
    pub(crate) fn of_list(upstream: &UpstreamPlan, unix_millis: u64) -> Self {
        Self {
            request_id: uuid::Uuid::now_v7().to_string(),
            timestamp: timestamp(unix_millis),
            kind: ItemKind::Tool,
            tool_name: String::new(),
            upstream: upstream.key.name.clone(),
            tool: String::new(),
            shown: String::new(),
            caller: Caller::without_session(Identity::anonymous()),
            account: None,
            depth: 0,
            user_query: None,
            max_tokens: None,
            of_task: false,
        }
    }
}

/// Formats a time as RFC 3339, in UTC with milliseconds.
pub(crate) fn timestamp(unix_millis: u64) -> String {
    let time = Timestamp::from_millisecond(i64::try_from(unix_millis).unwrap_or(i64::MAX)).unwrap_or_default();
    format!("{time:.3}")
}
