//! Puts events together from the lines of a stream (HTML Standard, server-sent events: interpreting an event stream).

use tokio::sync::oneshot;

use crate::domain::budget::Reservation;
use crate::domain::upstream::UpstreamError;
use crate::transport::flow::UNASKED;

/// The maximum number of lines of the data of an event.
const MAX_LINES: usize = 1 << 16;
/// The longest URI to post to, in bytes.
const LONGEST_URI: usize = 4096;
/// The maximum number of bytes at the beginning of a dropped message in which the id of its request is looked for.
const READ_OF_IT: usize = 4096;

/// The mark of the byte order that a stream may begin with, in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The event that is being read.
#[derive(Debug)]
pub(in crate::upstream) struct EventLines {
    /// The maximum number of bytes of the data.
    limit: usize,
    /// Whether no line was read yet.
    is_first: bool,
    name: Name,
    /// Whether the event is dropped: its other lines count for nothing.
    is_dropped: bool,
    /// The lines of data so far.
    data: Vec<u8>,
    /// The number of lines of data.
    lines: usize,
    /// Accounts for the memory of the data, until the next line is taken.
    reservation: Reservation,
    /// Receives the data of the first event `endpoint`.
    endpoint: Option<oneshot::Sender<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Message,
    Endpoint,
    Other,
}

/// What a line of the stream completes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Completed {
    /// A message.
    Message(Vec<u8>),
    /// A message is dropped for this reason: how it begins.
    Dropped(Vec<u8>, UpstreamError),
    /// A part of an event's data was read.
    Part,
    Nothing,
}

impl EventLines {
    /// Reads events whose data have at most `limit` bytes, which `reservation` accounts for. The first event `endpoint`
    /// is given to `endpoint`.
    pub(in crate::upstream) fn new(limit: usize, reservation: Reservation, endpoint: oneshot::Sender<String>) -> Self {
        let (name, data, lines, endpoint) = (Name::Message, Vec::new(), 0, Some(endpoint));
        Self { limit, is_first: true, name, is_dropped: false, data, lines, reservation, endpoint }
    }

