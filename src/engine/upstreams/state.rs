//! What is known of one upstream, whatever plan is in force.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::domain::budget::{NoRoom, Reservation};
use crate::domain::digest::{revision, sha256_hex};
use crate::domain::health::Health;
use crate::domain::limits::Tracker;
use crate::domain::tool::{Listed, Tool};
use crate::domain::upstream::ServerFacts;

/// What is known of an upstream.
#[derive(Clone, Default)]
pub struct UpstreamState {
    /// How it stands.
    pub health: Health,
    /// Unix milliseconds of when it last became connected.
    pub connected_at: Option<u64>,
    /// Unix milliseconds of when it left routing; none while it is in.
    pub auto_disabled_at: Option<u64>,
    /// What its last handshake said.
    pub facts: Option<ServerFacts>,
    /// Its last good tool list; none before the first.
    pub tools: Option<Arc<ToolList>>,
    /// What clients may be told of why the last try failed; none after one that did not.
    pub down: Option<String>,
    /// Unix milliseconds of when a probe first found that its connection had ended because nobody used it; none while there
    /// is one.
    pub resting_since: Option<u64>,
    /// Whether the list could not be read again when it should have been.
    pub stale: bool,
    /// Whether a first try to connect and list has ended, well or not.
    pub tried: bool,
    /// Milliseconds that the last probe took.
    pub ping_ms: Option<f64>,
    /// Unix milliseconds of the last probe that succeeded.
    pub last_ping_at: Option<u64>,
    /// Unix milliseconds of the next probe; none where none is due.
    pub next_probe_at: Option<u64>,
    /// Its calls in flight.
    pub(crate) tracker: Arc<Tracker>,
}

/// How often a definition is held: as it came, its schema, and under its public name.
const COPIES: u64 = 3;

/// A server's tools.
pub struct ToolList {
    /// In the server's order.
    pub tools: Vec<Tool>,
    /// SHA-256 of each tool's definition as it came, in the same order, hex.
    pub digests: Vec<String>,
    /// Tools that no client is offered, and why.
    pub left_out: Vec<String>,
    /// Digest of names and definitions, whatever their order.
    pub revision: String,
    /// Holds the definitions.
    reservation: Reservation,
}

impl ToolList {
    pub(crate) fn new(Listed { tools, left_out }: Listed, reservation: Reservation) -> Self {
        let digests: Vec<_> = tools.iter().map(|tool| sha256_hex(tool.definition.get().as_bytes())).collect();
        let named: BTreeSet<_> = tools.iter().zip(&digests).map(|(tool, digest)| (&tool.name, digest)).collect();
        let revision = revision(&named);
        Self { tools, digests, left_out, revision, reservation }
    }

    /// Takes the room that it needs from the budget.
    ///
    /// # Errors
    /// Where there is not enough.
    pub(crate) fn hold(&self) -> Result<(), NoRoom> {
        self.reservation.resize(self.tools.iter().map(|tool| COPIES * tool.definition.get().len() as u64).sum())
    }
}
