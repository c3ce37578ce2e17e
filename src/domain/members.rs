//! Reads the members of a JSON-RPC message as far as possible. A message that is truncated or too large may still show
//! which call it belongs to. Does no I/O.

use serde_json::value::RawValue;

use super::skim::Skim;
use super::tokens::valid_part;

/// The maximum number of ids that are read from one text, and of messages that are read from a batch.
pub const MOST: usize = 256;

/// One member of a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Member<'a> {
    /// Whether the message has this member, even if its value could not be read.
    pub seen: bool,
    /// The member's value; `None` if it is null or could not be read.
    pub value: Option<&'a RawValue>,
}

/// The members of a message, as far as they could be read.
#[derive(Debug, Default)]
pub struct MessageMembers<'a> {
    /// The version of JSON-RPC.
    pub jsonrpc: Member<'a>,
    /// The id of a request or an answer.
    pub id: Member<'a>,
    /// The method of a request or a notification.
    pub method: Member<'a>,
    /// Its parameters.
    pub params: Member<'a>,
    /// The result of an answer.
    pub result: Member<'a>,
    /// The error of an answer.
    pub error: Member<'a>,
    /// Whether one of these members occurs twice. Parsers differ in which of the two they use.
    pub doubled: bool,
    /// Whether the text is one complete object.
    pub whole: bool,
    ids: Vec<u64>,
}

/// The requests that an invalid message answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnsweredRequests {
    /// The message answers the requests with these ids. There are several if the text contains more than one id.
    Calls(Vec<u64>),
    /// The message answers a request, but the id of that request cannot be read.
    SomeCall,
    /// The message is not an answer, or it answers no request of the gateway, because its id is missing or not a
    /// number.
    Nobody,
}

impl<'a> MessageMembers<'a> {
    /// Reads `text` as far as it is a JSON object.
    pub fn read(text: &'a [u8]) -> Self {
        let mut members = Self::default();
        let valid = valid_part(text);
        let (Ok(part) | Err(part)) = valid;
        let Some(mut parts) = Skim::of_valid(part).parts() else { return members };
        members.whole = valid.is_ok();
        while let Some(name) = parts.next() {
            let value = parts.next();
            // Another parser may take such a name for one of these.
            let Some(name) = name.text() else {
                members.whole = false;
                break;
            };
            if name == "id" && members.ids.len() < MOST {
                members.ids.extend(value.and_then(|id| number(id.get())));
            }
            let is_whole = members.whole;
            let Some(member) = members.member(&name) else { continue };
            let again = std::mem::replace(&mut member.seen, true);
            member.value = value.filter(|value| is_whole && value.get() != "null").and_then(Skim::raw);
            members.doubled |= again;
        }
        members
    }

    fn member(&mut self, name: &str) -> Option<&mut Member<'a>> {
        Some(match name {
            "jsonrpc" => &mut self.jsonrpc,
            "id" => &mut self.id,
            "method" => &mut self.method,
            "params" => &mut self.params,
            "result" => &mut self.result,
            "error" => &mut self.error,
            _ => return None,
        })
    }

    /// Whether the message has a member that only answers have. A truncated text without such a member may be a request
    /// of the gateway that the server echoes.
    pub fn carries_answer(&self) -> bool {
        self.result.seen || self.error.seen
    }

    /// Returns which requests the message answers. Used if the message is invalid. An object without any sign of
    /// JSON-RPC counts as a log line.
    pub fn whose(self) -> AnsweredRequests {
        let is_answer = self.carries_answer() || self.whole && self.jsonrpc.seen && !self.method.seen;
        if !is_answer {
            AnsweredRequests::Nobody
        } else if !self.ids.is_empty() {
            AnsweredRequests::Calls(self.ids)
        } else if self.whole || self.id.seen || self.method.seen || !(self.jsonrpc.seen || self.result.seen) {
            AnsweredRequests::Nobody
        } else {
            AnsweredRequests::SomeCall
        }
    }
}

/// Returns the number that an id, which is JSON, represents. Some servers answer a request with id `7` as `"7"` or `7.0`,
/// which JSON-RPC considers different ids.
pub fn number(id: &str) -> Option<u64> {
    serde_json::from_str(id.trim_matches('"')).ok().or_else(|| {
        let number: f64 = serde_json::from_str(id).ok()?;
        // Below this limit, `f64` represents every whole number exactly.
        ((0.0..9e15).contains(&number) && number.fract() == 0.0).then_some(number as u64)
    })
}

