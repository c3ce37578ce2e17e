//! Calls that wait for a seat at a worker of one plugin. Clients take turns, so that one with many calls makes the others
//! wait for one call of its own and not for all.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};

use tokio::sync::oneshot;

use super::execution_queue::Ticket;
use super::seat_lease::SeatLease;
use crate::domain::plugin::Failure;

/// Gives a waiting call its seat, or says why it gets none.
pub(super) type GiveSeat = oneshot::Sender<Result<SeatLease, Failure>>;

/// The calls that wait.
#[derive(Debug, Default)]
pub(super) struct SeatQueue {
    count: usize,
    /// Those of each client, by their numbers in the queue of all plugins. Clients of which none waits are not in it.
    clients: HashMap<usize, BTreeMap<u64, GiveSeat>>,
    /// These clients, in the order of their next turns. One whose calls have all got a seat begins anew as the last.
    turns: VecDeque<usize>,
}

impl SeatQueue {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a call, which must be [removed](Self::remove) when it does not wait any more.
    pub(super) fn push(&mut self, Ticket { client, number }: Ticket, give: GiveSeat) {
        let of_client = self.clients.entry(client).or_insert_with(|| {
            self.turns.push_back(client);
            BTreeMap::new()
        });
        of_client.insert(number, give);
        self.count += 1;
    }

    /// Takes the call whose turn it is.
    pub(super) fn next(&mut self) -> Option<GiveSeat> {
        let client = self.turns.pop_front()?;
        let of_client = self.clients.get_mut(&client)?;
        let (_, give) = of_client.pop_first()?;
        self.count -= 1;
        if of_client.is_empty() {
            self.clients.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        Some(give)
    }

    /// Removes a call, if it is still there.
    pub(super) fn remove(&mut self, Ticket { client, number }: Ticket) {
        let Entry::Occupied(mut of_client) = self.clients.entry(client) else { return };
        self.count -= usize::from(of_client.get_mut().remove(&number).is_some());
        if of_client.get().is_empty() {
            of_client.remove();
            self.turns.retain(|waiting| *waiting != client);
        }
    }

    /// Takes all calls.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = GiveSeat> {
        std::mem::take(self).clients.into_values().flat_map(BTreeMap::into_values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::reason::Reason;

    struct Waiting(Ticket, oneshot::Receiver<Result<SeatLease, Failure>>);

    impl Waiting {
        fn is_told(&mut self) -> bool {
            self.1.try_recv().is_ok()
        }
    }

    fn wait(queue: &mut SeatQueue, client: usize, number: u64) -> Waiting {
        let (give, waiting) = oneshot::channel();
        let ticket = Ticket { client, number };
        queue.push(ticket, give);
        Waiting(ticket, waiting)
    }

    fn tell(give: GiveSeat) {
        give.send(Err(Failure::new(Reason::PoolExhausted, "told"))).unwrap();
    }

    #[test]
    fn clients_take_turns_each_in_its_own_order() {
        let (many, few, gone) = (1, 2, 3);
        let mut queue = SeatQueue::default();
        let mut of_many: Vec<_> = (0..5).map(|number| wait(&mut queue, many, number)).collect();
        tell(queue.next().unwrap());
        let mut of_few: Vec<_> = (5..8).map(|number| wait(&mut queue, few, number)).collect();
        let of_gone = wait(&mut queue, gone, 8);
        queue.remove(of_gone.0);
        queue.remove(of_few[1].0);
        queue.remove(of_few[1].0);
        assert_eq!(queue.len(), 6);
        (0..4).for_each(|_| tell(queue.next().unwrap()));
        let told = |all: &mut [Waiting]| all.iter_mut().map(Waiting::is_told).collect::<Vec<_>>();
        assert_eq!(told(&mut of_many), [true, true, true, false, false]);
        assert_eq!(told(&mut of_few), [true, false, true]);
        assert_eq!((queue.len(), queue.turns.len(), queue.clients.len()), (2, 1, 1), "those of one client");
        assert_eq!(queue.drain().count(), 2);
        assert!(queue.is_empty() && queue.next().is_none());
    }

    #[test]
    fn a_client_that_comes_again_has_no_second_turn() {
        let (first, second) = (1, 2);
        let mut queue = SeatQueue::default();
        let left = wait(&mut queue, first, 0);
        let mut of_second = wait(&mut queue, second, 1);
        queue.remove(left.0);
        let mut of_first: Vec<_> = (2..4).map(|number| wait(&mut queue, first, number)).collect();
        tell(queue.next().unwrap());
        assert!(of_second.is_told(), "it has waited longer");
        of_second = wait(&mut queue, second, 4);
        tell(queue.next().unwrap());
        tell(queue.next().unwrap());
        assert!(of_first[0].is_told() && of_second.is_told() && !of_first[1].is_told());
    }
}
