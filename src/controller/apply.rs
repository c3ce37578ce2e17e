//! Brings a gateway's snapshot up to date: writes the shards first and the index last, then deletes shards that no kept
//! revision names.

mod fault;
mod reading;
#[cfg(test)]
pub(super) mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt};

pub(super) use self::fault::ApplyError;
use super::build::{self, BuildError, BuiltRevision};
use super::changes;
use super::compiled::KeptPlans;
use super::ever_seen;
use super::index::{self, WantedIndex};
use super::owner::Owner;
use super::planned_gateway::{Digests, PlannedGateway};
use super::pods::Pods;
use super::rights::RequestError;
use super::seen_marks::{SeenMark, StoredShard};
use super::writer::Writer;
use crate::api::snapshot::{GatewaySnapshot, ShardRef, SnapshotIndex, SnapshotRevision};
use crate::config::compile::restrict;
use crate::domain::plan::Plan;
use crate::domain::seen::SeenNames;

/// How many shards are written concurrently.
const AT_ONCE: usize = 8;

/// The stored objects of one gateway, its index and shards, and what the operator knows about them.
#[derive(Default)]
pub(super) struct SnapshotStore {
    pub(super) index: Option<SnapshotIndex>,
    /// Resource version of the index object, as of the last read or write.
    version: Option<String>,
    /// Generation of the index object, as of the last read or write. Unlike `version`, it ignores labels and
    /// annotations.
    generation: Option<i64>,
    /// Whether the index object must be written even if its content is right: its labels, its owner or `spec.gateway`
    /// are wrong, or the object is gone.
    disturbed: bool,
    /// When the index was last read or written, and whether the watch has shown it since.
    written: SeenMark,
    /// Stored shards, by name.
    shards: BTreeMap<String, StoredShard>,
    /// Shards that this process deleted, and when. The watch can still show them for a while.
    deleted: HashMap<String, Instant>,
    /// Tool names that pods have ever received from the upstreams that [`ever_seen::counting`] returns.
    seen_names: SeenNames,
    /// The revision that pods run until the newest plan is in force, and its plan.
    running: Option<(String, Arc<Plan>)>,
    /// The plan that pods should run, with restrictions applied. The plugins' code may be missing from it.
    in_force: Option<Arc<Plan>>,
    /// Digests of the objects in each kept revision, by revision name.
    pub(super) revisions: BTreeMap<String, Arc<Digests>>,
    pub(super) plans: KeptPlans,
    /// What the newest plan was made for, for the log.
    pub(super) why: String,
    refused: Option<Refused>,
    damaged: Option<Damaged>,
}

/// A revision whose plan cannot be rebuilt from the stored shards. Finding that out means reading all of them, so the
/// result is remembered.
struct Damaged {
    /// The revision's entry in the index at that time.
    entry: SnapshotRevision,
    /// The state of its shards at that time.
    marks: Vec<ShardMark>,
    why: String,
}

/// Identifies the state of a shard: its name, uid and generation, and whether its labels and owner mark it as the
/// gateway's.
type ShardMark = (String, Option<String>, Option<i64>, bool);

/// A plan that cannot be stored. Finding that out is slow and every round would repeat it, so the result is remembered.
struct Refused {
    /// The plan's [`PlannedGateway::wanted`].
    wanted: String,
    why: BuildError,
}

impl SnapshotStore {
    /// Writes the missing shards of the plan's revision, then the index, then deletes shards that no kept revision
    /// names. If the plan cannot be stored, the index is written without it, so that new restrictions take effect.
    pub(super) async fn write(&mut self, writer: &Writer, planned: &PlannedGateway) -> Result<(), ApplyError> {
        let owner = &planned.owner;
        let api: Api<GatewaySnapshot> = Api::namespaced(writer.client.clone(), &owner.key.namespace);
        let what = format!("gatewaysnapshots in {}", owner.key.namespace);
        let failed = |error| ApplyError::Request { what: what.clone(), error };
        let counting = ever_seen::counting(&planned.plan, &self.plans);
        self.seen_names.retain(|upstream| counting.contains(upstream));
        let built = self.built(owner, &planned.wanted, &planned.plan);
        let newest = built.as_ref().ok();
        let Some(index) = self.index_after(planned, newest) else {
            built?;
            let why = BuildError::NotKept(planned.pinned.clone().unwrap_or_default());
            self.refused = Some(Refused { wanted: planned.wanted.clone(), why: why.clone() });
            return Err(why.into());
        };
        if let Some(newest) = newest {
            // Writing many shards is slow, and restrictions must not wait for it.
            if !newest.lacking.is_empty() && self.lacks_restrictions(planned) {
                self.write_restrictions(writer, &api, planned).await?;
            }
            if let Err(error) = self.write_shards(writer, &api, &what, newest).await {
                self.write_restrictions(writer, &api, planned).await?;
                return Err(failed(error));
            }
            self.revisions.insert(newest.entry.revision.clone(), Arc::clone(&planned.digests));
            self.plans.insert(newest.entry.revision.clone(), Ok(without_code(&planned.plan)));
        }
        self.write_index(writer, &api, owner, &index).await?;
        self.note_in_force(planned, newest);
        self.clean(writer, &api, owner, &what).await.map_err(failed)?;
        built.map(drop).map_err(Into::into)
    }

