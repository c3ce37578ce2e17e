//! Lines out of a byte stream, of bounded length.

use tokio::io::{AsyncRead, AsyncReadExt};

/// What is read at once.
const CHUNK: usize = 64 * 1024;
/// A buffer that grew beyond this is let go when it is empty.
const KEEP: usize = 1024 * 1024;

/// Reads lines.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: R,
    limit: usize,
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// How far the buffer was searched for a newline.
    searched: usize,
    /// Whether the rest of a line that was cut is still to be passed over.
    skipping: bool,
}

/// What comes of reading on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A line without its newline.
    Line(&'a [u8]),
    /// The first `limit` bytes of a longer one.
    Cut(&'a [u8]),
    /// So many more bytes of one that was cut were passed over.
    Rest(usize),
}

impl Piece<'_> {
    /// Bytes that were read for it.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Line(bytes) | Self::Cut(bytes) => bytes.len() as u64,
            Self::Rest(size) => *size as u64,
        }
    }
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most `limit` bytes.
    pub(super) fn new(reader: R, limit: usize) -> Self {
        Self { reader, limit, buffer: Vec::new(), start: 0, searched: 0, skipping: false }
    }

    /// The next line or part of one; none at the end. A last line without newline counts. Not to be dropped half-way.
    pub(super) async fn next(&mut self) -> std::io::Result<Option<Piece<'_>>> {
        let (start, end, cut) = loop {
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let (start, end) = (self.start, self.searched + found);
                (self.start, self.searched) = (end + 1, end + 1);
                if std::mem::take(&mut self.skipping) {
                    continue;
                }
                break (start, end, end - start > self.limit);
            }
            self.searched = self.buffer.len();
            if self.skipping {
                let rest = self.searched - std::mem::replace(&mut self.start, self.searched);
                if rest > 0 {
                    return Ok(Some(Piece::Rest(rest)));
                }
            } else if self.searched - self.start > self.limit {
                let start = std::mem::replace(&mut self.start, self.searched);
                self.skipping = true;
                break (start, self.searched, true);
            }
            if !self.fill().await? {
                let (start, end) = (std::mem::replace(&mut self.start, self.searched), self.searched);
                if start == end {
                    return Ok(None);
                }
                break (start, end, false);
            }
        };
        Ok(Some(match cut {
            true => Piece::Cut(&self.buffer[start..start + self.limit]),
            false => Piece::Line(&self.buffer[start..end]),
        }))
    }

    async fn fill(&mut self) -> std::io::Result<bool> {
        if self.start == self.buffer.len() {
            if self.buffer.capacity() > KEEP {
                self.buffer = Vec::new();
            }
            self.buffer.clear();
        } else if self.start > 0 {
            self.buffer.drain(..self.start);
        }
        self.searched -= self.start;
        self.start = 0;
        self.buffer.reserve(CHUNK);
        Ok(self.reader.read_buf(&mut self.buffer).await? > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(chunks: &[&[u8]], limit: usize) -> Vec<(String, bool)> {
        let (mut far, near) = tokio::io::duplex(16);
        let chunks: Vec<Vec<u8>> = chunks.iter().map(|c| c.to_vec()).collect();
        tokio::spawn(async move {
            for chunk in chunks {
                tokio::io::AsyncWriteExt::write_all(&mut far, &chunk).await.unwrap();
            }
        });
        let (mut lines, mut seen) = (Lines::new(near, limit), Vec::new());
        while let Some(piece) = lines.next().await.unwrap() {
            let (bytes, cut) = match piece {
                Piece::Line(bytes) => (bytes, false),
                Piece::Cut(bytes) => (bytes, true),
                Piece::Rest(_) => continue,
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
        let endless = b"y".repeat(10_000);
        assert_eq!(read(&[&endless], 8).await, [("y".repeat(8), true)]);
    }
}
