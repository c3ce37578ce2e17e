//! The messages that are sent to a client before the answer to its call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::Notify;

use crate::domain::budget::{Account, ByteBudget, Category, Reservation};
use crate::domain::log_level::LogLevel;
use crate::domain::ports::ToClient;
use crate::domain::raw::RawObject;
use crate::domain::rpc::request;

/// The maximum number, and the maximum size in bytes, of all messages that wait for a slow client. The oldest are
/// dropped first.
const MAX_WAITING: usize = 256;
const MAX_BYTES: usize = 1 << 20;

/// The messages that are sent, in order, before the answer to one POST, and the memory that is reserved for that
/// answer.
#[derive(Debug)]
pub(super) struct Outbox {
    waiting: Mutex<OutboxQueue>,
    filled: Notify,
    /// Whether the client accepts events. If not, nothing is sent before the answer.
    is_read: bool,
    reservation: Arc<Reservation>,
}

#[derive(Debug)]
struct OutboxQueue {
    messages: VecDeque<String>,
    bytes: usize,
    reservation: Reservation,
}

impl OutboxQueue {
    fn pop(&mut self) -> Option<String> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.len();
        // Shrinking a reservation always succeeds.
        let _ = self.reservation.resize(self.bytes as u64);
        Some(message)
    }

    /// Returns how many of the oldest messages must be dropped to make room for a message of `length` bytes, and how
    /// many bytes the remaining messages have.
    fn to_evict(&self, length: usize) -> (usize, usize) {
        let (mut evicted, mut left) = (0, self.bytes);
        for message in &self.messages {
            if self.messages.len() - evicted < MAX_WAITING && left + length <= MAX_BYTES {
                break;
            }
            evicted += 1;
            left -= message.len();
        }
        (evicted, left)
    }
}

impl Outbox {
    /// Creates an empty outbox. `is_read` means that the client reads messages before its answer. All bytes count
    /// against `budget` and are charged to `account`.
    pub(super) fn new(budget: &Arc<ByteBudget>, account: &Arc<Account>, is_read: bool) -> Self {
        let reservation = budget.reservation_for(Category::Progress, account);
        let waiting = OutboxQueue { messages: VecDeque::new(), bytes: 0, reservation };
        let reservation = Arc::new(budget.reservation_for(Category::Answer, account));
        Self { waiting: Mutex::new(waiting), filled: Notify::new(), is_read, reservation }
    }

    pub(super) fn is_read(&self) -> bool {
        self.is_read
    }

    /// Returns the reservation of memory for the answer, from the moment when the upstream has sent the answer until it
    /// is written to the client.
    pub(super) fn reservation(&self) -> &Arc<Reservation> {
        &self.reservation
    }

    /// Adds a message. Drops the oldest messages if too many wait, or the new one if it is too large or the memory
    /// budget is exhausted. Dropping is harmless, because each progress notification contains the total progress, and
    /// no answer depends on log messages.
    fn push(&self, message: String) {
        let mut waiting = self.lock();
        if message.len() > MAX_BYTES {
            waiting.reservation.refuse();
            return;
        }
        let (evicted, left) = waiting.to_evict(message.len());
        if waiting.reservation.resize((left + message.len()) as u64).is_err() {
            return;
        }
        for _ in 0..evicted {
            waiting.messages.pop_front();
            waiting.reservation.refuse();
        }
        waiting.bytes = left + message.len();
        waiting.messages.push_back(message);
        drop(waiting);
        self.filled.notify_one();
    }

    pub(super) fn pop(&self) -> Option<String> {
        self.lock().pop()
    }

