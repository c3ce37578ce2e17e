//! Scripts that stay: a message to standard input, a message from standard output, again and again. Knows no pool and
//! no deadline. A caller that drops an exchange before its end must not use the script again.
//!
//! An answer has no name of the call that it is for. So it is only ever the one message that follows an input: a script
//! that says more than it was asked, or before it was asked, is of no more use.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};

use super::Exchange;
use super::codec::Codec;
use super::once::{bound, too_large, widen};
use crate::domain::plugin::{Failure, Input, Output};
use crate::domain::reason::Reason;
use crate::node::process::{ChildProcess, ended};

/// Buffers that grew beyond this are given back after the call.
const KEPT: usize = 512 << 10;

/// The pipes of a script that stays.
#[derive(Debug)]
pub struct LinesPipes {
    stdin: ChildStdin,
    stdout: ChildStdout,
    codec: Codec,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    spoken: AtomicBool,
}

/// Why there is no message.
enum Missing {
    /// Standard output is closed.
    Closed,
    /// There is more of it than there may be.
    TooLarge,
}

impl LinesPipes {
    /// Speaks over these pipes, made large so that common content passes without a second write.
    pub fn new(stdin: ChildStdin, stdout: ChildStdout, codec: Codec) -> Self {
        widen(&stdin);
        widen(&stdout);
        Self { stdin, stdout, codec, inbox: Vec::new(), outbox: Vec::new(), spoken: AtomicBool::new(false) }
    }

    /// Whether the other side says when it is loaded, as only a script of our own does.
    pub fn says_ready(&self) -> bool {
        self.codec == Codec::Printed
    }

    /// Waits until it says that it is loaded; false where it ended instead.
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

    /// Whether it has said something although nothing was asked. For between calls.
    pub fn has_spoken(&self) -> bool {
        if self.speaks() {
            // What was looked at is not there any more.
            self.spoken.store(true, Ordering::Relaxed);
        }
        self.spoken.load(Ordering::Relaxed)
    }

    fn speaks(&self) -> bool {
        let mut bytes = [0; 512];
        // Not by the runtime, which would have to look first: this is asked right before an input is sent.
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
    pub async fn exchange(&mut self, process: &ChildProcess, input: &Input<'_>, max_output: usize) -> Exchange {
        let Self { stdin, stdout, codec, inbox, outbox, .. } = self;
        outbox.clear();
        if let Err(failure) = codec.write(input, outbox) {
            return Exchange::settled(Err(failure));
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
                    return Exchange::last(Err(failure));
                }
                output
            }
            Err(Missing::TooLarge) => return Exchange::last(Err(too_large(bound))),
            Err(Missing::Closed) => return Exchange::last(last_words(process, *codec, inbox, max_output).await),
        };
        inbox.clear();
        inbox.shrink_to(KEPT);
        outbox.shrink_to(KEPT);
        // One that answered before it was asked in full has its input still to read.
        Exchange { output, reusable: matches!(sent, Some(Ok(()))) }
    }
}

/// Does both at once until the second is done, and says what came of the first by then.
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

/// Reads until the inbox starts with a whole message; gives where that ends.
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

/// What a script that ended has answered: a line does not need its newline to count.
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
            // A part of a message with a length is not an answer.
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
