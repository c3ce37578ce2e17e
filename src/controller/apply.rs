//! Brings a gateway's objects to what they are to be: shards first, the index last, then what nobody needs goes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, ListParams, PartialObjectMeta};
use kube::{Api, ResourceExt};

use super::GATEWAY_LABEL;
use super::build::{self, BuildError, Owner, Revision, Wanted};
use super::compiled::{Digests, KeptPlans, Planned, Running, digests};
use super::kept::LAG;
use super::marks::{Mark, There, is_part};
use super::rights::RequestError;
use super::writer::Writer;
use crate::api::item::Item;
use crate::api::pack;
use crate::api::snapshot::{GatewaySnapshot, ShardRef, SnapshotIndex};
use crate::config::compile::obey;
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
    /// The revision that is pinned is not kept, and nothing ran before.
    #[error("spec.pinnedRevision: there is no revision {0}; nothing runs until the field is taken out")]
    NotKept(String),
    /// What is there is not seen.
    #[error("what is there is not seen: {0}")]
    Unseen(String),
}

impl ApplyError {
    /// The word for conditions.
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Taken(_) => Reason::NameTaken,
            Self::NotKept(_) => Reason::RevisionNotFound,
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
    /// When it was read or written last, and whether it was seen since.
    written: Mark,
    /// Shards that are there, by name.
    shards: BTreeMap<String, There>,
    /// Shards that were deleted here, and when: they may be seen for a while.
    deleted: HashMap<String, Instant>,
    /// The plan of a revision that runs while the newest does not, and the revision's name.
    running: Option<(String, Arc<Plan>)>,
    /// The plan that pods are to run, with what counts at once, and without its code.
    in_force: Option<Arc<Plan>>,
    /// Digests of each kept revision's objects.
    pub(super) revisions: BTreeMap<String, Arc<Digests>>,
    /// See [`KeptPlans`].
    pub(super) plans: KeptPlans,
}

impl Stored {
    /// Reads what is stored for a gateway: the index, the plans in it, the newest first, and that of `pinned`, else of the
    /// current revision.
    ///
    /// # Errors
    /// Where it cannot be read now. What is damaged is as if it was not there.
    pub(super) async fn read(
        writer: &Writer,
        owner: &Owner,
        pinned: Option<&str>,
    ) -> Result<(Self, Vec<Arc<Plan>>), ApplyError> {
        let key = &owner.key;
        let mut stored = Self::default();
        let mut shards = HashMap::new();
        for object in snapshots(writer, key).await? {
            let name = object.name_any();
            if object.spec.index.is_some() && name == key.name {
                stored.version = object.resource_version();
                stored.generation = object.metadata.generation;
                stored.disturbed = !is_part(&object.metadata, "index", owner) || object.spec.gateway != key.name;
                // What a gateway of the name left that is gone counts no more than that, and goes too.
                stored.index = object.spec.index.filter(|_| !owner.is_anothers(&object.metadata));
            } else if let Some(shard) = object.spec.shard {
                if is_part(&object.metadata, "shard", owner) {
                    stored.shards.insert(name.clone(), There::of(&shard.sha256));
                }
                shards.insert(name, shard);
            }
        }
        let mut plans = Vec::new();
        let keeps = stored.keeps(pinned).cloned();
        let keeps = keeps.as_ref();
        for revision in stored.index.iter().flat_map(|index| &index.revisions) {
            match pack::plan(revision, &shards) {
                Ok(plan) => {
                    stored.revisions.insert(revision.revision.clone(), Arc::new(digests(&plan)));
                    stored.plans.insert(revision.revision.clone(), Ok(without_code(&plan)));
                    let plan = Arc::new(plan);
                    if keeps == Some(&revision.revision) {
                        stored.running = Some((revision.revision.clone(), Arc::clone(&plan)));
                    }
                    plans.push(plan);
                }
                Err(why) => {
                    tracing::warn!(gateway = %key, revision = revision.revision, "a stored revision: {why}");
                    stored.plans.insert(revision.revision.clone(), Err(why.to_string()));
                }
            }
        }
        Ok((stored, plans))
    }

    /// The revision that runs while the newest plan does not: the pinned one where it is kept, else the current one.
    fn keeps(&self, pinned: Option<&str>) -> Option<&String> {
        let index = self.index.as_ref()?;
        let pinned = index.revisions.iter().map(|known| &known.revision).find(|known| Some(known.as_str()) == pinned);
        Some(pinned.unwrap_or(&index.current))
    }

