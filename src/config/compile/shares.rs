//! How much of a plan each namespace may take.

use std::collections::{HashMap, HashSet};

use super::bounds::{MAX_NAMESPACE, MAX_OBJECTS, size};
use super::id;
use super::resolve::withhold;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::{Plan, Refusal, TransportPlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Has what is beyond the bounds of its namespace refuse: the first objects of a namespace in the plan's order are those
/// that are served.
pub fn enforce(plan: &mut Plan, problems: &mut Vec<Problem>) {
    let mut used = Used::default();
    for upstream in &mut plan.upstreams {
        let size = size(&upstream);
        if let Err(refusal) = used.add(id(Kind::MCPUpstream, &upstream.key), size, problems) {
            (upstream.refusing, upstream.transport) = (Some(refusal), TransportPlan::None);
            (upstream.include, upstream.exclude, upstream.overrides) = (Vec::new(), Vec::new(), Vec::new());
            upstream.labels.clear();
        }
    }
    for chain in &mut plan.chains {
        let size = size(&chain);
        if let Err(refusal) = used.add(id(Kind::PluginChain, &chain.key), size, problems) {
            (chain.refusing, chain.entries) = (Some(refusal), Vec::new());
        }
    }
    let mut beyond: HashMap<ObjectKey, Refusal> = HashMap::new();
    for plugin in &plan.plugins {
        let size = size(plugin) + plan.code.get(&plugin.digest).map_or(0, String::len);
        if let Err(refusal) = used.add(id(Kind::Plugin, &plugin.key), size, problems) {
            beyond.insert(plugin.key.clone(), refusal);
        }
    }
    if beyond.is_empty() {
        return;
    }
    plan.plugins.retain(|plugin| !beyond.contains_key(&plugin.key));
    let kept: HashSet<_> = plan.plugins.iter().map(|plugin| &plugin.digest).collect();
    plan.code.retain(|digest, _| kept.contains(digest));
    for entry in plan.chains.iter_mut().flat_map(|chain| &mut chain.entries) {
        if let Some(refusal) = beyond.get(&entry.plugin) {
            withhold(entry, refusal.clone());
        }
    }
}

/// What namespaces take of a plan: bytes and objects.
#[derive(Default)]
struct Used(HashMap<String, (usize, usize)>);

impl Used {
    fn add(&mut self, object: ObjectId, size: usize, problems: &mut Vec<Problem>) -> Result<(), Refusal> {
        let (bytes, objects) = self.0.entry(object.key.namespace.clone()).or_default();
        if *bytes + size <= MAX_NAMESPACE && *objects < MAX_OBJECTS {
            (*bytes, *objects) = (*bytes + size, *objects + 1);
            return Ok(());
        }
        let message = format!(
            "the objects of namespace {} in this gateway have more than {MAX_NAMESPACE} bytes, or are more than \
             {MAX_OBJECTS}: what comes after that is refused",
            object.key.namespace
        );
        problems.push(Problem::error(Reason::TooLarge, object, "", message.clone()));
        Err(Refusal { reason: Reason::TooLarge, message })
    }
}
