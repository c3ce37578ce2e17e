//! Annotations of the tools of pipelines that their manifests do not set: those of the tools that steps can call. A tool that is
//! not known counts as one that may destroy data.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::link::{Globs, Linked};
use super::linked_pipeline::LinkedPipeline;
use crate::domain::item::{Hints, Item, ItemKind};
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::route::{Offer, Routes};
use crate::engine::catalogue::upstream_state::Catalogue;

/// What a pipeline that calls no tool does.
const NOTHING: Hints = Hints { read_only: true, destructive: false, idempotent: true, open_world: false };

/// Puts the annotations into the tools of pipelines. `routes` are those of the offers without them. Returns whether there are
/// such tools.
pub(super) fn annotate<'a>(
    linked: &'a Linked,
    lists: &[Option<Arc<Catalogue>>],
    routes: &Routes,
    offers: &mut [Offer<'a>],
) -> bool {
    let all_are_listed = all_are_listed(linked, lists);
    let mut annotated = false;
    for (upstream, offer) in linked.upstreams.iter().zip(offers) {
        let Some(pipeline) = &upstream.pipeline else { continue };
        let hints = hints(linked, pipeline, routes, all_are_listed);
        for tool in offer.items.iter().filter(|item| item.kind == ItemKind::Tool) {
            let key = (tool.kind, tool.name.as_str());
            let shown = offer.filtered.remove(&key).unwrap_or_else(|| Item::clone(tool));
            offer.filtered.insert(key, with_hints(shown, hints));
            annotated = true;
        }
    }
    annotated
}

/// Whether every enabled upstream has listed its tools.
pub(super) fn all_are_listed(linked: &Linked, lists: &[Option<Arc<Catalogue>>]) -> bool {
    linked.upstreams.iter().zip(lists).all(|(upstream, list)| {
        let list = list.as_ref().and_then(|list| list.list(ItemKind::Tool));
        list.is_some() || !upstream.target.plan.enabled
    })
}

/// Returns the annotations of a pipeline's tool.
fn hints(linked: &Linked, pipeline: &LinkedPipeline, routes: &Routes, all_are_listed: bool) -> Hints {
    let tools: HashMap<_, _> =
        routes.tools().filter_map(|route| Some((route.public.as_deref()?, route.item.hints))).collect();
    let is_known = |pattern: &String| {
        let is_glob = pattern.contains(['*', '?', '[', '{']);
        let globs = Globs::new(std::slice::from_ref(pattern));
        if is_glob {
            all_are_listed && tools.keys().any(|tool| globs.names(tool))
        } else {
            tools.contains_key(&**pattern)
        }
    };
    // A plugin with connections of its own can do anything there.
    let connects = pipeline.plan.plugins().any(|step| {
        let plugin = linked.plan.plugins.iter().find(|plugin| plugin.key == step.key);
        plugin.is_none_or(|plugin| !plugin.egress.is_empty())
    });
    if connects || !pipeline.plan.include.iter().all(is_known) {
        return Hints::default();
    }
    let called = tools.iter().filter(|(tool, _)| pipeline.allows(tool));
    let all = called.fold(NOTHING, |all, (_, tool)| Hints {
        read_only: all.read_only && tool.read_only,
        destructive: all.destructive || (tool.destructive && !tool.read_only),
        idempotent: all.idempotent && (tool.idempotent || tool.read_only),
        open_world: all.open_world || tool.open_world,
    });
    Hints { open_world: all.open_world || !pipeline.plan.models.is_empty(), ..all }
}

/// Returns the tool with the annotations that its definition does not have.
fn with_hints(tool: Item, hints: Hints) -> Item {
    let Ok(mut definition) = RawObject::parse(tool.definition.get()) else { return tool };
    let written = definition.get("annotations").and_then(|text| serde_json::from_str(text.get()).ok());
    let mut annotations = written.filter(Value::is_object).unwrap_or_else(|| json!({}));
    let derived = [
        ("readOnlyHint", hints.read_only),
        ("destructiveHint", hints.destructive),
        ("idempotentHint", hints.idempotent),
        ("openWorldHint", hints.open_world),
    ];
    for (name, value) in derived {
        if annotations[name].is_null() {
            annotations[name] = json!(value);
        }
    }
    definition.set("annotations", to_raw(&annotations));
    Item::parse(ItemKind::Tool, &definition.to_raw()).unwrap_or(tool)
}
