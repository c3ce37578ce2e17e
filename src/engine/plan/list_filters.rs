//! Which definitions of the lists of upstreams clients get where chains cover the lists: what these have made of each
//! definition, and which definitions they have not seen yet.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::link::{Linked, LinkedChain};
use super::linked_item::{Selected, selected};
use super::withheld::Withheld;
use crate::domain::changed_tool::changed;
use crate::domain::digest::{revision, sha256_hex};
use crate::domain::ids::ObjectKey;
use crate::domain::item::{Item, ItemKind};
use crate::domain::plan::{Refusal, UpstreamPlan};
use crate::domain::plugin::Phase;
use crate::domain::raw::to_raw;
use crate::domain::upstream::Target;
use crate::engine::catalogue::filtered::{FilterOutcome, FilterRoom, FilteredDefinitions, MAX_KEPT};

/// The maximum number of items of one upstream that are named as dropped.
const MAX_NAMED: usize = 20;

/// A definition on which chains are to run.
#[derive(Clone)]
pub(crate) struct FilterJob {
    /// What [`FilteredDefinitions`] keeps the outcome under.
    pub(crate) key: String,
    pub(crate) target: Target,
    /// The item as clients would get it, but with the server's own name.
    pub(crate) item: Item,
    /// The name of the item on the endpoint of its upstream.
    pub(crate) own: String,
    pub(crate) chains: Arc<[Selected]>,
    /// When the chains run, by the monotonic clock: at once, or after a pause if they have failed.
    pub(crate) not_before: Duration,
    /// Whether the chains have never run on the definition.
    pub(crate) is_new: bool,
}

/// Items of one upstream that chains keep from clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dropped {
    pub(crate) count: usize,
    /// Messages that name the first items and say why they are dropped.
    pub(crate) said: Vec<String>,
}

/// What the chains over lists say of the lists of one moment.
#[derive(Default)]
pub(crate) struct ListFilters {
    /// The definitions on which chains are to run.
    pub(crate) jobs: Vec<FilterJob>,
    /// What is dropped, by the index of the upstream in the plan.
    pub(crate) dropped: BTreeMap<usize, Dropped>,
    /// The upstreams of which only URIs that passed the chains over lists are read, as they are written, because a server can
    /// take several URIs for one resource: a chain that must run covers their list of resources or of templates, or one has
    /// dropped an item of these. By their indexes in the plan, with whether their list of resources was read.
    pub(crate) closed: BTreeMap<usize, bool>,
}

impl ListFilters {
    /// The upstreams with definitions that chains have never seen.
    pub(crate) fn with_new(&self) -> HashSet<&ObjectKey> {
        self.jobs.iter().filter(|job| job.is_new).map(|job| &job.target.plan.key).collect()
    }

    /// Whether chains have not seen a definition of this kind and upstream yet.
    pub(crate) fn are_running(&self, upstream: &ObjectKey, kind: ItemKind) -> bool {
        self.jobs.iter().any(|job| job.is_new && job.target.plan.key == *upstream && job.item.kind == kind)
    }
}

/// Filters the lists of a plan.
pub(super) struct ListFiltering<'a> {
    linked: &'a Linked,
    known: &'a FilteredDefinitions,
    /// The chains over lists, each with a digest of all that decides what it makes of a definition.
    chains: Vec<(&'a Arc<LinkedChain>, String)>,
    used: HashSet<String>,
    room: FilterRoom,
    filters: ListFilters,
}

/// What clients get of a listed item.
enum Passage {
    /// The item as it is listed.
    AsListed,
    /// The item as chains have changed it, with the server's own name.
    Changed(Item),
    /// Nothing, for this reason; it is absent if the chains are about to run.
    Withheld(Option<String>),
}

