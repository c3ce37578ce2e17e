//! Digests of the definitions of tools, as owners approve them.

use serde_json::value::RawValue;

use super::digest::sha256_hex;
use super::item::Item;
use super::raw::{RawObject, to_raw};

/// The members of a definition that the digest covers: what a model reads of the tool, and what it may be given.
const COVERED: [&str; 5] = ["name", "description", "inputSchema", "outputSchema", "annotations"];
/// Deeper values are taken as they are written.
const MAX_DEPTH: usize = 128;

/// Returns the SHA-256 of what the definition says, in hex. Neither the order of members nor white space nor escapes
/// count; numbers count as they are written.
pub fn digest(tool: &Item) -> String {
    let definition = RawObject::parse(tool.definition.get()).unwrap_or_default();
    let mut text = String::new();
    for name in COVERED {
        if let Some(value) = definition.get(name) {
            text.push_str(name);
            text.push(':');
            write(value, 0, &mut text);
            text.push('\n');
        }
    }
    sha256_hex(text.as_bytes())
}

/// Writes a value with sorted members and without white space.
fn write(value: &RawValue, depth: usize, text: &mut String) {
    let raw = value.get();
    match raw.as_bytes().first() {
        Some(b'{')
            if depth < MAX_DEPTH
                && let Ok(object) = RawObject::parse(raw) =>
        {
            let mut members: Vec<_> = object.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in members {
                text.push_str(to_raw(&name).get());
                text.push(':');
                write(value, depth + 1, text);
                text.push(',');
            }
            text.push('}');
        }
        Some(b'[')
            if depth < MAX_DEPTH
                && let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(raw) =>
        {
            text.push('[');
            for item in items {
                write(item, depth + 1, text);
                text.push(',');
            }
            text.push(']');
        }
        Some(b'"') => match serde_json::from_str::<String>(raw) {
            Ok(decoded) => text.push_str(to_raw(&decoded).get()),
            Err(_) => text.push_str(raw),
        },
        _ => text.push_str(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::item::ItemKind;

    fn of(definition: &str) -> String {
        digest(&Item::parse(ItemKind::Tool, &RawValue::from_string(definition.into()).unwrap()).unwrap())
    }

    const TOOL: &str = r#"{"name":"a","description":"é","inputSchema":{"type":"object","x":[1,{"b":2,"a":[]}]}}"#;

    #[test]
    fn the_way_of_writing_does_not_count() {
        let same =
            r#"{ "inputSchema" : {"x": [1, {"a":[], "b":2}], "type":"object"}, "description":"\u00e9","name":"a"}"#;
        assert_eq!(of(TOOL), of(same));
        assert_eq!(of(TOOL), of(&TOOL.replace("\"name\"", "\"title\":\"A\",\"_meta\":{},\"name\"")), "not covered");
    }

    #[test]
    fn the_digest_stays_the_same_over_versions() {
        assert_eq!(of(r#"{"name":"a"}"#), sha256_hex(b"name:\"a\"\n"));
    }

    #[test]
    fn what_a_model_reads_counts() {
        for (from, to) in [
            ("\"é\"", "\"e\""),
            ("\"a\",", "\"b\","),
            ("[1,", "[1.0,"),
            ("[1,", "[12345678901234567890123,"),
            ("\"b\":2", "\"b\":3"),
            ("\"b\":2", "\"b\":2,\"b\":2"),
            ("\"name\"", "\"annotations\":{},\"name\""),
            ("\"name\"", "\"outputSchema\":{},\"name\""),
        ] {
            let other = TOOL.replacen(from, to, 1);
            assert!(other != TOOL && of(TOOL) != of(&other), "{other}");
        }
    }
}
