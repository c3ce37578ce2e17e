//! The connections of one upstream that are each for one client.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::slot::ConnectionSlot;
use crate::domain::budget::Account;
use crate::domain::upstream::{ClientKey, UpstreamError};

/// The maximum number of clients that have a connection of their own to one upstream. If there are more, the connection
/// that was idle longest is closed, if that was for at least [`IDLE`]. While there is none, further clients get none.
pub(super) const MAX_CLIENTS: usize = 64;
/// The maximum number of connections to an upstream that gets tokens of users, each of which has connections of their own.
pub(super) const MAX_OF_USERS: usize = 1024;
/// The part of all such connections that the clients of one address, or one user, can have while at least half of them are
/// there. An address that has as many gives up an idle one of its own for a new one.
pub(super) const FAIR_PART: usize = 8;
/// How long a connection must be idle before it gives way to another: clients that are active do not end each other's.
pub(super) const IDLE: Duration = Duration::from_secs(60);

/// How many sessions that ended are remembered: a call of one may still be on its way.
const MAX_FORGOTTEN: usize = 1024;

/// The connections by client.
#[derive(Debug)]
pub(super) struct OwnConnections {
    by_client: Mutex<State>,
}

/// Why a client gets no connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoSlot {
    /// There are as many as may be, none of which is idle for long.
    Full,
    /// The clients of the address, or the user, have their [`FAIR_PART`], of which none is idle for long.
    OfAddress,
    /// The session has ended, or the upstream was closed.
    Ended,
}

impl NoSlot {
    /// Returns the error for a call whose client gets no process of its own.
    pub(super) fn of_process(self) -> UpstreamError {
        self.error(MAX_CLIENTS, "sessions have a process of it", "from your address", "process.session: PerSession")
    }

    /// The same for a call whose user gets no connection.
    pub(super) fn of_user(self) -> UpstreamError {
        self.error(MAX_OF_USERS, "connections to it are open", "yours", "external.oauth.tokenExchange")
    }

    fn error(self, max: usize, taken: &str, own: &str, field: &str) -> UpstreamError {
        let taken = match self {
            Self::Full => format!("{max} {taken}"),
            Self::OfAddress => {
                format!("at least {} {taken}, among them {} or more {own}", max / 2, max / FAIR_PART)
            }
            Self::Ended => return UpstreamError::Connect("the client has ended its session".into()),
        };
        UpstreamError::OwnProcesses(format!(
            "{taken}, as many as may be ({field}). End sessions that are not used any more, or try again: what no call has used \
             for {IDLE:?} gives way"
        ))
    }
}

#[derive(Debug, Default)]
struct State {
    max: usize,
    slots: HashMap<ClientKey, OwnSlot<Arc<ConnectionSlot>>>,
    /// The slots of clients whose session has ended, while calls use them.
    ending: Vec<OwnSlot<Weak<ConnectionSlot>>>,
    /// The ids of sessions that have ended, the oldest first.
    forgotten: VecDeque<String>,
    closed: bool,
}

/// A slot, and the account of the address, or of the user, of the client that it was made for. The account counts no bytes here:
/// it tells them apart. Clients without one count as one address.
#[derive(Debug)]
struct OwnSlot<S> {
    slot: S,
    account: Option<Arc<Account>>,
}

impl<S> OwnSlot<S> {
    fn is_of(&self, account: Option<&Arc<Account>>) -> bool {
        self.account.as_ref().map(Arc::as_ptr) == account.map(Arc::as_ptr)
    }
}

impl State {
    /// Removes the slots that hold nothing, or else the one whose connection was idle longest, and long enough. Returns
    /// why there is no room for a client with this account.
    fn make_room(&mut self, account: Option<&Arc<Account>>) -> Result<(), NoSlot> {
        self.slots.retain(|_, own| Arc::strong_count(&own.slot) > 1 || own.slot.is_in_use());
        self.ending.retain(|own| own.slot.strong_count() > 0);
        let Err(why) = self.room_for(account) else { return Ok(()) };
        let idle = self.slots.iter().filter(|(_, own)| Arc::strong_count(&own.slot) == 1);
        let idle = idle.filter(|(_, own)| why == NoSlot::Full || own.is_of(account));
        let idle = idle.filter_map(|(client, own)| Some((own.slot.idle()?, client))).filter(|(idle, _)| *idle >= IDLE);
        let longest = idle.max_by_key(|(idle, _)| *idle).map(|(_, client)| client.clone());
        longest.and_then(|client| self.slots.remove(&client)).map(drop).ok_or(why)
    }

    /// Returns why there is no room for another slot of a client with this account.
    fn room_for(&self, account: Option<&Arc<Account>>) -> Result<(), NoSlot> {
        let taken = self.slots.len() + self.ending.len();
        let own = || {
            self.slots.values().filter(|own| own.is_of(account)).count()
                + self.ending.iter().filter(|own| own.is_of(account)).count()
        };
        match taken {
            _ if taken >= self.max / 2 && own() >= self.max / FAIR_PART => Err(NoSlot::OfAddress),
            _ if taken >= self.max => Err(NoSlot::Full),
            _ => Ok(()),
        }
    }
}

