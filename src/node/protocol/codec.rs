//! Encodings of the messages of long-running scripts: how an input is written, where an answer ends, and what it means.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::stage;
use crate::domain::plugin::{Encoding, Failure, Input, Output, PluginKind, WireOutput, said_twice};
use crate::domain::reason::Reason;

/// The number of bytes of the big-endian length that comes before a message that is not a line.
const LENGTH: usize = 4;
/// How deep the values of a MessagePack answer can nest: as deep as in JSON.
const MAX_DEPTH: usize = 128;

/// An encoding of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// A line of JSON in both directions.
    Json,
    /// A length and a MessagePack map in both directions.
    MessagePack,
    /// For a Once script that is run repeatedly in one process. An input is a length and a line of JSON. An answer is a
    /// length, the exit code of the script in one byte, and all that it printed.
    Printed,
    /// For wrappers that run in a stage of a pipeline: a line with the prompt and the context, and an answer in one line, or in
    /// several if the process ends after it.
    Stage(PluginKind),
}

#[derive(Serialize)]
struct PackedInput<'a> {
    #[serde(rename = "rawContent")]
    content: &'a str,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl From<Encoding> for Codec {
    fn from(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Json => Self::Json,
            Encoding::MessagePack => Self::MessagePack,
        }
    }
}

impl Codec {
    /// Appends `input` to `message` in this encoding.
    ///
    /// # Errors
    /// `InvalidOutput` if the input cannot be encoded, `TooLarge` if it is longer than its length field can hold.
    pub fn write(self, input: &Input<'_>, message: &mut Vec<u8>) -> Result<(), Failure> {
        let from = message.len();
        if !self.is_line() {
            message.extend_from_slice(&[0; LENGTH]);
        }
        let written = match self {
            Self::Json | Self::Printed => {
                let written = serde_json::to_writer(&mut *message, input).is_ok();
                message.push(b'\n');
                written
            }
            Self::MessagePack => pack(input, message).is_some(),
            Self::Stage(_) => {
                let written = stage::write(input, message).is_some();
                message.push(b'\n');
                written
            }
        };
        if !written {
            return Err(Failure::new(Reason::InvalidOutput, "its input cannot be written"));
        }
        if !self.is_line() {
            let length = u32::try_from(message.len() - from - LENGTH);
            let length = length.map_err(|_| Failure::new(Reason::TooLarge, "its input is larger than 4 GiB"))?;
            message[from..from + LENGTH].copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }

    /// Whether a message is a line.
    fn is_line(self) -> bool {
        matches!(self, Self::Json | Self::Stage(_))
    }

    /// Whether the bytes in `further` can complete a message. This saves searching a long message repeatedly.
    pub fn may_end(self, further: &[u8]) -> bool {
        !self.is_line() || memchr::memchr(b'\n', further).is_some()
    }

    /// Finds the first message in `bytes`. Returns `None` while it is incomplete.
    pub fn whole(self, bytes: &[u8]) -> Option<Whole> {
        if self.is_line() {
            // Empty lines are skipped.
            let start = bytes.iter().position(|byte| !byte.is_ascii_whitespace())?;
            let end = start + memchr::memchr(b'\n', &bytes[start..])?;
            return Some(Whole { start, end, next: end + 1 });
        }
        let end = LENGTH + length(bytes)?;
        (bytes.len() >= end).then_some(Whole { start: LENGTH, end, next: end })
    }

    /// Whether a message that begins with `bytes` is certain to be larger than `bound`.
    pub fn exceeds(self, bytes: &[u8], bound: usize) -> bool {
        bytes.len() > bound || (!self.is_line() && length(bytes).is_some_and(|length| length > bound))
    }

    /// Whether these bytes can be ignored, because they contain no part of a message.
    pub fn is_silent(self, bytes: &[u8]) -> bool {
        bytes.is_empty() || (self.is_line() && bytes.trim_ascii().is_empty())
    }

    /// Returns the failure of a process that ended with this code instead of an answer.
    pub fn exited(self, failure: Failure, code: Option<i32>) -> Failure {
        match self {
            Self::Stage(_) => stage::exited(failure, code),
            Self::Json | Self::MessagePack | Self::Printed => failure,
        }
    }

    /// Decodes an answer.
    ///
    /// # Errors
    /// If the answer is not valid, is too large, or reports a failure.
    pub fn read(self, answer: &[u8], max_output: usize) -> Result<Output, Failure> {
        match self {
            Self::Json => judge(answer, max_output),
            Self::MessagePack => unpack(answer, max_output),
            Self::Printed => match answer.split_first() {
                Some((0, printed)) => judge(printed, max_output),
                Some((code, _)) => Err(Failure::new(Reason::ExitCode, format!("exited with code {code}"))),
                None => Err(Failure::new(Reason::InvalidOutput, "ended without an answer")),
            },
            Self::Stage(kind) => {
                let output = stage::read(kind, answer)?;
                within(output, max_output)
            }
        }
    }
}

/// The position of a message in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// The index of its first byte.
    pub start: usize,
    /// The index after its last byte.
    pub end: usize,
    /// The index from which the next message can begin.
    pub next: usize,
}

