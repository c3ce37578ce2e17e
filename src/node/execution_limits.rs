//! Limits that executions of all plugins share: permits, places in the queue, and bytes in flight.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::execution_queue::{ExecutionClient, ExecutionQueue, QueuePlace};
use super::process::Tasks;
use crate::domain::plan::Runtime;
use crate::domain::plugin::Failure;
use crate::domain::ports::PluginLoad;
use crate::domain::reason::Reason;

/// The limits that all plugins share. They can change while executions run.
#[derive(Debug)]
pub struct ExecutionLimits {
    permits: Arc<Semaphore>,
    granted: Mutex<usize>,
    queue: Arc<ExecutionQueue>,
    bytes: Arc<Budget>,
    queue_timeout_ms: AtomicU64,
    tasks: Tasks,
}

/// A counter with an upper limit.
#[derive(Debug, Default)]
struct Budget {
    taken: AtomicU64,
    limit: AtomicU64,
}

/// A part of a budget that is reserved until this value is dropped, but for the time for which it is suspended.
#[derive(Debug)]
pub struct LimitReservation {
    budget: Arc<Budget>,
    amount: u64,
    is_suspended: AtomicBool,
}

impl Budget {
    fn take(self: &Arc<Self>, amount: u64) -> Option<LimitReservation> {
        let limit = self.limit.load(Ordering::Acquire);
        let more = |taken: u64| taken.checked_add(amount).filter(|sum| *sum <= limit);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(LimitReservation { budget: Arc::clone(self), amount, is_suspended: AtomicBool::new(false) })
    }
}

impl LimitReservation {
    /// Gives the amount back for a while.
    pub fn suspend(&self) {
        if !self.is_suspended.swap(true, Ordering::AcqRel) {
            self.budget.taken.fetch_sub(self.amount, Ordering::AcqRel);
        }
    }

    /// Takes the amount again, also over the limit: what has begun goes on.
    pub fn resume(&self) {
        if self.is_suspended.swap(false, Ordering::AcqRel) {
            self.budget.taken.fetch_add(self.amount, Ordering::AcqRel);
        }
    }
}

impl Drop for LimitReservation {
    fn drop(&mut self) {
        self.suspend();
    }
}

