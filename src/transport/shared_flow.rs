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
    /// the server has to wait too.
    pub async fn spend(&self, mut amount: u64) {
        while amount > 0 {
            let (turn, mut now) = (amount.min(TURN), Instant::now());
            amount -= turn;
            let (taken, mut wait) = self.debts(|debts| debts.take(&self.payer, turn, now));
            // Others may have come or gone meanwhile, who get a part too.
            while !wait.is_zero() {
                tokio::time::sleep(wait.min(LOOK)).await;
                now = Instant::now();
                wait = self.debts(|debts| debts.wait(&taken, now));
            }
        }
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
mod tests;
