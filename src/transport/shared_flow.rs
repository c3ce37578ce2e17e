//! Limits the rate at which all streams of a server together are read, and divides it among its clients, so that none waits
//! for what the others are sent.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::requester::Requester;

/// The number of bytes per second that are read in the long run.
const BYTES: u64 = 4 * 1024 * 1024;
/// What a reader takes at once, at most: those of one client take turns.
const TURN: u64 = 16 * 1024;
/// What a client may be ahead of its part, as the time in which the whole flow brings it: 512 KiB.
const AHEAD: Duration = Duration::from_millis(125);
/// What all clients may be ahead together, divided among them like the flow: 8 MiB.
const ALL_AHEAD: Duration = Duration::from_secs(2);
/// The maximum number of clients that are told apart while they are ahead. Further ones have one part together with those of
/// their address, and beyond as many addresses with all others.
const MAX_CLIENTS: usize = 1024;
/// How often parts are credited, at most.
const STEP: Duration = Duration::from_millis(1);
/// How often who waits looks whether others have gone, so that its part is larger.
const LOOK: Duration = Duration::from_millis(50);

/// A limit on the bytes per second that several readers share. Each address of clients that are ahead of their part gets an
/// equal part of the flow, and of that each of its sessions, or of its streams if they belong to no session. So a client with
/// many sessions gets no more than one with a single session, unless they come from one address.
#[derive(Debug)]
pub struct SharedFlow {
    debts: Mutex<Debts>,
    streams: AtomicU64,
}

/// One that reads, or several of the same client.
#[derive(Clone, Debug)]
pub struct FlowReader {
    flow: Arc<SharedFlow>,
    payer: Payer,
}

/// Whose reading counts together.
#[derive(Clone, Debug)]
struct Payer {
    /// The address of the client; 0 if it is not known, or nobody's.
    address: usize,
    name: PayerName,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum PayerName {
    Session(Arc<str>),
    Stream(u64),
    /// More than are told apart.
    Others,
}

/// What was read ahead of time, by the address of the client and then by its name. No entry is empty.
#[derive(Debug)]
struct Debts {
    of: HashMap<usize, HashMap<PayerName, Debt>>,
    /// The number of the newest debt.
    newest: u64,
    /// Up to when the flow was divided.
    divided_at: Instant,
}

/// What one owes. Amounts are given as the time in which the whole flow brings them.
#[derive(Clone, Copy, Debug)]
struct Debt {
    /// Debts are counted, to tell this one from an earlier one of the same client.
    number: u64,
    owed: Duration,
    /// All that was taken since nothing was owed.
    taken: Duration,
}

/// What a reader took. What others take later of the same part does not delay it.
#[derive(Clone, Debug)]
struct Taken {
    payer: Payer,
    /// [`Debt::number`] of the debt that has it.
    debt: u64,
    /// [`Debt::taken`] with it.
    up_to: Duration,
}

impl SharedFlow {
    /// Allows 4 MiB per second.
    pub fn of_bytes() -> Self {
        let debts = Debts { of: HashMap::new(), newest: 0, divided_at: Instant::now() };
        Self { debts: Mutex::new(debts), streams: AtomicU64::new(0) }
    }

    /// Returns a reader of a stream for a client; `None` if the stream is for no single one.
    pub fn reader(self: &Arc<Self>, client: Option<&Requester>) -> FlowReader {
        let name = match client {
            Some(client) if client.has_session() => PayerName::Session(client.session.as_str().into()),
            _ => PayerName::Stream(self.streams.fetch_add(1, Ordering::Relaxed)),
        };
        FlowReader { flow: Arc::clone(self), payer: Payer { address: client.map_or(0, Requester::address), name } }
    }

