//! The messages that wait for a client: those of one POST, or those of a session's own stream. Bounded, because a
//! client may read slowly or not at all.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::domain::budget::{ByteBudget, Category, Reservation};

/// The maximum number, and the maximum size in bytes, of the messages that wait besides answers.
const MAX_WAITING: usize = 256;
const MAX_BYTES: usize = 1 << 20;

/// A message for a client.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) text: String,
    pub(super) kind: Kind,
    /// The memory of the text, until it is written.
    pub(super) reservation: Arc<Reservation>,
}

/// What a message is to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A notification, or a request of the server.
    Event,
    Result,
    Error,
}

#[derive(Debug)]
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    filled: Notify,
    budget: Arc<ByteBudget>,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Outgoing>,
    /// The bytes of events.
    bytes: usize,
    events: usize,
    closed: bool,
}

impl Outbox {
    pub(super) fn new(budget: &Arc<ByteBudget>) -> Arc<Self> {
        Arc::new(Self { queue: Mutex::default(), filled: Notify::new(), budget: Arc::clone(budget) })
    }

    /// Adds a notification or a request of the server. Returns false if there is no room, or nobody will read it.
    pub(super) fn offer(&self, text: &str) -> bool {
        let reservation = self.budget.reservation(Category::Progress);
        let mut queue = self.lock();
        let fits = queue.events < MAX_WAITING && queue.bytes + text.len() <= MAX_BYTES;
        if queue.closed || !fits || reservation.resize(text.len() as u64).is_err() {
            return false;
        }
        queue.events += 1;
        queue.bytes += text.len();
        let reservation = Arc::new(reservation);
        queue.messages.push_back(Outgoing { text: text.to_owned(), kind: Kind::Event, reservation });
        drop(queue);
        self.filled.notify_one();
        true
    }

    /// Adds an answer. Returns false if the budget has no room for it; a small answer always has.
    pub(super) fn answer(&self, text: String, kind: Kind) -> bool {
        let reservation = self.budget.reservation(Category::Answer);
        if reservation.resize(text.len() as u64).is_err() {
            return false;
        }
        let mut queue = self.lock();
        if !queue.closed {
            queue.messages.push_back(Outgoing { text, kind, reservation: Arc::new(reservation) });
        }
        drop(queue);
        self.filled.notify_one();
        true
    }

    /// Takes the next message, and waits for it. Returns `None` once the outbox is closed.
    pub(super) async fn next(&self) -> Option<Outgoing> {
        loop {
            let filled = self.filled.notified();
            {
                let mut queue = self.lock();
                if let Some(message) = queue.pop() {
                    return Some(message);
                }
                if queue.closed {
                    return None;
                }
            }
            filled.await;
        }
    }

    /// Drops what waits and all that would be added.
    pub(super) fn close(&self) {
        let mut queue = self.lock();
        *queue = Queue { closed: true, ..Queue::default() };
        drop(queue);
        self.filled.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn pop(&mut self) -> Option<Outgoing> {
        let message = self.messages.pop_front()?;
        if message.kind == Kind::Event {
            self.events -= 1;
            self.bytes -= message.text.len();
        }
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn events_are_bounded_and_answers_always_follow_them() {
        let budget = Arc::new(ByteBudget::new(64 << 20));
        let outbox = Outbox::new(&budget);
        let taken = (0..MAX_WAITING + 5).filter(|number| outbox.offer(&number.to_string())).count();
        assert_eq!(taken, MAX_WAITING);
        assert!(outbox.answer("the answer".into(), Kind::Result));
        for number in 0..MAX_WAITING {
            assert_eq!(outbox.next().await.unwrap().text, number.to_string());
        }
        assert_eq!(outbox.next().await.unwrap().kind, Kind::Result);
        let half = "x".repeat(MAX_BYTES / 2);
        assert_eq!([outbox.offer(&half), outbox.offer(&half), outbox.offer("x")], [true, true, false]);
        assert!(budget.held(Category::Progress) > 0);
        outbox.close();
        assert!(outbox.next().await.is_none() && !outbox.offer("x"));
        assert_eq!(budget.held(Category::Progress), 0);
    }

    #[test]
    fn an_answer_waits_within_the_budget_of_all() {
        let budget = Arc::new(ByteBudget::new(1 << 20));
        let (one, other) = (Outbox::new(&budget), Outbox::new(&budget));
        assert!(one.answer("x".repeat(700 << 10), Kind::Result));
        assert!(!other.answer("x".repeat(700 << 10), Kind::Result));
        assert!(other.answer("small".into(), Kind::Error));
    }
}
