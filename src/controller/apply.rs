//! Brings a gateway's objects to what they are to be: shards first, the index last, then what nobody needs goes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, ResourceExt};

use super::build::{self, BuildError};
use super::compiled::{Digests, Planned, digests};
use super::rights::RequestError;
use super::watches::{Watches, all};
use super::writer::Writer;
use super::{GATEWAY_LABEL, MANAGED_BY, PART_LABEL};
use crate::api::item::Item;
use crate::api::pack;
use crate::api::snapshot::{GatewaySnapshot, SnapshotIndex};
use crate::domain::ids::ObjectKey;
use crate::domain::plan::Plan;
use crate::domain::reason::Reason;

/// Shards written at once.
const AT_ONCE: usize = 8;

/// Why a gateway's objects are not as they are to be.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApplyError {
    /// See [`BuildError`].
    #[error(transparent)]
    Build(#[from] BuildError),
    /// See [`RequestError`].
    #[error("{what}: {error}")]
    Request {
        /// Resource and namespace.
        what: String,
        /// What was said.
        error: RequestError,
    },
    /// There is such an object, and it is somebody else's.
    #[error("there is a {0} that this operator did not make: rename the gateway, or delete that object")]
    Taken(String),
    /// What is there is not seen.
    #[error("what is there is not seen: {0}")]
    Unseen(String),
}

impl ApplyError {
    /// The word for conditions.
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Taken(_) => Reason::NameTaken,
            Self::Request { error: RequestError::Forbidden(..), .. } => Reason::Forbidden,
            _ => Reason::Pending,
        }
    }

    /// When trying again may help, where `wait` is how long to wait after what may pass.
    pub(super) fn again(&self, wait: Duration) -> Option<Instant> {
        match self {
            Self::Request { error: RequestError::Forbidden(_, again), .. } => Some(*again),
            Self::Request { error: RequestError::Conflict | RequestError::Api(_), .. } => Some(Instant::now() + wait),
            _ => None,
        }
    }
}

/// A gateway's snapshot as it is stored.
#[derive(Default)]
pub(super) struct Stored {
    pub(super) index: Option<SnapshotIndex>,
    /// Of the index, when it was read or written last.
    version: Option<String>,
    /// The same: it changes with what the index says, and not with its labels and annotations.
    generation: Option<i64>,
    /// Whether somebody else put something else around the index than what is to be there.
    disturbed: bool,
    /// Names of shards that are there.
    shards: BTreeSet<String>,
    /// Digests of each kept revision's objects.
    pub(super) revisions: BTreeMap<String, Arc<Digests>>,
}

impl Stored {
    /// Reads what is stored for a gateway: the index, and the newest plan in it.
    ///
    /// # Errors
    /// Where it cannot be read now. What is damaged is as if it was not there.
    pub(super) async fn read(writer: &Writer, key: &ObjectKey) -> Result<(Self, Option<Plan>), ApplyError> {
        let mut stored = Self::default();
        let mut shards = HashMap::new();
        for object in snapshots(writer, key).await? {
            let name = object.name_any();
            if object.spec.index.is_some() && name == key.name {
                stored.version = object.resource_version();
                stored.generation = object.metadata.generation;
                stored.disturbed = !is_part(&object.metadata, "index", key) || object.spec.gateway != key.name;
                stored.index = object.spec.index;
            } else if let Some(shard) = object.spec.shard {
                if is_part(&object.metadata, "shard", key) {
                    stored.shards.insert(name.clone());
                }
                shards.insert(name, shard);
            }
        }
        let mut newest = None;
        for revision in stored.index.iter().flat_map(|index| &index.revisions) {
            match pack::plan(revision, &shards) {
                Ok(plan) => {
                    stored.revisions.insert(revision.revision.clone(), Arc::new(digests(&plan)));
                    newest.get_or_insert(plan);
                }
                Err(why) => tracing::warn!(gateway = %key, revision = revision.revision, "a stored revision: {why}"),
            }
        }
        Ok((stored, newest))
    }

