//! What is wrong with the lists of upstreams: items without a public name, items that are not offered, lists that could
//! not be read, overrides and filters of tools that are not there, and tools that are not approved.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::changed_tools::unknown_overrides;
use super::link::{Linked, LinkedChain, LinkedUpstream};
use super::list_filters::{Dropped, ListFilters};
use super::pipeline_includes::unknown_includes;
use super::templates::{MAX_EXPRESSIONS, MAX_LENGTH, MAX_OF_ONE_UPSTREAM, MAX_TEMPLATES, Templates};
use super::unknown_arguments::unknown_arguments;
use super::unmatched_names::unmatched_names;
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::item::ItemKind;
use crate::domain::plan::PrefixMode;
use crate::domain::plugin::Role;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::route::Routes;
use crate::domain::seen::{MAX_BYTES, MAX_OF_NAMESPACE, MAX_OF_ONE, MAX_SEEN, SeenNames};
use crate::engine::catalogue::Catalogues;
use crate::engine::catalogue::pinning::changed;
use crate::engine::catalogue::upstream_state::Catalogue;

/// The maximum number of upstreams that one message names.
const MAX_LISTED: usize = 10;

/// Returns the problems with the lists of all upstreams. `lists` are in the order of the upstreams.
pub(super) fn list_problems(
    linked: &Linked,
    lists: &[Option<Arc<Catalogue>>],
    seen: &SeenNames,
    filters: &ListFilters,
    routes: &Routes,
    templates: &Templates,
    state: &Catalogues,
) -> Vec<Problem> {
    let mut problems = unnamed(linked, routes);
    problems.extend(dropped(linked, filters));
    problems.extend(passed_by(linked, lists));
    problems.extend(no_room_for_names(linked, lists, seen));
    problems.extend(unknown_overrides(linked, lists, seen));
    problems.extend(unmatched_names(linked, lists, seen));
    problems.extend(unknown_includes(linked, lists, routes));
    problems.extend(left_out(linked, lists, filters, state));
    problems.extend(unmatched(linked, templates));
    problems.extend(long_names(linked, routes));
    problems.extend(unknown_arguments(linked, lists, routes));
    for (upstream, list) in linked.upstreams.iter().zip(lists) {
        let plan = &upstream.target.plan;
        problems.extend(changed(plan, list.as_deref(), &state.upstream(&plan.key).first_seen));
    }
    problems
}

/// Returns a problem for each tool without a public name, and warnings about other items without one, of each upstream and
/// kind the first ones and the number of the others. Items of other kinds can still be used at their upstream's own path.
fn unnamed(linked: &Linked, routes: &Routes) -> Vec<Problem> {
    let mut problems = Vec::new();
    for ((upstream, kind), unnamed) in &routes.unnamed {
        let plan = &linked.upstreams[*upstream].target.plan;
        let object = || ObjectId::new(plan.kind(), plan.key.clone());
        let name = &plan.key.name;
        let field = if plan.pipeline().is_some() { "spec.tool.name" } else { "spec.tools.overrides" };
        if !kind.has_name() {
            let count = unnamed.count;
            let message = format!(
                "{count} of its {kind}s have URIs that an upstream before it lists too, or that are too long: use them at \
                 /{name}/mcp"
            );
            problems.push(Problem::warning(Reason::ItemConflict, object(), "", message));
            continue;
        }
        let problem = |message: String| match kind {
            ItemKind::Tool => Problem::error(Reason::ToolNameConflict, object(), field, message),
            _ => Problem::warning(Reason::ItemConflict, object(), "", message),
        };
        problems.extend(unnamed.said.iter().cloned().map(problem));
        let more = unnamed.count - unnamed.said.len();
        if more > 0 {
            problems.push(problem(format!("{more} more {kind}s have no public name")));
        }
    }
    problems
}

/// The maximum number of tools of an upstream with faults that are named.
const MOST_INVALID: usize = 20;
/// Names of this length and more are too long for some clients: they put `mcp__hawsepipe__` in front, and providers of models
/// allow 64 characters.
const LONG_NAME: usize = 48;

