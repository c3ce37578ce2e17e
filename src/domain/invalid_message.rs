//! Texts of a server that are not one valid message: which requests they answer nevertheless, and batches. Does no I/O.

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
}

impl InvalidMessage {
    /// Finds which requests `text` answers, which is not a valid message. `message` describes the error of an object.
    pub fn of(text: &[u8], message: &'static str) -> Self {
        if text.trim_ascii_start().first() == Some(&b'{') {
            Self { message, whose: MessageMembers::read(text).whose() }
        } else {
            Self { message: "a message is not a JSON object", whose: AnsweredRequests::Nobody }
        }
    }

    /// Whether the beginning of `text`, which this describes, may be logged. It must not be if the text answers a request
    /// or may contain a part of a result.
    pub fn may_be_shown(&self, text: &[u8]) -> bool {
        let has = |word: &[u8]| memchr::memmem::find(text, word).is_some();
        self.whose == AnsweredRequests::Nobody && !has(b"result") && !has(br#""error""#)
    }
}

/// Splits a text into messages: the elements of a batch, that is, of an array of at most [`MOST`] objects. Another text is the
/// only message. A byte order mark is left out, as `fetch` does.
pub fn messages(text: &[u8]) -> Vec<&[u8]> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
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
        assert_eq!(messages(b"\xef\xbb\xbf{}"), [b"{}"]);
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
