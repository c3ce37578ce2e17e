//! Watches the snapshot objects of one gateway.
//!
//! A revision that is damaged or incomplete is never returned, and neither is a revision from an index that is older
//! than the last one that was read. The gateway then keeps its plan.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, future};
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::time::Instant;

use super::super::doubling_backoff::DoublingBackoff;
use super::failure::{is_unreachable, why};
use super::last_good::{KeptExtras, LastGood, SnapshotFile};
use super::owner::GatewayUid;
use super::received::{IndexExtras, PlanObjects, Received, Version};
use super::shard_cache::{ShardCache, ShardLookup};
use crate::api::item::{Item, watch, watch_config};
use crate::api::snapshot::{GATEWAY_LABEL, GatewaySnapshot, SnapshotIndex, SnapshotRevision};
use crate::domain::ids::ObjectKey;
use crate::domain::reason::Reason;
use crate::domain::report::PendingReport;

/// How long a start waits for the API server before it uses the revision on disk.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pauses between retries: the first one, and the longest.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A snapshot, or why it cannot be parsed, so that an invalid object does not hide the others.
type ReadableSnapshot = DeserializeGuard<GatewaySnapshot>;

/// A change that the watch found.
#[derive(Debug)]
pub enum News {
    /// A plan to put in force.
    Plan(Box<Received>),
    /// The plan stays, but the index's restrictions or tool names changed.
    Extras(IndexExtras),
    /// A revision that the gateway should run and cannot run, or `None` when there is no such revision any more.
    Pending(Option<PendingReport>),
}

/// The outcome of waiting for the watch.
enum WatchOutcome {
    Objects,
    /// No event arrived in time, or there is no connection; the text is the reason.
    Nobody(String),
}

/// The snapshots of one gateway.
pub struct Snapshots {
    gateway: ObjectKey,
    /// The uid of the MCPGateway that owns the index, set from the index.
    uid: GatewayUid,
    events: BoxStream<'static, watcher::Result<Event<ReadableSnapshot>>>,
    objects: Store<ReadableSnapshot>,
    /// Whether all objects were listed at least once.
    listed: bool,
    /// Whether the last event of the watch was a failure.
    failing: bool,
    /// Whether the index was missing when last looked up.
    absent: bool,
    /// When a start stops waiting for the API server; `None` once the start is over.
    start_until: Option<Instant>,
    last_good: Option<LastGood>,
    parts: ShardCache,
    /// The revision that was returned last.
    running: String,
    /// The newest version of the index that was read.
    version: Option<Version>,
    /// The extras of the index in that version.
    extras: IndexExtras,
    /// The extras that are stored on disk.
    kept: Option<IndexExtras>,
    pending: Option<PendingReport>,
}

impl Snapshots {
    /// Watches the snapshots of `gateway`. The last good revision is stored in `state_dir`, if set. `uid` receives the
    /// uid of the MCPGateway from the index.
    pub fn new(client: Client, gateway: ObjectKey, state_dir: Option<PathBuf>, uid: GatewayUid) -> Self {
        let api: Api<Item<ReadableSnapshot>> = Api::namespaced(client, &gateway.namespace);
        let config = watch_config().labels(&format!("{GATEWAY_LABEL}={}", gateway.name));
        let (objects, writer) = store();
        // `Event::Init` only announces a list. It is filtered out because any event resets the backoff.
        let tells = |event: &watcher::Result<_>| future::ready(!matches!(event, Ok(Event::Init)));
        let events = watch(api, config).reflect(writer).filter(tells);
        Self {
            events: events.backoff(DoublingBackoff::new(FIRST_WAIT, LONGEST_WAIT)).boxed(),
            objects,
            listed: false,
            failing: false,
            absent: false,
            start_until: Some(Instant::now() + PATIENCE),
            last_good: state_dir.map(|folder| LastGood::new(folder, gateway.clone())),
            parts: ShardCache::default(),
            running: String::new(),
            version: None,
            extras: IndexExtras::default(),
            kept: None,
            pending: None,
            gateway,
            uid,
        }
    }

    /// Waits for the next change. If the future is dropped, no change is lost.
    pub async fn next(&mut self) -> News {
        loop {
            let news = match self.next_event().await {
                WatchOutcome::Objects if self.listed => self.look(),
                WatchOutcome::Objects => None,
                WatchOutcome::Nobody(why) => self.start_without(&why).await,
            };
            if let Some(news) = news {
                return news;
            }
        }
    }

