//! How much of a plan each namespace may take.

use std::collections::{HashMap, HashSet};

use super::bounds::{MAX_NAMESPACE, MAX_OBJECTS, PARTS, size};
use super::fault::id;
use super::resolve::withhold;
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::plan::{Plan, Refusal, TransportPlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Has what is beyond bounds refuse: of its namespace, or of all namespaces but the gateway's own. What was in the
/// `previous` plan comes first, then the first in the plan's order; so what is new pushes out nothing.
pub fn enforce(plan: &mut Plan, previous: Option<&Plan>, problems: &mut Vec<Problem>) {
    let beyond = beyond(plan, previous, problems);
    if beyond.is_empty() {
        return;
    }
    for upstream in &mut plan.upstreams {
        if let Some(refusal) = beyond.get(&id(Kind::MCPUpstream, &upstream.key)) {
            (upstream.refusing, upstream.transport) = (Some(refusal.clone()), TransportPlan::None);
            (upstream.include, upstream.exclude, upstream.overrides) = (Vec::new(), Vec::new(), Vec::new());
            upstream.labels.clear();
        }
    }
    for chain in &mut plan.chains {
        if let Some(refusal) = beyond.get(&id(Kind::PluginChain, &chain.key)) {
            (chain.refusing, chain.entries) = (Some(refusal.clone()), Vec::new());
        }
    }
    plan.plugins.retain(|plugin| !beyond.contains_key(&id(Kind::Plugin, &plugin.key)));
    let kept: HashSet<_> = plan.plugins.iter().map(|plugin| &plugin.digest).collect();
    plan.code.retain(|digest, _| kept.contains(digest));
    for entry in plan.chains.iter_mut().flat_map(|chain| &mut chain.entries) {
        if let Some(refusal) = beyond.get(&id(Kind::Plugin, &entry.plugin)) {
            withhold(entry, refusal.clone());
        }
    }
}

/// What is beyond bounds, and why.
fn beyond(plan: &Plan, previous: Option<&Plan>, problems: &mut Vec<Problem>) -> HashMap<ObjectId, Refusal> {
    let there: HashSet<_> = previous.into_iter().flat_map(in_force).collect();
    let upstreams = plan.upstreams.iter().map(|upstream| (id(Kind::MCPUpstream, &upstream.key), size(upstream)));
    let chains = plan.chains.iter().map(|chain| (id(Kind::PluginChain, &chain.key), size(chain)));
    let plugins = plan.plugins.iter().map(|plugin| {
        let code = plan.code.get(&plugin.digest).map_or(0, String::len);
        (id(Kind::Plugin, &plugin.key), size(plugin) + code)
    });
    let mut objects: Vec<_> = upstreams.chain(chains).chain(plugins).collect();
    objects.sort_by_key(|(object, _)| !there.contains(object));
    let mut used = Used::default();
    let mut beyond = HashMap::new();
    for (object, size) in objects {
        let is_own = object.key.namespace == plan.gateway.key.namespace;
        if let Err(message) = used.add(&object, size, is_own, there.contains(&object)) {
            problems.push(Problem::error(Reason::TooLarge, object.clone(), "", message.clone()));
            beyond.insert(object, Refusal { reason: Reason::TooLarge, message });
        }
    }
    beyond
}

/// The objects of a plan that are not refused for their size.
fn in_force(plan: &Plan) -> impl Iterator<Item = ObjectId> {
    let fits = |refusing: &Option<Refusal>| refusing.as_ref().is_none_or(|refusal| refusal.reason != Reason::TooLarge);
    let upstreams = plan.upstreams.iter().filter(move |upstream| fits(&upstream.refusing));
    let chains = plan.chains.iter().filter(move |chain| fits(&chain.refusing));
    let upstreams = upstreams.map(|upstream| id(Kind::MCPUpstream, &upstream.key));
    let chains = chains.map(|chain| id(Kind::PluginChain, &chain.key));
    upstreams.chain(chains).chain(plan.plugins.iter().map(|plugin| id(Kind::Plugin, &plugin.key)))
}

/// Bytes and objects.
#[derive(Clone, Copy, Default)]
struct Amount {
    bytes: usize,
    objects: usize,
}

impl Amount {
    fn is_within(self, part: usize) -> bool {
        self.bytes <= MAX_NAMESPACE / part && self.objects <= MAX_OBJECTS / part
    }

    /// What of it is more than the part that each namespace has for itself.
    fn beyond_part(self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(MAX_NAMESPACE / PARTS),
            objects: self.objects.saturating_sub(MAX_OBJECTS / PARTS),
        }
    }

    /// This, which counts `before`, where that becomes `after`.
    fn with(self, before: Self, after: Self) -> Self {
        Self { bytes: self.bytes - before.bytes + after.bytes, objects: self.objects - before.objects + after.objects }
    }
}

/// What is taken of a plan.
#[derive(Default)]
struct Used {
    /// By namespace.
    of: HashMap<String, Amount>,
    /// By all but the gateway's own.
    others: Amount,
    /// The same, without the part that each has for itself.
    common: Amount,
}

impl Used {
    /// # Errors
    /// Where there is no room for it. What `was_there` needs room in its namespace only.
    fn add(&mut self, object: &ObjectId, size: usize, is_own: bool, was_there: bool) -> Result<(), String> {
        let namespace = &object.key.namespace;
        let used = self.of.entry(namespace.clone()).or_default();
        let after = Amount { bytes: used.bytes + size, objects: used.objects + 1 };
        if !after.is_within(1) {
            return Err(format!(
                "the objects of namespace {namespace} in this gateway have more than {MAX_NAMESPACE} bytes, or are more \
                 than {MAX_OBJECTS}: what comes after that is refused"
            ));
        }
        if !is_own {
            let others = self.others.with(*used, after);
            let common = self.common.with(used.beyond_part(), after.beyond_part());
            let fits = was_there || (others.is_within(1) && common.is_within(2));
            if !fits {
                return Err(format!(
                    "the objects of all namespaces but the gateway's own have {} bytes, or are {}, and there is no room \
                     for more of namespace {namespace}: what is new is refused until there is",
                    self.others.bytes, self.others.objects
                ));
            }
            (self.others, self.common) = (others, common);
        }
        *used = after;
        Ok(())
    }
}
