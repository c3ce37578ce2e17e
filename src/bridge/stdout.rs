//! What a process writes to its stdout: messages, and lines that are none.

use std::sync::Arc;

use tokio::process::ChildStdout;

use super::calls::Calls;
use super::message::ServerMessage;
use crate::domain::budget::{ByteBudget, Category};
use crate::domain::invalid_message::{InvalidMessage, messages};
use crate::domain::members::{MessageMembers, Whose, id_at_end};
use crate::transport::{LinePiece, LineReader};

/// How many bytes at the end of a line that is too long are searched for the id.
const END: usize = 256;

pub(super) struct StdoutReader<'a, R> {
    calls: &'a Calls,
    /// Takes the answers to the server's requests that no client gets.
    reply: R,
    max_message: usize,
    /// The line that is being skipped, if it answers a call and it is not yet known which one.
    skipped: Option<SkippedAnswer>,
}

struct SkippedAnswer {
    why: String,
    /// The last bytes so far.
    end: Vec<u8>,
}

impl SkippedAnswer {
    fn add(&mut self, bytes: &[u8]) {
        self.end.extend_from_slice(&bytes[bytes.len().saturating_sub(END)..]);
        self.end.drain(..self.end.len().saturating_sub(END));
    }
}

impl<'a, R: Fn(String)> StdoutReader<'a, R> {
    pub(super) fn new(calls: &'a Calls, reply: R, max_message: usize) -> Self {
        Self { calls, reply, max_message, skipped: None }
    }

    /// Reads until the end of the stream.
    pub(super) async fn run(mut self, stdout: ChildStdout, budget: &Arc<ByteBudget>) {
        let reservation = budget.reservation(Category::Answer);
        let mut lines = LineReader::new(stdout, self.max_message, Some(reservation));
        while let Ok(Some(piece)) = lines.next().await {
            match piece {
                LinePiece::Line(line) | LinePiece::Last(line) => self.take(line),
                LinePiece::Cut(beginning) => {
                    let why = format!("the server's answer is larger than {} bytes", self.max_message);
                    self.take_beginning(beginning, why);
                }
                LinePiece::NoRoom(beginning) | LinePiece::Unasked(beginning) => {
                    self.take_beginning(beginning, "the bridge holds as many bytes as it may".to_owned());
                }
                LinePiece::Rest(bytes) => self.skip(bytes),
                LinePiece::End(bytes) => {
                    self.skip(bytes);
                    self.take_end();
                }
            }
        }
    }

    fn take(&self, line: &[u8]) {
        for message in messages(line, true) {
            match std::str::from_utf8(message).ok().and_then(|text| Some((text, ServerMessage::parse(text)?))) {
                Some((text, message)) => {
                    if let Some(reply) = self.calls.take(message, text) {
                        (self.reply)(reply);
                    }
                }
                None => self.take_invalid(message),
            }
        }
    }

    /// Fails the calls that an invalid message answers. Other lines are passed over: servers log to stdout by mistake.
    fn take_invalid(&self, text: &[u8]) {
        let invalid = InvalidMessage::of(text, "the server's answer is not a valid message");
        match invalid.whose {
            _ if invalid.quoted => {}
            Whose::Calls(ids) => ids.into_iter().for_each(|own| self.calls.fail(own, invalid.message)),
            Whose::SomeCall => self.calls.fail_all(invalid.message),
            Whose::Nobody => {}
        }
    }

    /// Fails the calls that a line answers of which only the beginning is read. If they are not named there, waits for
    /// the end of the line.
    fn take_beginning(&mut self, beginning: &[u8], why: String) {
        match MessageMembers::read(beginning).whose() {
            Whose::Calls(ids) => ids.into_iter().for_each(|own| self.calls.fail(own, &why)),
            Whose::SomeCall => self.skipped = Some(SkippedAnswer { why, end: Vec::new() }),
            Whose::Nobody => {}
        }
    }

    fn skip(&mut self, bytes: &[u8]) {
        if let Some(skipped) = &mut self.skipped {
            skipped.add(bytes);
        }
    }

    fn take_end(&mut self) {
        let Some(SkippedAnswer { why, end }) = self.skipped.take() else { return };
        match id_at_end(&end) {
            Some(own) => self.calls.fail(own, &why),
            None => self.calls.fail_all(&why),
        }
    }
}
