//! The lists and the health of upstreams, and the names that they have listed.

pub(crate) mod filtered;
pub(crate) mod freshness;
pub(crate) mod other_lists;
pub(crate) mod pinning;
pub(crate) mod probes;
pub(crate) mod tool_index;
pub(crate) mod upstream_state;

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwapOption;
use dashmap::DashMap;
use tokio::sync::watch;

use self::filtered::FilteredDefinitions;
use self::pinning::remember;
use self::tool_index::KeptIndex;
use self::upstream_state::{Catalogue, ItemList, UpstreamState};
use crate::domain::budget::{NoRoom, Reservation};
use crate::domain::caching::Caching;
use crate::domain::ids::ObjectKey;
use crate::domain::item::{Item, ItemKind, Listed};
use crate::domain::limits::Tracker;
use crate::domain::seen::SeenNames;
use crate::domain::upstream::ServerFacts;
use crate::domain::version::Era;

/// The lists and the health of upstreams, which a new plan does not replace.
#[derive(Default)]
pub struct Catalogues {
    upstreams: DashMap<ObjectKey, UpstreamState>,
    /// Names of all tools that upstreams have ever listed.
    pub(in crate::engine) seen: watch::Sender<Arc<SeenNames>>,
    /// The names in `seen` that every process of the gateway receives at its start; `None` if no names are stored for
    /// other processes.
    pub(in crate::engine) published: ArcSwapOption<SeenNames>,
    /// The definitions as chains over lists have changed them.
    pub(in crate::engine) filtered: FilteredDefinitions,
    /// The index in which clients find tools.
    pub(in crate::engine) tool_index: KeptIndex,
    /// How often servers have announced changes of lists of each kind, in the order of [`ItemKind::ALL`].
    pub(in crate::engine) announced: Mutex<[u64; ItemKind::ALL.len()]>,
}

impl Catalogues {
    /// Returns the last valid lists of an upstream.
    pub(in crate::engine) fn catalogue(&self, upstream: &ObjectKey) -> Option<Arc<Catalogue>> {
        self.upstreams.get(upstream)?.catalogue.clone()
    }

    /// Returns what an upstream says about the caching of its list of this kind; `None` if the list was never read.
    pub(in crate::engine) fn caching(&self, upstream: &ObjectKey, kind: ItemKind) -> Option<Caching> {
        let state = self.upstreams.get(upstream)?;
        let is_read = state.catalogue.as_ref().is_some_and(|known| known.list(kind).is_some());
        is_read.then_some(state.caching[kind as usize])
    }

    /// Returns a copy of an upstream's state, or the default state if the upstream is not known.
    pub fn upstream(&self, upstream: &ObjectKey) -> UpstreamState {
        self.upstreams.get(upstream).map(|state| state.clone()).unwrap_or_default()
    }

    /// Returns what a server reported in its last handshake; `None` before the first one.
    pub(in crate::engine) fn facts(&self, upstream: &ObjectKey) -> Option<ServerFacts> {
        self.upstreams.get(upstream)?.facts.clone()
    }

    /// Returns the era of a server; `None` before the first handshake with it.
    pub(in crate::engine) fn era(&self, upstream: &ObjectKey) -> Option<Era> {
        Some(self.upstreams.get(upstream)?.facts.as_ref()?.era)
    }

    /// Whether an upstream's list of prompts, resources or templates was read, and did not fail too often since.
    pub(in crate::engine) fn was_read(&self, upstream: &ObjectKey, kind: ItemKind) -> bool {
        self.upstreams.get(upstream).is_some_and(|state| state.others.was_read(kind))
    }

    /// Whether the first try to read an upstream's list of this kind has ended, successfully or not.
    pub(in crate::engine) fn was_tried(&self, upstream: &ObjectKey, kind: ItemKind) -> bool {
        let tried = |state: &UpstreamState| state.tried && (kind == ItemKind::Tool || state.others.tried(kind));
        self.upstreams.get(upstream).is_some_and(|state| tried(&state))
    }

