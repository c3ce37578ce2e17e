//! JSON objects whose values keep their original bytes.
//!
//! Everything that no plugin changed is sent on unchanged: number text, key order, unknown fields. So an object is
//! parsed only one level deep and reassembled from the same raw values.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::Error;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::skim::Skim;

/// The members of a JSON object in their original order, with raw values.
#[derive(Clone, Debug, Default)]
pub struct RawObject(Vec<(String, Box<RawValue>)>);

impl RawObject {
    /// Parses an object. Fails if `json` is not a JSON object.
    pub fn parse(json: &str) -> Result<Self, serde_json::Error> {
        let why = || serde_json::from_str::<BTreeMap<String, &RawValue>>(json).err();
        Self::read(json).ok_or_else(|| why().unwrap_or_else(|| Error::custom("it cannot be read")))
    }

    fn read(json: &str) -> Option<Self> {
        let members = Skim::of(json.as_bytes())?.members()?;
        members
            .map(|(name, value)| Some((name?.into_owned(), value.raw()?.to_owned())))
            .collect::<Option<_>>()
            .map(Self)
    }

    /// Returns the value under `key`. If the key occurs twice, returns the last value, as most parsers do.
    pub fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().rev().find(|(k, _)| k == key).map(|(_, v)| &**v)
    }

    /// Returns the value under `key` if it is a string.
    pub fn get_str(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.get(key)?.get()).ok()
    }

    /// Sets `key` to `value`, in the place of the existing key or else at the end. If the key occurred more than once,
    /// it occurs once afterwards, because parsers differ in which value they use.
    pub fn set(&mut self, key: &str, value: Box<RawValue>) {
        let Some(place) = self.0.iter().position(|(k, _)| k == key) else {
            return self.0.push((key.to_owned(), value));
        };
        self.0[place].1 = value;
        let mut seen = 0;
        self.0.retain(|(k, _)| k != key || std::mem::replace(&mut seen, 1) == 0);
    }

    /// Removes every occurrence of `key`.
    pub fn remove(&mut self, key: &str) {
        self.0.retain(|(k, _)| k != key);
    }

    /// Iterates over the members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(k, v)| (k.as_str(), &**v))
    }

    /// Whether the object has no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Serializes the object.
    pub fn to_raw(&self) -> Box<RawValue> {
        to_raw(self)
    }
}

impl FromIterator<(String, Box<RawValue>)> for RawObject {
    fn from_iter<I: IntoIterator<Item = (String, Box<RawValue>)>>(members: I) -> Self {
        Self(members.into_iter().collect())
    }
}

impl Serialize for RawObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// Serializes `value` to raw JSON. A value that cannot be serialized (a map whose keys are not strings) becomes `null`;
/// no type of this crate has such values.
pub fn to_raw(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_bytes_of_what_it_does_not_touch() {
        let text = r#"{"b": 1.0,"a":[1, 12345678901234567890123],"b2":{"x" : null}}"#;
        let mut object = RawObject::parse(text).unwrap();
        object.set("a", RawValue::from_string("true".into()).unwrap());
        assert_eq!(object.to_raw().get(), r#"{"b":1.0,"a":true,"b2":{"x" : null}}"#);
        assert_eq!(object.get("b").unwrap().get(), "1.0");
    }

    #[test]
    fn a_doubled_key_stands_once_after_it_is_set() {
        let mut object = RawObject::parse(r#"{"a":1,"b":2,"a":3}"#).unwrap();
        assert_eq!(object.get("a").unwrap().get(), "3");
        object.set("a", RawValue::from_string("4".into()).unwrap());
        assert_eq!(object.to_raw().get(), r#"{"a":4,"b":2}"#);
    }

    #[test]
    fn is_for_objects_only() {
        assert!(RawObject::parse("[1]").is_err());
        assert!(RawObject::parse("{\"a\":1").is_err());
    }
}
