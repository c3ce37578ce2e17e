//! What happens with calls of an item apart from its chains.

use crate::domain::apps;
use crate::domain::item::ItemKind;
use crate::domain::plan::ToolOverride;
use crate::domain::route::Route;
use crate::domain::tool_name::{CALL_TOOL, SEARCH_TOOLS};
use crate::engine::plan::link::Linked;
use crate::engine::plan::list_filters::filters_lists;
use crate::engine::plan::own_tools::OwnTool;

/// Returns what the manifest of an upstream says about calls of an item with this name at the server.
pub(super) fn of_item(linked: &Linked, upstream: usize, kind: ItemKind, name: &str) -> Vec<String> {
    let upstream = &linked.upstreams[upstream];
    let refuses = |why: &str| format!("each call is refused: {why}");
    let mut notes: Vec<_> = upstream.refusing.iter().map(|refusal| refuses(&refusal.message)).collect();
    let is_changed = |change: &&ToolOverride| kind == ItemKind::Tool && change.name == name;
    let changes = upstream.target.plan.overrides.iter().enumerate();
    for (place, change) in changes.filter(|(_, change)| is_changed(change)) {
        notes.extend(change.refusing.iter().map(|refusal| refuses(&refusal.message)));
        if change.answer.is_some() {
            notes.push(format!(
                "nothing is sent to the server: the answer is the text of spec.tools.overrides[{place}].answer"
            ));
        }
    }
    notes
}

/// Returns how clients get at an item that is offered, where that is not by the lists at the endpoint of all upstreams.
pub(super) fn of_route(linked: &Linked, route: &Route) -> Option<String> {
    let upstream = &linked.upstreams[route.upstream].target.plan.key.name;
    if route.public.is_none() {
        return Some(format!("it has no public name: clients can use it at /{upstream}/mcp alone"));
    }
    let is_searched = linked.finds_tools() && route.item.kind == ItemKind::Tool;
    let is_found = is_searched && !apps::is_for_apps_alone(&route.item.definition);
    is_found.then(|| {
        format!(
            "toolDiscovery is Search: clients find it with {SEARCH_TOOLS}, tools/list at /mcp does not name it, and \
             {CALL_TOOL} or its name calls it"
        )
    })
}

/// Returns what a tool of the gateway itself does; `None` if the gateway has no tool of this name.
pub(super) fn of_own_tool(linked: &Linked, name: &str) -> Option<String> {
    OwnTool::named(name).filter(|_| linked.finds_tools())?;
    let does = if name == SEARCH_TOOLS {
        "the gateway answers its calls from the lists of tools, and no chain runs on them"
    } else {
        "a call of it is one of the tool that its argument `name` names: explain that tool"
    };
    Some(format!("it is a tool of the gateway (toolDiscovery: Search): {does}"))
}

/// Returns what decides whether clients get an item, and cannot be known without the lists of its server.
pub(super) fn unknown_without_lists(linked: &Linked, upstream: usize, kind: ItemKind, name: &str) -> Vec<String> {
    let plan = &linked.upstreams[upstream].target.plan;
    let pinned = plan.pinning.as_ref().is_some_and(|pinning| pinning.enforce) && kind == ItemKind::Tool;
    let mut notes = Vec::new();
    if pinned {
        notes.push("it is withheld unless its definition is approved (spec.pinning)".to_owned());
    }
    let covering = linked.chains.iter().filter(|chain| filters_lists(chain));
    let covering = covering.filter(|chain| chain.selects(plan, kind.listed_by(), kind, name));
    notes.extend(covering.map(|chain| {
        format!("chain {} runs on its definition ({}), and can withhold it", chain.name, kind.listed_by())
    }));
    notes
}
