//! Splits a byte stream into lines of bounded length.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::flow::{EACH, UNASKED};
use crate::domain::budget::Reservation;

/// How many bytes are read at a time.
const CHUNK: usize = 64 * 1024;
/// The largest buffer, in bytes, that is kept while it is empty. A larger one is freed.
const KEEP: usize = 4 * CHUNK;

/// Requests whose answers a stream brings.
#[async_trait]
pub trait Awaited: std::fmt::Debug + Send + Sync {
    /// Completes when no request waits for an answer.
    async fn none_wait(&self);
}

/// Reads lines of limited length.
#[derive(Debug)]
pub struct LineReader<R> {
    reader: R,
    limit: usize,
    buffer: Vec<u8>,
    /// The index at which the next line begins.
    start: usize,
    /// The index up to which the buffer was searched for a newline.
    searched: usize,
    /// Whether the rest of a line that was cut must still be skipped.
    skipping: bool,
    /// Accounts for the memory of the buffer except its first chunk, which every reader has. `None` for a stream of
    /// short lines.
    reservation: Option<Reservation>,
    /// The requests of the process whose stdout is read. `None` for a stream that contains no answers.
    calls: Option<Arc<dyn Awaited>>,
}

/// The outcome of filling the buffer.
#[derive(PartialEq, Eq)]
enum Filled {
    More,
    End,
    NoRoom,
    Unasked,
}

