//! Numbered messages, bounded in number and bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::domain::budget::{NoRoom, Reservation};

/// The maximum number, and the maximum size in bytes, of all messages of one exchange. The oldest that may be dropped are
/// dropped first.
const MAX_MESSAGES: usize = 256;
const MAX_BYTES: usize = 1 << 20;

/// The messages of one exchange, the oldest first.
#[derive(Debug)]
pub(super) struct Ring {
    messages: VecDeque<Message>,
    /// The number of the newest message ever added.
    last: u64,
    /// The number of the newest message that was sent.
    sent: u64,
    bytes: usize,
    reservation: Reservation,
}

#[derive(Debug)]
struct Message {
    number: u64,
    text: Arc<str>,
    /// Whether the message is dropped only when it is removed.
    must_stay: bool,
}

impl Ring {
    pub(super) fn new(reservation: Reservation) -> Self {
        Self { messages: VecDeque::new(), last: 0, sent: 0, bytes: 0, reservation }
    }

    /// The number of the newest message ever added; 0 if there was none.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The number of messages.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// The number of bytes of all messages.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a message and returns its number. If there are too many, drops the oldest of those that need not stay.
    pub(super) fn add(&mut self, text: String, must_stay: bool) -> Result<u64, NoRoom> {
        let Some((evicted, left)) = self.to_evict(text.len()) else { return Err(self.reservation.refuse()) };
        self.reservation.resize((left + text.len()) as u64)?;
        let (mut to_drop, reservation, sent) = (evicted, &self.reservation, self.sent);
        self.messages.retain(|message| {
            let stays = to_drop == 0 || message.must_stay;
            if !stays {
                to_drop -= 1;
                if message.number > sent {
                    reservation.refuse();
                }
            }
            stays
        });
        self.last += 1;
        self.bytes = left + text.len();
        self.messages.push_back(Message { number: self.last, text: text.into(), must_stay });
        Ok(self.last)
    }

    /// Returns how many of the oldest messages must be dropped to make room for a message of `length` bytes, and how
    /// many bytes the remaining messages have. `None` if there is no room whatever is dropped.
    fn to_evict(&self, length: usize) -> Option<(usize, usize)> {
        let fits =
            |evicted: usize, left: usize| self.messages.len() - evicted < MAX_MESSAGES && left + length <= MAX_BYTES;
        let (mut evicted, mut left) = (0, self.bytes);
        for message in self.messages.iter().filter(|message| !message.must_stay) {
            if fits(evicted, left) {
                break;
            }
            evicted += 1;
            left -= message.text.len();
        }
        fits(evicted, left).then_some((evicted, left))
    }

    /// Returns the first message after the number `after`, to be sent.
    pub(super) fn take_after(&mut self, after: u64) -> Option<(u64, Arc<str>)> {
        let at = self.messages.partition_point(|message| message.number <= after);
        let message = self.messages.get(at)?;
        self.sent = self.sent.max(message.number);
        Some((message.number, Arc::clone(&message.text)))
    }

