//! One request of a client under way: the messages that are sent before its answer, each with a number, and the answer. A
//! connection of the client attaches to it with the number of the last message that the client has. So a stream that was
//! cut can go on over another connection (MCP 2025-11-25, resumability).

pub mod handle;
mod questions;
mod retained;
mod ring;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use self::ring::Ring;
use crate::domain::budget::{Account, ByteBudget, Category, NoRoom, Reservation};

pub use self::questions::{ClientAnswer, ClientQuestions, OpenQuestion};
pub use self::retained::{KEPT_AFTER_END, RetainedExchanges};

/// A request under way.
#[derive(Debug)]
pub struct Exchange {
    state: Mutex<ExchangeState>,
    changed: Notify,
    /// Whether the client reads messages before the answer. If not, none are sent.
    is_read: bool,
    reservation: Arc<Reservation>,
    /// The account of the client's address.
    account: Arc<Account>,
}

#[derive(Debug)]
struct ExchangeState {
    ring: Ring,
    answer: Option<Bytes>,
    /// Whether there will be no answer, because the gateway failed.
    abandoned: bool,
    /// Whether what was sent is kept, for a client that comes back.
    keeps: bool,
    /// The number of the attachment that gets what is sent. Earlier ones get nothing more.
    reader: u64,
    /// Whether that connection is open.
    attached: bool,
    /// The attachment that ends before the answer, and after what time its client is to come back.
    leaves: Option<(u64, Option<Duration>)>,
}

/// What an attached connection sends next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A message, and its number.
    Message(u64, Arc<str>),
    /// The answer as it was set, and its number. It is the last.
    Answer(u64, Bytes),
    /// There is nothing to send yet.
    Pending,
    /// There is nothing to send yet, and the connection ends: its client comes back for the rest, after this time if it is
    /// given.
    Leave(Option<Duration>),
    /// Nothing more is sent over this connection.
    End,
}

impl Exchange {
    /// Creates an exchange. `is_read` means that the client reads messages before its answer. All bytes count against
    /// `budget` and are charged to `account`.
    pub fn new(budget: &Arc<ByteBudget>, account: &Arc<Account>, is_read: bool) -> Self {
        let ring = Ring::new(budget.reservation_for(Category::Progress, account));
        let reservation = Arc::new(budget.reservation_for(Category::Answer, account));
        let state = ExchangeState {
            ring,
            answer: None,
            abandoned: false,
            keeps: false,
            reader: 0,
            attached: false,
            leaves: None,
        };
        let account = Arc::clone(account);
        Self { state: Mutex::new(state), changed: Notify::new(), is_read, reservation, account }
    }

    /// Whether the client reads messages before its answer.
    pub fn is_read(&self) -> bool {
        self.is_read
    }

    /// Returns the reservation of memory for the answer, from the moment when the upstream has sent the answer until it
    /// is written to the client.
    pub fn reservation(&self) -> &Arc<Reservation> {
        &self.reservation
    }

    /// From now on, keeps what was sent, within the bounds of what waits.
    pub fn keep(&self) {
        self.lock().keeps = true;
    }

    /// Adds a notification. The oldest ones are dropped if too many wait, or the new one if it is too large or the memory
    /// budget is exhausted. Dropping is harmless, because each progress notification contains the total progress, and
    /// no answer depends on log messages.
    pub fn notify(&self, message: String) {
        if self.lock().ring.add(message, false).is_ok() {
            self.changed.notify_waiters();
        }
    }

    /// The number of messages that wait to be sent, or are kept.
    pub fn waiting(&self) -> usize {
        self.lock().ring.len()
    }

    /// Adds a request to the client and returns its number. It stays until [`Exchange::withdraw`].
    ///
    /// # Errors
    /// If there is no room for it, or the client reads nothing before its answer.
    pub fn request(&self, message: String) -> Result<u64, NoRoom> {
        if !self.is_read {
            return Err(NoRoom);
        }
        let number = self.lock().ring.add(message, true)?;
        self.changed.notify_waiters();
        Ok(number)
    }

    /// Removes the request with this number. Returns whether it was sent before.
    pub fn withdraw(&self, number: u64) -> bool {
        self.lock().ring.remove(number)
    }

    /// Sets the answer, in the form in which it is sent. It ends the exchange.
    pub fn finish(&self, answer: Bytes) {
        self.lock().answer = Some(answer);
        self.changed.notify_waiters();
    }

