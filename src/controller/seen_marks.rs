//! Tracks when the parts of a gateway's snapshot were read or written, and whether the watch has shown them since.

use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::owner::Owner;
use super::{GATEWAY_LABEL, MANAGED_BY, PART_LABEL};

/// A shard that is stored.
pub(super) struct StoredShard {
    /// Digest of the shard's content.
    pub(super) sha256: String,
    /// When the shard was read or written, and whether the watch has shown it since.
    pub(super) mark: SeenMark,
}

impl StoredShard {
    pub(super) fn of(sha256: &str) -> Self {
        Self { sha256: sha256.to_owned(), mark: SeenMark::default() }
    }
}

/// When an object was read or written, and whether the watch has shown it since.
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
    /// Whether the object is gone. `is_seen` is true if the watch shows the object at `now`.
    pub(super) fn is_lost(&mut self, is_seen: bool, now: Instant) -> bool {
        self.seen |= is_seen;
        !is_seen && (self.seen || now.saturating_duration_since(self.at) > LAG)
    }
}

/// Whether an object belongs to the gateway, and is labelled as this part of its snapshot.
pub(super) fn is_part(metadata: &ObjectMeta, part: &str, owner: &Owner) -> bool {
    let wanted = [(PART_LABEL, part), (GATEWAY_LABEL, owner.key.name.as_str()), MANAGED_BY];
    let has =
        |(label, value): (&str, &str)| metadata.labels.as_ref().and_then(|l| l.get(label)).is_some_and(|v| v == value);
    metadata.namespace.as_ref() == Some(&owner.key.namespace) && owner.owns(metadata) && wanted.into_iter().all(has)
}

/// How long after a write the watch may still show the old state.
pub(super) const LAG: Duration = Duration::from_secs(10);
