//! Brings a gateway's objects to what they are to be: shards first, the index last, then what nobody needs goes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::GATEWAY_LABEL;
use super::build::{self, BuildError, Owner};
use super::compiled::{Digests, Planned, digests};
use super::watches::{Watches, all};
use super::writer::{WriteError, Writer};
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
    /// See [`WriteError`].
    #[error("{what}: {error}")]
    Write {
        /// The object.
        what: String,
        /// What was said.
        error: WriteError,
    },
    /// There is such an object, and it is somebody else's.
    #[error("there is a {0} that this operator did not make: rename the gateway, or delete that object")]
    Taken(String),
    /// What is there cannot be read.
    #[error("{0} cannot be read: {1}")]
    Read(String, Box<kube::Error>),
}

impl ApplyError {
    /// The word for conditions.
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Taken(_) => Reason::NameTaken,
            _ => Reason::Pending,
        }
    }

    /// Whether trying again soon may help.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Write { error: WriteError::Conflict | WriteError::Api(_), .. } | Self::Read(..))
    }
}

/// A gateway's snapshot as it is stored.
#[derive(Default)]
pub(super) struct Stored {
    pub(super) index: Option<SnapshotIndex>,
    /// Of the index, when it was read or written last.
    version: Option<String>,
    /// Names of shards that are there.
    shards: BTreeSet<String>,
    /// Digests of each kept revision's objects.
    pub(super) revisions: BTreeMap<String, std::sync::Arc<Digests>>,
}

impl Stored {
    /// Reads what is stored for a gateway: the index, and the newest plan in it.
    ///
    /// # Errors
    /// Where it cannot be read now. What is damaged is as if it was not there.
    pub(super) async fn read(writer: &Writer, key: &ObjectKey) -> Result<(Self, Option<Plan>), ApplyError> {
        let api: Api<GatewaySnapshot> = Api::namespaced(writer.client.clone(), &key.namespace);
        let what = || format!("gatewaysnapshots in {}", key.namespace);
        let failed = |error| ApplyError::Read(what(), Box::new(error));
        let params = ListParams::default().labels(&format!("{GATEWAY_LABEL}={}", key.name));
        let list = api.list(&params).await.map_err(failed)?;
        let mut stored = Self::default();
        let mut shards = HashMap::new();
        for object in list.items {
            let name = object.name_any();
            if object.spec.index.is_some() && name == key.name {
                stored.version = object.resource_version();
                stored.index = object.spec.index;
            } else if let Some(shard) = object.spec.shard {
                stored.shards.insert(name.clone());
                shards.insert(name, shard);
            }
        }
        let mut newest = None;
        for revision in stored.index.iter().flat_map(|index| &index.revisions) {
            match pack::plan(revision, &shards) {
                Ok(plan) => {
                    stored.revisions.insert(revision.revision.clone(), std::sync::Arc::new(digests(&plan)));
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
        let failed = |error| ApplyError::Write { what: what.clone(), error };
        let newest = build::revision(owner, &planned.plan, Timestamp::now().to_string())?;
        let index = build::index(self.index.as_ref(), &newest.entry, planned.pinned.as_deref());
        self.revisions.insert(newest.entry.revision.clone(), std::sync::Arc::clone(&planned.digests));
        if self.index.as_ref() != Some(&index) {
            let lacking: Vec<_> =
                newest.shards.iter().filter(|shard| !self.shards.contains(&shard.name_any())).collect();
            let writes = lacking.into_iter().map(|shard| {
                let (api, what) = (&api, &what);
                async move {
                    let name = shard.name_any();
                    writer.apply(api, what, &name, shard).await.map(|_| name)
                }
            });
            let written: Vec<_> = stream::iter(writes).buffer_unordered(AT_ONCE).try_collect().await.map_err(failed)?;
            self.shards.extend(written);
            let mut object = build::index_object(owner, index.clone());
            // Of two that take themselves for the leader, one is refused.
            object.metadata.resource_version.clone_from(&self.version);
            let applied = writer.apply(&api, &what, &owner.key.name, &object).await.map_err(failed)?;
            self.version = applied.resource_version();
            self.index = Some(index);
        }
        self.clean(writer, &api, &what).await.map_err(failed)
    }

    /// Deletes shards that no kept revision names.
    async fn clean(&mut self, writer: &Writer, api: &Api<GatewaySnapshot>, what: &str) -> Result<(), WriteError> {
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
        let seen = all(&watches.indices)
            .find(|index| index.namespace().as_deref() == Some(&key.namespace) && index.name_any() == key.name);
        let shards: BTreeSet<_> = all(&watches.shards)
            .filter(|shard| shard.namespace().as_deref() == Some(&key.namespace))
            .filter(|shard| shard.labels().get(GATEWAY_LABEL) == Some(&key.name))
            .map(|shard| shard.name_any())
            .collect();
        seen.is_some_and(|seen| seen.spec.index == self.index) && shards == self.shards
    }
}

/// Makes the gateway's ServiceAccount, Role and RoleBinding, where they are not as they are to be.
pub(super) async fn access(writer: &Writer, watches: &Watches, owner: &Owner) -> Result<(), ApplyError> {
    let (account, role, binding) = build::access(owner);
    let same = |_: &ServiceAccount, _: &ServiceAccount| true;
    ensure(writer, all(&watches.accounts).find(|seen| is(&**seen, &account)).as_deref(), owner, account, same).await?;
    let same = |seen: &Role, wanted: &Role| seen.rules == wanted.rules;
    ensure(writer, all(&watches.roles).find(|seen| is(&**seen, &role)).as_deref(), owner, role, same).await?;
    let same =
        |seen: &RoleBinding, wanted: &RoleBinding| seen.role_ref == wanted.role_ref && seen.subjects == wanted.subjects;
    ensure(writer, all(&watches.bindings).find(|seen| is(&**seen, &binding)).as_deref(), owner, binding, same).await
}

fn is<K: Resource>(seen: &K, wanted: &K) -> bool {
    seen.name_any() == wanted.name_any() && seen.namespace() == wanted.namespace()
}

async fn ensure<K>(
    writer: &Writer,
    seen: Option<&K>,
    owner: &Owner,
    wanted: K,
    same: impl Fn(&K, &K) -> bool,
) -> Result<(), ApplyError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Serialize + DeserializeOwned,
    K: std::fmt::Debug,
{
    if seen.is_some_and(|seen| labelled(seen.meta(), wanted.meta()) && owner.owns(seen.meta()) && same(seen, &wanted)) {
        return Ok(());
    }
    let name = wanted.name_any();
    let what = format!("{} in {}", K::plural(&()), owner.key.namespace);
    let api: Api<K> = Api::namespaced(writer.client.clone(), &owner.key.namespace);
    if !seen.is_some_and(|seen| owner.owns(seen.meta())) && writer.leads() {
        // It may be there without our label.
        let there = api.get_metadata_opt(&name).await.map_err(|e| ApplyError::Read(what.clone(), Box::new(e)))?;
        if there.is_some_and(|there| !owner.owns(&there.metadata)) {
            return Err(ApplyError::Taken(format!("{} {}/{name}", K::kind(&()), owner.key.namespace)));
        }
    }
    let applied = writer.apply(&api, &what, &name, &wanted).await;
    applied.map(drop).map_err(|error| ApplyError::Write { what, error })
}

/// Whether it has the labels that it is to have.
fn labelled(seen: &ObjectMeta, wanted: &ObjectMeta) -> bool {
    let has = |(key, value): (&String, &String)| seen.labels.as_ref().and_then(|l| l.get(key)) == Some(value);
    wanted.labels.iter().flatten().all(has)
}
