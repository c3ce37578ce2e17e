//! Buffers lines of the log: a call does not wait for the system call that writes its line.

use std::io::{self, Write};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// How long a line waits for others that are written with it.
const PAUSE: Duration = Duration::from_millis(5);
/// With more bytes than this, a thread that logs a line waits until all are written.
const MOST: usize = 256 << 10;
/// How long the last lines can delay the end of the process.
const LAST: Duration = Duration::from_secs(1);

/// The lines of this process, for standard error.
static LINES: LazyLock<LogBuffer<io::Stderr>> = LazyLock::new(|| LogBuffer::new(io::stderr()));

/// Returns the buffer of standard error, and starts the thread that writes its lines.
///
/// # Errors
/// If the system has no thread left.
pub(super) fn standard_error() -> io::Result<&'static LogBuffer<io::Stderr>> {
    thread::Builder::new().name("log".to_owned()).spawn(|| {
        loop {
            LINES.write_next();
        }
    })?;
    Ok(&LINES)
}

/// Writes all lines that wait, and returns after at most a second. From now on lines do not wait. Call this before the process
/// ends.
pub fn end() {
    LINES.waiting().has_ended = true;
    let (written, is_written) = mpsc::channel();
    // Standard error can be a pipe whose reader has stopped.
    let last = thread::Builder::new().spawn(move || {
        let _ = LINES.write();
        let _ = written.send(());
    });
    if last.is_ok() {
        let _ = is_written.recv_timeout(LAST);
    }
}

/// Lines in the order in which they are logged.
pub(super) struct LogBuffer<W> {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    output: Mutex<Output<W>>,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    has_ended: bool,
}

struct Output<W> {
    to: W,
    /// Takes the place of the lines that are written.
    spare: Vec<u8>,
}

impl<W: Write> LogBuffer<W> {
    fn new(to: W) -> Self {
        let output = Mutex::new(Output { to, spare: Vec::new() });
        Self { waiting: Mutex::default(), arrived: Condvar::new(), output }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line. If it is urgent, it is written before this returns, and so are all before it.
    fn add(&self, line: &[u8], is_urgent: bool) -> io::Result<()> {
        let mut waiting = self.waiting();
        let is_first = waiting.lines.is_empty();
        waiting.lines.extend_from_slice(line);
        if is_urgent || waiting.has_ended || waiting.lines.len() > MOST {
            drop(waiting);
            return self.write();
        }
        if is_first {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Writes the lines that wait.
    fn write(&self) -> io::Result<()> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let Output { to, spare } = &mut *output;
        std::mem::swap(&mut self.waiting().lines, spare);
        let written = to.write_all(spare).and_then(|()| to.flush());
        spare.clear();
        spare.shrink_to(MOST);
        written
    }

    /// Waits for a line, and writes it with those that follow shortly.
    fn write_next(&self) {
        let is_empty = |waiting: &mut Waiting| waiting.lines.is_empty();
        drop(self.arrived.wait_while(self.waiting(), is_empty).unwrap_or_else(PoisonError::into_inner));
        thread::sleep(PAUSE);
        // An error cannot be reported: standard error is closed, or its disk is full.
        let _ = self.write();
    }
}

/// Adds what is written to a buffer.
pub(super) struct LineWriter<'b, W> {
    buffer: &'b LogBuffer<W>,
    is_urgent: bool,
}

impl<W: Write> Write for LineWriter<'_, W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.buffer.add(line, self.is_urgent).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'b, W: Write> MakeWriter<'b> for &'static LogBuffer<W> {
    type Writer = LineWriter<'b, W>;

    fn make_writer(&'b self) -> Self::Writer {
        LineWriter { buffer: self, is_urgent: true }
    }

    /// Warnings and errors do not wait: the process may be about to end because of what they say.
    fn make_writer_for(&'b self, event: &Metadata<'_>) -> Self::Writer {
        LineWriter { buffer: self, is_urgent: *event.level() <= Level::WARN }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn written(buffer: &LogBuffer<Vec<u8>>) -> String {
        String::from_utf8(buffer.output.lock().unwrap().to.clone()).unwrap()
    }

    #[test]
    fn an_urgent_line_is_written_at_once_after_those_before_it() {
        let buffer = LogBuffer::new(Vec::new());
        buffer.add(b"one\n", false).unwrap();
        assert_eq!(written(&buffer), "");
        buffer.add(b"two\n", true).unwrap();
        assert_eq!(written(&buffer), "one\ntwo\n");
        buffer.add(b"three\n", false).unwrap();
        buffer.write_next();
        assert_eq!(written(&buffer), "one\ntwo\nthree\n");
    }

    #[test]
    fn no_line_waits_after_the_end() {
        let buffer = LogBuffer::new(Vec::new());
        buffer.add(b"one\n", false).unwrap();
        buffer.waiting().has_ended = true;
        buffer.add(b"two\n", false).unwrap();
        assert_eq!(written(&buffer), "one\ntwo\n");
    }

    #[test]
    fn what_waits_is_bounded() {
        let buffer = LogBuffer::new(Vec::new());
        let line = [b'a'; 1000];
        for _ in 0..1000 {
            buffer.add(&line, false).unwrap();
            assert!(buffer.waiting().lines.len() <= MOST);
        }
        buffer.write().unwrap();
        assert_eq!(written(&buffer).len(), 1_000_000);
    }

    #[test]
    fn lines_of_all_threads_are_written_whole_and_in_their_order() {
        let buffer = Arc::new(LogBuffer::new(Vec::new()));
        thread::scope(|scope| {
            for name in 0..4 {
                let buffer = &buffer;
                scope.spawn(move || {
                    for n in 0..2000 {
                        buffer.add(format!("{name} {n}\n").as_bytes(), n % 100 == 0).unwrap();
                    }
                });
            }
            for _ in 0..5 {
                buffer.write().unwrap();
            }
        });
        buffer.write().unwrap();
        let text = written(&buffer);
        for name in 0..4 {
            let prefix = format!("{name} ");
            let numbers: Vec<u32> =
                text.lines().filter_map(|line| line.strip_prefix(&prefix)).map(|n| n.parse().unwrap()).collect();
            assert_eq!(numbers, (0..2000).collect::<Vec<_>>());
        }
    }
}
