//! JSON-RPC batches: arrays of messages, which MCP 2025-03-26 introduced and 2025-06-18 removed. Clients cannot send them;
//! servers of every version can, as with the SDK clients.

use std::fmt;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The error for a batch of a client.
pub const BATCHES_REMOVED: &str =
    "the body is a JSON-RPC batch, and MCP has removed batches: send each message in a request of its own";

/// Whether a JSON text is an array.
pub fn is_batch(text: &[u8]) -> bool {
    text.trim_ascii_start().first() == Some(&b'[')
}

/// Returns the elements of an array of 1 to `most` elements; `None` for other texts. An array with too many elements is not
/// read to its end, because each element takes memory that no budget counts.
pub fn split(text: &[u8], most: usize) -> Option<Vec<&RawValue>> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let elements = json.deserialize_seq(Elements { most }).ok()?;
    json.end().ok()?;
    Some(elements).filter(|elements| !elements.is_empty())
}

struct Elements {
    most: usize,
}

impl<'a> Visitor<'a> for Elements {
    type Value = Vec<&'a RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of at most {} elements", self.most)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = array.next_element()? {
            if elements.len() == self.most {
                return Err(serde::de::Error::invalid_length(self.most + 1, &self));
            }
            elements.push(element);
        }
        Ok(elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_split_if_its_number_of_elements_is_allowed() {
        let count = |text: &str| split(text.as_bytes(), 2).map(|elements| elements.len());
        assert_eq!(count(r#" [{"a":[1,2]}, 7] "#), Some(2));
        for text in ["[]", "[1,2,3]", "[1,", "[1] 2", "[1,2,3", "{}"] {
            assert_eq!(count(text), None, "{text}");
        }
    }
}
