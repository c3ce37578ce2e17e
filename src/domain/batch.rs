//! JSON-RPC batches: arrays of messages, which only MCP 2025-03-26 has.

use std::fmt;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::rpc::{INVALID_REQUEST, PARSE_ERROR, RpcError};

/// The maximum number of messages of a batch.
pub const MAX_MESSAGES: usize = 100;
/// How many requests of a batch are under way at the same time: less than a session may have by default.
pub const AT_ONCE: usize = 8;
/// How many requests of a batch are made one after another at most.
pub const MAX_IN_A_ROW: u32 = MAX_MESSAGES.div_ceil(AT_ONCE) as u32;

/// Why an array is not taken as a batch.
#[derive(Debug)]
pub enum BatchFault {
    /// It is not valid JSON.
    NotJson(serde_json::Error),
    /// It is empty, or has more elements than this number.
    Count(usize),
}

impl From<BatchFault> for RpcError {
    fn from(fault: BatchFault) -> Self {
        match fault {
            BatchFault::NotJson(error) => {
                let at = format!("(line {}, column {})", error.line(), error.column());
                Self::new(PARSE_ERROR, format!("the request is not valid JSON {at}"))
            }
            BatchFault::Count(most) => Self::new(INVALID_REQUEST, format!("a batch must have 1 to {most} messages")),
        }
    }
}

/// Whether a JSON text is an array.
pub fn is_batch(text: &[u8]) -> bool {
    text.trim_ascii_start().first() == Some(&b'[')
}

/// Returns the elements of an array, of which there must be 1 to `most`.
///
/// # Errors
/// Why the array is not a batch. An array with too many elements is not read to its end, because each element takes
/// memory that no budget counts.
pub fn split(text: &[u8], most: usize) -> Result<Vec<&RawValue>, BatchFault> {
    let mut elements = Elements { found: Vec::new(), most, are_too_many: false };
    let mut json = serde_json::Deserializer::from_slice(text);
    let read = json.deserialize_seq(&mut elements).and_then(|()| json.end());
    match read {
        _ if elements.are_too_many => Err(BatchFault::Count(most)),
        Err(error) => Err(BatchFault::NotJson(error)),
        Ok(()) if elements.found.is_empty() => Err(BatchFault::Count(most)),
        Ok(()) => Ok(elements.found),
    }
}

struct Elements<'a> {
    found: Vec<&'a RawValue>,
    most: usize,
    are_too_many: bool,
}

impl<'a> Visitor<'a> for &mut Elements<'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of at most {} elements", self.most)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut array: A) -> Result<(), A::Error> {
        while let Some(element) = array.next_element::<&RawValue>()? {
            if self.found.len() == self.most {
                self.are_too_many = true;
                return Err(serde::de::Error::invalid_length(self.found.len() + 1, &self));
            }
            self.found.push(element);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_split_if_its_number_of_elements_is_allowed() {
        let count = |text: &str| split(text.as_bytes(), 2).map(|elements| elements.len());
        assert_eq!(count(r#" [{"a":[1,2]}, 7] "#).unwrap(), 2);
        assert!(matches!(count("[]"), Err(BatchFault::Count(2))));
        assert!(matches!(count("[1,2,3]"), Err(BatchFault::Count(2))));
        for text in ["[1,", "[1] 2", "[1,2,3", "{}"] {
            assert!(count(text).is_err(), "{text}");
        }
        let error = RpcError::from(split(b"[1,\n?]", 2).unwrap_err());
        assert_eq!((error.code, error.message.contains("line 2")), (PARSE_ERROR, true), "{error:?}");
    }
}
