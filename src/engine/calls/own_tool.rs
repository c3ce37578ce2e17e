//! Calls of the gateway's own tools (`toolDiscovery: Search`): a search of tools, and calls of tools that were found. The
//! latter are calls like any other, of the tool that they name.

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::arrived::Arrived;
use crate::domain::definition::runs_as_task_only;
use crate::domain::extensions::TASKS;
use crate::domain::item::ItemKind;
use crate::domain::json::doubled_key;
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::record::CallOutcome;
use crate::domain::route::Route;
use crate::domain::rpc::{INTERNAL_ERROR, REFUSED, RETRY_AFTER_MS, RpcError};
use crate::domain::skim::Skim;
use crate::domain::tool_name::{CALL_TOOL, OWN_TOOLS, SEARCH_TOOLS};
use crate::domain::upstream::Answer;
use crate::domain::version::Era;
use crate::engine::catalogue::Catalogues;
use crate::engine::chains::meta::CallMeta;
use crate::engine::chains::outcome::{CallEnd, Denial};
use crate::engine::chains::tool_result::ResultFacts;
use crate::engine::lists::Lists;
use crate::engine::plan::linked_item::Selected;
use crate::engine::plan::own_tools::{CallArguments, OwnTool, SearchArguments};
use crate::engine::plan::snapshot::Snapshot;
use crate::engine::request::{CallRequest, Caller, Endpoint, Reply};

/// The maximum number of bytes of the definitions in one answer. The best one is in it whatever its size.
const MAX_ANSWER: usize = 1 << 20;

/// The maximum number of upstreams that one message names.
const MAX_NAMES: usize = 5;

/// The structured content of the answer of `search_tools`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Found<'a> {
    tools: Vec<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<usize>,
}

/// The answer of `search_tools`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SearchResult<'a> {
    content: [TextBlock<'a>; 1],
    structured_content: &'a RawValue,
}

#[derive(Serialize)]
struct TextBlock<'a> {
    r#type: &'static str,
    text: &'a str,
}

/// The arguments of a call of `call_tool`: the tool that is called, and with what.
pub(super) struct NamedCall(CallArguments);

impl NamedCall {
    /// Returns which call the request stands for; `None` if it is no valid call of `call_tool`.
    pub(super) fn of(snapshot: &Snapshot, request: &CallRequest<'_>) -> Option<Self> {
        let tool = own_tool(snapshot, request).filter(|_| request.name == CALL_TOOL)?;
        let arguments = request.input?;
        tool.check(Skim::from(arguments)).ok()?;
        // The parser refuses members that stand twice.
        let arguments: CallArguments = serde_json::from_str(arguments.get()).ok()?;
        (!OWN_TOOLS.contains(&&*arguments.name)).then_some(Self(arguments))
    }

    /// Returns the request for the tool itself. Its arguments are in no headers, because only the definitions of listed
    /// tools say which are.
    pub(super) fn request<'a>(&'a self, request: CallRequest<'a>) -> CallRequest<'a> {
        let Self(CallArguments { name, arguments }) = self;
        CallRequest { name, input: arguments.as_deref(), check_mirrored: None, ..request }
    }
}

