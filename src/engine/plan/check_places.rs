//! Places for checks of arguments that take long, on threads that serve no calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::domain::limits::Tracker;

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

/// The places of one upstream: one for each length. So a server whose schemas make checks long leaves places to others, and how
/// many of its calls wait makes the calls of others wait no longer.
#[derive(Debug)]
pub(crate) struct CheckPlaces {
    some: Arc<Semaphore>,
    long: Arc<Semaphore>,
    room: Arc<CheckRoom>,
    /// One for each client that has a place or waits for one, by the address of the tracker of its calls.
    turns: Mutex<HashMap<usize, Weak<Semaphore>>>,
}

/// The places of one upstream, for the checks of one client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientPlaces<'a> {
    all: &'a CheckPlaces,
    client: usize,
}

/// A place that a check has, of its client, its upstream and of all. None of the semaphores is ever closed.
pub(super) struct CheckPlace {
    _turn: Option<OwnedSemaphorePermit>,
    _own: Option<OwnedSemaphorePermit>,
    _room: Option<OwnedSemaphorePermit>,
}

impl CheckPlaces {
    /// The places of one upstream, which shares `room` with the others.
    pub(crate) fn new(room: &Arc<CheckRoom>) -> Self {
        Self {
            some: Arc::new(Semaphore::new(1)),
            long: Arc::new(Semaphore::new(1)),
            room: Arc::clone(room),
            turns: Mutex::default(),
        }
    }

    /// The places for the checks of the client whose calls this tracker counts.
    pub(crate) fn of(&self, client: &Arc<Tracker>) -> ClientPlaces<'_> {
        ClientPlaces { all: self, client: Arc::as_ptr(client).addr() }
    }

    fn turn(&self, client: usize) -> Arc<Semaphore> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(&client).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Semaphore::new(1));
        turns.insert(client, Arc::downgrade(&turn));
        turn
    }
}

impl ClientPlaces<'_> {
    /// Waits for a place to check arguments of this many bytes. Of one client one check at a time waits with those of others,
    /// so that how many of its calls wait makes theirs wait no longer.
    pub(super) async fn take(&self, length: Length, bytes: usize) -> CheckPlace {
        let all = self.all;
        let (own, room, most) = match length {
            Length::Some => (&all.some, &all.room.some, 4),
            Length::Long => (&all.long, &all.room.long, 2),
        };
        let turn = all.turn(self.client).acquire_owned().await.ok();
        let size = (bytes / 1024).clamp(ROOM / most, ROOM);
        let own = Arc::clone(own).acquire_owned().await.ok();
        let room = Arc::clone(room).acquire_many_owned(u32::try_from(size).unwrap_or(u32::MAX)).await.ok();
        CheckPlace { _turn: turn, _own: own, _room: room }
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
        let clients: Vec<_> = (0..9).map(|_| Arc::default()).collect();
        for length in [Length::Some, Length::Long] {
            let held = busy.of(&clients[8]).take(length, 1).await;
            let places: Vec<_> = clients[..8].iter().map(|client| busy.of(client)).collect();
            let mut waiting: Vec<_> = places.iter().map(|places| Box::pin(places.take(length, 1))).collect();
            for next in &mut waiting {
                assert!(poll!(next).is_pending(), "{length:?}");
            }
            // Others have places, as many as there are.
            drop(other.of(&clients[0]).take(length, 1).await);
            drop(held);
            let next = (&mut waiting[0]).await;
            assert!(poll!(&mut waiting[1]).is_pending(), "{length:?}");
            drop(next);
        }
    }

    #[tokio::test]
    async fn a_client_waits_for_one_check_of_each_other_client() {
        let places = CheckPlaces::new(&Arc::default());
        let (busy, modest) = (Arc::default(), Arc::default());
        let (of_busy, of_modest) = (places.of(&busy), places.of(&modest));
        let held = of_busy.take(Length::Some, 1).await;
        let mut waiting: Vec<_> = (0..8).map(|_| Box::pin(of_busy.take(Length::Some, 1))).collect();
        for next in &mut waiting {
            assert!(poll!(next).is_pending());
        }
        let mut own = Box::pin(of_modest.take(Length::Some, 1));
        assert!(poll!(&mut own).is_pending());
        drop(held);
        for next in &mut waiting {
            assert!(poll!(next).is_pending(), "it waits behind the other client");
        }
        let has = own.await;
        assert_eq!(places.turns.lock().unwrap().len(), 2);
        drop(has);
        drop((&mut waiting[0]).await);
        drop(waiting);
        drop(of_modest.take(Length::Long, 1).await);
        assert_eq!(places.turns.lock().unwrap().len(), 1, "those of clients without a check are gone");
    }

    #[tokio::test]
    async fn all_upstreams_share_one_room_and_another_gateway_has_its_own() {
        let (room, client) = (Arc::default(), Arc::default());
        for (length, places) in [(Length::Some, 4), (Length::Long, 2)] {
            let mut held = Vec::new();
            for _ in 0..places {
                held.push(CheckPlaces::new(&room).of(&client).take(length, 1).await);
            }
            let one_more = CheckPlaces::new(&room);
            let one_more = one_more.of(&client);
            let mut waiting = Box::pin(one_more.take(length, 1));
            assert!(poll!(&mut waiting).is_pending(), "{length:?}");
            drop(CheckPlaces::new(&Arc::default()).of(&client).take(length, 1).await);
            held.pop();
            drop(waiting.await);
        }
    }
}
