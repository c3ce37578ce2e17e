//! Tests of the shared flow, with readers that always come back.

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
    little.spend(1).await;
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
