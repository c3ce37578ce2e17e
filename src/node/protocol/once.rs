//! The Once protocol, the plain form of the Plugin API Contract 1.0 (document 001). The gateway writes one line of JSON
//! to the script's standard input and closes it; the script prints one line of JSON and exits. The caller is
//! responsible for pools and deadlines.

use std::future::pending;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::{Instant, timeout_at};

use crate::domain::plugin::{Failure, Input, Output};
use crate::domain::reason::Reason;
use crate::node::process::{ChildProcess, ended, exited};
use crate::node::protocol::codec::Codec;

/// If a process exits with a code other than 0 this soon after its line, the call fails.
const EXIT_WINDOW: Duration = Duration::from_millis(20);
/// The maximum number of digits of an exit code.
const MAX_CODE: usize = 3;
/// The number of bytes that an answer may have beyond twice the limit on its content. Twice the limit leaves room for
/// common escapes such as `\n` and `\"`; these bytes leave room for the other members. Content with many longer escapes
/// (`\u0001`) can exceed the bound although it is within its own limit.
const LINE_SLACK: usize = 64 << 10;

/// The maximum size in bytes of an answer whose content may have up to `max_output` bytes.
pub(super) fn bound(max_output: usize) -> usize {
    max_output.saturating_mul(2).saturating_add(LINE_SLACK)
}

/// The failure of an answer that exceeds its bound.
pub(super) fn too_large(bound: usize) -> Failure {
    Failure::new(Reason::TooLarge, format!("printed more than {bound} bytes"))
}

/// The pipes of a script that waits for its input.
#[derive(Debug)]
pub struct OncePipes {
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    /// How long to wait for the exit after the line; `None` waits until the process has exited.
    window: Option<Duration>,
    codec: Codec,
}

impl OncePipes {
    /// Takes the pipes of a script, and enlarges them so that typical content fits in one write. The script announces its exit.
    pub fn new(stdin: ChildStdin, stdout: ChildStdout) -> Self {
        Self { window: Some(EXIT_WINDOW), ..Self::to_the_end(stdin, stdout, Codec::Json) }
    }

    /// Takes the pipes of a program that does not announce its exit, so that its answer counts once it has exited.
    pub fn to_the_end(stdin: ChildStdin, stdout: ChildStdout, codec: Codec) -> Self {
        widen(&stdin);
        widen(&stdout);
        Self { stdin: Some(stdin), stdout, window: None, codec }
    }

    /// Runs the script's only call.
    pub async fn exchange(
        &mut self,
        process: &ChildProcess,
        input: &Input<'_>,
        max_output: usize,
    ) -> Result<Output, Failure> {
        let mut line = Vec::new();
        self.codec.write(input, &mut line)?;
        let stdin = self.stdin.take();
        // A script may answer without reading all of its input, so a write that fails does not fail the call.
        let write = async {
            if let Some(mut stdin) = stdin {
                let _ = stdin.write_all(&line).await;
                drop(stdin);
            }
            pending::<()>().await;
        };
        let bound = bound(max_output);
        let answer = tokio::select! {
            answer = read_answer(&mut self.stdout, process, bound, self.window) => answer,
            () = write => Ok(Vec::new()),
        };
        let code = || process.status().and_then(|status| status.code());
        let answer = answer.map_err(|failure| self.codec.exited(failure, code()))?;
        self.codec.read(&answer, max_output)
    }
}

/// Reads the answer until the process has exited or announces its exit, or until the exit window after the line has
/// passed.
async fn read_answer(
    stdout: &mut ChildStdout,
    process: &ChildProcess,
    bound: usize,
    window: Option<Duration>,
) -> Result<Vec<u8>, Failure> {
    let mut answer = Vec::with_capacity(8 << 10);
    let (mut seen, mut until) = (0, None);
    loop {
        let read = stdout.read_buf(&mut answer);
        let read = match until {
            None => read.await,
            Some(until) => match timeout_at(until, read).await {
                Ok(read) => read,
                Err(_) => return Ok(answer),
            },
        };
        if !matches!(read, Ok(read) if read > 0) {
            return at_end(answer, process, until).await;
        }
        if let Some((end, code)) = window.and_then(|_| said_exit(&answer)) {
            answer.truncate(end);
            return if code == 0 { Ok(answer) } else { Err(exited(code.into())) };
        }
        if answer.len() > bound {
            return Err(too_large(bound));
        }
        if let Some(window) = window
            && until.is_none()
            && has_line(&answer, &mut seen)
        {
            until = Some(Instant::now() + window);
        }
    }
}

/// Returns the answer of a script that has closed its standard output, or the failure if the script fails. Waits for
/// the exit, but only until the end of the exit window if the answer is complete.
async fn at_end(answer: Vec<u8>, process: &ChildProcess, until: Option<Instant>) -> Result<Vec<u8>, Failure> {
    let status = match until {
        None => process.exited().await,
        Some(until) => timeout_at(until, process.exited()).await.ok().flatten(),
    };
    match status {
        Some(status) if !status.success() => Err(ended(status)),
        _ => Ok(answer),
    }
}

/// If the output ends with an announcement by `exit.cjs`, returns where the answer ends and the code with which the
/// process is about to exit. It does no harm if a script prints such an announcement itself, because the script could
/// just as well exit with that code.
fn said_exit(answer: &[u8]) -> Option<(usize, u8)> {
    let said = answer.strip_suffix(b"\n")?;
    let from = said.len().saturating_sub(1 + MAX_CODE);
    let zero = from + memchr::memrchr(0, &said[from..])?;
    let code = std::str::from_utf8(&said[zero + 1..]).ok()?;
    Some((zero, code.parse().ok()?))
}

/// Whether `answer` has a complete line that is not empty. `seen` is the length of `answer` that was already searched.
fn has_line(answer: &[u8], seen: &mut usize) -> bool {
    let unseen = answer.get(*seen..).unwrap_or_default();
    let ended = memchr::memrchr(b'\n', unseen).map(|at| *seen + at);
    *seen = answer.len();
    ended.is_some_and(|end| !answer[..end].trim_ascii().is_empty())
}

/// Enlarges the buffer of a pipe. A failure is ignored, because a small buffer only makes writes slower.
#[cfg(target_os = "linux")]
pub(super) fn widen(pipe: &impl std::os::fd::AsFd) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, 1 << 20);
}

#[cfg(not(target_os = "linux"))]
pub(super) fn widen(_: &impl std::os::fd::AsFd) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_is_said_by_a_zero_byte_and_a_code() {
        for (answer, exit) in [
            ("{}\n\x000\n", Some((3, 0))),
            ("{}\x00255\n", Some((2, 255))),
            ("\x001\n", Some((0, 1))),
            ("{}\n\x000", None),
            ("{}\n", None),
            ("\n", None),
            ("{}\x00256\n", None),
            ("{}\x00\n", None),
            ("{}\x000001\n", None),
        ] {
            assert_eq!(said_exit(answer.as_bytes()), exit, "{answer:?}");
        }
    }

    #[test]
    fn a_line_has_ended_where_it_holds_something_and_a_newline_follows() {
        for (pieces, ended) in [
            (&["{}\n"][..], &[true][..]),
            (&["{", "}", "\n"], &[false, false, true]),
            (&["\n", " \n", "{}", "\n"], &[false, false, false, true]),
        ] {
            let (mut answer, mut seen, mut found) = (Vec::new(), 0, Vec::new());
            for piece in pieces {
                answer.extend_from_slice(piece.as_bytes());
                found.push(has_line(&answer, &mut seen));
            }
            assert_eq!(found, ended, "{pieces:?}");
        }
    }
}