    pub(in crate::engine) fn track(&self, upstream: &ObjectKey) {
        self.upstreams.entry(upstream.clone()).or_default();
    }

    pub(in crate::engine) fn knows(&self, upstream: &ObjectKey) -> bool {
        self.upstreams.contains_key(upstream)
    }

    /// Changes the state of an upstream. A late probe or event can concern an upstream that was removed; the change is
    /// then discarded.
    pub(in crate::engine) fn update<T>(&self, upstream: &ObjectKey, change: impl FnOnce(&mut UpstreamState) -> T) -> T {
        match self.upstreams.get_mut(upstream) {
            Some(mut known) => change(&mut known),
            None => change(&mut UpstreamState::default()),
        }
    }

    pub(in crate::engine) fn in_routing(&self, upstream: &ObjectKey) -> bool {
        self.upstreams.get(upstream).is_none_or(|state| state.health.in_routing())
    }

    pub(in crate::engine) fn upstream_tracker(&self, upstream: &ObjectKey) -> Arc<Tracker> {
        self.upstreams.get(upstream).map(|state| Arc::clone(&state.tracker)).unwrap_or_default()
    }

    /// Removes the state of an upstream and the tool names that it has listed. Deleting an upstream makes its names
    /// available to others.
    pub(in crate::engine) fn forget(&self, upstream: &ObjectKey) {
        self.upstreams.remove(upstream);
        self.see(|seen| seen.forget(upstream));
    }

    /// Changes the tool names that upstreams have listed. `change` returns whether it changed anything, and so does
    /// this function.
    pub(in crate::engine) fn see(&self, change: impl FnOnce(&mut SeenNames) -> bool) -> bool {
        self.seen.send_if_modified(|seen| change(Arc::make_mut(seen)))
    }

    /// Removes names of upstreams for which `planned` returns false, but only where names need room: see
    /// [`SeenNames::make_room`]. While there is room the names are kept, because an upstream whose manifest is broken
    /// can come back.
    pub(in crate::engine) fn make_room_for_names(&self, planned: impl Fn(&str) -> bool) {
        if self.seen.borrow().is_full() {
            self.see(|seen| seen.make_room(planned));
        }
    }

    /// Stores a new list of items of this kind and counts its bytes in `reservation`. Returns whether it differs from the
    /// last one, apart from its order. The list of an upstream that was removed is discarded.
    ///
    /// Fails if the memory budget has no room for the list. The previous one is then kept.
    pub(in crate::engine) fn set_list(
        &self,
        upstream: &ObjectKey,
        kind: ItemKind,
        listed: Listed,
        reservation: Reservation,
    ) -> Result<bool, NoRoom> {
        if !self.knows(upstream) {
            return Ok(false);
        }
        self.update(upstream, |state| state.caching[kind as usize] = listed.caching);
        // Names are stored before the list, because an item whose name is not stored is treated as if there had been
        // no room for its name.
        let names: Vec<_> = listed.items.iter().filter_map(Item::seen_name).map(Cow::into_owned).collect();
        self.see(|seen| seen.add(upstream, names.iter().map(String::as_str)));
        let list = ItemList::new(listed, reservation);
        self.update(upstream, |state| remember(&mut state.first_seen, &list.pins));
        let known = self.catalogue(upstream);
        let is_known = match known.as_deref().and_then(|known| known.list(kind)) {
            Some(known) => known.is_like(&list),
            None => kind != ItemKind::Tool && list.is_empty(),
        };
        if is_known {
            return Ok(false);
        }
        list.hold(kind)?;
        self.update(upstream, |state| {
            let known = state.catalogue.as_deref().cloned().unwrap_or_default();
            state.catalogue = Some(Arc::new(known.with(kind, list)));
        });
        Ok(true)
    }
}
