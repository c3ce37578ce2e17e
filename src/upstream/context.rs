//! What all upstreams of one adapter share.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::event_queue::EventQueue;
use super::metrics::UpstreamMetrics;
use super::stdio::ServerLauncher;
use crate::domain::budget::ByteBudget;
use crate::domain::instance::Instance;

/// Small messages that are sent off the path of calls: cancellations, answers to servers, ends of sessions.
const BACKGROUND: usize = 128;

/// The limit of small tasks is reached.
#[derive(Debug)]
pub(super) struct TooMany;

/// Shared by every upstream.
#[derive(Debug)]
pub(super) struct UpstreamContext {
    /// What upstreams tell unasked.
    pub(super) events: EventQueue,
    /// Every task, so that the end can be waited for.
    pub(super) tasks: TaskTracker,
    /// How servers are started.
    pub(super) launcher: ServerLauncher,
    /// What is counted.
    pub(super) metrics: UpstreamMetrics,
    /// Fired where processes get no time to end by themselves.
    pub(super) hurry: CancellationToken,
    /// Where answers are held while they are read.
    pub(super) budget: Arc<ByteBudget>,
    /// This process, as requests name it.
    pub(super) instance: Instance,
    runtime: Handle,
    background: Arc<Semaphore>,
}

impl UpstreamContext {
    /// For the runtime that this is called in.
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
            runtime: Handle::current(),
            background: Arc::new(Semaphore::new(BACKGROUND)),
        }
    }

    /// The runtime, for tasks that are begun outside of it.
    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Runs a small task off the path of calls; drops it where too many run, and says so. May be called from anywhere.
    pub(super) fn spawn_small(&self, task: impl Future<Output = ()> + Send + 'static) -> Result<(), TooMany> {
        let permit = Arc::clone(&self.background).try_acquire_owned().map_err(|_| TooMany)?;
        let task = async move {
            task.await;
            drop(permit);
        };
        self.tasks.spawn_on(task, &self.runtime);
        Ok(())
    }

    /// The same of a message to an upstream. One that is dropped is counted.
    pub(super) fn notify_later(&self, upstream: &str, telling: impl Future<Output = ()> + Send + 'static) {
        if self.spawn_small(telling).is_err() {
            self.metrics.unsent(upstream).inc();
            tracing::debug!(upstream, "a message was dropped: too many wait");
        }
    }
}
