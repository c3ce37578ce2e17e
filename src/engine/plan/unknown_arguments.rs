//! Warnings about conditions that read an argument which no tool of their entry has: they cannot be evaluated on any call.

use std::sync::Arc;

use super::link::{Linked, LinkedChain, LinkedEntry};
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::item::ItemKind;
use crate::domain::method::Method;
use crate::domain::problem::Problem;
use crate::domain::raw::RawObject;
use crate::domain::reason::Reason;
use crate::domain::route::{Route, Routes};
use crate::engine::catalogue::upstream_state::Catalogue;

/// Members of a schema that can declare arguments besides `properties`.
const OTHER_PLACES: [&str; 8] =
    ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "patternProperties"];

/// Returns the warnings. `lists` are in the order of the upstreams. Nothing is said of a chain while the tools of one of its
/// upstreams are not known, or if it covers prompts, which have arguments too.
pub(super) fn unknown_arguments(linked: &Linked, lists: &[Option<Arc<Catalogue>>], routes: &Routes) -> Vec<Problem> {
    let mut problems = Vec::new();
    for chain in &linked.chains {
        let methods = &chain.plan.methods;
        if !methods.contains(&Method::CallTool)
            || methods.contains(&Method::GetPrompt)
            || !has_tools(linked, chain, lists)
        {
            continue;
        }
        for entry in chain.entries.iter().filter(|entry| entry.enabled) {
            let keys = entry.when.iter().flat_map(|when| when.untested_keys("call", "arguments"));
            problems.extend(keys.filter(|key| is_unknown(linked, chain, entry, routes, key)).map(|key| {
                let message = format!(
                    "it reads the argument {key:?}, which the input schema of no tool that the entry runs on has. A condition \
                     that cannot be evaluated runs the entry: correct the name, or test it with has(call.arguments.NAME)"
                );
                let object = ObjectId::new(Kind::PluginChain, chain.plan.key.clone());
                let field = format!("spec.entries[{}].when", entry.plan.place);
                Problem::warning(Reason::UnknownArgument, object, field, message)
            }));
        }
    }
    problems
}

/// Whether all upstreams of the chain have listed their tools.
fn has_tools(linked: &Linked, chain: &LinkedChain, lists: &[Option<Arc<Catalogue>>]) -> bool {
    let is_known =
        |list: &Option<Arc<Catalogue>>| list.as_ref().is_some_and(|list| list.list(ItemKind::Tool).is_some());
    let mut covered = linked.upstreams.iter().zip(lists).filter(|(upstream, _)| {
        let plan = &upstream.target.plan;
        plan.enabled && chain.covers(plan)
    });
    covered.all(|(_, list)| is_known(list))
}

/// Whether the entry runs on tools, and none of them has this argument.
fn is_unknown(linked: &Linked, chain: &LinkedChain, entry: &LinkedEntry, routes: &Routes, key: &str) -> bool {
    let runs_on = |route: &&Arc<Route>| {
        let (upstream, name) = (&linked.upstreams[route.upstream].target.plan, &*route.item.name);
        chain.selects(upstream, Method::CallTool, ItemKind::Tool, name)
            && entry.admits(&upstream.key.name, ItemKind::Tool, name)
    };
    let mut tools = routes.tools().filter(runs_on).peekable();
    tools.peek().is_some() && !tools.any(|route| may_have(route, key))
}

/// Whether the tool's schema declares the argument, or may declare it elsewhere than in its `properties`.
fn may_have(route: &Route, key: &str) -> bool {
    let Some(schema) = &route.item.input_schema else { return true };
    let Ok(schema) = RawObject::parse(schema.get()) else { return true };
    let properties = schema.get("properties").and_then(|properties| RawObject::parse(properties.get()).ok());
    properties.is_some_and(|properties| properties.get(key).is_some())
        || OTHER_PLACES.iter().any(|place| schema.get(place).is_some())
}
