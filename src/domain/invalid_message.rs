//! Texts of a server that are not one valid message: which requests they answer nevertheless, and batches. Does no I/O.

use serde_json::value::RawValue;

use super::batch;
use super::members::{AnsweredRequests, MOST, MessageMembers};
use super::skim::Skim;

/// Why a message is not valid, and which requests it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidMessage {
    /// A description of the error. It contains nothing from the message.
    pub message: &'static str,
    /// The requests that the message answers.
    pub whose: AnsweredRequests,
    /// True if the text may also be a log line that quotes an answer.
    pub quoted: bool,
}

impl InvalidMessage {
    /// Finds which requests `text` answers, which is not a valid message. `message` describes the error of an object;
    /// other texts have their own descriptions.
    pub fn of(text: &[u8], message: &'static str) -> Self {
        if text.trim_ascii_start().first() != Some(&b'{') {
            return misplaced(text);
        }
        let members = MessageMembers::read(text);
        let whose = if members.whole { members.whose() } else { whose_of(text) };
        Self::new(message, whose)
    }

    /// Whether the beginning of `text`, which this describes, may be logged. It must not be if the text answers a request
    /// or may contain a part of a result.
    pub fn may_be_shown(&self, text: &[u8]) -> bool {
        self.whose == AnsweredRequests::Nobody && memchr::memmem::find(text, b"result").is_none()
    }

    fn new(message: &'static str, whose: AnsweredRequests) -> Self {
        Self { message, whose, quoted: false }
    }
}

/// Finds the requests that `text` answers. Used if `text` is not one complete object: it may then hold several
/// messages, and the last of them may be cut off.
fn whose_of(text: &[u8]) -> AnsweredRequests {
    let mut objects = serde_json::Deserializer::from_slice(text).into_iter::<&RawValue>();
    let mut calls = Vec::new();
    while calls.len() < MOST
        && let Some(Ok(object)) = objects.next()
    {
        if let AnsweredRequests::Calls(ids) = MessageMembers::read(object.get().as_bytes()).whose() {
            calls.extend(ids);
        }
    }
    match MessageMembers::read(&text[objects.byte_offset()..]).whose() {
        AnsweredRequests::Calls(ids) => calls.extend(ids),
        whose if calls.is_empty() => return whose,
        _ => {}
    }
    AnsweredRequests::Calls(calls)
}

/// Reports what is wrong with a text that does not begin with an object.
fn misplaced(text: &[u8]) -> InvalidMessage {
    if let Some(marked) = text.strip_prefix(b"\xef\xbb\xbf") {
        return InvalidMessage::new("a byte order mark stands before a message", MessageMembers::read(marked).whose());
    }
    let quoted = memchr::memchr(b'{', text).map(|at| MessageMembers::read(&text[at..]));
    match quoted.filter(MessageMembers::carries_answer).map(MessageMembers::whose) {
        Some(whose @ AnsweredRequests::Calls(_)) => {
            InvalidMessage { quoted: true, ..InvalidMessage::new("text stands before a message on its line", whose) }
        }
        _ => InvalidMessage::new("a message is not a JSON object", AnsweredRequests::Nobody),
    }
}

/// Splits a text into messages: the elements of a batch, that is, of an array of at most [`MOST`] objects. Another text is the
/// only message.
pub fn messages(text: &[u8]) -> Vec<&[u8]> {
    let is_object = |element: &Skim<'_>| element.get().starts_with('{');
    let batch = batch::split(text, MOST).filter(|elements| elements.iter().all(is_object));
    batch.map_or_else(|| vec![text], |batch| batch.into_iter().map(|message| message.get().as_bytes()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_split() {
        assert_eq!(messages(br#" [{"a":1}, {} ]"#), [br#"{"a":1}"#.as_slice(), b"{}"]);
        assert_eq!(messages(b"{}"), [b"{}"]);
    }

    #[test]
    fn an_array_of_too_many_elements_or_of_other_than_objects_is_one_fault() {
        let array = |elements: usize| format!("[{}]", vec!["{}"; elements].join(","));
        assert_eq!(messages(array(MOST).as_bytes()).len(), MOST);
        for text in [array(MOST + 1), format!("[{}0]", "0,".repeat(1 << 20)), "[{},2]".into()] {
            assert_eq!(messages(text.as_bytes()), [text.as_bytes()], "{text:.20}");
            assert_eq!(InvalidMessage::of(text.as_bytes(), "").whose, AnsweredRequests::Nobody, "{text:.20}");
        }
    }
}