    /// Ends the connection that is attached, once it has sent what there is: its client comes back for the rest, after
    /// `retry` if that is given.
    pub fn leave(&self, retry: Option<Duration>) {
        let mut state = self.lock();
        state.leaves = Some((state.reader, retry));
        drop(state);
        self.changed.notify_waiters();
    }

    /// Ends the exchange without an answer, unless it has one.
    pub fn abandon(&self) {
        self.lock().abandoned = true;
        self.changed.notify_waiters();
    }

    /// Whether there is nothing to send after the number `after`, and never will be.
    pub fn is_complete_after(&self, after: u64) -> bool {
        let state = self.lock();
        let has_ended = state.answer.is_some() || state.abandoned;
        has_ended && after > state.ring.last()
    }

    /// Attaches a connection. A connection that was attached before gets nothing more. Returns the number that
    /// [`Exchange::next`] takes.
    pub fn attach(&self) -> u64 {
        let mut state = self.lock();
        state.reader += 1;
        state.attached = true;
        let reader = state.reader;
        drop(state);
        self.changed.notify_waiters();
        reader
    }

    /// Says that an attached connection has ended.
    pub fn detach(&self, reader: u64) {
        let mut state = self.lock();
        if state.reader == reader {
            state.attached = false;
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Waits until no connection was attached for `long`.
    pub async fn unattended(&self, long: Duration) {
        loop {
            self.until_attached(false).await;
            if tokio::time::timeout(long, self.until_attached(true)).await.is_err() {
                return;
            }
        }
    }

    async fn until_attached(&self, attached: bool) {
        self.until(|| (self.lock().attached == attached).then_some(())).await;
    }

    /// Returns what comes after the message with the number `after`, 0 for the first. `reader` is the attached
    /// connection.
    pub fn next(&self, reader: u64, after: u64) -> Next {
        let mut state = self.lock();
        if state.reader != reader {
            return Next::End;
        }
        if !state.keeps {
            state.ring.forget(after);
        }
        if let Some((number, message)) = state.ring.take_after(after) {
            return Next::Message(number, message);
        }
        let number = state.ring.last() + 1;
        match &state.answer {
            Some(_) if after >= number => Next::End,
            Some(answer) => Next::Answer(number, answer.clone()),
            None if state.abandoned => Next::End,
            None => match state.leaves {
                Some((leaving, retry)) if leaving == reader => Next::Leave(retry),
                _ => Next::Pending,
            },
        }
    }

    /// Waits until [`Exchange::next`] returns something else than [`Next::Pending`], and returns that.
    pub async fn wait(&self, reader: u64, after: u64) -> Next {
        self.until(|| Some(self.next(reader, after)).filter(|next| *next != Next::Pending)).await
    }

    /// Waits until `look` returns something.
    async fn until<T>(&self, look: impl Fn() -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registers before the look, so that no change between the look and the wait is missed.
            changed.as_mut().enable();
            if let Some(found) = look() {
                return found;
            }
            changed.await;
        }
    }

    fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Whether the client was told to come back for the answer.
    fn was_left(&self) -> bool {
        self.lock().leaves.is_some()
    }

    /// The number of bytes that are held.
    fn size(&self) -> u64 {
        let state = self.lock();
        state.ring.bytes() as u64 + state.answer.as_ref().map_or(0, |answer| answer.len() as u64)
    }

    fn lock(&self) -> MutexGuard<'_, ExchangeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange() -> Exchange {
        Exchange::new(&Arc::new(ByteBudget::new(1 << 20)), &Arc::default(), true)
    }

    fn message(number: u64, text: &str) -> Next {
        Next::Message(number, text.into())
    }

    #[tokio::test]
    async fn what_is_sent_is_numbered_and_the_answer_is_last() {
        let exchange = exchange();
        let reader = exchange.attach();
        assert_eq!(exchange.next(reader, 0), Next::Pending);
        exchange.notify("a".into());
        exchange.request("b".into()).unwrap();
        assert_eq!(exchange.wait(reader, 0).await, message(1, "a"));
        assert_eq!(exchange.wait(reader, 1).await, message(2, "b"));
        assert_eq!(exchange.next(reader, 2), Next::Pending);
        exchange.finish("c".into());
        assert_eq!(exchange.wait(reader, 2).await, Next::Answer(3, "c".into()));
        assert_eq!(exchange.next(reader, 3), Next::End);
    }