    /// Removes the message with this number. Returns whether it was sent before.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        let Ok(at) = self.messages.binary_search_by_key(&number, |message| message.number) else {
            return number <= self.sent;
        };
        self.bytes -= self.messages.remove(at).map_or(0, |message| message.text.len());
        self.shrink();
        number <= self.sent
    }

    /// Forgets the messages up to the number `until`.
    pub(super) fn forget(&mut self, until: u64) {
        if self.messages.front().is_none_or(|message| message.number > until) {
            return;
        }
        while self.messages.front().is_some_and(|message| message.number <= until) {
            self.bytes -= self.messages.pop_front().map_or(0, |message| message.text.len());
        }
        self.shrink();
    }

    fn shrink(&self) {
        // Shrinking a reservation always succeeds.
        let _ = self.reservation.resize(self.bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::budget::{ByteBudget, Category, LIMIT};

    fn ring(budget: &Arc<ByteBudget>) -> Ring {
        Ring::new(budget.reservation_for(Category::Progress, &Arc::default()))
    }

    fn add(ring: &mut Ring, text: impl Into<String>, must_stay: bool) {
        ring.add(text.into(), must_stay).unwrap();
    }

    fn first(ring: &mut Ring) -> Option<String> {
        ring.take_after(0).map(|(_, text)| text.to_string())
    }

    #[test]
    fn a_slow_client_loses_the_oldest() {
        let budget = Arc::new(ByteBudget::new(1 << 20));
        let mut ring = ring(&budget);
        (0..MAX_MESSAGES + 2).for_each(|n| add(&mut ring, n.to_string(), false));
        assert_eq!((first(&mut ring).as_deref(), budget.refused(Category::Progress)), (Some("2"), 2));
        assert_eq!(ring.last(), MAX_MESSAGES as u64 + 2);
    }

    #[test]
    fn what_was_sent_before_it_went_is_not_lost() {
        let budget = Arc::new(ByteBudget::new(1 << 20));
        let mut ring = ring(&budget);
        (0..MAX_MESSAGES).for_each(|n| add(&mut ring, n.to_string(), false));
        ring.take_after(9).unwrap();
        (0..11).for_each(|n| add(&mut ring, n.to_string(), false));
        assert_eq!(budget.refused(Category::Progress), 1, "ten of the eleven were sent");
    }

    #[test]
    fn a_question_is_not_lost() {
        let budget = Arc::new(ByteBudget::new(1 << 20));
        let mut ring = ring(&budget);
        ring.add("question".into(), true).unwrap();
        (0..MAX_MESSAGES).for_each(|n| add(&mut ring, n.to_string(), false));
        assert_eq!(first(&mut ring).as_deref(), Some("question"));
        assert_eq!(ring.take_after(1).map(|(_, text)| text.to_string()).as_deref(), Some("1"));
        for n in 0..MAX_MESSAGES {
            assert_eq!(ring.add("question".into(), true).is_ok(), n < MAX_MESSAGES - 1, "{n}");
        }
    }

    #[test]
    fn what_finds_no_room_takes_the_place_of_nothing() {
        let budget = Arc::new(ByteBudget::new(1 << 20));
        let mut ring = ring(&budget);
        (0..MAX_MESSAGES).for_each(|n| add(&mut ring, n.to_string(), false));
        assert!(ring.add("x".repeat(MAX_BYTES / 2), false).is_err());
        assert_eq!((first(&mut ring).as_deref(), budget.refused(Category::Progress)), (Some("0"), 1));
    }

    #[test]
    fn what_waits_is_bounded_in_bytes() {
        let budget = Arc::new(ByteBudget::new(LIMIT));
        let mut big = ring(&budget);
        (0..5).for_each(|n| add(&mut big, n.to_string().repeat(MAX_BYTES / 4), false));
        assert!(big.add("x".repeat(MAX_BYTES + 1), false).is_err());
        assert!(first(&mut big).is_some_and(|first| first.starts_with('1')), "the oldest of the five went");
        assert!(budget.held(Category::Progress) <= MAX_BYTES as u64 && budget.refused(Category::Progress) == 2);
        // The budget of the process limits all rings together, but small messages still fit.
        let mut others: Vec<_> = (0..40).map(|_| ring(&budget)).collect();
        let added = others.iter_mut().filter_map(|other| other.add("y".repeat(MAX_BYTES), false).ok()).count();
        assert!(added > 0 && added < 40, "{added}");
        others[39].add("z".into(), false).unwrap();
        drop((big, others));
        assert_eq!(budget.held(Category::Progress), 0);
    }

    #[test]
    fn what_was_forgotten_makes_room() {
        let budget = Arc::new(ByteBudget::new(1 << 20));
        let mut ring = ring(&budget);
        ["a", "b", "c"].into_iter().for_each(|text| add(&mut ring, text, true));
        ring.forget(2);
        assert_eq!((first(&mut ring).as_deref(), ring.bytes(), ring.last()), (Some("c"), 1, 3));
    }
}
