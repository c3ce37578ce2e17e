//! Places for checks of arguments that take long, on threads that serve no calls.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The size of all arguments that are checked at the same time, in KiB. A quarter of it is the least that one takes, so that
/// there are few such checks. Each holds all values of the arguments, which can take a hundred times the memory of their
/// text, and it cannot be ended from outside.
const ROOM: usize = 4096;

/// What the checks of all upstreams have of [`ROOM`].
#[derive(Debug)]
pub(crate) struct CheckRoom(Arc<Semaphore>);

impl Default for CheckRoom {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM)))
    }
}

/// The place of one upstream. A server whose schemas make checks long leaves places to others.
#[derive(Debug)]
pub(crate) struct CheckPlaces {
    own: Arc<Semaphore>,
    room: Arc<CheckRoom>,
}

/// A place that a check has, of its upstream and of all. None of the semaphores is ever closed.
pub(super) struct CheckPlace {
    _own: Option<OwnedSemaphorePermit>,
    _room: Option<OwnedSemaphorePermit>,
}

impl CheckPlaces {
    /// The place of one upstream, which shares `room` with the others.
    pub(crate) fn new(room: &Arc<CheckRoom>) -> Self {
        Self { own: Arc::new(Semaphore::new(1)), room: Arc::clone(room) }
    }

    /// Waits for a place to check arguments of this many bytes.
    pub(super) async fn take(&self, bytes: usize) -> CheckPlace {
        let size = (bytes / 1024).clamp(ROOM / 4, ROOM);
        let own = Arc::clone(&self.own).acquire_owned().await.ok();
        let room = Arc::clone(&self.room.0).acquire_many_owned(u32::try_from(size).unwrap_or(u32::MAX)).await.ok();
        CheckPlace { _own: own, _room: room }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn an_upstream_has_one_place_and_all_share_four() {
        let room = Arc::default();
        let busy = CheckPlaces::new(&room);
        let held = busy.take(1).await;
        let mut waiting: Vec<_> = (0..9).map(|_| Box::pin(busy.take(1))).collect();
        for next in &mut waiting {
            assert!(poll!(next).is_pending());
        }
        let others: Vec<_> = (0..4).map(|_| CheckPlaces::new(&room)).collect();
        let mut of_others = Vec::new();
        for other in &others[..3] {
            of_others.push(other.take(1).await);
        }
        let mut last = Box::pin(others[3].take(1));
        assert!(poll!(&mut last).is_pending());
        drop(CheckPlaces::new(&Arc::default()).take(1).await);
        of_others.pop();
        let last = last.await;
        drop(held);
        let next = (&mut waiting[0]).await;
        assert!(poll!(&mut waiting[1]).is_pending());
        drop((last, next));
    }
}
