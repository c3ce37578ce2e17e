//! What was read or written of a gateway's snapshot, and whether it was seen since.

use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::owner::Owner;
use super::{GATEWAY_LABEL, MANAGED_BY, PART_LABEL};

/// A shard that is there.
pub(super) struct StoredShard {
    /// The digest of what it holds.
    pub(super) sha256: String,
    /// When it was read or written, and whether it was seen since.
    pub(super) mark: SeenMark,
}

impl StoredShard {
    pub(super) fn of(sha256: &str) -> Self {
        Self { sha256: sha256.to_owned(), mark: SeenMark::default() }
    }
}

/// When something was read or written, and whether it was seen since.
#[derive(Clone, Copy)]
pub(super) struct SeenMark {
    pub(super) at: Instant,
    seen: bool,
}

impl Default for SeenMark {
    fn default() -> Self {
        Self { at: Instant::now(), seen: false }
    }
}

impl SeenMark {
    /// Whether it is gone, where `is_seen` says whether it is seen at `now`.
    pub(super) fn is_lost(&mut self, is_seen: bool, now: Instant) -> bool {
        self.seen |= is_seen;
        !is_seen && (self.seen || now.saturating_duration_since(self.at) > LAG)
    }
}

/// Whether an object is the gateway's, and labelled as such a part of its snapshot.
pub(super) fn is_part(metadata: &ObjectMeta, part: &str, owner: &Owner) -> bool {
    let wanted = [(PART_LABEL, part), (GATEWAY_LABEL, owner.key.name.as_str()), MANAGED_BY];
    let has =
        |(label, value): (&str, &str)| metadata.labels.as_ref().and_then(|l| l.get(label)).is_some_and(|v| v == value);
    metadata.namespace.as_ref() == Some(&owner.key.namespace) && owner.owns(metadata) && wanted.into_iter().all(has)
}

/// How long after a write what is seen may lag behind it.
pub(super) const LAG: Duration = Duration::from_secs(10);