    #[test]
    fn a_client_that_comes_back_gets_what_it_lacks_once() {
        let exchange = exchange();
        exchange.keep();
        let first = exchange.attach();
        ["a", "b", "c"].into_iter().for_each(|text| exchange.notify(text.into()));
        assert_eq!(exchange.next(first, 1), message(2, "b"));
        let second = exchange.attach();
        assert_eq!((exchange.next(first, 2), exchange.next(second, 1)), (Next::End, message(2, "b")));
        exchange.finish("d".into());
        assert_eq!(exchange.next(second, 3), Next::Answer(4, "d".into()));
        let third = exchange.attach();
        assert_eq!(exchange.next(third, 0), message(1, "a"));
    }

    #[test]
    fn what_was_sent_is_forgotten_unless_it_is_kept() {
        let exchange = exchange();
        let reader = exchange.attach();
        ["a", "b"].into_iter().for_each(|text| exchange.notify(text.into()));
        assert_eq!(exchange.next(reader, 1), message(2, "b"));
        assert_eq!(exchange.next(reader, 0), message(2, "b"), "the first is gone");
    }

    #[test]
    fn a_request_that_was_answered_is_not_sent_again() {
        let exchange = exchange();
        exchange.keep();
        let first = exchange.attach();
        let number = exchange.request("question".into()).unwrap();
        assert!(!exchange.withdraw(number + 1));
        assert_eq!(exchange.next(first, 0), message(1, "question"));
        assert!(exchange.withdraw(number));
        let second = exchange.attach();
        assert_eq!(exchange.next(second, 0), Next::Pending);
        let unsent = exchange.request("another".into()).unwrap();
        assert!(!exchange.withdraw(unsent) && exchange.next(second, 0) == Next::Pending);
    }

    #[test]
    fn an_exchange_that_is_abandoned_ends() {
        let exchange = exchange();
        let reader = exchange.attach();
        exchange.abandon();
        assert_eq!(exchange.next(reader, 0), Next::End);
        assert!(!exchange.is_complete_after(0) && exchange.is_complete_after(1));
    }

    #[tokio::test]
    async fn a_wait_ends_with_the_next_message_or_another_connection() {
        let exchange = exchange();
        let reader = exchange.attach();
        let (next, ()) = tokio::join!(exchange.wait(reader, 0), async { exchange.notify("a".into()) });
        assert_eq!(next, message(1, "a"));
        let (next, _) = tokio::join!(exchange.wait(reader, 1), async { exchange.attach() });
        assert_eq!(next, Next::End);
    }

    #[tokio::test]
    async fn an_exchange_is_unattended_once_no_connection_came_back() {
        let (exchange, long) = (exchange(), Duration::from_millis(20));
        let stays =
            async |exchange: &Exchange| tokio::time::timeout(3 * long, exchange.unattended(long)).await.is_err();
        let first = exchange.attach();
        assert!(stays(&exchange).await);
        let second = exchange.attach();
        exchange.detach(first);
        assert!(stays(&exchange).await, "another connection took over");
        exchange.detach(second);
        exchange.unattended(long).await;
        exchange.attach();
        assert!(stays(&exchange).await);
    }

    #[tokio::test]
    async fn a_connection_that_ends_before_the_answer_sends_first_what_there_is() {
        let exchange = exchange();
        exchange.keep();
        let (first, retry) = (exchange.attach(), Some(Duration::from_secs(3)));
        exchange.notify("a".into());
        exchange.leave(retry);
        assert_eq!(exchange.next(first, 0), message(1, "a"));
        assert_eq!(exchange.wait(first, 1).await, Next::Leave(retry));
        let second = exchange.attach();
        assert_eq!(exchange.next(second, 1), Next::Pending, "its client has come back");
        exchange.leave(None);
        exchange.finish("b".into());
        assert_eq!(exchange.next(second, 1), Next::Answer(2, "b".into()), "there is no rest to come back for");
    }

    #[test]
    fn a_client_that_reads_no_messages_is_not_asked() {
        let exchange = Exchange::new(&Arc::new(ByteBudget::new(1 << 20)), &Arc::default(), false);
        assert_eq!(exchange.request("a".into()), Err(NoRoom));
    }
}