    /// Writes an index that differs from the stored one only in new tool names. This is cheaper than [`Self::write`],
    /// which splits the whole plan into shards.
    pub(super) async fn write_names(&mut self, writer: &Writer, owner: &Owner) -> Result<(), ApplyError> {
        let Some(index) = self.index.as_ref().map(|index| index::with_names(index, &self.seen_names)) else {
            return Ok(());
        };
        let api: Api<GatewaySnapshot> = Api::namespaced(writer.client.clone(), &owner.key.namespace);
        self.write_index(writer, &api, owner, &index).await?;
        let what = format!("gatewaysnapshots in {}", owner.key.namespace);
        self.clean(writer, &api, owner, &what).await.map_err(|error| ApplyError::Request { what, error })
    }

    /// Builds the revision that holds `plan`; `wanted` is its [`PlannedGateway::wanted`].
    fn built(&mut self, owner: &Owner, wanted: &str, plan: &Plan) -> Result<BuiltRevision, BuildError> {
        if let Some(refused) = self.refused.as_ref().filter(|refused| refused.wanted == wanted) {
            return Err(refused.why.clone());
        }
        let kept = self.index.as_ref().map_or(&[][..], |index| &index.revisions);
        let is_stored =
            |shard: &ShardRef| self.shards.get(&shard.name).is_some_and(|there| there.sha256 == shard.sha256);
        let built = build::revision(owner, plan, is_stored, kept, Timestamp::now().to_string());
        let refused = |why: &BuildError| Refused { wanted: wanted.to_owned(), why: why.clone() };
        self.refused = built.as_ref().err().map(refused);
        built
    }

    /// Returns the next index, with `newest` as its newest revision if there is one; see [`index::index`].
    fn index_after(&self, planned: &PlannedGateway, newest: Option<&BuiltRevision>) -> Option<SnapshotIndex> {
        let wanted = WantedIndex {
            newest: newest.map(|newest| &newest.entry),
            pinned: planned.pinned.as_deref(),
            restrictions: &planned.restrictions,
            restrictions_of_newest: &planned.restrictions_of_newest(),
            not_loaded: &planned.not_loaded,
            seen_names: &self.seen_names,
            kept: &planned.restrictions_of_kept,
        };
        index::index(self.index.as_ref(), &wanted)
    }

    /// Whether the restrictions in the stored index are out of date.
    fn lacks_restrictions(&self, planned: &PlannedGateway) -> bool {
        let said = |index: &SnapshotIndex| {
            let of_older: Vec<_> = index.revisions.iter().map(|known| known.restrictions.clone()).collect();
            (index.restrictions.clone(), of_older)
        };
        self.index.as_ref().map(said) != self.index_after(planned, None).as_ref().map(said)
    }

