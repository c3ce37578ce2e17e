//! JSON-RPC batches: arrays of messages, which MCP 2025-03-26 introduced and 2025-06-18 removed. Clients cannot send them;
//! servers of every version can, as with the SDK clients.

use super::skim::Skim;

/// The error for a batch of a client.
pub const BATCHES_REMOVED: &str =
    "the body is a JSON-RPC batch, and MCP has removed batches: send each message in a request of its own";

/// Whether a JSON text is an array.
pub fn is_batch(text: &[u8]) -> bool {
    text.trim_ascii_start().first() == Some(&b'[')
}

/// Returns the elements of an array of 1 to `most` elements; `None` for other texts.
pub fn split(text: &[u8], most: usize) -> Option<Vec<Skim<'_>>> {
    let array = is_batch(text).then(|| Skim::of(text)).flatten()?;
    // Each takes memory that no budget counts.
    let elements: Vec<_> = array.elements()?.take(most + 1).collect();
    (1..=most).contains(&elements.len()).then_some(elements)
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