/// The items that clients get, and those of them that chains have changed, by kind and name.
pub(super) type PassedItems<'i> = (Vec<&'i Item>, HashMap<(ItemKind, &'i str), Item>);

impl<'a> ListFiltering<'a> {
    /// `listed` is how many items each upstream lists.
    pub(super) fn new(linked: &'a Linked, known: &'a FilteredDefinitions, listed: Vec<usize>) -> Self {
        let filtering = linked.chains.iter().filter(|chain| filters_lists(chain));
        let chains = filtering.map(|chain| (chain, stamp(chain))).collect();
        Self {
            linked,
            known,
            chains,
            used: HashSet::new(),
            room: FilterRoom::new(listed),
            filters: ListFilters::default(),
        }
    }

    /// Returns which of the items that the upstream with this index lists and offers clients get, and those that chains
    /// have changed.
    pub(super) fn pass_all<'i>(&mut self, upstream: usize, listed: Vec<&'i Item>) -> PassedItems<'i> {
        let (mut items, mut changed) = (listed, HashMap::new());
        if !self.chains.is_empty() {
            items.retain(|item| match self.pass(upstream, item) {
                Passage::Withheld(_) => false,
                Passage::AsListed => true,
                Passage::Changed(item_of_chains) => {
                    changed.insert((item.kind, item.name.as_str()), item_of_chains);
                    true
                }
            });
        }
        (items, changed)
    }

    /// Closes this upstream if chains that must run cover its lists. `was_read` tells whether its list of resources was read.
    pub(super) fn close(&mut self, upstream: usize, was_read: bool) {
        if [ItemKind::Resource, ItemKind::Template].iter().any(|kind| self.must_pass(upstream, *kind)) {
            self.filters.closed.insert(upstream, was_read);
        }
    }

    /// Whether a chain that must run, or that refuses what it selects, covers the list of this kind of this upstream. It says
    /// nothing of tools, which chains select by their names.
    fn must_pass(&self, upstream: usize, kind: ItemKind) -> bool {
        let plan = &self.linked.upstreams[upstream].target.plan;
        let mut covering = self.chains.iter().filter(|(chain, _)| chain.selects(plan, kind.listed_by(), kind, ""));
        covering.any(|(chain, _)| chain.plan.refusing.is_some() || selected(chain, plan, kind, "").must_run())
    }

    /// Returns what clients get of an item that the upstream with this index lists and offers.
    fn pass(&mut self, upstream: usize, item: &Item) -> Passage {
        let target = &self.linked.upstreams[upstream].target;
        let plan = &target.plan;
        let covers = |chain: &LinkedChain| chain.selects(plan, item.kind.listed_by(), item.kind, &item.name);
        let covering: Vec<_> = self.chains.iter().filter(|(chain, _)| covers(chain)).cloned().collect();
        if covering.is_empty() {
            return Passage::AsListed;
        }
        if let Some((chain, refusal)) =
            covering.iter().find_map(|(chain, _)| Some((chain, chain.plan.refusing.as_ref()?)))
        {
            let why = format!("chain {} refuses what it selects: {}", chain.name, refusal.message);
            return self.withhold(upstream, item, Some(why));
        }
        let stamps: Vec<_> = covering.iter().map(|(_, stamp)| stamp).collect();
        let change = plan.overrides.iter().find(|change| item.kind == ItemKind::Tool && change.name == item.name);
        let shown = change.map_or_else(|| item.clone(), |change| changed(item, change));
        let own = change.and_then(|change| change.rename.clone()).unwrap_or_else(|| item.name.clone());
        let chains: Vec<_> = covering.iter().map(|(chain, _)| selected(chain, plan, item.kind, &item.name)).collect();
        // A plugin's own filter is no part of its stamp.
        let admits: Vec<_> = chains.iter().map(|chain| &chain.filter_admits).collect();
        let key = key_of(plan, (&stamps, &admits), &own, &shown);
        if !self.used.contains(&key) && !self.room.take(upstream) {
            return self.without_room(upstream, item, &chains);
        }
        let outcome = self.known.get(&key);
        let must_run = chains.iter().any(Selected::must_run);
        let not_before = outcome.as_ref().map_or(Some(Duration::ZERO), |outcome| outcome.again);
        if let Some(not_before) = not_before {
            let (target, is_new) = (Arc::clone(target), outcome.is_none());
            let (key, chains) = (key.clone(), chains.into());
            self.filters.jobs.push(FilterJob { key, target, item: shown, own, chains, not_before, is_new });
        }
        self.used.insert(key);
        match outcome.map(|known| known.outcome) {
            None if must_run => self.withhold(upstream, item, None),
            None | Some(FilterOutcome::Same) => Passage::AsListed,
            Some(FilterOutcome::Changed(changed)) => Passage::Changed(changed),
            Some(FilterOutcome::Dropped(why)) => self.withhold(upstream, item, Some(why)),
        }
    }

    /// Returns what clients get of an item on which no chain runs, because there is no room for what it would make of it.
    fn without_room(&mut self, upstream: usize, item: &Item, chains: &[Selected]) -> Passage {
        if !chains.iter().any(Selected::must_run) {
            return Passage::AsListed;
        }
        let why = format!(
            "chains do not run on it, since they run on at most {MAX_KEPT} definitions, of which its upstream has its share"
        );
        self.withhold(upstream, item, Some(why))
    }

    /// Keeps an item from clients; `why` is absent if its chains are about to run.
    fn withhold(&mut self, upstream: usize, item: &Item, why: Option<String>) -> Passage {
        if !item.kind.has_name() {
            self.filters.closed.insert(upstream, true);
        }
        if let Some(why) = &why {
            let dropped = self.filters.dropped.entry(upstream).or_default();
            dropped.count += 1;
            if dropped.said.len() < MAX_NAMED {
                dropped.said.push(format!("{} {} is not offered: {why}", item.kind, item.kind.shown(&item.name)));
            }
        }
        Passage::Withheld(why)
    }

    /// Returns what the chains say of the lists, and forgets what they said of definitions that are not listed any more.
    pub(super) fn finish(self) -> ListFilters {
        self.known.retain(&self.used);
        self.filters
    }
}

