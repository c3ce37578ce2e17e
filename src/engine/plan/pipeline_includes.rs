//! Warnings about names in `tools.include` of pipelines that no tool has.

use std::collections::HashSet;
use std::sync::Arc;

use super::derived_annotations::all_are_listed;
use super::link::Linked;
use crate::config::nearest::{has_wildcard, hint};
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::route::Routes;
use crate::engine::catalogue::upstream_state::Catalogue;

/// The maximum number of warnings.
const MAX_SAID: usize = 20;

/// Returns the warnings, once every enabled upstream has listed its tools. A glob that fits nothing can be meant for tools to come.
pub(super) fn unknown_includes(linked: &Linked, lists: &[Option<Arc<Catalogue>>], routes: &Routes) -> Vec<Problem> {
    let pipelines = linked.upstreams.iter().filter_map(|upstream| upstream.pipeline.as_ref().map(|it| (upstream, it)));
    let mut names = pipelines
        .filter(|(upstream, _)| upstream.target.plan.enabled)
        .flat_map(|(upstream, it)| it.plan.include.iter().enumerate().map(move |(place, name)| (upstream, place, name)))
        .filter(|(_, _, name)| !has_wildcard(name))
        .peekable();
    if names.peek().is_none() || !all_are_listed(linked, lists) {
        return Vec::new();
    }
    let known: HashSet<_> = routes.tools().filter_map(|route| route.public.as_deref()).collect();
    let unknown = names.filter(|(_, _, name)| !known.contains(name.as_str()));
    let warnings = unknown.map(|(upstream, place, name)| {
        let hint = hint(name, &known.iter().copied().collect::<Vec<_>>());
        let message = format!("clients see no tool {name:?}, so that no step can call it{hint}");
        let object = ObjectId::new(Kind::ToolPipeline, upstream.target.plan.key.clone());
        Problem::warning(Reason::ToolNotFound, object, format!("spec.tools.include[{place}]"), message)
    });
    warnings.take(MAX_SAID).collect()
}