/// Returns the gateway's own tool that the request calls; `None` if it calls another one, or if there are none.
pub(super) fn own_tool(snapshot: &Snapshot, request: &CallRequest<'_>) -> Option<&'static OwnTool> {
    let is_listed = snapshot.finds_tools();
    let is_asked = matches!((&request.endpoint, request.kind), (Endpoint::All, ItemKind::Tool));
    OwnTool::named(request.name).filter(|_| is_listed && is_asked)
}

/// Runs a search, or says what is wrong with a call of the gateway's own tools.
pub(super) async fn run_own_tool(lists: &Lists, arrived: &mut Arrived<'_>, tool: &OwnTool) -> CallEnd {
    let (request, meta) = (arrived.request, arrived.meta);
    arrived.recorder.routed("", request.name);
    let arguments = request.input.map_or(Skim::EMPTY, Skim::from);
    if let Err(places) = tool.check(arguments) {
        return CallEnd::invalid_arguments(request.name, &places);
    }
    if let Some(steps) = doubled_key(arguments.get()) {
        return CallEnd::doubled_argument(request.kind, &steps);
    }
    match serde_json::from_str::<SearchArguments>(arguments.get()) {
        Ok(wanted) if request.name == SEARCH_TOOLS => search_tools(lists, &wanted, request, meta).await,
        _ => {
            let places = format!("arguments/name: {} are called directly, by their names", OWN_TOOLS.join(" and "));
            CallEnd::invalid_arguments(request.name, &places)
        }
    }
}

async fn search_tools(lists: &Lists, wanted: &SearchArguments, request: &CallRequest<'_>, meta: &CallMeta) -> CallEnd {
    lists.wait_for_lists(&lists.in_force.snapshot(), &Endpoint::All, ItemKind::Tool).await;
    let snapshot = lists.in_force.snapshot();
    let Some(index) = lists.tool_index(&snapshot).await else { return no_index() };
    let section = snapshot.bound_section(meta.place());
    if let Some(refusal) = section.as_ref().filter(|section| section.upstream.is_err()).and_then(|it| it.refusal(0)) {
        return lists.chains.ends.refused(request.kind, Denial::refused(None, &refusal));
    }
    let is_visible = |upstream: usize| section.as_ref().is_none_or(|section| section.sees(upstream));
    let client = (&request.caller.identity, &*request.caller.session);
    let permitted = snapshot.permitted_in_turn(client, ItemKind::Tool).await;
    let may_see = |route: &Route| permitted.as_ref().is_none_or(|permitted| permitted.has(route));
    let is_callable = |route: &Route| {
        is_visible(route.upstream) && may_see(route) && may_call(&lists.catalogues, &snapshot, request.caller, route)
    };
    let found = index.search(&snapshot.routes, &wanted.query, wanted.limit(), is_callable);
    if found.is_empty() {
        // An empty answer says that no tool fits, which is only known of tools that are.
        if !index.is_of(snapshot.list_revisions().of(ItemKind::Tool)) {
            return no_index();
        }
        let unknown = lists.upstreams_without_tools(&snapshot, is_visible);
        if !unknown.is_empty() {
            // With rules, the client may not learn the names of upstreams of which it may see nothing.
            return tools_unknown(if snapshot.linked.rules.is_some() { &[] } else { &unknown });
        }
    }
    let definitions = found.iter().filter_map(|route| route.public_definition.as_deref());
    CallEnd::answered(Answer::Result(search_result(definitions)), ResultFacts::default())
}

/// Whether no call of a tool that this client may see is refused from the outset: by its upstream, an override or a chain that
/// cannot be enforced, or because the tool runs only as a task and the client and the server do not have the same tasks.
fn may_call(catalogues: &Catalogues, snapshot: &Snapshot, caller: &Caller, route: &Route) -> bool {
    let upstream = &snapshot.linked.upstreams[route.upstream];
    let change = route.change.and_then(|index| upstream.target.plan.overrides.get(index));
    let refuses = |selected: &Selected| selected.chain.plan.refusing.is_some();
    let is_refused = upstream.refusing.is_some()
        || !snapshot.lists(route)
        || change.is_some_and(|change| change.refusing.is_some())
        || snapshot.items[route.index].chains().any(refuses);
    let has_tasks = || match catalogues.era(&upstream.target.plan.key) {
        Some(Era::Modern) => caller.era == Era::Modern && caller.capabilities.has_extension(TASKS),
        Some(Era::Legacy) => caller.era == Era::Legacy,
        None => true,
    };
    !is_refused && (!runs_as_task_only(&route.item.definition) || has_tasks())
}

/// The end of a search of tools that could not be made.
fn no_index() -> CallEnd {
    let message = "tools cannot be searched, because their index could not be built (the gateway's log says why): call them by \
                   their names";
    let reason = Reason::NoToolIndex;
    let error = RpcError::new(INTERNAL_ERROR, message).with_data(json!({"reason": reason}));
    CallEnd::new(Reply::Error(error), CallOutcome::RpcError, reason)
}

/// The end of a search that found none of the tools that are known, while those of these upstreams are not.
fn tools_unknown(upstreams: &[&str]) -> CallEnd {
    let (shown, more) = upstreams.split_at(upstreams.len().min(MAX_NAMES));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    let of = if shown.is_empty() { "some upstreams".to_owned() } else { shown.join(", ") };
    let message = format!(
        "none of the tools that are known fits, but those of {of}{more} are not known: their lists could not be read yet. Try again"
    );
    let reason = Reason::ToolsUnknown;
    let error = RpcError::new(REFUSED, message).with_data(json!({"reason": reason, "upstreams": shown}));
    CallEnd::new(Reply::Error(error.with_retry_after(RETRY_AFTER_MS)), CallOutcome::Refused, reason)
}

/// Returns the answer with these definitions, as structured content and as text.
fn search_result<'a>(definitions: impl Iterator<Item = &'a RawValue>) -> Box<RawValue> {
    let (mut tools, mut bytes, mut left_out) = (Vec::new(), 0, 0);
    for definition in definitions {
        bytes += definition.get().len();
        if tools.is_empty() || bytes <= MAX_ANSWER {
            tools.push(definition);
        } else {
            left_out += 1;
        }
    }
    let found = to_raw(&Found { tools, left_out: Some(left_out).filter(|left_out| *left_out > 0) });
    to_raw(&SearchResult { content: [TextBlock { r#type: "text", text: found.get() }], structured_content: &found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_bounded_and_has_the_best_tool() {
        let definition = |bytes: usize| to_raw(&serde_json::json!({"name": "x".repeat(bytes)}));
        let (small, half, whole) = (definition(1), definition(600 << 10), definition(2 << 20));
        let counts = |definitions: &[&RawValue]| {
            let result = search_result(definitions.iter().copied());
            let result: serde_json::Value = serde_json::from_str(result.get()).unwrap();
            let content = &result["structuredContent"];
            let text: serde_json::Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
            assert_eq!(text, *content);
            (content["tools"].as_array().unwrap().len(), content.get("leftOut").and_then(|left| left.as_u64()))
        };
        assert_eq!(counts(&[]), (0, None));
        assert_eq!(counts(&[&small, &half, &small]), (3, None));
        assert_eq!(counts(&[&half, &half, &small]), (1, Some(2)));
        assert_eq!(counts(&[&whole, &small]), (1, Some(1)));
    }
}