/// Returns the id of an object of which only the end is known, if nothing but `jsonrpc` follows it there. Some servers
/// write the id behind the result.
pub fn id_at_end(end: &[u8]) -> Option<u64> {
    // The last bracket of a text that is one object closes that object.
    let mut rest = end.trim_ascii_end().strip_suffix(b"}")?;
    loop {
        let colon = memchr::memrchr(b':', rest)?;
        let value = std::str::from_utf8(&rest[colon + 1..]).ok()?.trim_ascii();
        let before = rest[..colon].trim_ascii_end().strip_suffix(b"\"")?;
        let quote = memchr::memrchr(b'"', before)?;
        // A quote that belongs to a string would have a backslash before it.
        rest = before[..quote].trim_ascii_end().strip_suffix(b",")?;
        match &before[quote + 1..] {
            b"id" => return value.trim_matches('"').parse().ok(),
            b"jsonrpc" if value == r#""2.0""# => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_of_a_message_tells_whose_it_is() {
        let long = "x".repeat(10_000);
        for (text, whose) in [
            (format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":"{long}"#), AnsweredRequests::Calls(vec![7])),
            (format!(r#" {{"id": 7, "result":"{long}"#), AnsweredRequests::Calls(vec![7])),
            (format!(r#"{{"x":"{long}","jsonrpc":"2.0","\u0069d":"7","result":"#), AnsweredRequests::Calls(vec![7])),
            // A request of the gateway that the server echoes and truncates begins like this.
            (r#"{"jsonrpc":"2.0","id":7,"me..."#.into(), AnsweredRequests::Nobody),
            (r#"{"jsonrpc":"2.0","id":7} {}"#.into(), AnsweredRequests::Nobody),
            (r#"{"jsonrpc":"2.0","id":7}"#.into(), AnsweredRequests::Calls(vec![7])),
            (r#"{"id":7.0,"id":8,"error":{}}"#.into(), AnsweredRequests::Calls(vec![7, 8])),
            (r#"{"id":7,"method":"x","result":{}}"#.into(), AnsweredRequests::Calls(vec![7])),
            (format!(r#"{{"id":"seven","result":"{long}"#), AnsweredRequests::Nobody),
            (
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":"{long}"#),
                AnsweredRequests::Nobody,
            ),
            (format!(r#"{{"id":7,"method":"sampling/createMessage","params":"{long}"#), AnsweredRequests::Nobody),
            (r#"{"level":50,"id":7,"msg":"a log"}"#.into(), AnsweredRequests::Nobody),
            (r#"{"level":50,"error":"a log"#.into(), AnsweredRequests::Nobody),
            (r#"{"jsonrpc":"2.0","result":{}}"#.into(), AnsweredRequests::Nobody),
            (format!(r#"{{"result":{{"id":7,"a":"{long}"#), AnsweredRequests::SomeCall),
            (r#"{"jsonrpc":"2.0","error":{"co"#.into(), AnsweredRequests::SomeCall),
            (r#"{"jsonrpc":"2.0","i"#.into(), AnsweredRequests::Nobody),
            (r#"{"id":7 é "result":{}}"#.into(), AnsweredRequests::Nobody),
            (r#"{"id":7] "result":{}}"#.into(), AnsweredRequests::Nobody),
            (long, AnsweredRequests::Nobody),
        ] {
            assert_eq!(MessageMembers::read(text.as_bytes()).whose(), whose, "{text:.60}");
        }
    }

    #[test]
    fn an_id_behind_the_result_is_read_from_the_end() {
        for (end, id) in [
            (r#"xxx"}]},"jsonrpc":"2.0","id":7}"#, Some(7)),
            (r#"xxx"} , "id" : "7" , "jsonrpc" : "2.0" } "#, Some(7)),
            (r#"xxx\"},\"id\":7}"#, None),
            (r#"xxx","id":7}"}"#, None),
            (r#"xxx"},"id":7},"more":1}"#, None),
            (r#"xxx"},"id":[7]}"#, None),
            (r#","id":7"#, None),
            ("}", None),
        ] {
            assert_eq!(id_at_end(end.as_bytes()), id, "{end}");
        }
    }
}
