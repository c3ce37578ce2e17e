//! Limits the share of a plan that each namespace can use.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::bounds::{MAX_NAMESPACE, MAX_OBJECTS, PARTS, size};
use super::fault::id;
use super::resolve::withhold;
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::plan::{Plan, Refusal, TransportPlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Makes objects beyond the limits refuse calls. There is a limit for each namespace, and one for all namespaces
/// together except the gateway's own. Objects of the `previous` plan have precedence, followed by objects that come
/// earlier in the plan, so new objects never displace existing ones.
pub fn keep_within_bounds(plan: &mut Plan, previous: Option<&Plan>, problems: &mut Vec<Problem>) {
    let beyond = beyond(plan, previous, problems);
    if beyond.is_empty() {
        return;
    }
    for upstream in &mut plan.upstreams {
        if let Some(refusal) = beyond.get(&id(upstream.kind(), &upstream.key)) {
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
    for section in &mut plan.sections {
        if let Some(refusal) = beyond.get(&id(Kind::SectionBinding, &section.key)) {
            section.refusing = Some(refusal.clone());
        }
    }
    plan.plugins.retain(|plugin| !beyond.contains_key(&id(Kind::Plugin, &plugin.key)));
    let kept: HashSet<_> = plan.plugins.iter().map(|plugin| &plugin.digest).collect();
    plan.code.retain(|digest, _| kept.contains(digest));
    for (object, refusal) in beyond.iter().filter(|(object, _)| object.kind == Kind::Plugin) {
        plan.withhold_steps(&object.key, None, refusal);
    }
    for entry in plan.chains.iter_mut().flat_map(|chain| &mut chain.entries) {
        if let Some(refusal) = beyond.get(&id(Kind::Plugin, &entry.plugin)) {
            withhold(entry, refusal.clone());
        }
    }
}

/// Returns the objects of the `previous` plan that grew by more than there is room for, each with a message. Each
/// existing object has room for its previous size. Growth is granted in the order of the plan, before any new object
/// gets room.
pub fn grown_beyond(plan: &Plan, previous: &Plan) -> BTreeMap<ObjectId, String> {
    let now = sizes(plan);
    if Used::of_all(plan, &now).is_within_bounds() {
        return BTreeMap::new();
    }
    let in_force: HashSet<_> = in_force(previous).collect();
    let before: HashMap<_, _> = sizes(previous).into_iter().filter(|(object, _)| in_force.contains(object)).collect();
    let there: Vec<_> = now.iter().filter_map(|(object, size)| Some((object, *before.get(object)?, *size))).collect();
    let smaller: Vec<_> = there.iter().map(|(object, before, now)| ((*object).clone(), *before.min(now))).collect();
    let mut used = Used::of_all(plan, &smaller);
    let grown = there.into_iter().filter(|(_, before, now)| now > before);
    grown
        .filter_map(|(object, before, now)| {
            let step = used.step(&object.key.namespace, is_own(plan, object), ShareAmount::of(before), ShareAmount::of(now));
            if step.is_within_bounds() {
                used.take(&object.key.namespace, step);
                return None;
            }
            let message = format!(
                "it grew from {before} to {now} bytes, for which the other objects of this gateway, of its namespace or of \
                 all namespaces but the gateway's own, leave no room: make it smaller"
            );
            Some((object.clone(), message))
        })
        .collect()
}

/// Returns the objects for which there is no room, each with the refusal of its calls.
fn beyond(plan: &Plan, previous: Option<&Plan>, problems: &mut Vec<Problem>) -> HashMap<ObjectId, Refusal> {
    let there: HashSet<_> = previous.into_iter().flat_map(in_force).collect();
    let mut objects = sizes(plan);
    objects.sort_by_key(|(object, _)| !there.contains(object));
    let mut used = Used::default();
    let mut beyond = HashMap::new();
    for (object, size) in objects {
        if let Err(message) = used.add(&object, size, is_own(plan, &object), there.contains(&object)) {
            problems.push(Problem::error(Reason::TooLarge, object.clone(), "", message.clone()));
            beyond.insert(object, Refusal { reason: Reason::TooLarge, message });
        }
    }
    beyond
}

/// Returns the upstreams, chains, plugins and bindings of a plan, each with its size in bytes. The size of a plugin includes its
/// code.
fn sizes(plan: &Plan) -> Vec<(ObjectId, usize)> {
    let upstreams = plan.upstreams.iter().map(|upstream| (id(upstream.kind(), &upstream.key), size(upstream)));
    let chains = plan.chains.iter().map(|chain| (id(Kind::PluginChain, &chain.key), size(chain)));
    let plugins = plan.plugins.iter().map(|plugin| {
        let code = plan.code.get(&plugin.digest).map_or(0, String::len);
        (id(Kind::Plugin, &plugin.key), size(plugin) + code)
    });
    let sections = plan.sections.iter().map(|section| (id(Kind::SectionBinding, &section.key), size(section)));
    upstreams.chain(chains).chain(plugins).chain(sections).collect()
}

/// Whether an object is in the gateway's own namespace.
fn is_own(plan: &Plan, object: &ObjectId) -> bool {
    object.key.namespace == plan.gateway.key.namespace
}

/// Returns the objects of a plan, except those that are refused because of their size.
fn in_force(plan: &Plan) -> impl Iterator<Item = ObjectId> {
    let fits = |refusing: &Option<Refusal>| refusing.as_ref().is_none_or(|refusal| refusal.reason != Reason::TooLarge);
    let upstreams = plan.upstreams.iter().filter(move |upstream| fits(&upstream.refusing));
    let chains = plan.chains.iter().filter(move |chain| fits(&chain.refusing));
    let upstreams = upstreams.map(|upstream| id(upstream.kind(), &upstream.key));
    let chains = chains.map(|chain| id(Kind::PluginChain, &chain.key));
    let sections = plan.sections.iter().filter(move |section| fits(&section.refusing));
    let sections = sections.map(|section| id(Kind::SectionBinding, &section.key));
    let plugins = plan.plugins.iter().map(|plugin| id(Kind::Plugin, &plugin.key));
    upstreams.chain(chains).chain(plugins).chain(sections)
}

/// A number of bytes, and a number of objects.
#[derive(Clone, Copy, Default)]
struct ShareAmount {
    bytes: usize,
    objects: usize,
}

impl ShareAmount {
    /// Returns the amount of a single object with this many bytes.
    fn of(bytes: usize) -> Self {
        Self { bytes, objects: 1 }
    }

    fn is_within(self, part: usize) -> bool {
        self.bytes <= MAX_NAMESPACE / part && self.objects <= MAX_OBJECTS / part
    }

    /// Returns by how much the amount exceeds the part that is reserved for each namespace.
    fn beyond_part(self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(MAX_NAMESPACE / PARTS),
            objects: self.objects.saturating_sub(MAX_OBJECTS / PARTS),
        }
    }

    /// Returns this amount after a part of it, `before`, was replaced by `after`.
    fn with(self, before: Self, after: Self) -> Self {
        Self { bytes: self.bytes - before.bytes + after.bytes, objects: self.objects - before.objects + after.objects }
    }
}

/// The room that a plan uses.
#[derive(Default)]
struct Used {
    /// Room used by each namespace.
    of: HashMap<String, ShareAmount>,
    /// Room used by all namespaces except the gateway's own.
    others: ShareAmount,
    /// Room that these other namespaces use beyond the part that is reserved for each (see [`PARTS`]).
    common: ShareAmount,
}

/// The room that is used after a change of one object.
struct ShareStep {
    /// Room used by the object's namespace.
    own: ShareAmount,
    others: ShareAmount,
    common: ShareAmount,
}

impl ShareStep {
    fn is_within_bounds(&self) -> bool {
        self.own.is_within(1) && self.others.is_within(1) && self.common.is_within(2)
    }
}

impl Used {
    /// Returns the room that these objects of a plan use, even if it exceeds the limits.
    fn of_all(plan: &Plan, objects: &[(ObjectId, usize)]) -> Self {
        let mut used = Self::default();
        for (object, size) in objects {
            let step =
                used.step(&object.key.namespace, is_own(plan, object), ShareAmount::default(), ShareAmount::of(*size));
            used.take(&object.key.namespace, step);
        }
        used
    }

    fn is_within_bounds(&self) -> bool {
        self.of.values().all(|of| of.is_within(1)) && self.others.is_within(1) && self.common.is_within(2)
    }

    /// Returns the room that would be used if an object of this namespace changed from `before` to `after`.
    fn step(&self, namespace: &str, is_own: bool, before: ShareAmount, after: ShareAmount) -> ShareStep {
        let used = self.of.get(namespace).copied().unwrap_or_default();
        let own = used.with(before, after);
        let (mut others, mut common) = (self.others, self.common);
        if !is_own {
            (others, common) = (others.with(before, after), common.with(used.beyond_part(), own.beyond_part()));
        }
        ShareStep { own, others, common }
    }

    fn take(&mut self, namespace: &str, step: ShareStep) {
        self.of.insert(namespace.to_owned(), step.own);
        (self.others, self.common) = (step.others, step.common);
    }

    /// Adds an object.
    ///
    /// # Errors
    /// If there is no room for the object. An object that `was_there`, in the previous plan, needs room only within the
    /// limit of its namespace.
    fn add(&mut self, object: &ObjectId, size: usize, is_own: bool, was_there: bool) -> Result<(), String> {
        let namespace = &object.key.namespace;
        let step = self.step(namespace, is_own, ShareAmount::default(), ShareAmount::of(size));
        if !step.own.is_within(1) {
            return Err(format!(
                "the objects of namespace {namespace} in this gateway have more than {MAX_NAMESPACE} bytes, or are more \
                 than {MAX_OBJECTS}: what comes after that is refused"
            ));
        }
        if !is_own && !was_there && !step.is_within_bounds() {
            return Err(format!(
                "the objects of all namespaces but the gateway's own have {} bytes, or are {}, and there is no room \
                 for more of namespace {namespace}: what is new is refused until there is",
                self.others.bytes, self.others.objects
            ));
        }
        self.take(namespace, step);
        Ok(())
    }
}
