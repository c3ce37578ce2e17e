//! The state that all upstreams share.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::event_queue::EventQueue;
use super::metrics::UpstreamMetrics;
use crate::domain::budget::ByteBudget;
use crate::domain::instance::Instance;
use crate::transport::ServerLauncher;

/// The maximum number of small tasks that run in the background at the same time: cancellations, replies to servers,
/// ends of sessions, and reading event streams to their end.
const BACKGROUND: usize = 128;

/// The error of a small task that was not started, because too many are running.
#[derive(Debug)]
pub(super) struct TooMany;

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
            runtime: Handle::current(),
            background: Arc::new(Semaphore::new(BACKGROUND)),
        }
    }

    /// The runtime, for tasks that are spawned from threads outside of it.
    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Starts a small task in the background. If too many are running, returns an error without running the task. Can
    /// be called from any thread.
    pub(super) fn spawn_small(&self, task: impl Future<Output = ()> + Send + 'static) -> Result<(), TooMany> {
        let permit = Arc::clone(&self.background).try_acquire_owned().map_err(|_| TooMany)?;
        let task = async move {
            task.await;
            drop(permit);
        };
        self.tasks.spawn_on(task, &self.runtime);
        Ok(())
    }

    /// Starts `telling`, which sends a message to an upstream, as a small task. If too many are running, the message is
    /// dropped and counted.
    pub(super) fn notify_later(&self, upstream: &str, telling: impl Future<Output = ()> + Send + 'static) {
        if self.spawn_small(telling).is_err() {
            self.metrics.unsent(upstream).inc();
            tracing::debug!(upstream, "a message was dropped: too many wait");
        }
    }
}
