//! The state of one upstream, independent of the plan in force.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::domain::budget::{NoRoom, Reservation};
use crate::domain::caching::Caching;
use crate::domain::digest::{revision, sha256_hex};
use crate::domain::health::{ConnectionState, Health, ShortConnections};
use crate::domain::item::{Item, ItemKind, Listed};
use crate::domain::limits::Tracker;
use crate::domain::pin;
use crate::domain::plan::Refusal;
use crate::domain::upstream::ServerFacts;
use crate::engine::catalogue::other_lists::OtherLists;

/// The state of an upstream, kept across plans.
#[derive(Clone, Default)]
pub struct UpstreamState {
    /// The health of the upstream, as the probes found it.
    pub health: Health,
    /// The connections that did not last.
    pub short: ShortConnections,
    /// When the upstream last became connected, in Unix milliseconds.
    pub connected_at: Option<u64>,
    /// When the upstream left routing, in Unix milliseconds; `None` while it is in routing.
    pub auto_disabled_at: Option<u64>,
    /// What the server reported in its last handshake.
    pub facts: Option<ServerFacts>,
    /// The last valid lists; `None` before the first one.
    pub catalogue: Option<Arc<Catalogue>>,
    /// Why the list of tools could not be read last; `None` if it was.
    pub tools_fault: Option<String>,
    /// When other lists than that of tools are read, and why they could not be.
    pub others: OtherLists,
    /// For each tool, the digest of the first definition that was seen.
    pub(crate) first_seen: BTreeMap<String, String>,
    /// Why the last attempt to reach the upstream failed, in words that clients can see; `None` if it succeeded.
    pub down: Option<String>,
    /// When a probe first found the connection closed for lack of use, in Unix milliseconds; `None` while there is a
    /// connection.
    pub resting_since: Option<u64>,
    /// Whether the list of tools may be outdated and must be read again.
    pub stale: bool,
    /// For each kind of items, whether the server announced a change of its list that was not read since.
    pub announced: [bool; ItemKind::ALL.len()],
    /// Counts what clients are told of announcements.
    pub(crate) announcements: Announcements,
    /// Until when the list of tools is fresh, by the monotonic clock; `None` if the server does not say so.
    pub fresh_until: Option<Duration>,
    /// What the server says about the caching of its lists, by kind in the order of [`ItemKind::ALL`].
    pub caching: [Caching; ItemKind::ALL.len()],
    /// Since when a connection is being made, by the monotonic clock; `None` while none is.
    pub connecting_since: Option<Duration>,
    /// When a call last had a probe run that waited after a failure, by the monotonic clock.
    pub(crate) retried_at: Option<Duration>,
    /// Whether the first try to connect and to read the list of tools has ended, successfully or not.
    pub tried: bool,
    /// Duration of the last successful probe in milliseconds.
    pub ping_ms: Option<f64>,
    /// When a probe last succeeded, in Unix milliseconds.
    pub last_ping_at: Option<u64>,
    /// When the next probe is due, in Unix milliseconds; `None` if no probe is planned.
    pub next_probe_at: Option<u64>,
    /// Counts the upstream's calls in flight.
    pub(crate) tracker: Arc<Tracker>,
}

/// Limits how often clients are told that a list has changed because its server says so, although what they see may be the
/// same: they would read it again each time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Announcements {
    since: Duration,
    count: u32,
}

impl Announcements {
    /// The maximum number in [`Self::WINDOW`].
    const MOST: u32 = 10;
    const WINDOW: Duration = Duration::from_secs(60);

    /// Whether clients are told of one more. `now` is the time by the monotonic clock.
    pub(crate) fn take(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.since) >= Self::WINDOW {
            *self = Self { since: now, count: 0 };
        }
        self.count = self.count.saturating_add(1);
        self.count <= Self::MOST
    }
}

/// After how long a connection that is being made is reported.
const STARTING: Duration = Duration::from_secs(5);

/// How many copies of a tool's definition are kept in memory: the original, its schema, and the one with its public name.
const COPIES_OF_TOOL: u64 = 3;
/// Like `COPIES_OF_TOOL`, for other items, which have no schema.
const COPIES: u64 = 2;
/// The memory that an item takes besides its definition, such as its routes. Other items than tools can be many and
/// small.
const OVERHEAD: u64 = 1 << 10;

/// The lists of an upstream.
#[derive(Clone, Default)]
pub struct Catalogue([Option<Arc<ItemList>>; ItemKind::ALL.len()]);

/// A list of items of one kind.
pub struct ItemList {
    /// The items in the server's order.
    items: Vec<Item>,
    /// SHA-256 of each item's original definition in hex, in the same order.
    digests: Vec<String>,
    /// The digest of each tool's definition that owners approve, by the server's own name.
    pub(crate) pins: BTreeMap<String, String>,
    /// Messages about items whose definitions were rejected; see [`Listed::leave_out`].
    left_out: Vec<String>,
    /// Messages about the list as a whole; see [`Listed::note`].
    notes: Vec<String>,
    /// Digest of the names and definitions, independent of their order.
    revision: String,
    /// Reserves the bytes of the definitions.
    reservation: Reservation,
}

