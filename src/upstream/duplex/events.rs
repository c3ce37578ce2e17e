//! Puts events together from the lines of a stream (HTML Standard, server-sent events: interpreting an event stream).

use tokio::sync::oneshot;

use crate::domain::budget::Reservation;

/// The maximum number of lines of the data of an event.
const MAX_LINES: usize = 1 << 16;
/// The longest URI to post to, in bytes.
const LONGEST_URI: usize = 4096;

/// The event that is being read.
#[derive(Debug)]
pub(in crate::upstream) struct EventLines {
    /// The maximum number of bytes of the data.
    limit: usize,
    name: Name,
    /// The lines of data so far.
    data: Vec<u8>,
    /// The number of lines of data.
    lines: usize,
    /// Accounts for the memory of the data.
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
    /// A message that is too large, or for which there is no room: how it begins.
    Dropped(Vec<u8>),
    Nothing,
}

impl EventLines {
    /// Reads events whose data have at most `limit` bytes, which `reservation` accounts for. The first event `endpoint`
    /// is given to `endpoint`.
    pub(in crate::upstream) fn new(limit: usize, reservation: Reservation, endpoint: oneshot::Sender<String>) -> Self {
        let (name, data, lines) = (Name::Message, Vec::new(), 0);
        Self { limit, name, data, lines, reservation, endpoint: Some(endpoint) }
    }

    /// Takes a line without its newline.
    pub(super) fn take(&mut self, line: &[u8]) -> Completed {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return self.complete();
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
            b"data" if self.name != Name::Other => return self.add(value),
            _ => {}
        }
        Completed::Nothing
    }

    /// Returns the part of a line that is too long which is data; the event that it belongs to is dropped.
    pub(super) fn cut<'a>(&mut self, beginning: &'a [u8]) -> &'a [u8] {
        self.reset();
        beginning.strip_prefix(b"data:").unwrap_or_default()
    }

    /// Whether a part of an event's data was read.
    pub(super) fn has_data(&self) -> bool {
        self.lines > 0
    }

    fn add(&mut self, value: &[u8]) -> Completed {
        let needed = self.data.len() + value.len() + 1;
        let is_too_large = needed > self.limit || self.lines == MAX_LINES;
        if is_too_large || (needed > self.data.capacity() && self.reservation.resize(needed as u64).is_err()) {
            let beginning = if self.data.is_empty() { &value[..value.len().min(LONGEST_URI)] } else { &self.data };
            let dropped = Completed::Dropped(beginning[..beginning.len().min(LONGEST_URI)].to_vec());
            self.reset();
            return dropped;
        }
        if self.has_data() {
            self.data.push(b'\n');
        }
        self.data.reserve_exact(value.len());
        self.data.extend_from_slice(value);
        self.lines += 1;
        Completed::Nothing
    }

    fn complete(&mut self) -> Completed {
        let (name, data) = (self.name, std::mem::take(&mut self.data));
        self.reset();
        match name {
            Name::Message if !data.is_empty() => Completed::Message(data),
            Name::Endpoint if data.len() <= LONGEST_URI => {
                if let (Some(endpoint), Ok(uri)) = (self.endpoint.take(), String::from_utf8(data)) {
                    // The connection may have been given up.
                    let _ = endpoint.send(uri);
                }
                Completed::Nothing
            }
            _ => Completed::Nothing,
        }
    }

    fn reset(&mut self) {
        (self.name, self.lines, self.data) = (Name::Message, 0, Vec::new());
        // Shrinking a reservation never fails.
        let _ = self.reservation.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::budget::{ByteBudget, Category};

    fn reader(limit: usize) -> (EventLines, oneshot::Receiver<String>) {
        let (sender, endpoint) = oneshot::channel();
        let reservation = Arc::new(ByteBudget::new(1 << 20)).reservation(Category::Answer);
        (EventLines::new(limit, reservation, sender), endpoint)
    }

    fn messages(events: &mut EventLines, text: &str) -> Vec<Result<String, String>> {
        let owned = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let completed = text.split('\n').map(|line| events.take(line.as_bytes()));
        completed
            .filter_map(|completed| match completed {
                Completed::Message(data) => Some(Ok(owned(data))),
                Completed::Dropped(data) => Some(Err(owned(data))),
                Completed::Nothing => None,
            })
            .collect()
    }

    #[test]
    fn events_are_put_together_from_their_lines() {
        let (mut events, mut endpoint) = reader(100);
        let text = ": hello\r\n\r\nevent: endpoint\r\ndata: /m?s=1\r\n\r\nevent:message\ndata:{\ndata: \"a\":1}\nid: 7\n\n\
                    data: {}\n\nevent: ping\ndata: {}\n\ndata\n\nretry: 5\n\nevent: endpoint\ndata: /other\n\n";
        assert_eq!(messages(&mut events, text), [Ok("{\n\"a\":1}".to_owned()), Ok("{}".to_owned())]);
        assert_eq!(endpoint.try_recv().unwrap(), "/m?s=1", "the first counts");
    }

    #[test]
    fn what_is_too_large_is_dropped_and_what_follows_is_read() {
        let (mut events, _endpoint) = reader(8);
        let text = "data: 1234567\n\ndata: 123456789\n\ndata: 1234\ndata: 5678\n\ndata: 7\n\n";
        let expected = [Ok("1234567"), Err("123456789"), Err("1234"), Ok("7")];
        assert_eq!(messages(&mut events, text), expected.map(|read| read.map(str::to_owned).map_err(str::to_owned)));
        assert_eq!((events.cut(b"data: {\"id\":1"), events.cut(b"id: 1")), (&b" {\"id\":1"[..], &b""[..]));
    }
}
