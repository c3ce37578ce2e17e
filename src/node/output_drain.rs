//! Continuously reads what a worker prints besides its answers, so that no pipe fills up. The output is counted and, up
//! to a limit, logged at debug level. Each call that begins resets the count, so calls that overlap share the limit.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;

use super::last_words::starts_with_error;
use super::log_mask::LogMask;
use super::thrown::Thrown;

/// The maximum number of bytes of one logged line; the rest of the line is cut off.
const LINE: usize = 1 << 10;
/// The maximum number of bytes of a line that describes an exception.
const MARKED: usize = 16 << 10;
/// How many bytes of a process's first output are kept, to explain a failed start.
const OPENING: usize = 4 << 10;
/// How many lines are kept, to explain the end of the process. V8 prints some 40 after the cause.
const LAST: usize = 64;

/// What one worker prints besides its answers: the number of bytes and the last lines since its latest call began, and
/// the beginning of its first output.
#[derive(Debug, Default)]
pub struct OutputDrain {
    bytes: AtomicU64,
    opening: Mutex<Vec<u8>>,
    last: Mutex<VecDeque<Vec<u8>>>,
    /// The exception that ended the process, or the latest call.
    thrown: Mutex<Option<Thrown>>,
    /// Whether there was a call.
    served: AtomicBool,
    over: CancellationToken,
}

impl OutputDrain {
    /// Bytes since the last [`OutputDrain::reset`].
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Sets the number of bytes to 0 for a new call, even if others are running, and forgets the last lines.
    pub fn reset(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.served.store(true, Ordering::Relaxed);
        lock(&self.last).clear();
        lock(&self.thrown).take_if(|thrown| !thrown.fatal);
    }

    /// Waits until everything that the process printed was read, or is not read any more.
    pub async fn ended(&self) {
        self.over.cancelled().await;
    }

    /// Returns the last lines since the latest call began, each at most [`LINE`] bytes long and not masked.
    pub fn last_lines(&self) -> Vec<String> {
        lock(&self.last).iter().map(|line| String::from_utf8_lossy(line).trim_end().to_owned()).collect()
    }

    /// Marks the output as read.
    pub fn end(&self) {
        self.over.cancel();
    }

    /// The exception that nothing has caught since the latest call began.
    pub fn thrown(&self) -> Option<Thrown> {
        lock(&self.thrown).clone()
    }

    /// Takes a line that describes an exception. Returns whether the line is to be kept and logged. After a fatal exception
    /// none is, because its text follows, unless there was no call yet.
    fn is_kept(&self, line: &[u8], log_mask: &LogMask) -> bool {
        let served = self.served.load(Ordering::Relaxed);
        let Some(described) = line.strip_prefix(b"\0") else {
            return !served || lock(&self.thrown).as_ref().is_none_or(|thrown| !thrown.fatal);
        };
        let unread = Thrown { fatal: true, ..Thrown::default() };
        let thrown: Thrown = serde_json::from_slice(described).unwrap_or(unread);
        if served {
            thrown.log_stack(log_mask);
        }
        *lock(&self.thrown) = Some(thrown);
        false
    }

    fn keep(&self, line: Vec<u8>) {
        let mut last = lock(&self.last);
        if last.len() == LAST {
            last.pop_front();
        }
        last.push_back(line);
    }

    /// Returns the first line that names an error (`TypeError: ...`), as Node.js prints uncaught errors.
    pub fn first_error(&self) -> Option<String> {
        let opening = lock(&self.opening);
        let text = String::from_utf8_lossy(&opening);
        let line = text.lines().find(|line| names_error(line))?;
        Some(line.chars().take(300).collect())
    }

    fn record(&self, bytes: &[u8]) -> u64 {
        let mut opening = lock(&self.opening);
        let room = OPENING.saturating_sub(opening.len()).min(bytes.len());
        opening.extend_from_slice(&bytes[..room]);
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed)
    }
}

