//! Places for checks of arguments that take long, on threads that serve no calls.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// The size of all arguments that are checked at the same time, in KiB. A part of it is the least that one takes, so that
/// there are few such checks. Each holds all values of the arguments, which can take a hundred times the memory of their
/// text, and it cannot be ended from outside.
const ROOM: usize = 4096;

/// What is left of [`ROOM`] for checks of some length.
static SOME: Semaphore = Semaphore::const_new(ROOM);
/// The same for long ones. The others do not wait for them.
static LONG: Semaphore = Semaphore::const_new(ROOM);

/// How long a check may take.
#[derive(Clone, Copy, Debug)]
pub(super) enum Length {
    /// Four run at the same time.
    Some,
    /// Two run at the same time.
    Long,
}

/// The places of one upstream: one for each length. So a server whose schemas make checks long, and a client that calls it,
/// leave places to others, and how many of its calls wait makes the calls of others wait no longer.
#[derive(Debug)]
pub(crate) struct CheckPlaces {
    some: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

/// A place that a check has, of its upstream and of all. None of the semaphores is ever closed.
pub(super) struct CheckPlace {
    _own: Option<OwnedSemaphorePermit>,
    _room: Option<SemaphorePermit<'static>>,
}

impl Default for CheckPlaces {
    fn default() -> Self {
        Self { some: Arc::new(Semaphore::new(1)), long: Arc::new(Semaphore::new(1)) }
    }
}

impl CheckPlaces {
    /// Waits for a place to check arguments of this many bytes.
    pub(super) async fn take(&self, length: Length, bytes: usize) -> CheckPlace {
        let (own, room, most) = match length {
            Length::Some => (&self.some, &SOME, 4),
            Length::Long => (&self.long, &LONG, 2),
        };
        let size = (bytes / 1024).clamp(ROOM / most, ROOM);
        let own = Arc::clone(own).acquire_owned().await.ok();
        let room = room.acquire_many(u32::try_from(size).unwrap_or(u32::MAX)).await.ok();
        CheckPlace { _own: own, _room: room }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn an_upstream_has_one_place_however_many_of_its_calls_wait() {
        let (busy, other) = (CheckPlaces::default(), CheckPlaces::default());
        for length in [Length::Some, Length::Long] {
            let held = busy.take(length, 1).await;
            let mut waiting: Vec<_> = (0..8).map(|_| Box::pin(busy.take(length, 1))).collect();
            for next in &mut waiting {
                assert!(poll!(next).is_pending(), "{length:?}");
            }
            // Others have places, as many as there are.
            drop(other.take(length, 1).await);
            drop(held);
            let next = (&mut waiting[0]).await;
            assert!(poll!(&mut waiting[1]).is_pending(), "{length:?}");
            drop(next);
        }
    }
}
