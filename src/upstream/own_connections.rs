//! The connections of one upstream that are each for one client.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::slot::Slot;
use crate::domain::upstream::ClientKey;

/// The maximum number of clients that have a connection of their own to one upstream. If there are more, the connection
/// that was idle longest is closed, if that was for at least [`IDLE`]. While there is none, further clients get none.
pub(super) const MAX_CLIENTS: usize = 64;
/// How long a connection must be idle before it gives way to another: clients that are active do not end each other's.
const IDLE: Duration = Duration::from_secs(60);

/// How many sessions that ended are remembered: a call of one may still be on its way.
const MAX_FORGOTTEN: usize = 1024;

/// The connections by client.
#[derive(Debug, Default)]
pub(super) struct OwnConnections {
    by_client: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    slots: HashMap<ClientKey, Arc<Slot>>,
    /// The slots of clients whose session has ended, while calls use them.
    ending: Vec<Weak<Slot>>,
    /// The ids of sessions that have ended, the oldest first.
    forgotten: VecDeque<String>,
    closed: bool,
}

impl State {
    /// Removes the slots that hold nothing, or else the one whose connection was idle longest, and long enough. Returns
    /// whether there is room.
    fn make_room(&mut self) -> bool {
        self.slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.is_in_use());
        self.ending.retain(|slot| slot.strong_count() > 0);
        if self.has_room() {
            return true;
        }
        let idle = self.slots.iter().filter(|(_, slot)| Arc::strong_count(slot) == 1);
        let idle = idle.filter_map(|(client, slot)| Some((slot.idle()?, client))).filter(|(idle, _)| *idle >= IDLE);
        let longest = idle.max_by_key(|(idle, _)| *idle);
        let Some(client) = longest.map(|(_, client)| client.clone()) else { return false };
        self.slots.remove(&client).is_some()
    }

    fn has_room(&self) -> bool {
        self.slots.len() + self.ending.len() < MAX_CLIENTS
    }
}

impl OwnConnections {
    /// Returns the slot for the connection of a client; `None` if there are as many as may be, if its session has ended, or
    /// if the upstream was closed.
    pub(super) fn slot(&self, client: &ClientKey) -> Option<Arc<Slot>> {
        let mut state = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed || state.forgotten.contains(&client.session) {
            return None;
        }
        if let Some(slot) = state.slots.get(client) {
            return Some(Arc::clone(slot));
        }
        if !state.has_room() && !state.make_room() {
            return None;
        }
        let slot = Arc::<Slot>::default();
        state.slots.insert(client.clone(), Arc::clone(&slot));
        Some(slot)
    }

    /// Refuses new connections, and returns the slots of those that there are.
    pub(super) fn close(&self) -> Vec<Arc<Slot>> {
        let mut state = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        state.slots.drain().map(|(_, slot)| slot).collect()
    }

    /// Returns the slots for the connections of the clients whose session has this id.
    pub(super) fn of_session(&self, session: &str) -> Vec<Arc<Slot>> {
        let state = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        let own = state.slots.iter().filter(|(client, _)| client.session == session);
        own.map(|(_, slot)| Arc::clone(slot)).collect()
    }

    /// Closes the connections of the clients whose session has this id, once their calls have ended. They get no new ones if
    /// the session `has_ended`.
    pub(super) fn forget(&self, session: &str, has_ended: bool) {
        let mut state = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        let State { slots, ending, forgotten, .. } = &mut *state;
        ending.extend(slots.extract_if(|client, _| client.session == session).map(|(_, slot)| Arc::downgrade(&slot)));
        ending.retain(|slot| slot.strong_count() > 0);
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
        let own = OwnConnections::default();
        let first = own.slot(&client("a")).unwrap();
        assert!(Arc::ptr_eq(&first, &own.slot(&client("a")).unwrap()));
        let second = own.slot(&client("b")).unwrap();
        assert!(!Arc::ptr_eq(&first, &second));
        own.forget("a", false);
        assert!(!Arc::ptr_eq(&first, &own.slot(&client("a")).unwrap()), "it goes on");
        own.forget("a", true);
        assert!(own.slot(&client("a")).is_none(), "its session has ended");
        assert_eq!(own.close().len(), 1);
        assert!(own.slot(&client("c")).is_none());
    }

    #[test]
    fn slots_that_hold_nothing_make_room() {
        let own = OwnConnections::default();
        let held: Vec<_> = (0..MAX_CLIENTS).map(|n| own.slot(&client(&n.to_string())).unwrap()).collect();
        assert!(own.slot(&client("more")).is_none());
        own.forget("0", true);
        assert!(own.slot(&client("more")).is_none(), "a call still uses the connection of the session that has ended");
        drop(held);
        assert!(own.slot(&client("more")).is_some());
    }
}
