//! The state of one upstream, independent of the plan in force.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::domain::budget::{NoRoom, Reservation};
use crate::domain::digest::{revision, sha256_hex};
use crate::domain::health::Health;
use crate::domain::item::{Item, ItemKind, Listed};
use crate::domain::limits::Tracker;
use crate::domain::upstream::ServerFacts;

/// The state of an upstream, kept across plans.
#[derive(Clone, Default)]
pub struct UpstreamState {
    /// The health of the upstream, as the probes found it.
    pub health: Health,
    /// When the upstream last became connected, in Unix milliseconds.
    pub connected_at: Option<u64>,
    /// When the upstream left routing, in Unix milliseconds; `None` while it is in routing.
    pub auto_disabled_at: Option<u64>,
    /// What the server reported in its last handshake.
    pub facts: Option<ServerFacts>,
    /// The last valid lists; `None` before the first ones.
    pub catalogue: Option<Arc<Catalogue>>,
    /// Why the last attempt to reach the upstream failed, in words that clients can see; `None` if it succeeded.
    pub down: Option<String>,
    /// When a probe first found the connection closed for lack of use, in Unix milliseconds; `None` while there is a
    /// connection.
    pub resting_since: Option<u64>,
    /// Whether the lists may be outdated and must be read again.
    pub stale: bool,
    /// Whether the first try to connect and to read the lists has ended, successfully or not.
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

/// How many copies of a definition are kept in memory: the original, its schema, and the one with its public name.
const COPIES: u64 = 3;

/// The lists of an upstream.
pub struct Catalogue {
    /// The items, in the order of [`Listed::items`].
    pub items: Vec<Item>,
    /// SHA-256 of each item's original definition in hex, in the same order.
    pub digests: Vec<String>,
    /// Messages about items whose definitions were rejected; see [`Listed::leave_out`].
    pub left_out: Vec<String>,
    /// Digest of the kinds, names and definitions, independent of their order.
    pub revision: String,
    /// Digest of the names and definitions of the tools alone.
    pub tools_revision: String,
    /// Reserves the bytes of the definitions.
    reservation: Reservation,
}

impl Catalogue {
    pub(crate) fn new(Listed { items, left_out }: Listed, reservation: Reservation) -> Self {
        let digests: Vec<_> = items.iter().map(|item| sha256_hex(item.definition.get().as_bytes())).collect();
        let named: BTreeSet<_> =
            items.iter().zip(&digests).map(|(item, digest)| (item.kind, &item.name, digest)).collect();
        let tools: BTreeSet<_> = named.iter().filter(|named| named.0 == ItemKind::Tool).map(|n| (n.1, n.2)).collect();
        let (revision, tools_revision) = (revision(&named), revision(&tools));
        Self { items, digests, left_out, revision, tools_revision, reservation }
    }

    /// Returns the tools, each with the digest of its definition.
    pub fn tools(&self) -> impl Iterator<Item = (&Item, &String)> {
        self.items.iter().zip(&self.digests).filter(|(item, _)| item.kind == ItemKind::Tool)
    }

    /// Reserves the bytes of the definitions in the budget.
    ///
    /// # Errors
    /// If there is not enough room.
    pub(crate) fn hold(&self) -> Result<(), NoRoom> {
        self.reservation.resize(self.items.iter().map(|item| COPIES * item.definition.get().len() as u64).sum())
    }
}