    /// Writes only the restrictions, when the shards of the newest plan are not written yet or cannot be.
    async fn write_restrictions(
        &mut self,
        writer: &Writer,
        api: &Api<GatewaySnapshot>,
        planned: &PlannedGateway,
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
        newest: &BuiltRevision,
    ) -> Result<(), RequestError> {
        for name in newest.lacking.iter().map(ResourceExt::name_any) {
            if self.shards.contains_key(&name) {
                // Shards are immutable. The one that is stored under this name has other content, so it is deleted
                // first.
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
            self.shards.insert(name, StoredShard::of(&sha256));
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
        let what = format!("gatewaysnapshots in {}", owner.key.namespace);
        let applied = self.apply_index(writer, api, &what, owner, index).await;
        let (applied, index) = applied.map_err(|error| ApplyError::Request { what, error })?;
        if let Some(gone) = index::crowded_out(self.index.as_ref(), &index) {
            tracing::warn!(gateway = %owner.key, gone, "there is no room for older revisions: they are not kept");
        }
        changes::indexed(owner, self.index.as_ref(), &index, &self.why);
        self.version = applied.resource_version();
        self.generation = applied.metadata.generation;
        self.written = SeenMark::default();
        self.disturbed = false;
        self.index = Some(index);
        Ok(())
    }

    /// Sends the index. If the cluster's CRD is too old to know one of the index's fields, sends the index again
    /// without the optional fields, because the stop switch in it must reach the pods. Returns what was stored.
    async fn apply_index(
        &self,
        writer: &Writer,
        api: &Api<GatewaySnapshot>,
        what: &str,
        owner: &Owner,
        index: &SnapshotIndex,
    ) -> Result<(GatewaySnapshot, SnapshotIndex), RequestError> {
        let send = async |index: SnapshotIndex| {
            let mut object = build::index_object(owner, index.clone());
            // If two processes believe that they lead, the API server refuses the write of the one with the older
            // version.
            object.metadata.resource_version.clone_from(&self.version);
            writer.apply(api, what, &owner.key.name, &object).await.map(|applied| (applied, index))
        };
        let without = SnapshotIndex { not_loaded: None, seen_names: None, ..index.clone() };
        match send(index.clone()).await {
            Err(error) if error.is_of_unknown_field() && without != *index => {
                tracing::warn!(gateway = %owner.key, "{error}: apply the custom resource definitions of this operator");
                send(without).await
            }
            sent => sent,
        }
    }

    /// Records which plan pods should run according to the index that was written.
    fn note_in_force(&mut self, planned: &PlannedGateway, newest: Option<&BuiltRevision>) {
        let Some(current) = self.index.as_ref().map(|index| index.current.clone()) else { return };
        if newest.is_some_and(|newest| newest.entry.revision == current) {
            self.in_force = Some(Arc::clone(&planned.plan));
            self.running = Some((current, Arc::clone(&planned.plan)));
            return;
        }
        let running = self.running.as_ref().filter(|(revision, _)| *revision == current).map(|(_, plan)| plan);
        let base = running.unwrap_or(&planned.plan);
        let mut plan = without_code(base);
        restrict(Arc::make_mut(&mut plan), &planned.restrictions);
        self.in_force = Some(plan);
    }

    /// Adds the tool names that pods report. Returns whether any is new, so that the index must be written.
    pub(super) fn hear_names(&mut self, newest: &Plan, pods: &Pods) -> bool {
        ever_seen::hear(&mut self.seen_names, newest, &self.plans, pods)
    }

    /// Returns the plan that pods should run, with restrictions applied; `None` until this process has written an
    /// index.
    pub(super) fn in_force(&self) -> Option<&Arc<Plan>> {
        self.in_force.as_ref()
    }

    /// Deletes shards that no kept revision names.
    async fn clean(
        &mut self,
        writer: &Writer,
        api: &Api<GatewaySnapshot>,
        owner: &Owner,
        what: &str,
    ) -> Result<(), RequestError> {
        let unused = self.forget_revisions();
        for name in &unused {
            writer.delete(api, what, name).await?;
            self.shards.remove(name);
            self.deleted.insert(name.clone(), Instant::now());
        }
        if !unused.is_empty() {
            tracing::info!(gateway = %owner.key, shards = unused.len(), "what no kept revision needs is deleted");
        }
        Ok(())
    }

    /// Forgets revisions that the index no longer keeps. Returns the names of shards that no kept revision names.
    fn forget_revisions(&mut self) -> Vec<String> {
        let Some(index) = &self.index else { return Vec::new() };
        let used: BTreeSet<_> =
            index.revisions.iter().flat_map(|revision| &revision.shards).map(|shard| shard.name.as_str()).collect();
        let is_kept = |revision: &String| index.revisions.iter().any(|known| known.revision == *revision);
        self.revisions.retain(|revision, _| is_kept(revision));
        self.plans.retain(|revision, _| is_kept(revision));
        self.shards.keys().filter(|name| !used.contains(name.as_str())).cloned().collect()
    }
}

/// Returns the plan without the code of its plugins.
fn without_code(plan: &Plan) -> Arc<Plan> {
    Arc::new(Plan { code: BTreeMap::new(), ..plan.clone() })
}