    /// Writes what lacks of the plan's revision, then the index, then deletes what no kept revision names.
    pub(super) async fn write(&mut self, writer: &Writer, planned: &Planned) -> Result<(), ApplyError> {
        let owner = &planned.owner;
        let api: Api<GatewaySnapshot> = Api::namespaced(writer.client.clone(), &owner.key.namespace);
        let what = format!("gatewaysnapshots in {}", owner.key.namespace);
        let failed = |error| ApplyError::Request { what: what.clone(), error };
        let newest = build::revision(owner, &planned.plan, &self.shards, Timestamp::now().to_string())?;
        let index = build::index(self.index.as_ref(), &newest.entry, planned.pinned.as_deref());
        self.revisions.insert(newest.entry.revision.clone(), Arc::clone(&planned.digests));
        let writes = newest.lacking.iter().map(|shard| {
            let (api, what) = (&api, &what);
            async move {
                let name = shard.name_any();
                writer.apply(api, what, &name, shard).await.map(|_| name)
            }
        });
        let written: Vec<_> = stream::iter(writes).buffer_unordered(AT_ONCE).try_collect().await.map_err(failed)?;
        self.shards.extend(written);
        if self.disturbed || self.index.as_ref() != Some(&index) {
            let mut object = build::index_object(owner, index.clone());
            // Of two that take themselves for the leader, one is refused.
            object.metadata.resource_version.clone_from(&self.version);
            let applied = writer.apply(&api, &what, &owner.key.name, &object).await.map_err(failed)?;
            self.version = applied.resource_version();
            self.generation = applied.metadata.generation;
            self.disturbed = false;
            self.index = Some(index);
        }
        self.clean(writer, &api, &what).await.map_err(failed)
    }

    /// Deletes shards that no kept revision names.
    async fn clean(&mut self, writer: &Writer, api: &Api<GatewaySnapshot>, what: &str) -> Result<(), RequestError> {
        let Some(index) = &self.index else { return Ok(()) };
        let used: BTreeSet<_> =
            index.revisions.iter().flat_map(|revision| &revision.shards).map(|shard| shard.name.as_str()).collect();
        self.revisions.retain(|revision, _| index.revisions.iter().any(|known| known.revision == *revision));
        let unused: Vec<_> = self.shards.iter().filter(|name| !used.contains(name.as_str())).cloned().collect();
        for name in unused {
            writer.delete(api, what, &name).await?;
            self.shards.remove(&name);
        }
        Ok(())
    }

    /// Whether the stored objects are still those that were written last, as far as is seen.
    pub(super) fn is_seen(&self, watches: &Watches, key: &ObjectKey) -> bool {
        let parts =
            |part: &'static str| all(&watches.snapshots).filter(move |object| is_part(&object.metadata, part, key));
        let index = parts("index").find(|index| index.name_any() == key.name);
        let shards: BTreeSet<_> = parts("shard").map(|shard| shard.name_any()).collect();
        index.is_some_and(|index| index.metadata.generation == self.generation) && shards == self.shards
    }
}

/// Whether an object is labelled as such a part of the gateway's snapshot.
fn is_part(metadata: &ObjectMeta, part: &str, key: &ObjectKey) -> bool {
    let wanted = [(PART_LABEL, part), (GATEWAY_LABEL, key.name.as_str()), MANAGED_BY];
    let has =
        |(label, value): (&str, &str)| metadata.labels.as_ref().and_then(|l| l.get(label)).is_some_and(|v| v == value);
    metadata.namespace.as_ref() == Some(&key.namespace) && wanted.into_iter().all(has)
}

/// The snapshots of a gateway. One that is none is left out.
async fn snapshots(writer: &Writer, key: &ObjectKey) -> Result<Vec<GatewaySnapshot>, ApplyError> {
    let resource = ApiResource::erase::<GatewaySnapshot>(&());
    let api: Api<Item<DynamicObject>> = Api::namespaced_with(writer.client.clone(), &key.namespace, &resource);
    let what = format!("gatewaysnapshots in {}", key.namespace);
    let failed = |error| ApplyError::Request { what: what.clone(), error };
    let params = ListParams::default().labels(&format!("{GATEWAY_LABEL}={}", key.name));
    let list = writer.read(&format!("list {what}"), api.list(&params)).await.map_err(failed)?;
    let mut objects = list.items;
    if !objects.iter().any(|object| object.name_any() == key.name) {
        // Somebody may have taken the label from the index, which says what is pinned.
        let index = match writer.read(&format!("get {what}"), api.get_opt(&key.name)).await {
            // What the operator may not do it cannot give to pods either: that is told.
            Err(RequestError::Forbidden(..)) => None,
            found => found.map_err(failed)?,
        };
        objects.extend(index);
    }
    let parsed = objects.into_iter().filter_map(|Item(object)| {
        let name = object.name_any();
        let parsed = object.try_parse::<GatewaySnapshot>();
        parsed.inspect_err(|error| tracing::warn!(%error, name, "a GatewaySnapshot cannot be read")).ok()
    });
    Ok(parsed.collect())
}
