//! The state that all upstreams share.

use std::sync::Arc;

use dashmap::DashMap;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::event_queue::EventQueue;
use super::metrics::UpstreamMetrics;
use super::subscriptions::Subscriptions;
use crate::domain::budget::{Account, ByteBudget, Category, Reservation};
use crate::domain::ids::ObjectKey;
use crate::domain::instance::Instance;
use crate::transport::ServerLauncher;

/// The maximum number of small tasks that run in the background at the same time: cancellations, replies to servers,
/// ends of sessions, and reading responses to their end.
const BACKGROUND: usize = 512;
/// The maximum number of those for one upstream: servers that keep theirs waiting leave room for those of others.
const BACKGROUND_EACH: usize = 32;

/// The error of a small task that was not started, because too many are running.
#[derive(Debug)]
pub(super) struct TooMany;

/// What one upstream may use of what all upstreams share. All its connections count together.
#[derive(Debug)]
struct UpstreamQuota {
    /// Accounts for the memory of its answers.
    account: Arc<Account>,
    /// Its small tasks.
    background: Arc<Semaphore>,
}

impl Default for UpstreamQuota {
    fn default() -> Self {
        Self { account: Arc::default(), background: Arc::new(Semaphore::new(BACKGROUND_EACH)) }
    }
}

#[derive(Debug)]
pub(super) struct UpstreamContext {
    /// Events that upstreams report on their own, such as a changed tool list.
    pub(super) events: EventQueue,
    /// All tasks of this module, so that shutdown can wait for them.
    pub(super) tasks: TaskTracker,
    pub(super) launcher: ServerLauncher,
    pub(super) metrics: UpstreamMetrics,
    /// Cancelled when the processes of servers get no more time to exit on their own.
    pub(super) hurry: CancellationToken,
    /// The budget for the memory of answers while they are read.
    pub(super) budget: Arc<ByteBudget>,
    /// Identifies this gateway process in HTTP requests.
    pub(super) instance: Instance,
    /// What clients want to hear of, by upstream.
    watched: DashMap<ObjectKey, Arc<Subscriptions>>,
    /// What each upstream may use of what all share.
    shares: DashMap<ObjectKey, Arc<UpstreamQuota>>,
    runtime: Handle,
    background: Arc<Semaphore>,
}

impl UpstreamContext {
    /// Creates the context for the current Tokio runtime.
    pub(super) fn new(
        launcher: ServerLauncher,
        metrics: UpstreamMetrics,
        budget: &Arc<ByteBudget>,
        instance: Instance,
    ) -> Self {
        Self {
            events: EventQueue::default(),
            tasks: TaskTracker::new(),
            launcher,
            metrics,
            hurry: CancellationToken::new(),
            budget: Arc::clone(budget),
            instance,
            watched: DashMap::new(),
            shares: DashMap::new(),
            runtime: Handle::current(),
            background: Arc::new(Semaphore::new(BACKGROUND)),
        }
    }

    /// The resources of an upstream that clients want to hear of.
    pub(super) fn watched(&self, upstream: &ObjectKey) -> Arc<Subscriptions> {
        Arc::clone(&self.watched.entry(upstream.clone()).or_default())
    }

    /// The same, if anybody ever wanted to hear of one.
    pub(super) fn known_watched(&self, upstream: &ObjectKey) -> Option<Arc<Subscriptions>> {
        self.watched.get(upstream).map(|watched| Arc::clone(&watched))
    }

    /// Forgets what nobody wants to hear of any more at an upstream that is gone.
    pub(super) fn unwatch(&self, upstream: &ObjectKey) {
        self.watched.remove_if(upstream, |_, watched| watched.is_empty());
    }

    fn share(&self, upstream: &ObjectKey) -> Arc<UpstreamQuota> {
        Arc::clone(&self.shares.entry(upstream.clone()).or_default())
    }

    /// Forgets the shares of upstreams that are gone.
    pub(super) fn forget_shares(&self, is_known: impl Fn(&ObjectKey) -> bool) {
        self.shares.retain(|upstream, _| is_known(upstream));
    }

    /// Returns a reservation for one answer of an upstream.
    pub(super) fn reservation(&self, upstream: &ObjectKey) -> Reservation {
        self.budget.reservation_for(Category::Answer, &self.share(upstream).account)
    }

    /// The runtime, for tasks that are spawned from threads outside of it.
    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Starts a small task for an upstream in the background. If too many are running, returns an error without running
    /// the task. Can be called from any thread.
    pub(super) fn spawn_small(
        &self,
        upstream: &ObjectKey,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), TooMany> {
        let permit = |of: &Arc<Semaphore>| Arc::clone(of).try_acquire_owned().map_err(|_| TooMany);
        let permits = (permit(&self.share(upstream).background)?, permit(&self.background)?);
        let task = async move {
            task.await;
            drop(permits);
        };
        self.tasks.spawn_on(task, &self.runtime);
        Ok(())
    }

    /// Starts `telling`, which sends a message to an upstream, as a small task. If too many are running, the message is
    /// dropped and counted.
    pub(super) fn notify_later(&self, upstream: &ObjectKey, telling: impl Future<Output = ()> + Send + 'static) {
        if self.spawn_small(upstream, telling).is_err() {
            self.metrics.unsent(&upstream.name).inc();
            tracing::debug!(%upstream, "a message was dropped: too many wait");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_upstream_leaves_tasks_and_memory_to_others() {
        let (launcher, budget) = (ServerLauncher::at("none"), Arc::new(ByteBudget::new(16 << 20)));
        let context =
            UpstreamContext::new(launcher, UpstreamMetrics::new().unwrap(), &budget, Instance::new("of the test"));
        let (one, other) = (ObjectKey::new("ns", "one"), ObjectKey::new("ns", "other"));
        let started = (0..BACKGROUND).filter(|_| context.spawn_small(&one, std::future::pending()).is_ok());
        assert_eq!(started.count(), BACKGROUND_EACH);
        assert!(context.spawn_small(&other, std::future::pending()).is_ok());
        // The connections of one upstream count together.
        let (first, second) = (context.reservation(&one), context.reservation(&one));
        first.resize(5 << 20).unwrap();
        assert!(second.resize(2 << 20).is_err());
        assert!(context.reservation(&other).resize(2 << 20).is_ok());
        context.forget_shares(|known| *known == other);
        assert!(!context.shares.contains_key(&one) && context.shares.contains_key(&other));
    }
}