    /// Takes a line without its end. `waits` tells whether a request waits for an answer; without one, only small events
    /// are put together.
    pub(super) fn take(&mut self, line: &[u8], waits: impl Fn() -> bool) -> Completed {
        let is_first = std::mem::take(&mut self.is_first);
        let line = line.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_first).unwrap_or(line);
        if line.is_empty() {
            return self.complete();
        }
        if self.is_dropped {
            return Completed::Nothing;
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(at) => (&line[..at], line[at + 1..].strip_prefix(b" ").unwrap_or(&line[at + 1..])),
            None => (line, &b""[..]),
        };
        match field {
            b"event" => {
                self.name = match value {
                    b"" | b"message" => Name::Message,
                    b"endpoint" => Name::Endpoint,
                    _ => Name::Other,
                }
            }
            b"data" if self.name != Name::Other => return self.add(value, waits),
            _ => {}
        }
        Completed::Nothing
    }

    /// Drops the event that a line belongs to which is too long. Returns how the event's data begin; `None` if no message
    /// is lost.
    pub(super) fn cut(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        let (name, was_dropped) = (self.name, self.is_dropped);
        let data = self.drop_event(line.strip_prefix(b"data:").unwrap_or_default());
        (name == Name::Message && !was_dropped && !data.is_empty()).then_some(data)
    }

    /// Drops the event that is being read if it may not be kept while no request waits for an answer. Returns how its data
    /// begin.
    pub(super) fn drop_unasked(&mut self) -> Option<Vec<u8>> {
        self.is_large().then(|| self.drop_event(b""))
    }

    /// Whether the data so far may only be kept while a request waits for an answer.
    pub(super) fn is_large(&self) -> bool {
        self.data.len() as u64 > UNASKED
    }

    /// Gives back the memory of the message that was completed last.
    pub(super) fn release(&mut self) {
        // Shrinking a reservation never fails.
        let _ = self.reservation.resize(self.data.capacity() as u64);
    }

    fn add(&mut self, value: &[u8], waits: impl Fn() -> bool) -> Completed {
        let needed = self.data.len() + value.len() + usize::from(self.lines > 0);
        let why = if needed > self.limit || self.lines == MAX_LINES {
            UpstreamError::TooLarge(self.limit as u64)
        } else if needed as u64 > UNASKED && !waits() {
            UpstreamError::TooLarge(UNASKED)
        } else if !self.reserve(needed) {
            UpstreamError::NoRoom
        } else {
            if self.lines > 0 {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value);
            self.lines += 1;
            return Completed::Part;
        };
        Completed::Dropped(self.drop_event(value), why)
    }

    /// Makes room for data of `needed` bytes. Returns false if the memory budget has none.
    fn reserve(&mut self, needed: usize) -> bool {
        if needed <= self.data.capacity() {
            return true;
        }
        let capacity = needed.max((2 * self.data.capacity()).min(self.limit));
        if self.reservation.resize(capacity as u64).is_err() {
            return false;
        }
        self.data.reserve_exact(capacity - self.data.len());
        true
    }

    fn complete(&mut self) -> Completed {
        let (name, data) = (self.name, std::mem::take(&mut self.data));
        (self.name, self.lines, self.is_dropped) = (Name::Message, 0, false);
        match name {
            Name::Message if !data.is_empty() => return Completed::Message(data),
            Name::Endpoint if data.len() <= LONGEST_URI => {
                if let (Some(endpoint), Ok(uri)) = (self.endpoint.take(), String::from_utf8(data)) {
                    // The connection may have been given up.
                    let _ = endpoint.send(uri);
                }
            }
            _ => {}
        }
        self.release();
        Completed::Nothing
    }

    /// Drops the event that is being read. Returns how its data begin: what there is of them, or else `line`.
    fn drop_event(&mut self, line: &[u8]) -> Vec<u8> {
        let data = std::mem::take(&mut self.data);
        let beginning = if data.is_empty() { line } else { &data };
        let beginning = beginning[..beginning.len().min(READ_OF_IT)].to_vec();
        (self.lines, self.is_dropped) = (0, true);
        self.release();
        beginning
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::budget::{ByteBudget, Category};

    fn reader(limit: usize) -> (EventLines, oneshot::Receiver<String>, Arc<ByteBudget>) {
        let ((sender, endpoint), budget) = (oneshot::channel(), Arc::new(ByteBudget::new(8 << 20)));
        let events = EventLines::new(limit, budget.reservation(Category::Answer), sender);
        (events, endpoint, budget)
    }

    fn messages(events: &mut EventLines, text: &str) -> Vec<Result<String, String>> {
        let owned = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let completed = text.split('\n').map(|line| events.take(line.as_bytes(), || true));
        completed
            .filter_map(|completed| match completed {
                Completed::Message(data) => Some(Ok(owned(data))),
                Completed::Dropped(data, _) => Some(Err(owned(data))),
                Completed::Part | Completed::Nothing => None,
            })
            .collect()
    }

    fn expected(read: &[Result<&str, &str>]) -> Vec<Result<String, String>> {
        read.iter().map(|read| read.map(str::to_owned).map_err(str::to_owned)).collect()
    }

    #[test]
    fn events_are_put_together_from_their_lines() {
        let (mut events, mut endpoint, _) = reader(100);
        let text = "\u{FEFF}event: endpoint\ndata: /m?s=1\n\n: hello\n\nevent:message\ndata:{\ndata: \"a\":1}\nid: 7\n\n\
                    data: {}\n\nevent: ping\ndata: {}\n\ndata\n\nretry: 5\n\n\u{FEFF}data: 2\n\nevent: endpoint\ndata: /other\n\n";
        assert_eq!(messages(&mut events, text), expected(&[Ok("{\n\"a\":1}"), Ok("{}")]));
        assert_eq!(endpoint.try_recv().unwrap(), "/m?s=1", "the first counts");
    }

    #[test]
    fn what_is_too_large_is_dropped_to_its_end_and_what_follows_is_read() {
        let (mut events, _endpoint, _) = reader(8);
        let text =
            "data: 12345678\n\ndata: 123456789\ndata: 1\n\ndata: 1234\ndata: 5678\nevent: x\ndata: 9\n\ndata: 7\n\n";
        assert_eq!(messages(&mut events, text), expected(&[Ok("12345678"), Err("123456789"), Err("1234"), Ok("7")]));
        assert_eq!(events.cut(b"data: {\"id\":1").as_deref(), Some(&b" {\"id\":1"[..]));
        assert_eq!(events.cut(b"data: {\"id\":1"), None, "it is dropped already");
        assert_eq!(messages(&mut events, "data: 1\n\ndata: 2\n\ndata: 3"), expected(&[Ok("2")]));
        assert_eq!(events.cut(b"data: 4").as_deref(), Some(&b"3"[..]));
        for of_no_message in ["\n: x", "\nevent: ping"] {
            assert_eq!(messages(&mut events, of_no_message), []);
            assert_eq!(events.cut(b"id: 4"), None);
        }
    }

    #[test]
    fn data_are_counted_until_they_are_handled_and_large_ones_need_a_call_that_waits() {
        let (mut events, _endpoint, budget) = reader(4 << 20);
        let line = [b"data: ".as_slice(), &[b'x'; 100 << 10]].concat();
        for waits in [true, false] {
            let taken: Vec<_> = (0..20).map(|_| events.take(&line, || waits)).collect();
            let dropped = taken.iter().filter(|taken| matches!(taken, Completed::Dropped(..))).count();
            assert_eq!((dropped, events.is_large()), (usize::from(!waits), waits));
            let held = budget.held(Category::Answer);
            assert!(if waits { held >= 2 << 20 } else { held == 0 }, "{held}");
            let completed = events.take(b"", || waits);
            assert!(matches!(&completed, Completed::Message(data) if data.len() == 20 * (100 << 10) + 19) == waits);
            assert_eq!(budget.held(Category::Answer), held);
            events.release();
            assert_eq!(budget.held(Category::Answer), 0);
        }
        (0..20).for_each(|_| assert_eq!(events.take(&line, || true), Completed::Part));
        assert_eq!(events.drop_unasked().map(|data| data.len()), Some(READ_OF_IT));
        assert_eq!((events.take(&line, || true), budget.held(Category::Answer)), (Completed::Nothing, 0));
    }
}
