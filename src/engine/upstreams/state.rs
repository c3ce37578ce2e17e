//! The state of one upstream, independent of the plan in force.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::domain::budget::{NoRoom, Reservation};
use crate::domain::digest::{revision, sha256_hex};
use crate::domain::health::Health;
use crate::domain::limits::Tracker;
use crate::domain::tool::{Listed, Tool};
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
    /// The last valid tool list; `None` before the first one.
    pub tools: Option<Arc<ToolList>>,
    /// Why the last attempt to reach the upstream failed, in words that clients can see; `None` if it succeeded.
    pub down: Option<String>,
    /// When a probe first found the connection closed for lack of use, in Unix milliseconds; `None` while there is a
    /// connection.
    pub resting_since: Option<u64>,
    /// Whether the tool list may be outdated and must be read again.
    pub stale: bool,
    /// Whether the first try to connect and list tools has ended, successfully or not.
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

/// The tool list of an upstream.
pub struct ToolList {
    /// The tools in the server's order.
    pub tools: Vec<Tool>,
    /// SHA-256 of each tool's original definition in hex, in the same order.
    pub digests: Vec<String>,
    /// Messages about tools whose definitions were rejected; see [`Listed::leave_out`].
    pub left_out: Vec<String>,
    /// Digest of the names and definitions, independent of their order.
    pub revision: String,
    /// Reserves the bytes of the definitions.
    reservation: Reservation,
}

impl ToolList {
    pub(crate) fn new(Listed { tools, left_out }: Listed, reservation: Reservation) -> Self {
        let digests: Vec<_> = tools.iter().map(|tool| sha256_hex(tool.definition.get().as_bytes())).collect();
        let named: BTreeSet<_> = tools.iter().zip(&digests).map(|(tool, digest)| (&tool.name, digest)).collect();
        let revision = revision(&named);
        Self { tools, digests, left_out, revision, reservation }
    }

    /// Reserves the bytes of the definitions in the budget.
    ///
    /// # Errors
    /// If there is not enough room.
    pub(crate) fn hold(&self) -> Result<(), NoRoom> {
        self.reservation.resize(self.tools.iter().map(|tool| COPIES * tool.definition.get().len() as u64).sum())
    }
}
