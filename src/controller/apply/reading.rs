//! Reads the objects that are stored for a gateway, and checks whether they are still as they were written.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, ResourceExt};

use super::{ApplyError, Damaged, ShardMark, SnapshotStore, without_code};
use crate::api::item::Item;
use crate::api::snapshot::{GatewaySnapshot, ShardRef, SnapshotRevision};
use crate::api::{pack, restrictions, seen};
use crate::controller::GATEWAY_LABEL;
use crate::controller::compiled::RunningPlan;
use crate::controller::owner::Owner;
use crate::controller::planned_gateway::digests;
use crate::controller::rights::RequestError;
use crate::controller::seen_marks::LAG;
use crate::controller::seen_marks::{StoredShard, is_part};
use crate::controller::watches::Seen;
use crate::controller::writer::Writer;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::{Plan, Revoked};

/// How many snapshots one list request returns. A snapshot can exceed a megabyte, and every request has a deadline.
const PAGE: u32 = 32;

impl SnapshotStore {
    /// Reads what is stored for a gateway. Also returns the plans of its revisions, newest first. The returned store
    /// keeps the plan of the `pinned` revision, or of the current one if `pinned` is not kept.
    ///
    /// # Errors
    /// If the snapshots cannot be read now. A damaged revision is not an error; its plan is left out.
    pub(in crate::controller) async fn read(
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
                // An index of an earlier gateway with this name does not count; the index is deleted together with that
                // gateway.
                stored.index = object.spec.index.filter(|_| !owner.is_anothers(&object.metadata));
            } else if let Some(shard) = object.spec.shard {
                if is_part(&object.metadata, "shard", owner) {
                    stored.shards.insert(name.clone(), StoredShard::of(&shard.sha256));
                }
                shards.insert(name, shard);
            }
        }
        stored.seen_names = stored.index.as_ref().map(seen::read).unwrap_or_default();
        let mut plans = Vec::new();
        let keeps = stored.keeps(pinned).cloned();
        for revision in stored.index.iter().flat_map(|index| &index.revisions) {
            match pack::plan(revision, &shards) {
                Ok(plan) => {
                    stored.revisions.insert(revision.revision.clone(), Arc::new(digests(&plan)));
                    stored.plans.insert(revision.revision.clone(), Ok(without_code(&plan)));
                    let plan = Arc::new(plan);
                    if keeps.as_ref() == Some(&revision.revision) {
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

    /// Returns the revision that runs until the newest plan is in force: the pinned one if the index keeps it,
    /// otherwise the current one.
    fn keeps(&self, pinned: Option<&str>) -> Option<&String> {
        let index = self.index.as_ref()?;
        let pinned = index.revisions.iter().map(|known| &known.revision).find(|known| Some(known.as_str()) == pinned);
        Some(pinned.unwrap_or(&index.current))
    }

    /// Returns the plan of the revision that runs until the newest plan is in force, or why that plan cannot be
    /// rebuilt; `None` if nothing is stored. `seen` is as in [`Self::is_intact`].
    ///
    /// # Errors
    /// If the snapshots cannot be read now.
    pub(in crate::controller) async fn running(
        &mut self,
        writer: &Writer,
        owner: &Owner,
        pinned: Option<&str>,
        seen: &[Seen],
    ) -> Result<Option<RunningPlan>, ApplyError> {
        let Some(wanted) = self.keeps(pinned).cloned() else { return Ok(None) };
        let known = self.running.as_ref().filter(|(revision, _)| *revision == wanted).map(|(_, plan)| Arc::clone(plan));
        if let Some(plan) = known {
            self.damaged = None;
            return Ok(Some(Ok(plan)));
        }
        let entry = self.entry(&wanted).cloned();
        let marks = entry.as_ref().map(|entry| marks(entry, seen, owner)).unwrap_or_default();
        let damaged = self.damaged.as_ref().filter(|d| Some(&d.entry) == entry.as_ref() && d.marks == marks);
        if let Some(damaged) = damaged {
            return Ok(Some(Err(damaged.why.clone())));
        }
        let (read, _) = Self::read(writer, owner, pinned).await?;
        self.running = read.running.filter(|(revision, _)| *revision == wanted);
        let Some((_, plan)) = &self.running else {
            let why = format!("revision {wanted} cannot be read from its GatewaySnapshots");
            self.damaged = entry.map(|entry| Damaged { entry, marks, why: why.clone() });
            return Ok(Some(Err(why)));
        };
        self.damaged = None;
        Ok(Some(Ok(Arc::clone(plan))))
    }

    /// Whether the revision that runs was found damaged.
    pub(in crate::controller) fn is_damaged(&self) -> bool {
        self.damaged.is_some()
    }

    /// Whether a revision that was found damaged has changed since, so that [`Self::running`] must be called again.
    pub(in crate::controller) fn may_be_repaired(&self, seen: &[Seen], owner: &Owner) -> bool {
        self.damaged.as_ref().is_some_and(|damaged| {
            let entry = self.entry(&damaged.entry.revision);
            entry != Some(&damaged.entry) || damaged.marks != marks(&damaged.entry, seen, owner)
        })
    }

    /// Returns the entry of a revision in the index, if the index keeps the revision.
    fn entry(&self, revision: &str) -> Option<&SnapshotRevision> {
        self.index.iter().flat_map(|index| &index.revisions).find(|known| known.revision == revision)
    }

    /// Returns the upstreams that pods are told not to call in any of the stored revisions.
    pub(in crate::controller) fn revoked_upstreams(&self) -> BTreeSet<ObjectKey> {
        let of_older = self.index.iter().flat_map(|index| &index.revisions).map(|known| &known.restrictions);
        let told = self.index.iter().map(|index| &index.restrictions).chain(of_older).flatten();
        let revoked = told.flat_map(|told| restrictions::read(told).revoked);
        let upstreams = revoked.filter_map(|revoked| match revoked {
            Revoked::Upstream(upstream) => Some(upstream),
            Revoked::Plugin { .. } => None,
        });
        upstreams.collect()
    }

    /// Reads the stored objects again. Keeps what is already known about plans.
    pub(in crate::controller) async fn refresh(&mut self, writer: &Writer, owner: &Owner) -> Result<(), ApplyError> {
        let (read, _) = Self::read(writer, owner, None).await?;
        let before = std::mem::replace(self, read);
        self.keep_from(before);
        Ok(())
    }

    /// Takes over from `before` the state that is not read from the cluster. If the index object is gone, the index in
    /// `before` is kept and marked to be written again, because otherwise the pinned revision would be lost. Revisions
    /// whose shards are gone too are left out, except the current one.
    pub(super) fn keep_from(&mut self, before: Self) {
        (self.running, self.in_force, self.seen_names) = (before.running, before.in_force, before.seen_names);
        self.damaged = before.damaged;
        // If the index appeared or disappeared, the pinned revision may be available now.
        self.refused = before.refused.filter(|_| self.index.is_some() == before.index.is_some());
        let Some(mut index) = before.index.filter(|_| self.index.is_none()) else { return };
        let is_there = |shard: &ShardRef| self.shards.contains_key(&shard.name);
        index.revisions.retain(|known| known.revision == index.current || known.shards.iter().all(is_there));
        (self.index, self.disturbed) = (Some(index), true);
        (self.revisions, self.plans) = (before.revisions, before.plans);
    }

    /// Whether the stored objects are still those that were last written. `seen` holds all of the gateway's snapshots
    /// that the watch shows. The watch can lag behind a write, but an object that it showed before and no longer shows
    /// is gone.
    pub(in crate::controller) fn is_intact(&mut self, seen: &[Seen], owner: &Owner) -> bool {
        let now = Instant::now();
        let parts = |part: &'static str| {
            seen.iter().map(|object| &object.metadata).filter(move |metadata| is_part(metadata, part, owner))
        };
        let index = parts("index").find(|index| index.name.as_ref() == Some(&owner.key.name));
        // A newer generation than the one last written is someone else's change.
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

/// Returns the state of a revision's shards, as the watch shows them.
fn marks(entry: &SnapshotRevision, seen: &[Seen], owner: &Owner) -> Vec<ShardMark> {
    let names: BTreeSet<_> = entry.shards.iter().map(|shard| shard.name.as_str()).collect();
    let there = seen.iter().filter(|object| object.metadata.name.as_deref().is_some_and(|name| names.contains(name)));
    let mark = |object: &Seen| {
        let metadata = &object.metadata;
        (object.name_any(), metadata.uid.clone(), metadata.generation, is_part(metadata, "shard", owner))
    };
    let mut marks: Vec<_> = there.map(mark).collect();
    marks.sort();
    marks
}

/// Lists the gateway's snapshots. Objects that cannot be parsed as snapshots are left out.
async fn snapshots(writer: &Writer, key: &ObjectKey) -> Result<Vec<GatewaySnapshot>, ApplyError> {
    let resource = ApiResource::erase::<GatewaySnapshot>(&());
    let api: Api<Item<DynamicObject>> = Api::namespaced_with(writer.client.clone(), &key.namespace, &resource);
    let what = format!("gatewaysnapshots in {}", key.namespace);
    let failed = |error| ApplyError::Request { what: what.clone(), error };
    let mut params = ListParams::default().labels(&format!("{GATEWAY_LABEL}={}", key.name)).limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let page = writer.read(&format!("list {what}"), api.list(&params)).await.map_err(failed)?;
        objects.extend(page.items);
        let next = page.metadata.continue_.filter(|next| !next.is_empty());
        let Some(next) = next else { break };
        params.continue_token = Some(next);
    }
    if !objects.iter().any(|object| object.name_any() == key.name) {
        // Someone may have removed the label from the index. The index is needed, because it records the pinned
        // revision.
        let index = match writer.read(&format!("get {what}"), api.get_opt(&key.name)).await {
            // The missing right is reported elsewhere: without it, the operator cannot create the Role of the gateway's
            // pods either.
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
