//! Brings a gateway's objects to what they are to be: shards first, the index last, then what nobody needs goes.

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

/// Shards written at once.
const AT_ONCE: usize = 8;

/// A gateway's snapshot as it is stored.
#[derive(Default)]
pub(super) struct SnapshotStore {
    pub(super) index: Option<SnapshotIndex>,
    /// Of the index, when it was read or written last.
    version: Option<String>,
    /// The same: it changes with what the index says, and not with its labels and annotations.
    generation: Option<i64>,
    /// Whether somebody else put something else around the index than what is to be there.
    disturbed: bool,
    /// When it was read or written last, and whether it was seen since.
    written: SeenMark,
    /// Shards that are there, by name.
    shards: BTreeMap<String, StoredShard>,
    /// Shards that were deleted here, and when: they may be seen for a while.
    deleted: HashMap<String, Instant>,
    /// Names of tools that upstreams were ever seen to have.
    seen_names: SeenNames,
    /// The plan of a revision that runs while the newest does not, and the revision's name.
    running: Option<(String, Arc<Plan>)>,
    /// The plan that pods are to run, with what counts at once, and without its code.
    in_force: Option<Arc<Plan>>,
    /// Digests of each kept revision's objects.
    pub(super) revisions: BTreeMap<String, Arc<Digests>>,
    /// See [`KeptPlans`].
    pub(super) plans: KeptPlans,
    /// See [`Refused`].
    refused: Option<Refused>,
    /// See [`Damaged`].
    damaged: Option<Damaged>,
}

/// A revision whose plan cannot be made of what is stored: to find that out, all of it is read.
struct Damaged {
    /// How the index named it.
    entry: SnapshotRevision,
    /// What was seen of its shards then.
    marks: Vec<ShardMark>,
    why: String,
}

/// What tells whether a shard is as it was: its name, uid and generation, and whether it has the labels that it is found
/// by.
type ShardMark = (String, Option<String>, Option<i64>, bool);

/// What cannot be stored: to find that out takes long, and each round asks.
struct Refused {
    /// [`PlannedGateway::wanted`] of it.
    wanted: String,
    why: BuildError,
}

impl SnapshotStore {
    /// Writes what lacks of the plan's revision, then the index, then deletes what no kept revision names. Of a plan that
    /// cannot be stored, what counts at once is.
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
            // Many shards take long to write, and what counts at once does not wait for them.
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
        self.clean(writer, &api, &what).await.map_err(failed)?;
        built.map(drop).map_err(Into::into)
    }

    /// Writes the names of tools that are new, in the index that is stored: they change nothing else, and to take a plan
    /// apart takes long.
    pub(super) async fn write_names(&mut self, writer: &Writer, owner: &Owner) -> Result<(), ApplyError> {
        let Some(index) = self.index.as_ref().map(|index| index::with_names(index, &self.seen_names)) else {
            return Ok(());
        };
        let api: Api<GatewaySnapshot> = Api::namespaced(writer.client.clone(), &owner.key.namespace);
        self.write_index(writer, &api, owner, &index).await?;
        let what = format!("gatewaysnapshots in {}", owner.key.namespace);
        self.clean(writer, &api, &what).await.map_err(|error| ApplyError::Request { what, error })
    }

    /// The revision that holds `plan`; `wanted` is [`PlannedGateway::wanted`].
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

    /// The index with this newest revision, or without; see [`index::index`].
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

    /// Whether the index that is stored lacks some of what counts at once.
    fn lacks_restrictions(&self, planned: &PlannedGateway) -> bool {
        let said = |index: &SnapshotIndex| {
            let of_older: Vec<_> = index.revisions.iter().map(|known| known.restrictions.clone()).collect();
            (index.restrictions.clone(), of_older)
        };
        self.index.as_ref().map(said) != self.index_after(planned, None).as_ref().map(said)
    }

    /// Writes what counts at once where the shards of the newest plan are not written yet, or cannot be.
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
        // A right of its own: that shards are refused, as by a quota, says nothing of an index that is there.
        let what = format!("gatewaysnapshots (index) in {}", owner.key.namespace);
        let applied = self.apply_index(writer, api, &what, owner, index).await;
        let (applied, index) = applied.map_err(|error| ApplyError::Request { what, error })?;
        if let Some(gone) = index::crowded_out(self.index.as_ref(), &index) {
            tracing::warn!(gateway = %owner.key, gone, "there is no room for older revisions: they are not kept");
        }
        self.version = applied.resource_version();
        self.generation = applied.metadata.generation;
        self.written = SeenMark::default();
        self.disturbed = false;
        self.index = Some(index);
        Ok(())
    }

    /// Sends an index, and where the definition of the cluster is older, the same without what only serves better: the stop
    /// switch is in it too. Gives what was stored.
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
            // Of two that take themselves for the leader, one is refused.
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

    /// Notes what pods are to run by what was written.
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

    /// Takes in the names of tools that pods report. Says whether any is new, and so to be written.
    pub(super) fn hear_names(&mut self, newest: &Plan, pods: &Pods) -> bool {
        ever_seen::hear(&mut self.seen_names, newest, &self.plans, pods)
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
}

/// A plan without the text of its plugins.
fn without_code(plan: &Plan) -> Arc<Plan> {
    Arc::new(Plan { code: BTreeMap::new(), ..plan.clone() })
}