/// Whether the line names an error. Lines about JSON do not count: for text that is not JSON, Node.js prints a
/// `SyntaxError` that quotes the text, and the text can be the content of a call.
fn names_error(line: &str) -> bool {
    starts_with_error(line) && !line.contains("JSON")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads `source` to its end and logs its lines, masked by `log_mask`. After `limit` bytes, nothing is logged until the
/// next call begins.
pub async fn drain(
    mut source: impl AsyncRead + Unpin,
    drained: Arc<OutputDrain>,
    log_mask: LogMask,
    pid: u32,
    limit: u64,
) {
    let mut chunk = vec![0; 8 << 10];
    let mut line = Vec::new();
    while let Ok(read) = source.read(&mut chunk).await
        && read > 0
    {
        let chunk = chunk.get(..read).unwrap_or_default();
        let is_logged = drained.record(chunk) < limit;
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let most = if line.first().or(piece.first()) == Some(&0) { MARKED } else { LINE };
            let room = most.saturating_sub(line.len()).min(piece.len());
            line.extend_from_slice(&piece[..room]);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut line);
                if drained.is_kept(&line, &log_mask) {
                    if is_logged {
                        write_line(&log_mask, pid, &line);
                    }
                    drained.keep(line);
                }
            }
        }
    }
    if !line.is_empty() && drained.is_kept(&line, &log_mask) {
        if drained.bytes() < limit {
            write_line(&log_mask, pid, &line);
        }
        drained.keep(line);
    }
}

fn write_line(log_mask: &LogMask, pid: u32, line: &[u8]) {
    let line = log_mask.masked(String::from_utf8_lossy(line));
    tracing::debug!(target: "hawsepipe::plugin", plugin = log_mask.name(), worker = pid, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn counts_all_and_keeps_little() {
        let drained = Arc::new(OutputDrain::default());
        let flood = vec![b'x'; 100_000];
        drain(&flood[..], Arc::clone(&drained), LogMask::named("p"), 1, 1000).await;
        assert_eq!(drained.bytes(), 100_000);
        assert_eq!(drained.opening.lock().unwrap().len(), OPENING);
        assert_eq!(drained.last_lines(), ["x".repeat(LINE)]);
        drained.reset();
        assert_eq!(drained.bytes(), 0);
    }

    #[tokio::test]
    async fn finds_what_nobody_caught() {
        let drained = Arc::new(OutputDrain::default());
        let printed = "file:///x/plugin.mjs:1\nthrow new TypeError('bad')\n^\n\nTypeError: bad\n    at file:///x\n";
        drain(printed.as_bytes(), Arc::clone(&drained), LogMask::named("p"), 1, 1000).await;
        assert_eq!(drained.first_error().as_deref(), Some("TypeError: bad"));
        assert!(names_error("Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x'"));
        assert!(!names_error("SyntaxError: Unexpected token 's', \"s3cret\" is not valid JSON"));
    }
    #[tokio::test]
    async fn of_an_exception_in_a_call_only_the_description_is_kept() {
        for (fatal, kept) in [(true, &["before"][..]), (false, &["before", "Error: c4nary"])] {
            let drained = Arc::new(OutputDrain::default());
            drained.reset();
            let described = serde_json::json!({"message": "Error: c4nary", "summary": "Error", "fatal": fatal});
            let printed = format!("before\n\0{described}\nError: c4nary\n");
            drain(printed.as_bytes(), Arc::clone(&drained), LogMask::named("p"), 1, 1000).await;
            assert_eq!(drained.last_lines(), kept);
            assert_eq!(drained.thrown().unwrap().summary(), "Error");
            drained.reset();
            assert_eq!(drained.thrown().is_some(), fatal);
        }
    }

    #[tokio::test]
    async fn a_description_that_cannot_be_read_counts_as_fatal() {
        let drained = Arc::new(OutputDrain::default());
        drained.reset();
        drain(&b"\0{\nError: c4nary\n"[..], Arc::clone(&drained), LogMask::named("p"), 1, 1000).await;
        assert!(drained.last_lines().is_empty() && drained.thrown().unwrap().fatal);
    }
}
