//! The executions that wait for a worker or a permit, of all plugins together. Where as many wait as may, the last one of the
//! client that has most gives way to one of a client with fewer, at whatever plugins both wait.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::domain::budget::Account;
use crate::domain::plugin::Failure;
use crate::domain::reason::Reason;

/// The client of an execution, as far as it can be told apart from others: by the account of its address.
#[derive(Clone, Debug)]
pub struct ExecutionClient(pub Option<Arc<Account>>);

impl ExecutionClient {
    /// Accounts are told apart by where they are, which nothing else is while an execution has them.
    fn key(&self) -> usize {
        self.0.as_ref().map_or(0, |account| Arc::as_ptr(account).addr())
    }
}

/// Tells an execution that waits from all others.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// The key of its client.
    pub client: usize,
    /// Later ones have higher numbers.
    pub number: u64,
}

/// The queue, and how many may be in it.
#[derive(Debug, Default)]
pub struct ExecutionQueue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    most: usize,
    count: usize,
    last_number: u64,
    /// What tells each to give way, by client and number. Clients of which none waits are not in it.
    clients: HashMap<usize, BTreeMap<u64, CancellationToken>>,
}

impl ExecutionQueue {
    /// Sets how many may wait. Those beyond a lower number stay.
    pub fn set_most(&self, most: usize) {
        self.lock().most = most;
    }

    /// How many wait.
    pub fn count(&self) -> usize {
        self.lock().count
    }

    fn join(&self, client: usize) -> Result<Taken, Failure> {
        let waiting = &mut *self.lock();
        if waiting.count >= waiting.most {
            waiting.displace_for(client).ok_or_else(full)?.cancel();
        }
        waiting.last_number += 1;
        waiting.count += 1;
        let (ticket, gives_way) = (Ticket { client, number: waiting.last_number }, CancellationToken::new());
        waiting.clients.entry(client).or_default().insert(ticket.number, gives_way.clone());
        Ok(Taken { ticket, gives_way })
    }