impl Linked {
    /// Returns the chain, and its reason, because of which this item of an upstream would not be listed: the chain covers the
    /// list of its kind and refuses what it selects.
    pub(crate) fn refused_list(&self, upstream: &UpstreamPlan, kind: ItemKind, name: &str) -> Option<(&str, &Refusal)> {
        let covering = self.chains.iter().filter(|chain| chain.selects(upstream, kind.listed_by(), kind, name));
        covering.filter_map(|chain| Some((&*chain.name, chain.plan.refusing.as_ref()?))).next()
    }
}

/// Returns why the chains over lists withhold an item that the upstream with this index lists; `None` if they do not.
pub(super) fn withheld_by_chains(
    linked: &Linked,
    known: &FilteredDefinitions,
    upstream: usize,
    item: &Item,
) -> Option<Withheld> {
    match ListFiltering::new(linked, known, vec![1]).pass(upstream, item) {
        Passage::Withheld(why) => Some(Withheld::ByChains(why)),
        Passage::AsListed | Passage::Changed(_) => None,
    }
}

/// Whether a chain covers lists. One that refuses does so in whichever phase: it may have been meant for lists.
pub(crate) fn filters_lists(chain: &LinkedChain) -> bool {
    let in_phase = chain.plan.phase == Phase::Response || chain.plan.refusing.is_some();
    in_phase && chain.plan.methods.iter().any(|method| ItemKind::listed_with(*method).is_some())
}

/// Returns a digest of all of a chain that decides what it makes of a definition, with the forms of its plugins.
fn stamp(chain: &LinkedChain) -> String {
    let entries = chain.entries.iter().map(|entry| {
        let plugin = entry.plugin.as_ref().map_or_else(|failure| failure.message.as_str(), |plugin| &plugin.identity);
        let settings = (entry.plan.when.as_deref(), entry.config.as_deref(), entry.plan.max_tokens);
        (plugin, settings, entry.rules.role, entry.plan.mode, entry.rules.policy, entry.enabled, entry.timeout)
    });
    revision(&(&chain.name, entries.collect::<Vec<_>>()))
}

/// Returns the whole digest of a definition and of what decides how it is filtered: servers must not be able to find two
/// definitions with one key.
fn key_of(plan: &UpstreamPlan, how: (&[&String], &[&Vec<bool>]), own: &str, shown: &Item) -> String {
    let hashed = to_raw(&((&plan.key, &plan.labels), how, shown.kind, own, &shown.name, &*shown.definition));
    sha256_hex(hashed.get().as_bytes())
}