impl UpstreamState {
    /// Returns for how long a connection is being made, in words; `None` if none is, or since a moment ago. `now` is the time
    /// by the monotonic clock.
    pub(crate) fn starting(&self, now: Duration) -> Option<String> {
        let since = now.saturating_sub(self.connecting_since?);
        (since >= STARTING).then(|| format!("starting for {} s", since.as_secs()))
    }

    /// Returns the state of the connection at `now`. One that has been made for longer than a call may take does not answer.
    pub(crate) fn connection_state(&self, now: Duration, call_timeout: Duration) -> ConnectionState {
        let took = self.connecting_since.map(|since| now.saturating_sub(since));
        match self.health.state {
            ConnectionState::Connecting if took.is_some_and(|took| took > call_timeout) => ConnectionState::Error,
            state => state,
        }
    }

    /// Returns why calls are refused, for how long a connection is being made, or else the last failure; `None` if there is none
    /// of these. `now` is the time by the monotonic clock.
    pub(crate) fn error(&self, refusing: Option<&Refusal>, now: Duration) -> Option<String> {
        let refusal = refusing.map(|refusal| refusal.message.clone());
        refusal.or_else(|| self.starting(now)).or_else(|| self.health.last_error.clone())
    }

    /// Whether the list of tools was ever read.
    pub(crate) fn knows_tools(&self) -> bool {
        self.catalogue.as_ref().is_some_and(|known| known.list(ItemKind::Tool).is_some())
    }
}

impl ItemList {
    pub(crate) fn new(Listed { items, left_out, notes, .. }: Listed, reservation: Reservation) -> Self {
        let digests: Vec<_> = items.iter().map(|item| sha256_hex(item.definition.get().as_bytes())).collect();
        let named: BTreeSet<_> = items.iter().zip(&digests).map(|(item, digest)| (&item.name, digest)).collect();
        let revision = revision(&named);
        let tools = items.iter().filter(|item| item.kind == ItemKind::Tool);
        let pins = tools.map(|tool| (tool.name.clone(), pin::digest(tool))).collect();
        Self { items, digests, pins, left_out, notes, revision, reservation }
    }

    /// Whether the server listed nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.left_out.is_empty() && self.notes.is_empty()
    }

    /// Whether the other list has the same items, and the same are rejected for the same reasons.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.revision == other.revision && self.left_out == other.left_out && self.notes == other.notes
    }

    /// Reserves the bytes of the definitions in the budget.
    ///
    /// # Errors
    /// If there is not enough room.
    pub(crate) fn hold(&self, kind: ItemKind) -> Result<(), NoRoom> {
        let (copies, overhead) = if kind == ItemKind::Tool { (COPIES_OF_TOOL, 0) } else { (COPIES, OVERHEAD) };
        let bytes = |item: &Item| copies * item.definition.get().len() as u64 + overhead;
        self.reservation.resize(self.items.iter().map(bytes).sum())
    }
}

impl Catalogue {
    /// Returns the lists with another list of items of this kind.
    pub(crate) fn with(mut self, kind: ItemKind, list: ItemList) -> Self {
        self.0[kind as usize] = Some(Arc::new(list));
        self
    }

    /// Returns the list of tools alone.
    pub(crate) fn without_others(&self) -> Self {
        let mut lists = Self::default();
        lists.0[ItemKind::Tool as usize].clone_from(&self.0[ItemKind::Tool as usize]);
        lists
    }

    /// Returns the list of items of this kind; `None` if it was never read.
    pub(crate) fn list(&self, kind: ItemKind) -> Option<&ItemList> {
        self.0[kind as usize].as_deref()
    }

    /// Returns all items, by kind in the order of [`ItemKind::ALL`].
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.0.iter().flatten().flat_map(|list| &list.items)
    }

    /// Returns the tools, each with the digest of its definition.
    pub fn tools(&self) -> impl Iterator<Item = (&Item, &String)> {
        self.list(ItemKind::Tool).into_iter().flat_map(|list| list.items.iter().zip(&list.digests))
    }

    /// Returns the tools by the server's own names, each with the digest of its definition that owners approve.
    pub(crate) fn pins(&self) -> impl Iterator<Item = (&String, &String)> {
        self.list(ItemKind::Tool).into_iter().flat_map(|list| &list.pins)
    }

    /// Returns the digest of the names and definitions of the tools.
    pub fn tools_revision(&self) -> &str {
        self.list(ItemKind::Tool).map_or("", |list| &list.revision)
    }

    /// Returns messages about items whose definitions were rejected.
    pub fn left_out(&self) -> impl Iterator<Item = (ItemKind, &str)> {
        let lists = ItemKind::ALL.into_iter().filter_map(|kind| Some((kind, self.list(kind)?)));
        lists.flat_map(|(kind, list)| list.left_out.iter().map(move |said| (kind, said.as_str())))
    }

    /// Returns messages about lists as a whole.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flatten().flat_map(|list| &list.notes).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_announces_endlessly_is_told_a_few_times_a_minute() {
        let mut announcements = Announcements::default();
        let told = (0..120).filter(|second| announcements.take(Duration::from_secs(*second)));
        assert_eq!(told.collect::<Vec<_>>(), (0..10).chain(60..70).collect::<Vec<_>>());
    }
}