/// Warns about tools of an upstream whose public names are long.
fn long_names(linked: &Linked, routes: &Routes) -> Vec<Problem> {
    let mut longest: BTreeMap<usize, (usize, &str)> = BTreeMap::new();
    for route in routes.tools() {
        let name = route.public.as_deref().filter(|name| name.len() >= LONG_NAME);
        let Some(name) = name.filter(|_| linked.plan.gateway.max_name_length.is_none()) else { continue };
        let (count, known) = longest.entry(route.upstream).or_default();
        *count += 1;
        *known = if name.len() > known.len() { name } else { known };
    }
    let warning = |(upstream, (count, name)): (usize, (usize, &str))| {
        let object = ObjectId::new(Kind::MCPUpstream, linked.upstreams[upstream].target.plan.key.clone());
        let message = format!(
            "{count} of its tools have names of {LONG_NAME} characters or more, such as {name}: clients put a prefix in front, \
             and providers of models allow 64 in all. Rename them, or set spec.upstreams.maxNameLength of the MCPGateway"
        );
        Problem::warning(Reason::LongNames, object, "spec.tools.overrides", message)
    };
    longest.into_iter().map(warning).collect()
}

/// Returns warnings about items that are not offered, about lists that could not be read, and about connections that do not
/// last: their server is at fault, not what is written about it.
fn left_out(
    linked: &Linked,
    lists: &[Option<Arc<Catalogue>>],
    filters: &ListFilters,
    state: &Catalogues,
) -> Vec<Problem> {
    let of_one = |(index, (upstream, list)): (usize, (&LinkedUpstream, &Option<Arc<Catalogue>>))| {
        let (key, kind) = (&upstream.target.plan.key, upstream.target.plan.kind());
        let warning = |reason, said: &str| Problem::warning(reason, ObjectId::new(kind, key.clone()), "", said);
        let left_out = list.iter().flat_map(|list| list.left_out()).map(|(kind, said)| match kind {
            ItemKind::Tool => warning(Reason::InvalidTool, said),
            _ => warning(Reason::InvalidItem, said),
        });
        let mut problems: Vec<_> = left_out.collect();
        let faulty =
            list.iter().flat_map(|list| list.tools()).filter_map(|(tool, _)| Some((tool, tool.fault.as_ref()?)));
        let end = if linked.plan.gateway.offers_invalid_tools { "is offered, and" } else { "is left out:" };
        problems.extend(faulty.take(MOST_INVALID).map(|(tool, fault)| {
            warning(Reason::InvalidTool, &format!("tool {:?} {end} providers of models reject it: {fault}", tool.name))
        }));
        problems.extend(list.iter().flat_map(|list| list.notes()).map(|note| warning(Reason::UnusualList, note)));
        let known = state.upstream(key);
        problems.extend(known.tools_fault.map(|fault| {
            warning(Reason::ListUnread, &format!("{} is not read anew: {fault}", ItemKind::Tool.listed_by()))
        }));
        problems.extend(known.short.fault().map(|fault| warning(Reason::ConnectionEnds, &fault)));
        problems.extend(known.others.faults().map(|(kind, fault)| {
            let is_awaited = kind == ItemKind::Resource && filters.closed.get(&index) == Some(&false);
            let refused = "; until it is read, resources that no list names are refused, because it is not known what \
                           the chains over it withhold";
            let refused = if is_awaited { refused } else { "" };
            warning(Reason::ListUnread, &format!("{} is not read anew: {fault}{refused}", kind.listed_by()))
        }));
        problems
    };
    linked.upstreams.iter().zip(lists).enumerate().flat_map(of_one).collect()
}

/// Warns about items that chains over lists keep from clients.
fn dropped(linked: &Linked, filters: &ListFilters) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (upstream, Dropped { count, said }) in &filters.dropped {
        let object = ObjectId::new(Kind::MCPUpstream, linked.upstreams[*upstream].target.plan.key.clone());
        let problem = |message: &str| Problem::warning(Reason::DefinitionDropped, object.clone(), "", message);
        problems.extend(said.iter().map(|said| problem(said)));
        if *count > said.len() {
            problems.push(problem(&format!("{} more items are not offered", count - said.len())));
        }
    }
    problems
}

