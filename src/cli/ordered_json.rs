//! Prints JSON values as JSON or YAML with keys in the original order. JSON output also keeps the digits of numbers.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::domain::raw::RawObject;

/// A JSON value whose members are serialized in the order in which the text contains them.
struct Ordered<'a> {
    raw: &'a RawValue,
    /// Whether scalars are copied as raw JSON text, which is possible only if the output is JSON.
    exact: bool,
}

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let inner = |raw| Ordered { raw, exact: self.exact };
        let text = self.raw.get();
        match text.as_bytes().first() {
            Some(b'{') => {
                let object = RawObject::parse(text).map_err(serde::ser::Error::custom)?;
                let mut map = serializer.serialize_map(None)?;
                for (key, value) in object.iter() {
                    map.serialize_entry(key, &inner(value))?;
                }
                map.end()
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text).map_err(serde::ser::Error::custom)?;
                let mut seq = serializer.serialize_seq(Some(items.len()))?;
                items.into_iter().try_for_each(|item| seq.serialize_element(&inner(item)))?;
                seq.end()
            }
            _ if self.exact => self.raw.serialize(serializer),
            // Numbers that are out of range, and half of a surrogate pair, stay as JSON.
            _ => match serde_json::from_str::<Value>(text) {
                Ok(value) => value.serialize(serializer),
                Err(_) => text.serialize(serializer),
            },
        }
    }
}

/// Returns indented JSON.
///
/// # Errors
/// If the value is nested too deep to parse.
pub fn to_json(raw: &RawValue) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&Ordered { raw, exact: true })?)
}

/// Returns YAML.
///
/// # Errors
/// If the value is nested too deep to parse.
pub fn to_yaml(raw: &RawValue) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(&Ordered { raw, exact: false })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_digits_stay() {
        let raw = RawValue::from_string(r#"{"z": 1.0, "a":[{"y":12345678901234567890123,"b":[]}], "m":{}}"#.into());
        let raw = raw.unwrap();
        let json = to_json(&raw).unwrap();
        assert_eq!(
            json,
            "{\n  \"z\": 1.0,\n  \"a\": [\n    {\n      \"y\": 12345678901234567890123,\n      \"b\": []\n    }\n  ],\n  \"m\": {}\n}"
        );
        let yaml = to_yaml(&raw).unwrap();
        let place = |key: &str| yaml.find(key).unwrap_or_else(|| panic!("{key}: {yaml}"));
        assert!(place("z:") < place("a:") && place("a:") < place("m:"), "{yaml}");
    }
}
