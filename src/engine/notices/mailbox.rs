//! What the gateway has to tell a client outside of the answers to its requests: which resources changed, and what servers
//! log.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The maximum number of changes of parts of resources that wait. A resource that a client subscribed to waits once at
/// most, so that all of these find room.
const MAX_PARTS: usize = 64;

/// The maximum number of log messages that wait, and of their bytes. The oldest are dropped first.
const MAX_LOGGED: usize = 64;
const MAX_LOGGED_BYTES: usize = 256 << 10;

/// Notices that wait until the client of a session or of a stream reads them.
#[derive(Debug, Default)]
pub struct Mailbox {
    state: Mutex<MailboxState>,
    added: Notify,
}

#[derive(Debug, Default)]
struct MailboxState {
    waiting: VecDeque<Update>,
    /// What waits: the URI that the client subscribed to, and that of what changed.
    known: HashSet<(Arc<str>, Arc<str>)>,
    parts: usize,
    /// Parameters of log messages.
    logged: VecDeque<Arc<str>>,
    logged_bytes: usize,
    /// The numbers of the readers. The newest one gets what waits.
    readers: Vec<u64>,
    next_reader: u64,
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A resource changed.
    Updated(Update),
    /// A server logged something. The text is that of the parameters of `notifications/message`.
    Logged(Arc<str>),
}

/// A change of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The URI that the client subscribed to.
    pub subscribed: Arc<str>,
    /// The URI of what changed: the same, or that of a part of it.
    pub changed: Arc<str>,
}

impl Update {
    fn key(&self) -> (Arc<str>, Arc<str>) {
        (Arc::clone(&self.subscribed), Arc::clone(&self.changed))
    }
}

impl Mailbox {
    /// Adds a change, unless the same one waits. If too many changes of parts wait, the whole resource is said to have
    /// changed.
    pub(in crate::engine) fn add(&self, mut update: Update) {
        let mut state = self.lock();
        if update.subscribed != update.changed {
            if state.parts >= MAX_PARTS {
                update.changed = Arc::clone(&update.subscribed);
            } else if !state.known.contains(&update.key()) {
                state.parts += 1;
            }
        }
        if !state.known.insert(update.key()) {
            return;
        }
        state.waiting.push_back(update);
        drop(state);
        self.added.notify_waiters();
    }

    /// Adds a log message. Returns how many are dropped for it.
    pub(in crate::engine) fn log(&self, params: &Arc<str>) -> usize {
        let state = &mut *self.lock();
        state.logged_bytes += params.len();
        state.logged.push_back(Arc::clone(params));
        let mut dropped = 0;
        while state.logged.len() > MAX_LOGGED || state.logged_bytes > MAX_LOGGED_BYTES {
            state.logged_bytes -= state.logged.pop_front().map_or(0, |oldest| oldest.len());
            dropped += 1;
        }
        self.added.notify_waiters();
        dropped
    }

    /// Forgets the changes of a resource that the client subscribes to no more.
    pub(in crate::engine) fn forget(&self, subscribed: &str) {
        let state = &mut *self.lock();
        let (known, parts) = (&mut state.known, &mut state.parts);
        state.waiting.retain(|update| {
            let stays = &*update.subscribed != subscribed;
            if !stays {
                known.remove(&update.key());
                *parts -= usize::from(update.subscribed != update.changed);
            }
            stays
        });
    }

    /// Attaches a reader. One that was attached before gets nothing until this one is detached. Returns the number for
    /// [`Mailbox::next`].
    pub fn attach(&self) -> u64 {
        let mut state = self.lock();
        state.next_reader += 1;
        let reader = state.next_reader;
        state.readers.push(reader);
        reader
    }

    /// Detaches a reader. If it was the newest one, the one before it gets what waits.
    pub fn detach(&self, reader: u64) {
        self.lock().readers.retain(|known| *known != reader);
        self.added.notify_waiters();
    }

