//! The Once protocol, which is contract 1.0 to the letter (document 001): one line of JSON to standard input, which is
//! then closed; one line from standard output; exit. Knows no pool and no deadline.

use std::future::pending;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};

use crate::domain::plugin::{Failure, Input, Output};
use crate::domain::reason::Reason;
use crate::node::process::{Process, ended};
use crate::node::protocol::codec::Codec;

/// An exit with another code than 0 this soon after the line makes the line a failure.
const EXIT_WINDOW: Duration = Duration::from_millis(20);
/// What escaping may add to content on a line, besides doubling it.
const LINE_SLACK: usize = 64 << 10;

/// The most bytes that an answer with `max_output` bytes of content may take.
pub(super) fn bound(max_output: usize) -> usize {
    max_output.saturating_mul(2).saturating_add(LINE_SLACK)
}

/// The failure of an answer beyond its bound.
pub(super) fn too_large(bound: usize) -> Failure {
    Failure::new(Reason::TooLarge, format!("printed more than {bound} bytes"))
}

/// The pipes of a script that waits for its input.
#[derive(Debug)]
pub struct Pipes {
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
}

impl Pipes {
    /// Speaks over these pipes, made large so that common content passes without a second write.
    pub fn new(stdin: ChildStdin, stdout: ChildStdout) -> Self {
        widen(&stdin);
        widen(&stdout);
        Self { stdin: Some(stdin), stdout }
    }

    /// The script's one call.
    pub async fn exchange(
        &mut self,
        process: &mut Process,
        input: &Input<'_>,
        max_output: usize,
    ) -> Result<Output, Failure> {
        let mut line = Vec::new();
        Codec::Json.write(input, &mut line)?;
        let stdin = self.stdin.take();
        // A script may answer without reading all of its input, so a failed write decides nothing.
        let write = async {
            if let Some(mut stdin) = stdin {
                let _ = stdin.write_all(&line).await;
                drop(stdin);
            }
            pending::<()>().await;
        };
        let bound = bound(max_output);
        let answer = tokio::select! {
            answer = read_answer(&mut self.stdout, process, bound) => answer?,
            () = write => Vec::new(),
        };
        judge(&answer, max_output)
    }
}

/// Reads to the end of the line and of the process, whose exit within the window has a say.
async fn read_answer(stdout: &mut ChildStdout, process: &mut Process, bound: usize) -> Result<Vec<u8>, Failure> {
    let mut answer = Vec::with_capacity(8 << 10);
    let mut seen = 0;
    loop {
        if !matches!(stdout.read_buf(&mut answer).await, Ok(read) if read > 0) {
            return match process.exited().await {
                Some(status) if !status.success() => Err(ended(status)),
                _ => Ok(answer),
            };
        }
        if answer.len() > bound {
            return Err(too_large(bound));
        }
        if has_line(&answer, &mut seen) {
            break;
        }
    }
    let rest = async {
        while matches!(stdout.read_buf(&mut answer).await, Ok(read) if read > 0) {
            if answer.len() > bound {
                return Err(too_large(bound));
            }
        }
        Ok(process.exited().await)
    };
    match tokio::time::timeout(EXIT_WINDOW, rest).await {
        Ok(Ok(Some(status))) if !status.success() => Err(ended(status)),
        Ok(Err(failure)) => Err(failure),
        _ => Ok(answer),
    }
}

/// Whether a line that holds something has ended. `seen` is how far was looked before.
fn has_line(answer: &[u8], seen: &mut usize) -> bool {
    let unseen = answer.get(*seen..).unwrap_or_default();
    let ended = memchr::memrchr(b'\n', unseen).map(|at| *seen + at);
    *seen = answer.len();
    ended.is_some_and(|end| !answer[..end].trim_ascii().is_empty())
}

/// What all that a script printed for one input means.
pub(super) fn judge(answer: &[u8], max_output: usize) -> Result<Output, Failure> {
    let invalid = |what: &str| Failure::new(Reason::InvalidOutput, what);
    let answer = std::str::from_utf8(answer).map_err(|_| invalid("returned invalid JSON: it is not UTF-8"))?.trim();
    if answer.is_empty() {
        return Err(invalid("ended without an answer"));
    }
    if answer.contains('\n') {
        return Err(invalid("printed more than one line"));
    }
    let output = Output::parse(answer, None)?;
    if output.text.len() > max_output {
        return Err(Failure::new(Reason::TooLarge, format!("its answer is larger than {max_output} bytes")));
    }
    Ok(output)
}

/// Best effort: a system may allow less, and then writes take more turns.
#[cfg(target_os = "linux")]
pub(super) fn widen(pipe: &impl std::os::fd::AsFd) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, 1 << 20);
}

#[cfg(not(target_os = "linux"))]
pub(super) fn widen(_: &impl std::os::fd::AsFd) {}
