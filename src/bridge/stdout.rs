//! What a process writes to its stdout: messages, and lines that are none.

use tokio::process::ChildStdout;

use super::calls::Calls;
use super::context::Context;
use super::message::ProcessMessage;
use super::stderr;
use crate::domain::budget::Category;
use crate::domain::invalid_message::{InvalidMessage, messages};
use crate::domain::members::{AnsweredRequests, MessageMembers, id_at_end};
use crate::transport::{LastWords, LinePiece, LineReader};

/// How many bytes at the end of a line that is too long are searched for the id.
const END: usize = 256;
/// The maximum number of bytes at the beginning of a line that are read to make the text for the log.
const READ_OF_IT: usize = 4096;
/// The maximum number of characters of a line in the log.
const SHOWN: usize = 200;

pub(super) struct StdoutReader<'a, R> {
    calls: &'a Calls,
    /// Takes the answers to the server's requests that no client gets.
    reply: R,
    context: &'a Context,
    /// Stands before each line of the log that is about the process.
    label: &'a str,
    /// Whether it was already logged that the process writes lines that are no messages.
    warned: bool,
    /// Receives the first of these lines.
    last_words: &'a LastWords,
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
    pub(super) fn new(
        calls: &'a Calls,
        reply: R,
        context: &'a Context,
        label: &'a str,
        last_words: &'a LastWords,
    ) -> Self {
        Self { calls, reply, context, label, warned: false, last_words, skipped: None }
    }

    /// Reads until the end of the stream.
    pub(super) async fn run(mut self, stdout: ChildStdout) {
        let (reservation, max_message) = (self.context.budget.reservation(Category::Answer), self.context.max_message);
        let mut lines = LineReader::new(stdout, max_message, Some(reservation));
        while let Ok(Some(piece)) = lines.next().await {
            match piece {
                LinePiece::Line(line) | LinePiece::Last(line) => self.take(line),
                LinePiece::Cut(beginning) => {
                    let why = format!("the server's answer is larger than {max_message} bytes");
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

    fn take(&mut self, line: &[u8]) {
        for message in messages(line) {
            match std::str::from_utf8(message).ok().and_then(|text| Some((text, ProcessMessage::parse(text)?))) {
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
    fn take_invalid(&mut self, text: &[u8]) {
        let invalid = InvalidMessage::of(text, "the server's answer is not a valid message");
        match &invalid.whose {
            AnsweredRequests::Calls(ids) => ids.iter().for_each(|own| self.calls.fail(*own, invalid.message)),
            AnsweredRequests::SomeCall => self.calls.fail_all(invalid.message),
            AnsweredRequests::Nobody => self.warn(text, &invalid),
        }
    }

    /// Logs how the first line begins that is no message or, if the line may contain an answer, what is wrong with it.
    fn warn(&mut self, text: &[u8], invalid: &InvalidMessage) {
        if text.trim_ascii().is_empty() || std::mem::replace(&mut self.warned, true) {
            return;
        }
        let mut begins = invalid.message.to_owned();
        if invalid.may_be_shown(text) {
            begins = self.context.mask.printable(&text[..text.len().min(READ_OF_IT)]).chars().take(SHOWN).collect();
            self.last_words.add(&begins);
        }
        if !self.context.may_log_stray() {
            return;
        }
        // Nobody may be reading the log, so nothing waits for what is written to it.
        tokio::spawn(stderr::say(format!(
            "{}the server writes to stdout what is not an MCP message, which is passed over; it must log to \
             stderr: {begins}",
            self.label
        )));
    }

    /// Fails the calls that a line answers of which only the beginning is read. If they are not named there, waits for
    /// the end of the line.
    fn take_beginning(&mut self, beginning: &[u8], why: String) {
        match MessageMembers::read(beginning).whose() {
            AnsweredRequests::Calls(ids) => ids.into_iter().for_each(|own| self.calls.fail(own, &why)),
            AnsweredRequests::SomeCall => self.skipped = Some(SkippedAnswer { why, end: Vec::new() }),
            AnsweredRequests::Nobody => {}
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
