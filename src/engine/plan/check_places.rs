//! Places for checks of arguments that take long, on threads that serve no calls.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The size of all arguments that are checked at the same time, in KiB. A part of it is the least that one takes, so that
/// there are few such checks. Each holds all values of the arguments, which can take a hundred times the memory of their
/// text, and it cannot be ended from outside.
const ROOM: usize = 4096;

/// What the checks of all upstreams have of [`ROOM`]: once for those of some length, once for long ones, so that the former
/// do not wait for the latter.
#[derive(Debug)]
pub(crate) struct CheckRoom {
    some: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

impl Default for CheckRoom {
    fn default() -> Self {
        Self { some: Arc::new(Semaphore::new(ROOM)), long: Arc::new(Semaphore::new(ROOM)) }
    }
}

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
    room: Arc<CheckRoom>,
}

/// A place that a check has, of its upstream and of all. None of the semaphores is ever closed.
pub(super) struct CheckPlace {
    _own: Option<OwnedSemaphorePermit>,
    _room: Option<OwnedSemaphorePermit>,
}

impl CheckPlaces {
    /// The places of one upstream, which shares `room` with the others.
    pub(crate) fn new(room: &Arc<CheckRoom>) -> Self {
        Self { some: Arc::new(Semaphore::new(1)), long: Arc::new(Semaphore::new(1)), room: Arc::clone(room) }
    }

    /// Waits for a place to check arguments of this many bytes.
    pub(super) async fn take(&self, length: Length, bytes: usize) -> CheckPlace {
        let (own, room, most) = match length {
            Length::Some => (&self.some, &self.room.some, 4),
            Length::Long => (&self.long, &self.room.long, 2),
        };
        let size = (bytes / 1024).clamp(ROOM / most, ROOM);
        let own = Arc::clone(own).acquire_owned().await.ok();
        let room = Arc::clone(room).acquire_many_owned(u32::try_from(size).unwrap_or(u32::MAX)).await.ok();
        CheckPlace { _own: own, _room: room }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn an_upstream_has_one_place_however_many_of_its_calls_wait() {
        let room = Arc::default();
        let (busy, other) = (CheckPlaces::new(&room), CheckPlaces::new(&room));
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

    #[tokio::test]
    async fn all_upstreams_share_one_room_and_another_gateway_has_its_own() {
        let room = Arc::default();
        for (length, places) in [(Length::Some, 4), (Length::Long, 2)] {
            let mut held = Vec::new();
            for _ in 0..places {
                held.push(CheckPlaces::new(&room).take(length, 1).await);
            }
            let one_more = CheckPlaces::new(&room);
            let mut waiting = Box::pin(one_more.take(length, 1));
            assert!(poll!(&mut waiting).is_pending(), "{length:?}");
            drop(CheckPlaces::new(&Arc::default()).take(length, 1).await);
            held.pop();
            drop(waiting.await);
        }
    }
}
