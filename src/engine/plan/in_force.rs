//! The plan in force, with the lists of its upstreams: the snapshot that new calls run on.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, watch};

use super::snapshot::Snapshot;
use crate::domain::ids::ObjectKey;
use crate::domain::item::ItemKind;
use crate::domain::seen::SeenNames;
use crate::engine::catalogue::Catalogues;

/// The interval at which a wait for a list checks whether chains over it take too long.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The snapshot in force, and notifications of the next one.
pub struct InForce {
    pub(in crate::engine) catalogues: Arc<Catalogues>,
    snapshot: ArcSwap<Snapshot>,
    /// Held while the next snapshot is built from the current one and replaces it.
    publishing: Mutex<()>,
    /// Notified whenever a snapshot is published.
    pub(in crate::engine) published: Notify,
    /// Notified whenever one of the lists changes.
    pub(in crate::engine) lists: watch::Sender<()>,
    /// Notified whenever the first attempt to reach an upstream has ended.
    pub(in crate::engine) tried: watch::Sender<()>,
    /// Notified whenever a plan, or other forms of its plugins, come into force.
    pub(in crate::engine) plans: watch::Sender<()>,
    /// When the first plan came into force, by the monotonic clock.
    pub(in crate::engine) since: OnceLock<Duration>,
}

impl InForce {
    /// Begins without a plan.
    pub(in crate::engine) fn new(catalogues: Arc<Catalogues>) -> Self {
        Self {
            catalogues,
            snapshot: ArcSwap::from_pointee(Snapshot::empty()),
            publishing: Mutex::new(()),
            published: Notify::new(),
            lists: watch::Sender::new(()),
            tried: watch::Sender::new(()),
            plans: watch::Sender::new(()),
            since: OnceLock::new(),
        }
    }

    /// The snapshot that new calls run on.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// A receiver that is notified whenever one of the lists changes. It carries no value.
    pub fn lists(&self) -> watch::Receiver<()> {
        self.lists.subscribe()
    }

    /// A receiver of the names of all tools that upstreams have ever listed. The caller must store them so that they
    /// outlive the process; see [`Self::merge_seen_names`].
    pub fn seen_names(&self) -> watch::Receiver<Arc<SeenNames>> {
        self.catalogues.seen.subscribe()
    }

    /// Adds tool names that this gateway saw before a restart, or that another of its processes saw. Call this before
    /// the first plan is applied if possible: a name that is added later can move from one upstream's tool to
    /// another's.
    pub fn merge_seen_names(&self, names: &SeenNames) {
        if self.catalogues.see(|seen| seen.merge(names)) {
            self.relist();
        }
    }

    /// Adds the tool names that every process of this gateway receives at its start. From then on, `Views::report`
    /// lists other tool names that were seen, if tools keep their own names.
    pub fn set_published_names(&self, names: SeenNames) {
        self.merge_seen_names(&names);
        self.catalogues.published.store(Some(Arc::new(names)));
    }

    /// A receiver that is notified whenever a plan, or other forms of its plugins, come into force.
    pub fn plans(&self) -> watch::Receiver<()> {
        self.plans.subscribe()
    }

    /// Builds the next snapshot from the current one and puts it in force. Notifies waiters if the tool list has
    /// changed.
    pub(crate) fn publish(&self, build: impl FnOnce(&Snapshot) -> Snapshot) {
        let _one_at_a_time = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        let previous = self.snapshot.load_full();
        let next = build(&previous);
        let changed = next.list_revisions != previous.list_revisions;
        self.snapshot.store(Arc::new(next));
        self.published.notify_waiters();
        if changed {
            self.lists.send_replace(());
        }
    }

    /// Rebuilds the snapshot after a tool list has changed.
    pub(crate) fn relist(&self) {
        self.publish(|previous| previous.relist(&self.catalogues));
    }

    /// Whether the snapshot in force, or the one that is being built, counts this list of an upstream as one that was never
    /// read and that chains have to see.
    pub(crate) fn awaits_list(&self, upstream: &ObjectKey, kind: ItemKind) -> bool {
        let _none_is_being_built = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        self.snapshot().is_unread(upstream, kind)
    }

    pub(in crate::engine) async fn wait_while(&self, holds: impl Fn() -> bool) {
        let (mut lists, mut tried, mut plans) = (self.lists(), self.tried.subscribe(), self.plans());
        while holds() {
            let woken = tokio::select! {
                woken = lists.changed() => woken,
                woken = tried.changed() => woken,
                woken = plans.changed() => woken,
                // Nobody tells that chains have become late.
                () = tokio::time::sleep(LOOK_AGAIN) => Ok(()),
            };
            if woken.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn only_a_list_that_differs_wakes_those_who_follow_lists() {
        let in_force = InForce::new(Arc::default());
        in_force.relist();
        let (lists, published) = (in_force.lists(), in_force.published.notified());
        in_force.relist();
        published.await;
        assert!(!lists.has_changed().unwrap(), "the lists are as empty as before");
    }

    #[tokio::test]
    async fn a_wait_ends_when_a_plan_comes_into_force_and_looks_again_by_itself() {
        let (in_force, holds) = (Arc::new(InForce::new(Arc::default())), AtomicBool::new(true));
        let waits = in_force.wait_while(|| holds.load(Ordering::Relaxed));
        let ends = async {
            tokio::task::yield_now().await;
            holds.store(false, Ordering::Relaxed);
            in_force.plans.send_replace(());
        };
        tokio::join!(waits, ends);
        holds.store(true, Ordering::Relaxed);
        let late = async {
            tokio::time::sleep(LOOK_AGAIN / 2).await;
            holds.store(false, Ordering::Relaxed);
        };
        // Nothing wakes it when chains have become late.
        tokio::join!(in_force.wait_while(|| holds.load(Ordering::Relaxed)), late);
    }

    #[tokio::test]
    async fn names_of_other_processes_are_added_once() {
        let in_force = InForce::new(Arc::default());
        let mut names = SeenNames::default();
        names.add(&ObjectKey::new("default", "up"), ["read"].into_iter());
        let mut seen = in_force.seen_names();
        in_force.merge_seen_names(&names);
        assert!(seen.has_changed().unwrap() && seen.borrow_and_update().of(&ObjectKey::new("default", "up")).is_some());
        in_force.merge_seen_names(&names);
        assert!(!seen.has_changed().unwrap());
    }
}
