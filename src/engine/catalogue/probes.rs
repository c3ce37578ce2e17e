//! The tasks that probe upstreams and read their lists.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::domain::ids::ObjectKey;
use crate::domain::upstream::Target;

/// The running probes, by upstream.
#[derive(Default)]
pub(crate) struct Probes {
    running: Mutex<HashMap<ObjectKey, Probe>>,
    /// The task that takes the events of upstreams.
    pub(crate) events: SoleTask,
    /// The task that runs chains on the definitions of lists.
    pub(crate) filters: SoleTask,
    /// The task that keeps the index of tools up to date.
    pub(crate) index: SoleTask,
}

/// A task of which one runs at most.
#[derive(Default)]
pub(crate) struct SoleTask(Mutex<Option<JoinHandle<()>>>);

impl SoleTask {
    /// Starts `task`, unless one was started that was not stopped.
    pub(crate) fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| tokio::spawn(task));
    }

    fn stop(&self) {
        let task = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        task.iter().for_each(JoinHandle::abort);
    }
}

pub(crate) struct Probe {
    pub(crate) target: Target,
    pub(crate) wake: Arc<Notify>,
    /// Has a probe that waits after a failure run now.
    pub(crate) retry: Arc<Notify>,
    pub(crate) task: JoinHandle<()>,
    /// Wakes the task that reads other lists than that of tools.
    pub(crate) wake_lists: Arc<Notify>,
    pub(crate) lists: JoinHandle<()>,
}

impl Probe {
    /// Ends the tasks of these probes, and waits until none runs: a task that was cancelled goes on to where it next waits. All
    /// are cancelled before any is waited for, so that they do so at the same time.
    pub(crate) async fn end_all(mut probes: Vec<Self>) {
        probes.iter().for_each(Self::abort);
        for task in probes.iter_mut().flat_map(|probe| [&mut probe.task, &mut probe.lists]) {
            // It was cancelled, or had ended before.
            let _ = task.await;
        }
    }

    fn abort(&self) {
        self.task.abort();
        self.lists.abort();
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.abort();
    }
}

impl Probes {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Probe>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the task that probes an upstream, so that the next probe runs soon instead of at its scheduled time.
    pub(crate) fn kick(&self, upstream: &ObjectKey) {
        if let Some(probe) = self.lock().get(upstream) {
            probe.wake.notify_one();
        }
    }

    /// Returns what makes an upstream that does not answer be probed again now; `None` if it is not probed any more.
    pub(crate) fn retry_of(&self, upstream: &ObjectKey) -> Option<Arc<Notify>> {
        let probes = self.lock();
        let probe = probes.get(upstream).filter(|probe| !probe.task.is_finished())?;
        Some(Arc::clone(&probe.retry))
    }

    /// Wakes the task that reads the other lists of an upstream than that of its tools.
    pub(crate) fn wake_lists(&self, upstream: &ObjectKey) {
        if let Some(probe) = self.lock().get(upstream) {
            probe.wake_lists.notify_one();
        }
    }

    pub(crate) fn stop(&self) {
        self.lock().clear();
        [&self.events, &self.filters, &self.index].into_iter().for_each(SoleTask::stop);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;
    use crate::config::compile::tests::upstream;
    use crate::domain::upstream::UpstreamTarget;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_ended_probe_records_nothing_any_more() {
        let recorded = Arc::new(AtomicBool::new(false));
        let (begins, begun) = oneshot::channel();
        let task = tokio::spawn({
            let recorded = Arc::clone(&recorded);
            async move {
                begins.send(()).unwrap();
                // It is cancelled here, where it does not wait for anything.
                std::thread::sleep(Duration::from_millis(50));
                recorded.store(true, Ordering::Relaxed);
                pending().await
            }
        });
        let plan = upstream("up").plan;
        let target = Arc::new(UpstreamTarget {
            plan,
            values: Vec::new(),
            tls: Vec::new(),
            allowed_addresses: Vec::new(),
            max_response_size: 0,
        });
        let (wake, retry, wake_lists) = (Arc::default(), Arc::default(), Arc::default());
        let probe = Probe { target, wake, retry, task, wake_lists, lists: tokio::spawn(pending()) };
        begun.await.unwrap();
        Probe::end_all(vec![probe]).await;
        assert!(recorded.load(Ordering::Relaxed), "it did so before its end was told");
    }
}