    /// Returns the revision that the gateway should run and cannot run, if there is one.
    pub fn pending(&self) -> Option<PendingReport> {
        self.pending.clone()
    }

    /// Waits for an event, and then processes all that are ready.
    async fn next_event(&mut self) -> WatchOutcome {
        let start_until = self.start_until;
        let silent = async {
            match start_until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let mut event = tokio::select! {
            event = self.events.next() => event,
            () = silent => return WatchOutcome::Nobody(format!("the API server did not answer within {PATIENCE:?}")),
        };
        while let Some(heard) = event {
            match heard {
                Ok(event) => self.note(&event),
                Err(error) => {
                    self.note_failure(&error);
                    if self.start_until.is_some() && is_unreachable(&error) {
                        return WatchOutcome::Nobody(why(&error));
                    }
                }
            }
            event = self.events.next().now_or_never().flatten();
        }
        WatchOutcome::Objects
    }

    fn note(&mut self, event: &Event<ReadableSnapshot>) {
        if matches!(event, Event::InitDone) {
            (self.listed, self.start_until) = (true, None);
        }
        if std::mem::take(&mut self.failing) {
            tracing::info!("the API server answers again");
        }
    }

    fn note_failure(&mut self, error: &watcher::Error) {
        let error = why(error);
        if std::mem::replace(&mut self.failing, true) {
            tracing::debug!(error, "snapshots cannot be watched");
        } else {
            tracing::warn!(error, "snapshots cannot be watched; what runs goes on, and it is tried again");
        }
    }

    fn note_absent(&mut self) {
        if !std::mem::replace(&mut self.absent, true) {
            let gateway = &self.gateway;
            tracing::warn!(
                "there is no GatewaySnapshot {gateway}; it is waited for. Is there an MCPGateway {gateway}, and does an \
                 operator watch its namespace?"
            );
        }
    }

    /// Reads the index from the store, and returns what changed.
    fn look(&mut self) -> Option<News> {
        let Some(object) = self.objects.get(&self.reference(&self.gateway.name)) else {
            self.note_absent();
            return None;
        };
        self.absent = false;
        let snapshot = match &object.0 {
            Ok(snapshot) => snapshot,
            Err(invalid) => {
                let message = format!("the index cannot be read: {}", invalid.error);
                return self.set_pending(Some(pending("", Reason::SnapshotUnreadable, message)));
            }
        };
        let index = snapshot.spec.index.as_ref()?;
        let version = Version::of(snapshot);
        if self.version.as_ref().is_some_and(|newest| version.is_before(newest)) {
            return None;
        }
        self.version = Some(version.clone());
        self.uid.read(&snapshot.metadata, &self.gateway.name);
        let news = self.look_at(index, version);
        let extras = IndexExtras::of(index, &self.running, self.extras.restrictions.as_ref());
        let differs = extras != self.extras;
        self.extras = extras;
        // Extras apply to the running revision, so they are returned even if the current revision cannot be used.
        match news {
            Some(News::Plan(_)) => news,
            _ if differs && !self.running.is_empty() => Some(News::Extras(self.extras.clone())),
            _ => news,
        }
    }

    /// Reads the plan of the index's current revision, unless this revision already runs.
    fn look_at(&mut self, index: &SnapshotIndex, version: Version) -> Option<News> {
        if index.current == self.running {
            return self.set_pending(None);
        }
        let Some(revision) = index.revisions.iter().find(|revision| revision.revision == index.current) else {
            let message = "the index does not say what it consists of".to_owned();
            return self.set_pending(Some(pending(&index.current, Reason::SnapshotIncomplete, message)));
        };
        self.take(index, revision, version)
    }

    fn take(&mut self, index: &SnapshotIndex, revision: &SnapshotRevision, version: Version) -> Option<News> {
        let found: Vec<_> =
            revision.shards.iter().filter_map(|shard| self.objects.get(&self.reference(&shard.name))).collect();
        let find = |name: &str| match found.iter().find(|object| object.name_unchecked() == name).map(|found| &found.0)
        {
            None => ShardLookup::Absent,
            Some(Err(invalid)) => ShardLookup::Invalid(&invalid.error),
            Some(Ok(snapshot)) => snapshot.spec.shard.as_ref().map_or(ShardLookup::Absent, ShardLookup::Shard),
        };
        let plan = match self.parts.plan(revision, find) {
            Ok(plan) => plan,
            Err(unusable) => return self.set_pending(Some(unusable.report(&index.current))),
        };
        let shards = found.iter().filter_map(|object| {
            let snapshot = object.0.as_ref().ok()?;
            Some((snapshot.name_unchecked(), snapshot.spec.shard.clone()?))
        });
        let from = PlanObjects { version, revision: revision.clone(), shards: shards.collect() };
        (self.pending, self.running) = (None, index.current.clone());
        self.extras = IndexExtras::of(index, &self.running, None);
        Some(News::Plan(Box::new(Received { plan, extras: self.extras.clone(), from: Some(from) })))
    }

    /// Returns the last good plan from disk, because the API server cannot be reached. The watch continues.
    async fn start_without(&mut self, why: &str) -> Option<News> {
        self.start_until = None;
        let last_good = self.last_good.clone()?;
        let read = tokio::task::spawn_blocking(move || last_good.read()).await.ok()?;
        let SnapshotFile { version, revision, shards, extras, .. } =
            read.inspect_err(|error| tracing::warn!("{why}; there is no plan to start with: {error}")).ok()?;
        let find = |name: &str| {
            let shard = shards.iter().find(|(known, _)| known == name);
            shard.map_or(ShardLookup::Absent, |(_, shard)| ShardLookup::Shard(shard))
        };
        let unusable = |error: &_| tracing::warn!("{why}; the last good plan cannot be used: {error}");
        let plan = self.parts.plan(&revision, find).inspect_err(unusable).ok()?;
        tracing::warn!(revision = revision.revision, "{why}; the last good plan is used until it does");
        (self.version, self.running, self.kept) = (Some(version), revision.revision, Some(extras.clone()));
        self.extras = extras;
        Some(News::Plan(Box::new(Received { plan, extras: self.extras.clone(), from: None })))
    }

    /// Writes what is in force to disk, for a start without the API server: a new plan with its extras, or only the
    /// extras if the plan is already there.
    pub async fn keep(&mut self, received: &mut Received) {
        let Some(last_good) = self.last_good.clone() else { return };
        let (extras, gateway) = (received.extras.clone(), self.gateway.clone());
        if let Some(from) = received.from.take() {
            let PlanObjects { version, revision, shards } = from;
            let kept = Arc::new(SnapshotFile { gateway, version, revision, shards, extras });
            let writes = Arc::clone(&kept);
            match tokio::task::spawn_blocking(move || last_good.write(&writes)).await {
                Ok(Ok(())) => self.kept = Some(received.extras.clone()),
                Ok(Err(error)) => {
                    warn_of_not_kept(&error);
                    // The objects are put back, so that the next call writes the plan again and not only its extras.
                    let SnapshotFile { version, revision, shards, .. } = Arc::unwrap_or_clone(kept);
                    received.from = Some(PlanObjects { version, revision, shards });
                }
                Err(_) => {}
            }
        } else if let Some(version) = self.version.clone().filter(|_| self.kept.as_ref() != Some(&extras)) {
            let kept = KeptExtras { gateway, version, revision: self.running.clone(), extras };
            match tokio::task::spawn_blocking(move || last_good.write_extras(&kept)).await {
                Ok(Ok(())) => self.kept = Some(received.extras.clone()),
                Ok(Err(error)) => warn_of_not_kept(&error),
                Err(_) => {}
            }
        }
    }

    fn set_pending(&mut self, pending: Option<PendingReport>) -> Option<News> {
        if self.pending == pending {
            return None;
        }
        if let Some(PendingReport { revision, reason, message }) = &pending {
            tracing::error!(revision, reason, "the revision is not taken, what runs stays: {message}");
        }
        self.pending.clone_from(&pending);
        Some(News::Pending(pending))
    }

    fn reference(&self, name: &str) -> ObjectRef<ReadableSnapshot> {
        ObjectRef::new(name).within(&self.gateway.namespace)
    }
}

fn warn_of_not_kept(error: &std::io::Error) {
    tracing::warn!("what is in force cannot be kept for a start without the API server (--state-dir): {error}");
}

fn pending(revision: &str, reason: Reason, message: String) -> PendingReport {
    PendingReport { revision: revision.to_owned(), reason: reason.as_str().to_owned(), message }
}
