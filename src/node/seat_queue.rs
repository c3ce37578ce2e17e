//! Calls that wait for a seat at a worker of one plugin. Clients take turns, so that one with many calls makes the others
//! wait for one call of its own and not for all.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::seat_lease::SeatLease;
use crate::domain::budget::Account;
use crate::domain::plugin::Failure;
use crate::domain::turns::Turns;

/// How many clients are remembered at least that do not wait any more.
const MANY: usize = 64;

/// Gives a waiting call its seat, or says why it gets none.
pub(super) type GiveSeat = oneshot::Sender<Result<SeatLease, Failure>>;

/// The calls that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct SeatQueue {
    waiting: VecDeque<Waiter>,
    turns: Turns<usize>,
}

#[derive(Debug)]
struct Waiter {
    give: GiveSeat,
    client: Client,
}

/// The client of a call, as far as it can be told apart from others: by the account of its address.
#[derive(Clone, Debug)]
pub(super) struct Client(pub(super) Option<Arc<Account>>);

impl Client {
    /// Accounts are told apart by where they are, which nothing else is while a waiting call has them.
    fn key(&self) -> usize {
        self.0.as_ref().map_or(0, |account| Arc::as_ptr(account).addr())
    }
}

impl SeatQueue {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a call, behind the others of its client.
    pub(super) fn push(&mut self, give: GiveSeat, client: Client) {
        self.forget_ended();
        self.turns.want(client.key());
        self.waiting.push_back(Waiter { give, client });
    }

    /// Takes the call whose turn it is.
    pub(super) fn next(&mut self) -> Option<GiveSeat> {
        self.forget_ended();
        let keys: Vec<_> = self.waiting.iter().map(|waiter| waiter.client.key()).collect();
        let key = self.turns.next(keys.iter(), usize::MAX)?;
        self.turns.end(&key);
        // Each that waits is known, so this happens once for many turns.
        if self.turns.count_known() > 2 * keys.len() + MANY {
            let waiting: HashSet<_> = keys.iter().collect();
            self.turns.begin_anew(|known| waiting.contains(known));
        }
        let at = keys.iter().position(|known| *known == key)?;
        self.waiting.remove(at).map(|waiter| waiter.give)
    }

    /// Takes the last call of the client with the most, if it has at least two more here than `client`.
    pub(super) fn displace(&mut self, client: &Client) -> Option<GiveSeat> {
        self.forget_ended();
        let mut counts: HashMap<usize, usize> = HashMap::new();
        self.waiting.iter().for_each(|waiter| *counts.entry(waiter.client.key()).or_default() += 1);
        let own = counts.get(&client.key()).copied().unwrap_or_default();
        let (most, _) = counts.into_iter().filter(|(_, count)| *count >= own + 2).max_by_key(|(_, count)| *count)?;
        let at = self.waiting.iter().rposition(|waiter| waiter.client.key() == most)?;
        self.waiting.remove(at).map(|waiter| waiter.give)
    }

    /// Takes all calls.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = GiveSeat> {
        std::mem::take(&mut self.waiting).into_iter().map(|waiter| waiter.give)
    }

    fn forget_ended(&mut self) {
        self.waiting.retain(|waiter| !waiter.give.is_closed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::reason::Reason;

    struct Waiting(oneshot::Receiver<Result<SeatLease, Failure>>);

    impl Waiting {
        fn is_told(&mut self) -> bool {
            self.0.try_recv().is_ok()
        }
    }

    fn wait(queue: &mut SeatQueue, client: &Client) -> Waiting {
        let (give, waiting) = oneshot::channel();
        queue.push(give, client.clone());
        Waiting(waiting)
    }

    fn tell(give: GiveSeat) {
        give.send(Err(Failure::new(Reason::PoolExhausted, "told"))).unwrap();
    }

    #[test]
    fn clients_take_turns_each_in_its_own_order() {
        let (many, few) = (Client(Some(Arc::default())), Client(Some(Arc::default())));
        let mut queue = SeatQueue::default();
        let mut of_many: Vec<_> = (0..5).map(|_| wait(&mut queue, &many)).collect();
        tell(queue.next().unwrap());
        let mut of_few: Vec<_> = (0..2).map(|_| wait(&mut queue, &few)).collect();
        let gone = wait(&mut queue, &few);
        drop(gone);
        (0..4).for_each(|_| tell(queue.next().unwrap()));
        let told = |all: &mut [Waiting]| all.iter_mut().map(Waiting::is_told).collect::<Vec<_>>();
        assert_eq!(told(&mut of_many), [true, true, true, false, false]);
        assert_eq!(told(&mut of_few), [true, true]);
    }

    #[test]
    fn where_the_queue_is_full_who_has_most_gives_way() {
        let (many, few) = (Client(Some(Arc::default())), Client(None));
        let mut queue = SeatQueue::default();
        let mut of_many: Vec<_> = (0..3).map(|_| wait(&mut queue, &many)).collect();
        assert!(queue.displace(&many).is_none(), "it has no more than itself");
        tell(queue.displace(&few).unwrap());
        assert!(of_many[2].is_told() && !of_many[0].is_told());
        let _of_few = wait(&mut queue, &few);
        assert!(queue.displace(&few).is_none(), "two and one");
        assert_eq!(queue.len(), 3);
    }
}