    /// Waits until there is a message, and leaves it in the outbox.
    pub(super) async fn filled(&self) {
        while self.lock().messages.is_empty() {
            self.filled.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, OutboxQueue> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The notifications that a client wants before the answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WantedNotices<'a> {
    /// The token for progress notifications, as raw JSON; `None` if the client wants none.
    pub(super) progress: Option<&'a str>,
    /// The lowest level of log messages; `None` if the client wants none.
    pub(super) log_level: Option<LogLevel>,
}

/// Sends messages to a client through its outbox.
pub(super) struct OutboxSender<'a> {
    pub(super) wanted: WantedNotices<'a>,
    pub(super) outbox: &'a Outbox,
}

impl ToClient for OutboxSender<'_> {
    fn progress(&self, params: Box<RawValue>) {
        let Some(token) = self.wanted.progress else { return };
        let Some(rest) = params.get().trim_start().strip_prefix('{') else { return };
        let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
        self.outbox.push(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token}{comma}{rest}}}"#
        ));
    }

    fn message(&self, params: Box<RawValue>) {
        let Ok(object) = RawObject::parse(params.get()) else { return };
        let level = object.get("level").and_then(|level| LogLevel::parse(level.get()));
        if self.wanted.log_level.is_some_and(|least| level.is_some_and(|level| level >= least)) {
            self.outbox.push(request(None, "notifications/message", Some(&params)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::budget::LIMIT;

    fn outbox(budget: u64) -> (Outbox, Arc<ByteBudget>) {
        let budget = Arc::new(ByteBudget::new(budget));
        (Outbox::new(&budget, &Arc::default(), true), budget)
    }

    fn sent(params: &str) -> Option<String> {
        let (outbox, _) = outbox(1 << 20);
        let wanted = WantedNotices { progress: Some("\"t\""), log_level: None };
        OutboxSender { wanted, outbox: &outbox }.progress(RawValue::from_string(params.into()).unwrap());
        outbox.pop()
    }

    #[test]
    fn log_messages_pass_from_the_wanted_level_on() {
        let (outbox, _) = outbox(1 << 20);
        let tell = |log_level: Option<LogLevel>, params: &str| {
            let wanted = WantedNotices { progress: None, log_level };
            OutboxSender { wanted, outbox: &outbox }.message(RawValue::from_string(params.into()).unwrap());
            outbox.pop()
        };
        let params = r#"{"level":"warning","data": 1.0}"#;
        let message = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{params}}}"#);
        assert_eq!(tell(Some(LogLevel::Warning), params), Some(message.clone()));
        assert_eq!(tell(Some(LogLevel::Debug), params), Some(message));
        assert_eq!(tell(Some(LogLevel::Error), params), None);
        assert_eq!(tell(None, params), None);
        assert_eq!(tell(Some(LogLevel::Debug), r#"{"level":"loud"}"#), None);
    }

    #[test]
    fn progress_carries_the_client_s_token_and_the_rest_as_it_came() {
        let head = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t""#;
        assert_eq!(sent(r#"{"progress": 1.0}"#).unwrap(), format!("{head},\"progress\": 1.0}}}}"));
        assert_eq!(sent("{}").unwrap(), format!("{head}}}}}"));
        assert_eq!(sent("[]"), None);
    }

    #[test]
    fn a_slow_client_loses_the_oldest() {
        let (outbox, budget) = outbox(1 << 20);
        (0..MAX_WAITING + 2).for_each(|n| outbox.push(n.to_string()));
        assert_eq!((outbox.pop().as_deref(), budget.refused(Category::Progress)), (Some("2"), 2));
    }

    #[test]
    fn what_finds_no_room_takes_the_place_of_nothing() {
        let (outbox, budget) = outbox(1 << 20);
        (0..MAX_WAITING).for_each(|n| outbox.push(n.to_string()));
        outbox.push("x".repeat(MAX_BYTES / 2));
        assert_eq!((outbox.pop().as_deref(), budget.refused(Category::Progress)), (Some("0"), 1));
    }

    #[test]
    fn what_waits_is_bounded_in_bytes() {
        let (outbox, budget) = outbox(LIMIT);
        (0..5).for_each(|n| outbox.push(n.to_string().repeat(MAX_BYTES / 4)));
        outbox.push("x".repeat(MAX_BYTES + 1));
        assert!(outbox.pop().is_some_and(|first| first.starts_with('1')), "the oldest of the five went");
        assert!(budget.held(Category::Progress) <= MAX_BYTES as u64 && budget.refused(Category::Progress) == 2);
        // The budget of the process limits all outboxes together, but small messages still fit.
        let others: Vec<_> = (0..40).map(|_| Outbox::new(&budget, &Arc::default(), true)).collect();
        others.iter().for_each(|other| other.push("y".repeat(MAX_BYTES)));
        assert_eq!((others[0].pop().is_some(), others[39].pop()), (true, None));
        others[39].push("z".into());
        assert!(others[39].pop().is_some());
        drop((outbox, others));
        assert_eq!(budget.held(Category::Progress), 0);
    }
}
