//! The protocol of long-running scripts: for each call, one message to standard input and one message from standard
//! output. The caller is responsible for pools and deadlines. A caller that drops an exchange before its end must not
//! use the script again.
//!
//! An answer does not identify its call, so it must be the only message that follows an input. A script that prints
//! more than that, or prints before it receives an input, cannot be used any more.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};

use super::ExchangeOutcome;
use super::codec::Codec;
use super::once::{bound, too_large, widen};
use crate::domain::plugin::{Failure, Input, Output};
use crate::domain::reason::Reason;
use crate::node::process::{ChildProcess, ended};

/// Buffers that grew larger are shrunk to this size after the call.
const KEPT: usize = 512 << 10;

/// The pipes of a long-running script.
#[derive(Debug)]
pub struct LinesPipes {
    stdin: ChildStdin,
    stdout: ChildStdout,
    codec: Codec,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    spoken: AtomicBool,
}

/// Why no message was read.
enum Missing {
    /// Standard output is closed.
    Closed,
    /// The message is larger than it may be.
    TooLarge,
}

impl LinesPipes {
    /// Takes the pipes of a script, and enlarges them so that typical content fits in one write.
    pub fn new(stdin: ChildStdin, stdout: ChildStdout, codec: Codec) -> Self {
        widen(&stdin);
        widen(&stdout);
        Self { stdin, stdout, codec, inbox: Vec::new(), outbox: Vec::new(), spoken: AtomicBool::new(false) }
    }

    /// Whether the script reports when it is loaded. Only the host script of the gateway (`reuse.cjs`) does.
    pub fn says_ready(&self) -> bool {
        self.codec == Codec::Printed
    }

    /// Waits until the script reports that it is loaded. Returns false if it ended instead.
    pub async fn ready(&mut self) -> bool {
        let Self { stdout, codec, inbox, .. } = self;
        match next(stdout, inbox, *codec, bound(0)).await {
            Ok(end) => {
                inbox.drain(..end);
                true
            }
            Err(_) => false,
        }
    }

    /// Whether the script has printed something that no input asked for. Must only be called between calls.
    pub fn has_spoken(&self) -> bool {
        if self.speaks() {
            // Remembered, because the check has consumed what was printed.
            self.spoken.store(true, Ordering::Relaxed);
        }
        self.spoken.load(Ordering::Relaxed)
    }

    fn speaks(&self) -> bool {
        let mut bytes = [0; 512];
        // This reads without the runtime, which would have to poll the pipe first. It runs right before an input is
        // sent, so it must be fast.
        while let Ok(read) = rustix::io::read(&self.stdout, &mut bytes)
            && read > 0
        {
            if !self.codec.is_silent(&bytes[..read]) {
                return true;
            }
        }
        false
    }

    /// Sends one input and reads its answer.
    pub async fn exchange(&mut self, process: &ChildProcess, input: &Input<'_>, max_output: usize) -> ExchangeOutcome {
        let Self { stdin, stdout, codec, inbox, outbox, .. } = self;
        outbox.clear();
        if let Err(failure) = codec.write(input, outbox) {
            return ExchangeOutcome::settled(Err(failure));
        }
        let bound = bound(max_output);
        let (sent, answered) = both(stdin.write_all(outbox), next(stdout, inbox, *codec, bound)).await;
        let output = match answered {
            Ok(end) => {
                let answer = codec.whole(inbox).map(|whole| &inbox[whole.start..whole.end]).unwrap_or_default();
                let output = codec.read(answer, max_output);
                inbox.drain(..end);
                if !codec.is_silent(inbox) {
                    let failure = Failure::new(Reason::InvalidOutput, "printed more than one line");
                    return ExchangeOutcome::last(Err(failure));
                }
                output
            }
            Err(Missing::TooLarge) => return ExchangeOutcome::last(Err(too_large(bound))),
            Err(Missing::Closed) => return ExchangeOutcome::last(last_words(process, *codec, inbox, max_output).await),
        };
        inbox.clear();
        inbox.shrink_to(KEPT);
        outbox.shrink_to(KEPT);
        // If the script has answered before it received all of its input, it would read the rest as a part of the next
        // input.
        ExchangeOutcome { output, reusable: matches!(sent, Some(Ok(()))) }
    }
}

/// Runs both futures until the second one completes. Returns its result, and that of the first if it completed too.
async fn both<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> (Option<A>, B) {
    tokio::pin!(first, second);
    let mut done = None;
    loop {
        tokio::select! {
            biased;
            result = &mut first, if done.is_none() => done = Some(result),
            result = &mut second => return (done, result),
        }
    }
}

/// Reads until `inbox` starts with a whole message. Returns where the next message can begin.
async fn next(stdout: &mut ChildStdout, inbox: &mut Vec<u8>, codec: Codec, bound: usize) -> Result<usize, Missing> {
    let mut seen = 0;
    loop {
        if codec.exceeds(inbox, bound) {
            return Err(Missing::TooLarge);
        }
        if codec.may_end(&inbox[seen..])
            && let Some(whole) = codec.whole(inbox)
        {
            return Ok(whole.next);
        }
        seen = inbox.len();
        inbox.reserve(8 << 10);
        if !matches!(stdout.read_buf(inbox).await, Ok(read) if read > 0) {
            return Err(Missing::Closed);
        }
    }
}

/// Returns the answer of a script that has ended. In the JSON encoding, a last line without a newline counts as the
/// answer.
async fn last_words(process: &ChildProcess, codec: Codec, said: &[u8], max_output: usize) -> Result<Output, Failure> {
    match process.exited().await {
        Some(status) if !status.success() => Err(ended(status)),
        _ if codec.is_silent(said) || codec != Codec::Json => {
            Err(Failure::new(Reason::InvalidOutput, "ended without an answer"))
        }
        _ => codec.read(said, max_output),
    }
}

#[cfg(test)]
mod tests {
    use tokio::process::Command;

    use super::*;
    use crate::node::process::Tasks;

    #[tokio::test]
    async fn a_script_that_ends_has_answered_where_it_ended_well_and_printed_a_line() {
        let answer = br#"{"text":"a","continue":true}"#;
        for (code, codec, said, expected) in [
            (0, Codec::Json, &answer[..], Ok("a")),
            (0, Codec::Json, b" \n", Err("ended without an answer")),
            // A message with a length is not an answer while it is incomplete.
            (0, Codec::MessagePack, b"\0\0\0\x09abc", Err("ended without an answer")),
            (0, Codec::Printed, b"\0\0\0\x09abc", Err("ended without an answer")),
            (3, Codec::Json, answer, Err("exited with code 3")),
        ] {
            let child = Command::new("sh").args(["-c", &format!("exit {code}")]).process_group(0).spawn().unwrap();
            let process = ChildProcess::adopt(child, &Tasks::here(), || ());
            let found = last_words(&process, codec, said, 100).await;
            let found = found.map(|output| output.text).map_err(|failure| failure.message);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{codec:?}");
        }
    }
}