    /// The plan of that revision, or why it cannot be read now. None where nothing is stored.
    pub(super) async fn running(&mut self, writer: &Writer, owner: &Owner, pinned: Option<&str>) -> Option<Running> {
        let wanted = self.keeps(pinned).cloned()?;
        if self.running.as_ref().is_none_or(|(revision, _)| *revision != wanted) {
            self.running = match Self::read(writer, owner, pinned).await {
                Ok((read, _)) => read.running,
                Err(error) => return Some(Err(error.to_string())),
            };
        }
        let found = self.running.as_ref().filter(|(revision, _)| *revision == wanted);
        let unreadable = || format!("revision {wanted} cannot be read from its GatewaySnapshots");
        Some(found.map(|(_, plan)| Arc::clone(plan)).ok_or_else(unreadable))
    }

    /// Reads what is stored anew. What is known of the plan that runs stays.
    pub(super) async fn refresh(&mut self, writer: &Writer, owner: &Owner) -> Result<(), ApplyError> {
        let (read, _) = Self::read(writer, owner, None).await?;
        let before = std::mem::replace(self, read);
        self.keep_from(before);
        Ok(())
    }

    /// Takes over what is known from `before` and was not read. An index that is gone is as it was, to be written again:
    /// without it nobody knew what is pinned. Of its revisions those that are gone too are left out.
    fn keep_from(&mut self, before: Self) {
        (self.running, self.in_force) = (before.running, before.in_force);
        let Some(mut index) = before.index.filter(|_| self.index.is_none()) else { return };
        let is_there = |shard: &ShardRef| self.shards.contains_key(&shard.name);
        index.revisions.retain(|known| known.revision == index.current || known.shards.iter().all(is_there));
        (self.index, self.disturbed) = (Some(index), true);
        (self.revisions, self.plans) = (before.revisions, before.plans);
    }

    /// Writes what lacks of the plan's revision, then the index, then deletes what no kept revision names. Of a plan that
    /// cannot be stored, what counts at once is.
    pub(super) async fn write(&mut self, writer: &Writer, planned: &Planned) -> Result<(), ApplyError> {
        let owner = &planned.owner;
        let api: Api<GatewaySnapshot> = Api::namespaced(writer.client.clone(), &owner.key.namespace);
        let what = format!("gatewaysnapshots in {}", owner.key.namespace);
        let failed = |error| ApplyError::Request { what: what.clone(), error };
        let kept = self.index.as_ref().map_or(&[][..], |index| &index.revisions);
        let built = {
            let is_stored =
                |shard: &ShardRef| self.shards.get(&shard.name).is_some_and(|there| there.sha256 == shard.sha256);
            build::revision(owner, &planned.plan, is_stored, kept, Timestamp::now().to_string())
        };
        let newest = built.as_ref().ok();
        let Some(index) = self.index_after(planned, newest) else {
            built?;
            return Err(ApplyError::NotKept(planned.pinned.clone().unwrap_or_default()));
        };
        if let Some(newest) = newest {
            if let Err(error) = self.write_shards(writer, &api, &what, newest).await {
                self.write_acts(writer, &api, planned).await?;
                return Err(failed(error));
            }
            self.revisions.insert(newest.entry.revision.clone(), Arc::clone(&planned.digests));
            self.plans.insert(newest.entry.revision.clone(), Ok(without_code(&planned.plan)));
        }
        self.write_index(writer, &api, owner, &index).await?;
        self.note_in_force(planned, newest);
        self.clean(writer, &api, &what).await.map_err(failed)?;
        built.map(drop).map_err(Into::into)
    }

    /// The index with this newest revision, or without; see [`build::index`].
    fn index_after(&self, planned: &Planned, newest: Option<&Revision>) -> Option<SnapshotIndex> {
        let wanted = Wanted {
            newest: newest.map(|newest| &newest.entry),
            pinned: planned.pinned.as_deref(),
            acts: &planned.acts,
            stop: &planned.stop(),
            not_loaded: &planned.not_loaded,
            kept: &planned.acts_of_kept,
        };
        build::index(self.index.as_ref(), &wanted)
    }

    /// Writes what counts at once where the shards of the newest plan cannot be written.
    async fn write_acts(
        &mut self,
        writer: &Writer,
        api: &Api<GatewaySnapshot>,
        planned: &Planned,
    ) -> Result<(), ApplyError> {
        let Some(index) = self.index_after(planned, None) else { return Ok(()) };
        self.write_index(writer, api, &planned.owner, &index).await?;
        self.note_in_force(planned, None);
        Ok(())
    }

    async fn write_shards(
        &mut self,
        writer: &Writer,
        api: &Api<GatewaySnapshot>,
        what: &str,
        newest: &Revision,
    ) -> Result<(), RequestError> {
        for name in newest.lacking.iter().map(ResourceExt::name_any) {
            if self.shards.contains_key(&name) {
                // Another content is stored under its name, and a shard never changes.
                writer.delete(api, what, &name).await?;
                self.shards.remove(&name);
            }
        }
        let writes = newest.lacking.iter().map(|shard| async move {
            let name = shard.name_any();
            let sha256 = shard.spec.shard.as_ref().map(|shard| shard.sha256.clone()).unwrap_or_default();
            writer.apply(api, what, &name, shard).await.map(|_| (name, sha256))
        });
        let written: Vec<_> = stream::iter(writes).buffer_unordered(AT_ONCE).try_collect().await?;
        for (name, sha256) in written {
            self.deleted.remove(&name);
            self.shards.insert(name, There::of(&sha256));
        }
        Ok(())
    }