    /// Does nothing if it has given way.
    fn leave(&self, Ticket { client, number }: Ticket) {
        let waiting = &mut *self.lock();
        let Entry::Occupied(mut of_client) = waiting.clients.entry(client) else { return };
        waiting.count -= usize::from(of_client.get_mut().remove(&number).is_some());
        if of_client.get().is_empty() {
            of_client.remove();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Takes the last one of the client that has most, if that has at least two more than `client`.
    fn displace_for(&mut self, client: usize) -> Option<CancellationToken> {
        let own = self.clients.get(&client).map_or(0, BTreeMap::len);
        let most = self.clients.values_mut().max_by_key(|of_client| of_client.len())?;
        if most.len() < own + 2 {
            return None;
        }
        let (_, gives_way) = most.pop_last()?;
        self.count -= 1;
        Some(gives_way)
    }
}

fn full() -> Failure {
    Failure::new(Reason::PoolExhausted, "found the queue for workers full")
}

/// The place of an execution in the queue. It takes one when it first has to wait, and keeps it until this is dropped.
#[derive(Debug)]
pub struct QueuePlace {
    queue: Arc<ExecutionQueue>,
    client: ExecutionClient,
    taken: Option<Taken>,
}

#[derive(Debug)]
struct Taken {
    ticket: Ticket,
    gives_way: CancellationToken,
}

impl QueuePlace {
    /// A place that is not taken yet.
    pub fn new(queue: &Arc<ExecutionQueue>, client: ExecutionClient) -> Self {
        Self { queue: Arc::clone(queue), client, taken: None }
    }

    /// Takes the place, if it is not taken.
    ///
    /// # Errors
    /// `PoolExhausted` if the queue is full and nobody gives way.
    pub fn take(&mut self) -> Result<Ticket, Failure> {
        self.taken().map(|taken| taken.ticket)
    }

    /// Waits in the queue for what `coming` brings. `None` if it has not come by `until`.
    ///
    /// # Errors
    /// `PoolExhausted` if the queue is full, or the execution gave way to another one.
    pub async fn wait<T>(&mut self, until: Instant, coming: impl Future<Output = T>) -> Result<Option<T>, Failure> {
        let taken = self.taken()?;
        tokio::select! {
            biased;
            came = timeout_at(until, coming) => Ok(came.ok()),
            () = taken.gives_way.cancelled() => Err(full()),
        }
    }

    fn taken(&mut self) -> Result<&Taken, Failure> {
        let taken = match self.taken.take() {
            Some(taken) => taken,
            None => self.queue.join(self.client.key())?,
        };
        Ok(self.taken.insert(taken))
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        if let Some(taken) = &self.taken {
            self.queue.leave(taken.ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    fn queue_of(most: usize) -> (Arc<ExecutionQueue>, impl Fn(&ExecutionClient) -> QueuePlace) {
        let queue = Arc::<ExecutionQueue>::default();
        queue.set_most(most);
        let of_queue = Arc::clone(&queue);
        (queue, move |client| QueuePlace::new(&of_queue, client.clone()))
    }

    fn clients() -> [ExecutionClient; 3] {
        [ExecutionClient(Some(Arc::default())), ExecutionClient(Some(Arc::default())), ExecutionClient(None)]
    }

    /// Takes places, as many as there are for one client.
    fn fill(place: impl Fn(&ExecutionClient) -> QueuePlace, client: &ExecutionClient, count: usize) -> Vec<QueuePlace> {
        let mut places: Vec<_> = (0..count).map(|_| place(client)).collect();
        assert!(places.iter_mut().all(|place| place.take().is_ok()));
        places
    }

    fn has_given_way(place: &QueuePlace) -> bool {
        place.taken.as_ref().is_some_and(|taken| taken.gives_way.is_cancelled())
    }

    #[test]
    fn where_the_queue_is_full_the_last_of_the_client_with_most_gives_way() {
        let (queue, place) = queue_of(10);
        let [many, few, other] = &clients();
        let of_many = fill(&place, many, 9);
        let of_few = fill(&place, few, 1);
        assert!(place(many).take().is_err(), "nine do not displace one");
        let _more_of_few = fill(&place, few, 1);
        assert!(has_given_way(&of_many[8]) && !of_many[..8].iter().any(has_given_way));
        assert!(place(many).take().is_err(), "eight do not displace two");
        let _of_other = fill(&place, other, 3);
        assert!(of_many[5..].iter().all(has_given_way) && !of_many[..5].iter().any(has_given_way));
        assert!(!has_given_way(&of_few[0]));
        assert_eq!(queue.count(), 10);
        drop(of_many);
        assert_eq!(queue.count(), 5, "places that were given up are not given back again");
    }

    #[test]
    fn a_client_with_one_more_keeps_its_places() {
        let (_queue, place) = queue_of(3);
        let [many, few, _] = &clients();
        let (_of_many, _of_few) = (fill(&place, many, 2), fill(&place, few, 1));
        assert!(place(few).take().is_err());
        let (queue, place) = queue_of(0);
        assert!(place(few).take().is_err() && queue.count() == 0);
    }

    #[tokio::test]
    async fn who_waits_is_told_to_give_way_and_who_is_gone_leaves_nothing() {
        let (queue, place) = queue_of(2);
        let [many, few, _] = &clients();
        let soon = Instant::now() + Duration::from_secs(60);
        let mut of_many = fill(&place, many, 2);
        let [first, last] = &mut of_many[..] else { panic!("there are two") };
        let mut waits = Box::pin(last.wait(soon, pending::<()>()));
        assert!((&mut waits).now_or_never().is_none());
        let mut newcomer = place(few);
        assert!(newcomer.wait(soon, pending::<()>()).now_or_never().is_none());
        assert_eq!(waits.await.unwrap_err(), full());
        assert_eq!(newcomer.wait(soon, async { 7 }).await, Ok(Some(7)), "what has come is taken");
        assert_eq!(first.wait(Instant::now(), pending::<()>()).await, Ok(None));
        drop((of_many, newcomer));
        assert_eq!(queue.count(), 0);
        assert!(queue.lock().clients.is_empty());
    }
}