    /// Waits for the next notice. Never completes while another reader is attached that is newer.
    pub async fn next(&self, reader: u64) -> Notice {
        loop {
            let added = self.added.notified();
            tokio::pin!(added);
            // Registers before the look, so that no change between the look and the wait is missed.
            added.as_mut().enable();
            if let Some(notice) = self.take(reader) {
                return notice;
            }
            added.await;
        }
    }

    fn take(&self, reader: u64) -> Option<Notice> {
        let mut state = self.lock();
        if state.readers.last() != Some(&reader) {
            return None;
        }
        let Some(update) = state.waiting.pop_front() else {
            let params = state.logged.pop_front()?;
            state.logged_bytes -= params.len();
            return Some(Notice::Logged(params));
        };
        state.known.remove(&update.key());
        state.parts -= usize::from(update.subscribed != update.changed);
        Some(Notice::Updated(update))
    }

    fn lock(&self) -> MutexGuard<'_, MailboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(subscribed: &str, changed: &str) -> Update {
        Update { subscribed: subscribed.into(), changed: changed.into() }
    }

    fn told(subscribed: &str, changed: &str) -> Notice {
        Notice::Updated(update(subscribed, changed))
    }

    #[test]
    fn log_messages_are_bounded_and_the_newest_stay() {
        let mailbox = Mailbox::default();
        let dropped: usize = (0..MAX_LOGGED + 2).map(|n| mailbox.log(&n.to_string().into())).sum();
        assert_eq!(dropped, 2);
        let reader = mailbox.attach();
        assert_eq!(mailbox.take(reader), Some(Notice::Logged("2".into())));
        let large: Arc<str> = "x".repeat(MAX_LOGGED_BYTES / 2).into();
        assert_eq!([(); 3].map(|()| mailbox.log(&large)), [0, MAX_LOGGED - 1, 1]);
        assert_eq!(mailbox.lock().logged.len(), 2);
        assert_eq!(mailbox.lock().logged_bytes, MAX_LOGGED_BYTES);
    }

    #[test]
    fn a_change_waits_once_and_is_read_once() {
        let mailbox = Mailbox::default();
        ["a", "b", "a"].into_iter().for_each(|uri| mailbox.add(update(uri, uri)));
        let reader = mailbox.attach();
        assert_eq!(mailbox.take(reader), Some(told("a", "a")));
        mailbox.add(update("a", "a"));
        let newer = mailbox.attach();
        assert_eq!(mailbox.take(reader), None, "another stream reads now");
        assert_eq!(mailbox.take(newer), Some(told("b", "b")));
        assert_eq!(mailbox.take(newer), Some(told("a", "a")));
        assert_eq!(mailbox.take(newer), None);
        mailbox.add(update("a", "a/b"));
        mailbox.add(update("a/b", "a/b"));
        mailbox.detach(newer);
        assert_eq!(mailbox.take(reader), Some(told("a", "a/b")), "it reads again");
        assert_eq!(mailbox.take(reader), Some(told("a/b", "a/b")), "another subscription");
    }

    #[test]
    fn what_is_subscribed_to_no_more_is_not_told() {
        let mailbox = Mailbox::default();
        [update("a", "a"), update("a", "a/b"), update("c", "c")].into_iter().for_each(|update| mailbox.add(update));
        mailbox.forget("a");
        let reader = mailbox.attach();
        assert_eq!((mailbox.take(reader), mailbox.take(reader)), (Some(told("c", "c")), None));
        assert_eq!(mailbox.lock().parts, 0);
    }

    #[test]
    fn many_parts_become_the_whole() {
        let mailbox = Mailbox::default();
        (0..1000).for_each(|n| mailbox.add(update("a", &format!("a/{n}"))));
        let reader = mailbox.attach();
        let read: Vec<_> = std::iter::from_fn(|| mailbox.take(reader)).collect();
        assert_eq!((read.len(), read.last()), (MAX_PARTS + 1, Some(&told("a", "a"))));
    }
}