fn length(bytes: &[u8]) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(*bytes.first_chunk::<LENGTH>()?)).ok()
}

fn pack(input: &Input<'_>, message: &mut Vec<u8>) -> Option<()> {
    let content = input.raw_content.unwrap_or_default();
    // Everything except the content is small, and the configuration is raw JSON text, so the input without its content
    // is converted through a JSON value.
    let rest = serde_json::to_value(Input { raw_content: None, ..input.clone() }).ok()?;
    let Value::Object(rest) = rest else { return None };
    rmp_serde::encode::write_named(message, &PackedInput { content, rest }).ok()
}

fn unpack(answer: &[u8], max_output: usize) -> Result<Output, Failure> {
    let failure = |what: &str| Failure::new(Reason::InvalidOutput, format!("returned invalid MessagePack{what}"));
    let invalid = || failure("");
    let mut rest = answer;
    let mut reader = rmp_serde::Deserializer::new(&mut rest);
    reader.set_max_depth(MAX_DEPTH);
    // The library's errors are not passed on, because they can quote content.
    let wire = WireOutput::<Value>::deserialize(&mut reader)
        .map_err(|error| said_twice(&error).map_or_else(invalid, |what| failure(&format!(": {what}"))))?;
    if !rest.is_empty() {
        return Err(invalid());
    }
    let metadata = wire.metadata.map(|value| serde_json::value::to_raw_value(&value)).transpose();
    let WireOutput { text, proceed, error, .. } = wire;
    let output = Output::check(WireOutput { text, proceed, metadata: metadata.map_err(|_| invalid())?, error })?;
    within(output, max_output)
}

/// Checks the size of the content.
fn within(output: Output, max_output: usize) -> Result<Output, Failure> {
    if output.text.len() > max_output {
        return Err(Failure::new(Reason::TooLarge, format!("its answer is larger than {max_output} bytes")));
    }
    Ok(output)
}

/// Decodes everything that a script has printed for one input.
fn judge(answer: &[u8], max_output: usize) -> Result<Output, Failure> {
    let invalid = |what: &str| Failure::new(Reason::InvalidOutput, what);
    let answer = std::str::from_utf8(answer).map_err(|_| invalid("returned invalid JSON: it is not UTF-8"))?.trim();
    if answer.is_empty() {
        return Err(invalid("ended without an answer"));
    }
    if answer.contains('\n') {
        return Err(invalid("printed more than one line"));
    }
    within(Output::parse(answer, None)?, max_output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_a_newline_and_any_other_message_by_its_length() {
        let whole = |start, end, next| Some(Whole { start, end, next });
        assert!(!Codec::Json.may_end(b"{}") && Codec::Json.may_end(b"{}\n"));
        assert_eq!(Codec::Json.whole(b" \n{}"), None);
        assert_eq!(Codec::Json.whole(b" \n{}\n{"), whole(2, 4, 5));
        for codec in [Codec::MessagePack, Codec::Printed] {
            assert!(codec.may_end(b"{}"), "{codec:?}");
            assert_eq!(codec.whole(b"\0\0\0\x02a"), None, "{codec:?}");
            assert_eq!(codec.whole(b"\0\0\0\x02a\nb"), whole(4, 6, 6), "{codec:?}");
        }
    }

    #[test]
    fn what_is_too_large_is_known_as_early_as_can_be() {
        assert!(!Codec::Json.exceeds(b"\0\0\0\x09", 4) && Codec::Json.exceeds(b"abcde", 4));
        assert!(Codec::Printed.exceeds(b"\0\0\0\x05", 4) && !Codec::Printed.exceeds(b"\0\0\0\x04", 4));
    }

    #[test]
    fn a_key_that_stands_twice_is_named_in_each_encoding() {
        let packed = b"\x83\xa4text\xa1a\xa8continue\xc3\xa4text\xa1b";
        let json = br#"{"text":"a","continue":true,"text":"b"}"#;
        for (codec, answer) in [(Codec::MessagePack, &packed[..]), (Codec::Json, json)] {
            let failure = codec.read(answer, 100).unwrap_err();
            assert_eq!(failure.reason, Reason::InvalidOutput);
            assert!(failure.message.contains(": the key `text` stands twice"), "{codec:?} {failure}");
        }
        let wrong = Codec::MessagePack.read(b"\x81\xa4text\xc3", 100).unwrap_err();
        assert_eq!(wrong.message, "returned invalid MessagePack");
    }

    #[test]
    fn only_empty_lines_say_nothing() {
        for (codec, bytes, silent) in [
            (Codec::Json, &b""[..], true),
            (Codec::Json, b" \r\n", true),
            (Codec::Json, b"x", false),
            (Codec::Printed, b"", true),
            (Codec::Printed, b"\n", false),
        ] {
            assert_eq!(codec.is_silent(bytes), silent, "{codec:?} {bytes:?}");
        }
    }
}