/// The next piece of the input.
#[derive(Debug, PartialEq, Eq)]
pub enum LinePiece<'a> {
    /// A line without its newline.
    Line(&'a [u8]),
    /// The text after the last newline, at the end of the stream.
    Last(&'a [u8]),
    /// The first `limit` bytes of a longer line.
    Cut(&'a [u8]),
    /// The beginning of a line for which the budget has no room.
    NoRoom(&'a [u8]),
    /// The beginning of a long line that arrives while no request waits for an answer.
    Unasked(&'a [u8]),
    /// Further bytes of a line whose beginning was returned as `Cut`, `NoRoom` or `Unasked`.
    Rest(&'a [u8]),
    /// The last bytes of such a line, before its newline.
    End(&'a [u8]),
}

impl LinePiece<'_> {
    /// How much this piece counts towards the rate limit.
    pub fn cost(&self) -> u64 {
        let size = match self {
            Self::Line(bytes) | Self::Last(bytes) | Self::Cut(bytes) | Self::NoRoom(bytes) => bytes.len(),
            Self::Unasked(bytes) | Self::Rest(bytes) | Self::End(bytes) => bytes.len(),
        };
        size as u64 + EACH
    }
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Creates a reader for lines of at most `limit` bytes. `reservation` accounts for the memory of a line while it is
    /// read; short lines need none.
    pub fn new(reader: R, limit: usize, reservation: Option<Reservation>) -> Self {
        Self { reader, limit, buffer: Vec::new(), start: 0, searched: 0, skipping: false, reservation, calls: None }
    }

    /// Returns this reader, changed so that it gives up a long line when none of the requests in `calls` waits for an
    /// answer.
    pub fn answering(self, calls: Arc<dyn Awaited>) -> Self {
        Self { calls: Some(calls), ..self }
    }

    /// Returns the next line or a part of one, or `None` at the end. The future must not be dropped before it
    /// completes.
    pub async fn next(&mut self) -> std::io::Result<Option<LinePiece<'_>>> {
        loop {
            let newline = memchr::memchr(b'\n', &self.buffer[self.searched..]);
            let (start, end) = (self.start, newline.map_or(self.buffer.len(), |found| self.searched + found));
            if !self.skipping && end - start > self.limit {
                (self.start, self.searched) = (start + self.limit, start + self.limit);
                self.skipping = true;
                return Ok(Some(LinePiece::Cut(&self.buffer[start..self.start])));
            }
            self.searched = end;
            if newline.is_some() {
                (self.start, self.searched) = (end + 1, end + 1);
                let line = &self.buffer[start..end];
                let was_cut = std::mem::take(&mut self.skipping);
                return Ok(Some(if was_cut { LinePiece::End(line) } else { LinePiece::Line(line) }));
            }
            if self.skipping && start < end {
                self.start = end;
                return Ok(Some(LinePiece::Rest(&self.buffer[start..end])));
            }
            let filled = self.fill().await?;
            if filled == Filled::More {
                continue;
            }
            let (start, end) = (std::mem::replace(&mut self.start, self.searched), self.searched);
            let beginning = &self.buffer[start..end];
            self.skipping = filled != Filled::End;
            return Ok(match filled {
                Filled::NoRoom => Some(LinePiece::NoRoom(beginning)),
                Filled::Unasked => Some(LinePiece::Unasked(beginning)),
                _ => (start < end).then_some(LinePiece::Last(beginning)),
            });
        }
    }

    async fn fill(&mut self) -> std::io::Result<Filled> {
        if self.start == self.buffer.len() {
            if self.buffer.capacity() > KEEP {
                self.buffer = Vec::new();
                // Shrinking a reservation never fails.
                let _ = self.reservation.as_ref().map(|reservation| reservation.resize(0));
            }
            self.buffer.clear();
        } else if self.start > 0 {
            self.buffer.drain(..self.start);
        }
        self.searched -= self.start;
        self.start = 0;
        if !self.grow() {
            return Ok(Filled::NoRoom);
        }
        let calls = self.calls.as_ref().filter(|_| self.buffer.len() as u64 > UNASKED);
        let read = tokio::select! {
            biased;
            () = none_wait(calls) => return Ok(Filled::Unasked),
            read = self.reader.read_buf(&mut self.buffer) => read?,
        };
        Ok(if read > 0 { Filled::More } else { Filled::End })
    }

    /// Makes room for another chunk. Returns false if the memory budget has no room.
    fn grow(&mut self) -> bool {
        let needed = self.buffer.len() + CHUNK;
        if needed <= self.buffer.capacity() {
            return true;
        }
        let doubled = (2 * self.buffer.capacity()).min(self.limit.saturating_add(2 * CHUNK));
        let capacity = needed.max(doubled);
        if self.reservation.as_ref().is_some_and(|reservation| reservation.resize((capacity - CHUNK) as u64).is_err()) {
            return false;
        }
        self.buffer.reserve_exact(capacity - self.buffer.len());
        true
    }
}

/// Completes when no request waits for an answer. If `calls` is `None`, never completes.
async fn none_wait(calls: Option<&Arc<dyn Awaited>>) {
    match calls {
        Some(calls) => calls.none_wait().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;
    use crate::domain::budget::{ByteBudget, Category};

    #[async_trait]
    impl Awaited for Semaphore {
        async fn none_wait(&self) {
            let _ = self.acquire().await;
        }
    }

    async fn read(chunks: &[&[u8]], limit: usize) -> Vec<(String, bool)> {
        let (mut far, near) = tokio::io::duplex(16);
        let chunks: Vec<Vec<u8>> = chunks.iter().map(|c| c.to_vec()).collect();
        tokio::spawn(async move {
            for chunk in chunks {
                tokio::io::AsyncWriteExt::write_all(&mut far, &chunk).await.unwrap();
            }
        });
        let (mut lines, mut seen) = (LineReader::new(near, limit, None), Vec::new());
        while let Some(piece) = lines.next().await.unwrap() {
            let (bytes, cut) = match piece {
                LinePiece::Line(bytes) | LinePiece::Last(bytes) => (bytes, false),
                LinePiece::Cut(bytes) => (bytes, true),
                LinePiece::NoRoom(_) | LinePiece::Unasked(_) => panic!("there is room"),
                LinePiece::Rest(_) | LinePiece::End(_) => continue,
            };
            seen.push((String::from_utf8_lossy(bytes).into_owned(), cut));
        }
        seen
    }

    fn whole(lines: &[&str]) -> Vec<(String, bool)> {
        lines.iter().map(|l| ((*l).to_owned(), false)).collect()
    }

    #[tokio::test]
    async fn lines_are_found_however_they_arrive() {
        assert_eq!(read(&[b"one\ntwo\n\nth", b"ree\nfour"], 100).await, whole(&["one", "two", "", "three", "four"]));
        assert_eq!(read(&[b"\n"], 100).await, whole(&[""]));
        assert_eq!(read(&[], 100).await, whole(&[]));
    }

    #[tokio::test]
    async fn long_lines_are_cut_and_what_follows_is_read() {
        let long = [b"x".repeat(50).as_slice(), b"\nafter\n"].concat();
        assert_eq!(read(&[&long], 8).await, [("x".repeat(8), true), ("after".to_owned(), false)]);
        assert_eq!(read(&[b"12345678\n"], 8).await, whole(&["12345678"]));
        let mut lines = LineReader::new(&long[..], 8, None);
        let mut rest = Vec::new();
        let end = loop {
            match lines.next().await.unwrap().unwrap() {
                LinePiece::Cut(beginning) => assert_eq!(beginning, b"xxxxxxxx"),
                LinePiece::Rest(more) => rest.extend_from_slice(more),
                LinePiece::End(end) => break [&rest, end].concat(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(end, b"x".repeat(42));
        let endless = b"y".repeat(10_000);
        assert_eq!(read(&[&endless], 8).await, [("y".repeat(8), true)]);
    }

    #[tokio::test]
    async fn a_line_that_does_not_end_is_given_up_once_no_call_waits() {
        let budget = Arc::new(ByteBudget::new(16 << 20));
        let (calls, (mut far, near)) = (Arc::new(Semaphore::new(0)), tokio::io::duplex(CHUNK));
        let mut lines = LineReader::new(near, usize::MAX, Some(budget.reservation(Category::Answer)))
            .answering(Arc::clone(&calls) as _);
        {
            let mut next = std::pin::pin!(lines.next());
            let text = vec![b'x'; 2 << 20];
            tokio::select! {
                biased;
                _ = &mut next => panic!("a call waits"),
                written = tokio::io::AsyncWriteExt::write_all(&mut far, &text) => written.unwrap(),
            }
            assert!(budget.held(Category::Answer) > UNASKED);
            calls.add_permits(1);
            assert!(matches!(next.await, Ok(Some(LinePiece::Unasked(beginning))) if beginning.starts_with(b"xxx")));
        }
        let end = tokio::spawn(async move { tokio::io::AsyncWriteExt::write_all(&mut far, b"x\nafter\n").await });
        let after = loop {
            match lines.next().await.unwrap().unwrap() {
                LinePiece::Rest(_) | LinePiece::End(_) => assert_eq!(budget.held(Category::Answer), 0),
                LinePiece::Line(line) => break line.to_owned(),
                other => panic!("{other:?}"),
            }
        };
        end.await.unwrap().unwrap();
        assert_eq!((after.as_slice(), budget.held(Category::Answer)), (&b"after"[..], 0));
    }

    #[tokio::test]
    async fn a_line_is_counted_while_it_is_read_and_passed_over_where_there_is_no_room() {
        let budget = Arc::new(ByteBudget::new(1 << 20));
        let others = budget.reservation(Category::Answer);
        let text = [b"x".repeat(500 << 10).as_slice(), b"\nafter\n"].concat();
        for no_room in [false, true] {
            if no_room {
                others.resize(700 << 10).unwrap();
            }
            let before = budget.held(Category::Answer);
            let mut lines = LineReader::new(&text[..], usize::MAX, Some(budget.reservation(Category::Answer)));
            match lines.next().await.unwrap().unwrap() {
                LinePiece::Line(line) => assert!(!no_room && line.len() == 500 << 10),
                LinePiece::NoRoom(beginning) => assert!(no_room && beginning.starts_with(b"xxx")),
                other => panic!("{other:?}"),
            }
            let most = if no_room { 68 << 10 } else { 1 << 20 };
            assert!((1..=most).contains(&(budget.held(Category::Answer) - before)), "{no_room}");
            let after = loop {
                match lines.next().await.unwrap().unwrap() {
                    LinePiece::Rest(_) | LinePiece::End(_) => {}
                    LinePiece::Line(line) => break line.to_owned(),
                    other => panic!("{other:?}"),
                }
            };
            assert_eq!(after, b"after");
            assert!(lines.next().await.unwrap().is_none());
            drop(lines);
            assert_eq!(budget.held(Category::Answer), before);
        }
    }
}
