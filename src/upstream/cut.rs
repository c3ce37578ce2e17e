//! Whose a message is that is too long to be read. No IO.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

/// What the beginning of a message that is too long says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// It answers the request of this id.
    Answer(u64),
    /// It is a request or a notification, or answers what was not asked.
    Unasked,
    /// That cannot be told.
    Unknown,
}

/// The bytes at the beginning of a message in which its id is looked for.
const BEGINNING: usize = 4096;

/// Reads the members of a message that stand before those that are long.
pub(super) fn read_cut(beginning: &[u8]) -> Cut {
    struct Seen<'a>(&'a mut Cut);
    impl<'de> Visitor<'de> for Seen<'_> {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a message")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(name) = map.next_key::<Cow<'_, str>>()? {
                match &*name {
                    "id" => {
                        let id = map.next_value::<serde_json::Value>()?;
                        *self.0 = id.as_u64().map_or(Cut::Unasked, Cut::Answer);
                    }
                    "method" => {
                        *self.0 = Cut::Unasked;
                        return Ok(());
                    }
                    _ => drop(map.next_value::<IgnoredAny>()?),
                }
            }
            Ok(())
        }
    }
    let mut cut = Cut::Unknown;
    let beginning = &beginning[..beginning.len().min(BEGINNING)];
    // That it ends in the middle is known.
    let _ = serde_json::Deserializer::from_slice(beginning).deserialize_map(Seen(&mut cut));
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_message_tells_whose_it_is() {
        let long = "x".repeat(2 * BEGINNING);
        for (text, cut) in [
            (format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":"{long}"#), Cut::Answer(7)),
            (format!(r#" {{"id": 7, "result":"{long}"#), Cut::Answer(7)),
            (format!(r#"{{"id":"seven","result":"{long}"#), Cut::Unasked),
            (format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":"{long}"#), Cut::Unasked),
            (format!(r#"{{"id":7,"method":"sampling/createMessage","params":"{long}"#), Cut::Unasked),
            (format!(r#"{{"result":{{"id":7,"a":"{long}"#), Cut::Unknown),
            (long, Cut::Unknown),
        ] {
            assert_eq!(read_cut(text.as_bytes()), cut, "{text:.60}");
        }
    }
}
