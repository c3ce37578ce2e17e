//! What the log says of changes that the operator makes: one line for each, and none of a round that changes nothing.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;

use super::owned::{applied_digest, other_manager};
use super::owner::Owner;
use crate::api::snapshot::SnapshotIndex;

/// Tells that an object was written, unless the write changed nothing. `object` names it, `seen` is what the watch
/// showed before, `digest` is that of what was applied, `written` is the metadata of the answer.
pub(super) fn wrote(owner: &Owner, (object, digest): (&str, &str), seen: Option<&DynamicObject>, written: &ObjectMeta) {
    let of = Of(owner);
    let Some(seen) = seen else { return tracing::info!(object, %of, "created") };
    if seen.metadata.resource_version == written.resource_version {
        return;
    }
    let why = match (applied_digest(seen) == Some(digest), other_manager(seen)) {
        (false, _) => "what it should be changed".to_owned(),
        (true, Some(manager)) => format!("the field manager {manager:?} had changed it"),
        (true, None) => "another client had changed it".to_owned(),
    };
    tracing::info!(object, %of, why, "changed");
}

/// Tells that an object was created that is not seen afterwards.
pub(super) fn created(owner: &Owner, object: &str) {
    tracing::info!(object, of = %Of(owner), "created");
}

/// Tells that an object was deleted.
pub(super) fn deleted(owner: &Owner, object: &str) {
    tracing::info!(object, of = %Of(owner), "deleted");
}

/// The owner of an object, as the log names it.
struct Of<'a>(&'a Owner);

impl std::fmt::Display for Of<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.0.kind.as_str(), self.0.key)
    }
}

/// Tells what a new index changes for a gateway's pods. `why` is what the newest plan was made for.
pub(super) fn indexed(owner: &Owner, before: Option<&SnapshotIndex>, now: &SnapshotIndex, why: &str) {
    let gateway = &owner.key;
    let newest = |index: &SnapshotIndex| index.revisions.first().map(|newest| newest.revision.clone());
    let current = now.current.as_str();
    let differs = |part: &dyn Fn(&SnapshotIndex) -> bool| before.is_none_or(part);
    match now.revisions.first() {
        Some(revision) if before.and_then(newest).as_ref() != Some(&revision.revision) => {
            let (objects, shards) = (revision.inputs, revision.shards.len());
            let revision = revision.revision.as_str();
            tracing::info!(%gateway, revision, current, objects, shards, why, "a revision is compiled and stored");
        }
        _ if differs(&|before| before.current != now.current) => {
            tracing::info!(%gateway, current, "pods are to run another revision, as spec.pinnedRevision says");
        }
        _ if differs(&|before| before.restrictions != now.restrictions) => {
            tracing::info!(%gateway, current, why, "what counts at once changed, such as the stop switch");
        }
        _ if differs(&|before| before.seen_names != now.seen_names) => {
            tracing::info!(%gateway, "names of tools that pods saw are stored");
        }
        _ => tracing::info!(%gateway, current, "the index of the gateway's snapshots is written again"),
    }
}