    async fn write_index(
        &mut self,
        writer: &Writer,
        api: &Api<GatewaySnapshot>,
        owner: &Owner,
        index: &SnapshotIndex,
    ) -> Result<(), ApplyError> {
        if !self.disturbed && self.index.as_ref() == Some(index) {
            return Ok(());
        }
        let mut object = build::index_object(owner, index.clone());
        // Of two that take themselves for the leader, one is refused.
        object.metadata.resource_version.clone_from(&self.version);
        // A right of its own: that shards are refused, as by a quota, says nothing of an index that is there.
        let what = format!("gatewaysnapshots (index) in {}", owner.key.namespace);
        let applied = writer.apply(api, &what, &owner.key.name, &object).await;
        let applied = applied.map_err(|error| ApplyError::Request { what, error })?;
        self.version = applied.resource_version();
        self.generation = applied.metadata.generation;
        self.written = Mark::default();
        self.disturbed = false;
        self.index = Some(index.clone());
        Ok(())
    }

    /// Notes what pods are to run by what was written.
    fn note_in_force(&mut self, planned: &Planned, newest: Option<&Revision>) {
        let Some(current) = self.index.as_ref().map(|index| index.current.clone()) else { return };
        if newest.is_some_and(|newest| newest.entry.revision == current) {
            self.in_force = Some(Arc::clone(&planned.plan));
            self.running = Some((current, Arc::clone(&planned.plan)));
            return;
        }
        let running = self.running.as_ref().filter(|(revision, _)| *revision == current).map(|(_, plan)| plan);
        let base = running.unwrap_or(&planned.plan);
        let mut plan = without_code(base);
        obey(Arc::make_mut(&mut plan), &planned.acts);
        self.in_force = Some(plan);
    }

    /// The plan that pods are to run, with what counts at once; none before the first was written.
    pub(super) fn in_force(&self) -> Option<&Arc<Plan>> {
        self.in_force.as_ref()
    }

    /// Deletes shards that no kept revision names.
    async fn clean(&mut self, writer: &Writer, api: &Api<GatewaySnapshot>, what: &str) -> Result<(), RequestError> {
        for name in self.forget_revisions() {
            writer.delete(api, what, &name).await?;
            self.shards.remove(&name);
            self.deleted.insert(name, Instant::now());
        }
        Ok(())
    }

    /// Forgets revisions that are not kept. What it gives are the shards that no kept one names.
    fn forget_revisions(&mut self) -> Vec<String> {
        let Some(index) = &self.index else { return Vec::new() };
        let used: BTreeSet<_> =
            index.revisions.iter().flat_map(|revision| &revision.shards).map(|shard| shard.name.as_str()).collect();
        let is_kept = |revision: &String| index.revisions.iter().any(|known| known.revision == *revision);
        self.revisions.retain(|revision, _| is_kept(revision));
        self.plans.retain(|revision, _| is_kept(revision));
        self.shards.keys().filter(|name| !used.contains(name.as_str())).cloned().collect()
    }

    /// Whether the stored objects are still those that were written last. `seen` are all that the gateway owns, as far as
    /// is seen. What is seen may lag behind what was written, but what was seen before and is not seen now is gone.
    pub(super) fn is_intact(&mut self, seen: &[Arc<PartialObjectMeta<GatewaySnapshot>>], owner: &Owner) -> bool {
        let now = Instant::now();
        let parts = |part: &'static str| {
            seen.iter().map(|object| &object.metadata).filter(move |metadata| is_part(metadata, part, owner))
        };
        let index = parts("index").find(|index| index.name.as_ref() == Some(&owner.key.name));
        // One that is newer than what was written is somebody else's.
        if index.is_some_and(|index| index.generation > self.generation) {
            return false;
        }
        let mut intact = !self.written.is_lost(index.is_some_and(|index| index.generation == self.generation), now);
        let shards: BTreeSet<_> = parts("shard").filter_map(|shard| shard.name.as_deref()).collect();
        for (name, there) in &mut self.shards {
            intact &= !there.mark.is_lost(shards.contains(name.as_str()), now);
        }
        self.deleted.retain(|name, when| shards.contains(name.as_str()) && now.saturating_duration_since(*when) < LAG);
        intact && shards.into_iter().all(|name| self.shards.contains_key(name) || self.deleted.contains_key(name))
    }
}

/// A plan without the text of its plugins.
fn without_code(plan: &Plan) -> Arc<Plan> {
    Arc::new(Plan { code: BTreeMap::new(), ..plan.clone() })
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

#[cfg(test)]
mod tests;