impl ExecutionLimits {
    /// Creates limits that admit no execution until [`ExecutionLimits::apply`] is called.
    pub fn new(tasks: Tasks) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(0)),
            granted: Mutex::new(0),
            queue: Arc::default(),
            bytes: Arc::default(),
            queue_timeout_ms: AtomicU64::new(0),
            tasks,
        }
    }

    /// Applies the limits of `runtime`. A lower number of permits takes effect as running executions end.
    pub fn apply(&self, runtime: &Runtime) {
        self.queue.set_most(usize::try_from(runtime.max_queued_executions).unwrap_or(usize::MAX));
        self.bytes.limit.store(runtime.max_bytes_in_flight, Ordering::Release);
        self.queue_timeout_ms.store(u64::from(runtime.queue_timeout_ms), Ordering::Release);
        let wanted = usize::try_from(runtime.max_concurrent_executions).unwrap_or(1);
        let mut granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted > *granted {
            self.permits.add_permits(wanted - *granted);
        } else {
            let surplus = *granted - wanted;
            let in_use = surplus - self.permits.forget_permits(surplus);
            let (in_use, permits) = (u32::try_from(in_use).unwrap_or_default(), Arc::clone(&self.permits));
            self.tasks.spawn(async move {
                if let Ok(taken) = permits.acquire_many_owned(in_use).await {
                    taken.forget();
                }
            });
        }
        *granted = wanted;
    }

    /// Returns how many permits there are, and how many permits and places in the queue are in use.
    pub fn load(&self) -> PluginLoad {
        let granted = *self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        PluginLoad {
            permits: number(granted),
            permits_in_use: number(granted.saturating_sub(self.permits.available_permits())),
            queued: number(self.queue.count()),
        }
    }

    /// How long an execution may wait for a worker and a permit.
    pub fn queue_timeout(&self) -> Duration {
        Duration::from_millis(self.queue_timeout_ms.load(Ordering::Acquire))
    }

    /// Reserves `bytes` of the budget for content, until the returned share is dropped.
    ///
    /// # Errors
    /// `PoolExhausted` if the budget does not have that many bytes left.
    pub fn content(&self, bytes: usize) -> Result<LimitReservation, Failure> {
        let taken = self.bytes.take(bytes as u64);
        taken.ok_or_else(|| Failure::new(Reason::PoolExhausted, "found too many bytes in flight"))
    }

    /// Returns a place in the queue for an execution of `client`, which it takes only if it has to wait.
    pub fn place(&self, client: ExecutionClient) -> QueuePlace {
        QueuePlace::new(&self.queue, client)
    }

    /// Waits for a permit to execute, at this place.
    ///
    /// # Errors
    /// `PoolExhausted` if no permit is free by `until`, the queue is full, or the execution gave way to another one.
    pub async fn permit(&self, until: Instant, place: &mut QueuePlace) -> Result<OwnedSemaphorePermit, Failure> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(permit);
        }
        let acquired = place.wait(until, Arc::clone(&self.permits).acquire_owned()).await?;
        acquired.and_then(Result::ok).ok_or_else(|| self.late())
    }

    /// Takes a permit for an execution that released its own while it waited for an answer. The execution has already
    /// queued and has its own deadline, so this neither takes a place in the queue nor times out. Returns `None` if the
    /// semaphore is closed.
    pub async fn again(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).acquire_owned().await.ok()
    }

    /// The failure of an execution whose waiting time has ended while its plugin is still loading.
    pub fn not_loaded(&self) -> Failure {
        let waited = self.queue_timeout().as_millis();
        Failure::new(Reason::NotLoaded, format!("was still being loaded after {waited}ms"))
    }

    /// The failure of an execution that found no free worker or permit in time.
    pub fn late(&self) -> Failure {
        let waited = self.queue_timeout().as_millis();
        Failure::new(Reason::PoolExhausted, format!("found no free worker within {waited}ms"))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::super::fixture::runtime;
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    async fn permit(admission: &ExecutionLimits) -> Result<OwnedSemaphorePermit, Failure> {
        admission.permit(soon(), &mut admission.place(ExecutionClient(None))).await
    }

    #[tokio::test]
    async fn permits_can_grow_and_shrink() {
        let admission = ExecutionLimits::new(Tasks::here());
        admission.apply(&runtime(1, 10, 0));
        let first = permit(&admission).await.unwrap();
        assert_eq!(permit(&admission).await.unwrap_err().reason, Reason::PoolExhausted);
        admission.apply(&runtime(2, 10, 0));
        let second = permit(&admission).await.unwrap();
        admission.apply(&runtime(1, 10, 0));
        drop(first);
        tokio::task::yield_now().await;
        assert!(permit(&admission).await.is_err());
        drop(second);
        assert!(permit(&admission).await.is_ok());
    }

    #[tokio::test]
    async fn budgets_are_given_back() {
        let admission = ExecutionLimits::new(Tasks::here());
        admission.apply(&runtime(1, 1, 100));
        let most = admission.content(80).unwrap();
        assert_eq!(admission.content(21).unwrap_err().reason, Reason::PoolExhausted);
        most.suspend();
        most.suspend();
        let other = admission.content(100).unwrap();
        most.resume();
        drop(other);
        assert!(admission.content(21).is_err(), "it is taken again");
        assert!(admission.content(20).is_ok());
        drop(most);
        assert!(admission.content(100).is_ok());
    }

    #[tokio::test]
    async fn executions_wait_for_a_permit_at_a_place_in_the_queue() {
        let admission = ExecutionLimits::new(Tasks::here());
        admission.apply(&runtime(1, 1, 0));
        let mut place = admission.place(ExecutionClient(None));
        let granted = admission.permit(soon(), &mut place).await.unwrap();
        assert_eq!(admission.load().queued, 0, "it did not wait");
        let mut waits = Box::pin(admission.permit(Instant::now() + Duration::from_secs(60), &mut place));
        assert!((&mut waits).now_or_never().is_none());
        let full = permit(&admission).await.unwrap_err();
        assert_eq!((full.reason, full.message.as_str()), (Reason::PoolExhausted, "found the queue for workers full"));
        drop(granted);
        let _granted = waits.await.unwrap();
        assert_eq!(admission.load().queued, 1, "it may have to wait for a worker again");
        drop(place);
        assert_eq!(admission.load().queued, 0);
    }

    #[tokio::test]
    async fn what_is_too_large_takes_no_room_from_what_is_not() {
        let limits = ExecutionLimits::new(Tasks::here());
        limits.bytes.limit.store(100, Ordering::Release);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert!(limits.content(101).is_err());
                }
            });
            let refused = (0..200_000).filter(|_| limits.content(1).is_err()).count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(refused, 0);
        });
    }
}