    /// A reader who has to wait for an hour before it may read more.
    #[cfg(test)]
    pub fn used_up() -> FlowReader {
        let reader = Arc::new(Self::of_bytes()).reader(None);
        reader.debts(|debts| debts.take(&reader.payer, 3600 * BYTES, Instant::now()));
        reader
    }
}

impl FlowReader {
    /// Takes `amount`, and waits until the client is not too far ahead of its part. The caller does not read in the meantime, so
    /// the server has to wait too. Returns since when this waited; `None` if it did not.
    pub async fn spend(&self, mut amount: u64) -> Option<Instant> {
        let mut waited = None;
        while amount > 0 {
            let (turn, mut now) = (amount.min(TURN), Instant::now());
            amount -= turn;
            let (taken, mut wait) = self.debts(|debts| debts.take(&self.payer, turn, now));
            // Others may have come or gone meanwhile, who get a part too.
            while !wait.is_zero() {
                waited = waited.or(Some(now));
                tokio::time::sleep(wait.min(LOOK)).await;
                now = Instant::now();
                wait = self.debts(|debts| debts.wait(&taken, now));
            }
        }
        waited
    }

    fn debts<T>(&self, act: impl FnOnce(&mut Debts) -> T) -> T {
        act(&mut self.flow.debts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Debts {
    /// Takes `amount`. Returns what was taken, and how long to wait until its client is not too far ahead.
    fn take(&mut self, payer: &Payer, amount: u64, now: Instant) -> (Taken, Duration) {
        self.credit(now);
        let payer = self.told_apart(payer);
        let amount = Duration::from_nanos(amount.saturating_mul(1_000_000_000) / BYTES);
        let debt = self.of.entry(payer.address).or_default().entry(payer.name.clone()).or_insert_with(|| {
            self.newest += 1;
            Debt { number: self.newest, owed: Duration::ZERO, taken: Duration::ZERO }
        });
        debt.owed += amount;
        debt.taken += amount;
        let taken = Taken { debt: debt.number, up_to: debt.taken, payer };
        let wait = self.wait_of(&taken);
        (taken, wait)
    }

    /// Returns who owes what this one takes.
    fn told_apart(&self, payer: &Payer) -> Payer {
        let of_address = self.of.get(&payer.address);
        let known = || self.of.values().map(HashMap::len).sum::<usize>();
        if of_address.is_some_and(|names| names.contains_key(&payer.name)) || known() < MAX_CLIENTS {
            return payer.clone();
        }
        let has_room = of_address.is_some() || self.of.len() < MAX_CLIENTS;
        Payer { address: if has_room { payer.address } else { 0 }, name: PayerName::Others }
    }

    /// Returns how long to wait, at the rate at which the flow is divided now.
    fn wait(&mut self, taken: &Taken, now: Instant) -> Duration {
        self.credit(now);
        self.wait_of(taken)
    }

    fn wait_of(&self, taken: &Taken) -> Duration {
        let of_address = self.of.get(&taken.payer.address);
        let Some((names, debt)) = of_address.and_then(|names| Some((names.len(), names.get(&taken.payer.name)?)))
        else {
            return Duration::ZERO;
        };
        if debt.number != taken.debt {
            return Duration::ZERO;
        }
        let before = debt.owed.saturating_sub(debt.taken.saturating_sub(taken.up_to));
        let parts = count(self.of.len()).saturating_mul(count(names));
        before.saturating_sub(AHEAD.min(ALL_AHEAD / parts)).saturating_mul(parts)
    }

    /// Credits what the flow brought since this was last done.
    fn credit(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.divided_at);
        if passed >= STEP {
            self.divided_at = now;
            divide(&mut self.of, passed, |names, part| {
                let left = divide(names, part, |debt, part| {
                    let left = part.checked_sub(debt.owed);
                    debt.owed = debt.owed.saturating_sub(part);
                    left
                });
                names.is_empty().then_some(left)
            });
        }
    }
}

/// Divides a time equally. `pay` returns what one does not need, if it needs no more then. Returns what nobody needs.
fn divide<K, V>(
    among: &mut HashMap<K, V>,
    mut time: Duration,
    pay: impl Fn(&mut V, Duration) -> Option<Duration>,
) -> Duration {
    while !time.is_zero() && !among.is_empty() {
        let part = time / count(among.len());
        time = Duration::ZERO;
        among.retain(|_, one| match pay(one, part) {
            Some(left) => {
                time += left;
                false
            }
            None => true,
        });
    }
    time
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::{BTreeSet, BinaryHeap};

    use futures_util::FutureExt;

    use super::*;
    use crate::domain::budget::Account;

    /// What an event of a kilobyte or so counts.
    const EVENT: u64 = 1200;

    /// Readers that come back as soon as they may, and a clock.
    struct Greedy {
        flow: Arc<SharedFlow>,
        now: Instant,
        /// Each with what it takes at once, and what it took last.
        readers: Vec<(FlowReader, u64, Option<Taken>)>,
        /// When each looks again whether it may read.
        waiting: BinaryHeap<Reverse<(Instant, usize)>>,
        taken: u64,
    }

    impl Greedy {
        fn new() -> Self {
            let flow = Arc::new(SharedFlow::of_bytes());
            Self { flow, now: Instant::now(), readers: Vec::new(), waiting: BinaryHeap::new(), taken: 0 }
        }

        fn reader(&self, session: &str, account: &Arc<Account>) -> FlowReader {
            self.flow.reader(Some(&Requester { session: session.to_owned(), account: Some(Arc::clone(account)) }))
        }

        fn add(&mut self, session: &str, account: &Arc<Account>, amount: u64) {
            self.waiting.push(Reverse((self.now, self.readers.len())));
            self.readers.push((self.reader(session, account), amount, None));
        }

        fn go_on(&mut self, for_long: Duration) {
            let end = self.now + for_long;
            while let Some(Reverse((at, index))) = self.waiting.peek().copied().filter(|next| next.0.0 <= end) {
                self.waiting.pop();
                let (reader, amount, last) = &mut self.readers[index];
                let mut wait = last.as_ref().map_or(Duration::ZERO, |last| reader.debts(|debts| debts.wait(last, at)));
                if wait.is_zero() {
                    self.taken += *amount;
                    let (taken, until) = reader.debts(|debts| debts.take(&reader.payer, *amount, at));
                    (*last, wait) = (Some(taken), until);
                }
                // The timers of the runtime are as exact as this.
                let wait = if wait.is_zero() { wait } else { wait.max(STEP) };
                self.waiting.push(Reverse((at + wait, index)));
            }
            self.now = end;
        }

        /// How many events such a reader takes until it has to wait.
        fn at_once(&self, session: &str, account: &Arc<Account>) -> usize {
            let reader = self.reader(session, account);
            let waits = |_: &usize| !reader.debts(|debts| debts.take(&reader.payer, EVENT, self.now)).1.is_zero();
            (1..1000).find(waits).unwrap()
        }
    }

    #[test]
    fn some_hundred_events_of_one_client_do_not_wait_for_readers_of_others_that_always_come_back() {
        let (mut all, near, far) = (Greedy::new(), Arc::default(), Arc::default());
        (0..24).for_each(|_| all.add("floods", &near, TURN));
        (0..8).for_each(|_| all.add("", &near, TURN));
        all.go_on(Duration::from_secs(10));
        for session in ["of the same address", ""] {
            let events = all.at_once(session, &near);
            assert!(events > 400, "{session:?} waits after {events}");
        }
        (0..100).for_each(|n| all.add(&format!("floods {n}"), &near, EVENT));
        all.go_on(Duration::from_secs(10));
        let events = all.at_once("of another address", &far);
        assert!(events > 400, "it waits after {events}, beside any number of sessions");
    }

    #[test]
    fn all_readers_together_take_what_the_flow_brings_however_many_they_are() {
        for addresses in [1, 5] {
            let mut all = Greedy::new();
            let accounts: Vec<Arc<Account>> = (0..addresses).map(|_| Arc::default()).collect();
            for n in 0..100 {
                let session = if n % 2 == 0 { n.to_string() } else { String::new() };
                all.add(&session, &accounts[n % addresses], if n % 3 == 0 { EVENT } else { TURN });
            }
            all.go_on(Duration::from_secs(60));
            let seconds = all.taken / BYTES;
            assert!((60..68).contains(&seconds), "{addresses}: {seconds} seconds of the flow");
        }
    }

    #[test]
    fn new_streams_and_sessions_bring_no_more_than_those_that_stay() {
        let (mut all, account, mut events) = (Greedy::new(), Arc::default(), 0);
        for n in 0..5_000 {
            // Who has to wait goes, and another comes.
            events += all.at_once(&if n % 2 == 0 { String::new() } else { n.to_string() }, &account);
            all.now += STEP;
        }
        let seconds = events as u64 * EVENT / BYTES;
        assert!((5..18).contains(&seconds), "{seconds} seconds of the flow");
        let clients = all.flow.debts.lock().unwrap().of.values().map(HashMap::len).sum::<usize>();
        assert!((100..=MAX_CLIENTS + 1).contains(&clients), "{clients}");
    }

    #[tokio::test]
    async fn one_reader_of_a_client_does_not_wait_for_all_that_another_takes() {
        let (all, account) = (Greedy::new(), Arc::default());
        let (much, little) = (all.reader("a", &account), all.reader("a", &account));
        let mut much = std::pin::pin!(much.spend(1 << 40));
        assert!(futures_util::poll!(&mut much).is_pending());
        // The other would take days.
        assert!(little.spend(1).await.is_some());
        assert!(futures_util::poll!(&mut much).is_pending());
    }

    #[test]
    fn readers_of_a_client_are_served_in_the_order_in_which_they_came() {
        let (all, account) = (Greedy::new(), Arc::default());
        let (large, small) = (all.reader("a", &account), all.reader("a", &account));
        let take = |reader: &FlowReader, amount| reader.debts(|debts| debts.take(&reader.payer, amount, all.now));
        take(&large, 2 * BYTES);
        let (taken, wait) = take(&small, EVENT);
        assert!(!wait.is_zero());
        for _ in 0..100 {
            take(&large, TURN);
        }
        assert_eq!(small.debts(|debts| debts.wait(&taken, all.now)), wait);
        assert!(small.debts(|debts| debts.wait(&taken, all.now + wait)).is_zero());
        assert!(!take(&large, TURN).1.is_zero());
    }

    #[test]
    fn beyond_those_that_are_told_apart_a_client_shares_a_part_with_its_own_address_alone() {
        let (all, near, far) = (Greedy::new(), Arc::default(), Arc::default());
        let flood = |n: usize| {
            let reader = all.reader(&n.to_string(), &near);
            reader.debts(|debts| debts.take(&reader.payer, 10 * TURN, all.now)).1
        };
        let waits: Vec<_> = (0..2 * MAX_CLIENTS).map(flood).collect();
        assert!(waits[2 * MAX_CLIENTS - 1] > Duration::from_secs(60), "{:?}", waits.last());
        let events = all.at_once("of another address", &far);
        assert!(events > 400, "it waits after {events}");
        let of_near = all.flow.debts.lock().unwrap().of.values().map(HashMap::len).collect::<BTreeSet<_>>();
        assert_eq!(of_near, BTreeSet::from([1, MAX_CLIENTS + 1]));
    }

    #[tokio::test]
    async fn a_reader_waits_for_what_it_took_and_one_that_went_away_leaves_its_part_to_others() {
        let (all, account) = (Greedy::new(), Arc::default());
        let (reader, other) = (all.reader("a", &account), all.reader("b", &account));
        assert!(reader.debts(|debts| debts.take(&reader.payer, BYTES / 8, all.now)).1.is_zero(), "it may be ahead");
        let second = Duration::from_secs(1);
        let (taken, wait) = reader.debts(|debts| debts.take(&reader.payer, BYTES, all.now));
        assert_eq!(wait, second);
        assert_eq!(other.spend(1 << 40).now_or_never(), None);
        let later = Instant::now() + 2 * second;
        assert!(reader.debts(|debts| debts.wait(&taken, later)).is_zero());
        assert!(reader.debts(|debts| debts.of.is_empty()));
    }

    #[test]
    fn what_one_does_not_need_of_its_part_is_for_the_others() {
        let pay = |debt: &mut u64, part: Duration| {
            let part = u64::try_from(part.as_nanos()).unwrap();
            let left = part.checked_sub(*debt).map(Duration::from_nanos);
            *debt = debt.saturating_sub(part);
            left
        };
        let mut debts = HashMap::from([("a", 1), ("b", 10), ("c", 100)]);
        assert_eq!(divide(&mut debts, Duration::from_nanos(30), pay), Duration::ZERO);
        assert_eq!(debts, HashMap::from([("c", 81)]));
        assert_eq!(divide(&mut debts, Duration::from_nanos(90), pay), Duration::from_nanos(9));
        assert!(debts.is_empty());
    }
}