impl OwnConnections {
    /// Creates them without a connection; there are never more than `max`.
    pub(super) fn new(max: usize) -> Self {
        Self { by_client: Mutex::new(State { max, ..State::default() }) }
    }

    /// Returns the slot for the connection of a client. `account` is that of its address, or of its user.
    ///
    /// # Errors
    /// If there are as many as may be, of all clients or of those at its address, if its session has ended, or if the
    /// upstream was closed.
    pub(super) fn slot(
        &self,
        client: &ClientKey,
        account: Option<&Arc<Account>>,
    ) -> Result<Arc<ConnectionSlot>, NoSlot> {
        let mut state = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed || state.forgotten.contains(&client.session) {
            return Err(NoSlot::Ended);
        }
        if let Some(own) = state.slots.get(client) {
            return Ok(Arc::clone(&own.slot));
        }
        if state.room_for(account).is_err() {
            state.make_room(account)?;
        }
        let slot = Arc::<ConnectionSlot>::default();
        state.slots.insert(client.clone(), OwnSlot { slot: Arc::clone(&slot), account: account.cloned() });
        Ok(slot)
    }

    /// Refuses new connections, and returns the slots of those that there are.
    pub(super) fn close(&self) -> Vec<Arc<ConnectionSlot>> {
        let mut state = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        state.slots.drain().map(|(_, own)| own.slot).collect()
    }

    /// Closes the connections of the clients whose session has this id, once their calls have ended. They get no new ones if
    /// the session `has_ended`.
    pub(super) fn forget(&self, session: &str, has_ended: bool) {
        let mut state = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        let State { slots, ending, forgotten, .. } = &mut *state;
        let ended = slots.extract_if(|client, _| client.session == session);
        ending.extend(ended.map(|(_, own)| OwnSlot { slot: Arc::downgrade(&own.slot), account: own.account }));
        ending.retain(|own| own.slot.strong_count() > 0);
        if has_ended {
            forgotten.push_back(session.to_owned());
        }
        if forgotten.len() > MAX_FORGOTTEN {
            forgotten.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(session: &str) -> ClientKey {
        ClientKey { session: session.to_owned(), ..ClientKey::default() }
    }

    #[test]
    fn each_client_has_its_own_slot() {
        let own = OwnConnections::new(MAX_CLIENTS);
        let slot = |session: &str| own.slot(&client(session), None);
        let first = slot("a").unwrap();
        assert!(Arc::ptr_eq(&first, &slot("a").unwrap()));
        let second = slot("b").unwrap();
        assert!(!Arc::ptr_eq(&first, &second));
        own.forget("a", false);
        assert!(!Arc::ptr_eq(&first, &slot("a").unwrap()), "it goes on");
        own.forget("a", true);
        assert_eq!(slot("a").unwrap_err(), NoSlot::Ended, "its session has ended");
        assert_eq!(own.close().len(), 1);
        assert_eq!(slot("c").unwrap_err(), NoSlot::Ended);
    }

    #[test]
    fn slots_that_hold_nothing_make_room() {
        let own = OwnConnections::new(MAX_CLIENTS);
        let slot = |session: &str| own.slot(&client(session), Some(&Arc::default()));
        let held: Vec<_> = (0..MAX_CLIENTS).map(|n| slot(&n.to_string()).unwrap()).collect();
        assert_eq!(slot("more").unwrap_err(), NoSlot::Full);
        own.forget("0", true);
        let why = slot("more").unwrap_err();
        assert_eq!(why, NoSlot::Full, "a call still uses the connection of the session that has ended");
        drop(held);
        assert!(slot("more").is_ok());
    }

    #[test]
    fn one_address_does_not_take_all_slots() {
        let own = OwnConnections::new(MAX_CLIENTS);
        let (greedy, modest) = (Arc::default(), Arc::default());
        let taken = |account: &Arc<Account>, name: &str| {
            let sessions = (0..MAX_CLIENTS).map(|n| client(&format!("{name}{n}")));
            sessions.map_while(|client| own.slot(&client, Some(account)).ok()).collect::<Vec<_>>()
        };
        let of_greedy = taken(&greedy, "g");
        assert_eq!(of_greedy.len(), MAX_CLIENTS / 2, "half of them");
        // Sessions that end while calls use their connections still count.
        (0..MAX_CLIENTS).for_each(|n| own.forget(&format!("g{n}"), true));
        assert_eq!(own.slot(&client("again"), Some(&greedy)).unwrap_err(), NoSlot::OfAddress);
        assert_eq!(taken(&modest, "m").len(), MAX_CLIENTS / FAIR_PART);
        drop(of_greedy);
        assert!(own.slot(&client("again"), Some(&greedy)).is_ok());
    }
}