/// Warns about chains without `methods` that have a Guard: it sees no prompts and resources, which upstreams of the chain
/// list.
fn passed_by(linked: &Linked, lists: &[Option<Arc<Catalogue>>]) -> Vec<Problem> {
    let lists_others = |list: &Option<Arc<Catalogue>>| {
        list.iter().flat_map(|list| list.items()).any(|item| item.kind != ItemKind::Tool)
    };
    let listing: Vec<_> = linked.upstreams.iter().zip(lists).filter(|(_, list)| lists_others(list)).collect();
    let guards =
        |chain: &LinkedChain| chain.entries.iter().any(|entry| entry.enforces() && entry.rules.role == Role::Guard);
    let chains = linked.chains.iter().filter(|chain| chain.plan.default_methods && guards(chain));
    let warnings = chains.filter_map(|chain| {
        let covered = listing.iter().filter(|(upstream, _)| chain.covers(&upstream.target.plan));
        let names: Vec<_> = covered.map(|(upstream, _)| upstream.target.plan.key.name.as_str()).collect();
        let (subject, verb) = match names.as_slice() {
            [] => return None,
            [_] => ("upstream", "lists"),
            _ => ("upstreams", "list"),
        };
        let message = format!(
            "it has a Guard and sees tools/call alone, and {subject} {} {verb} prompts or resources: name the methods that \
             it is for, such as [tools/call, prompts/get, resources/read]",
            listed_names(&names)
        );
        let object = ObjectId::new(Kind::PluginChain, chain.plan.key.clone());
        Some(Problem::warning(Reason::MethodsNotNamed, object, "spec.methods", message))
    });
    warnings.collect()
}

/// Returns the first names, and how many more there are.
fn listed_names(names: &[&str]) -> String {
    let more = names.len().saturating_sub(MAX_LISTED);
    let first = names[..names.len() - more].join(", ");
    if more > 0 { format!("{first} and {more} more") } else { first }
}

/// Warns about upstreams with templates that are not matched.
fn unmatched(linked: &Linked, templates: &Templates) -> Vec<Problem> {
    let warnings = templates.unmatched().iter().map(|(upstream, count)| {
        let key = &linked.upstreams[*upstream].target.plan.key;
        let message = format!(
            "{count} of its resource templates find no resources at /mcp: use these at /{}/mcp. Templates need a scheme, at \
             most {MAX_LENGTH} bytes and {MAX_EXPRESSIONS} expressions; of one upstream {MAX_OF_ONE_UPSTREAM} are matched, \
             of all {MAX_TEMPLATES}",
            key.name
        );
        Problem::warning(Reason::InvalidItem, ObjectId::new(Kind::MCPUpstream, key.clone()), "", message)
    });
    warnings.collect()
}

/// Warns about upstreams whose tools have a prefix because there is no room to store more tool names.
fn no_room_for_names(linked: &Linked, lists: &[Option<Arc<Catalogue>>], seen: &SeenNames) -> Vec<Problem> {
    if linked.plan.gateway.prefix != PrefixMode::OnConflict {
        return Vec::new();
    }
    let unseen = linked.upstreams.iter().zip(lists).filter_map(|(upstream, list)| {
        let key = &upstream.target.plan.key;
        let seen = |name: &str| seen.of(key).is_some_and(|seen| seen.contains(name));
        let count = list.iter().flat_map(|list| list.tools()).filter(|(tool, _)| !seen(&tool.name)).count();
        (count > 0).then(|| {
            let message = format!(
                "{count} of its tools always have the prefix {}__: as many names of tools were seen as are kept, which \
                 are {MAX_OF_ONE} of one upstream, {MAX_OF_NAMESPACE} of one namespace and {MAX_SEEN} of all, in {} KiB. \
                 Set prefix: Always",
                key.name,
                MAX_BYTES >> 10
            );
            Problem::warning(
                Reason::ToolNameConflict,
                ObjectId::new(Kind::MCPUpstream, key.clone()),
                "spec.tools",
                message,
            )
        })
    });
    unseen.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_up_to_a_number() {
        let names: Vec<_> = (0..12).map(|n| n.to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert_eq!(listed_names(&names[..3]), "0, 1, 2");
        assert_eq!(listed_names(&names[..MAX_LISTED]), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9");
        assert_eq!(listed_names(&names), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more");
    }
}
