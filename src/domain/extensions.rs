//! Extensions of the protocol that clients and servers declare in their capabilities, each with its settings (MCP
//! 2026-07-28, extensions), and experimental capabilities, which have the same form.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::raw::RawObject;
use super::secret::Mask;

/// The extension for tasks (SEP-2663). It belongs to the modern era: the legacy era has tasks of another form.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";
/// The extension for skills (SEP-2640).
pub const SKILLS: &str = "io.modelcontextprotocol/skills";
/// Extensions whose methods this gateway does not carry, so that it offers them to nobody and tells no server that a
/// client has them.
const NOT_CARRIED: [&str; 1] = [SKILLS];

/// Maximum number of extensions of one client or server.
const MAX_EXTENSIONS: usize = 32;
/// Maximum number of elements of an array that are compared with those of another.
const MAX_COMPARED: usize = 64;
/// Maximum length of the name of an extension, in bytes.
const MAX_NAME: usize = 128;
/// Maximum size of what a client declares, in bytes of JSON. The id of a session can contain it.
pub const MAX_OF_CLIENT: usize = 1 << 10;
/// Maximum size of what a server declares, in bytes of JSON.
pub const MAX_OF_SERVER: usize = 16 << 10;

/// The settings of extensions by name, as one JSON object whose members are sorted. The settings keep their bytes. Clones
/// share the text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extensions(Option<Arc<str>>);

impl Extensions {
    /// Reads what a client or a server declares. Leaves out what has no valid name, whose settings are not an object, what
    /// this gateway does not carry, and what exceeds `max` bytes or [`MAX_EXTENSIONS`].
    pub fn read(declared: Option<&RawValue>, max: usize) -> Self {
        let declared = declared.and_then(|declared| RawObject::parse(declared.get()).ok()).unwrap_or_default();
        let mut kept = BTreeMap::new();
        let mut size = "{}".len();
        for (name, settings) in declared.iter().filter(|(name, settings)| is_valid(name, settings)) {
            size += name.len() + settings.get().len() + r#""":,"#.len();
            if size <= max && kept.len() < MAX_EXTENSIONS {
                kept.insert(name, settings);
            }
        }
        Self::of(&kept)
    }

    fn of(settings: &BTreeMap<&str, &RawValue>) -> Self {
        let text = serde_json::to_string(settings).ok().filter(|_| !settings.is_empty());
        Self(text.map(Arc::from))
    }

    /// Whether nothing is declared.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the settings by name as a JSON object.
    pub fn as_json(&self) -> &str {
        self.0.as_deref().unwrap_or("{}")
    }

    /// Returns the extensions that some of several servers declare. Where several declare the same one, its settings are
    /// those that all of them have: each call reaches only one of the servers, so anything else could be a false promise.
    pub fn union<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut together: BTreeMap<String, Box<RawValue>> = BTreeMap::new();
        for declared in all {
            for (name, settings) in RawObject::parse(declared.as_json()).unwrap_or_default().iter() {
                let has_room = together.len() < MAX_EXTENSIONS;
                match together.entry(name.to_owned()) {
                    Entry::Occupied(mut known) => {
                        let both = agreed(known.get(), settings);
                        known.insert(both);
                    }
                    Entry::Vacant(new) if has_room => {
                        new.insert(settings.to_owned());
                    }
                    Entry::Vacant(_) => {}
                }
            }
        }
        Self::of(&together.iter().map(|(name, settings)| (name.as_str(), &**settings)).collect())
    }

    /// Whether this extension is declared.
    pub fn has(&self, name: &str) -> bool {
        RawObject::parse(self.as_json()).is_ok_and(|declared| declared.get(name).is_some())
    }

    /// Returns the extensions without this one.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let declared = RawObject::parse(self.as_json()).unwrap_or_default();
        Self::of(&declared.iter().filter(|(declared, _)| *declared != name).collect())
    }

    /// Returns the extensions whose settings contain no secret value.
    pub fn without_secrets(&self, mask: &Mask) -> Self {
        let declared = RawObject::parse(self.as_json()).unwrap_or_default();
        let is_clean = |(name, settings): &(&str, &RawValue)| {
            mask.masked_whole(*name) == *name && mask.masked_json((*settings).to_owned()).get() == settings.get()
        };
        Self::of(&declared.iter().filter(is_clean).collect())
    }
}

/// Whether an extension has a valid name (MCP 2026-07-28, extensions) and settings, and is carried.
fn is_valid(name: &str, settings: &RawValue) -> bool {
    let is_named = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
    is_named && settings.get().starts_with('{') && !NOT_CARRIED.contains(&name)
}

/// Returns the settings that are in both of two objects.
fn agreed(one: &RawValue, other: &RawValue) -> Box<RawValue> {
    if one.get() == other.get() {
        return one.to_owned();
    }
    let parsed = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).unwrap_or_default();
    let both = in_both(&parsed(one), &parsed(other)).unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    super::raw::to_raw(&both)
}

/// Returns what two values have in common: of objects the members, of arrays the elements, of which the
/// first [`MAX_COMPARED`] are looked at. `None` if other values differ.
fn in_both(one: &Value, other: &Value) -> Option<Value> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let members =
                one.iter().filter_map(|(name, value)| Some((name.clone(), in_both(value, other.get(name)?)?)));
            Some(Value::Object(members.collect()))
        }
        (Value::Array(one), Value::Array(other)) => {
            let other = &other[..other.len().min(MAX_COMPARED)];
            let both = one.iter().take(MAX_COMPARED).filter(|element| other.contains(element));
            Some(Value::Array(both.cloned().collect()))
        }
        (one, other) => (one == other).then(|| one.clone()),
    }
}

impl Serialize for Extensions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json: &RawValue = serde_json::from_str(self.as_json()).map_err(serde::ser::Error::custom)?;
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Extensions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self::read(Some(&json), MAX_OF_SERVER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::secret::SecretText;

    fn read(text: &str) -> Extensions {
        Extensions::read(Some(&RawValue::from_string(text.into()).unwrap()), MAX_OF_CLIENT)
    }

    #[test]
    fn settings_keep_their_bytes_and_what_is_not_valid_is_left_out() {
        let long = format!(r#"{{"{}":{{}}}}"#, "x".repeat(MAX_NAME + 1));
        let large = format!(r#"{{"b/large":{{"x":"{}"}},"a/small":{{}}}}"#, "x".repeat(MAX_OF_CLIENT));
        for (declared, kept) in [
            (r#"{"b/x":{"n": 1.0},"a/y":{}}"#, r#"{"a/y":{},"b/x":{"n": 1.0}}"#),
            (r#"{"a/x":true,"":{},"a b":{},"a/y":{"k":[]}}"#, r#"{"a/y":{"k":[]}}"#),
            (r#"{"io.modelcontextprotocol/skills":{}}"#, "{}"),
            ("[]", "{}"),
            (long.as_str(), "{}"),
            (large.as_str(), "{}"),
        ] {
            assert_eq!(read(declared).as_json(), kept, "{declared}");
        }
        let many: Vec<_> = (0..2 * MAX_EXTENSIONS).map(|n| format!(r#""{n}":{{}}"#)).collect();
        let many = read(&format!("{{{}}}", many.join(",")));
        assert_eq!(RawObject::parse(many.as_json()).unwrap().iter().count(), MAX_EXTENSIONS);
        assert!(Extensions::read(None, MAX_OF_CLIENT).is_empty());
        let two = read(r#"{"a/x":{},"a/y":{}}"#);
        assert!(two.has("a/x") && !two.without("a/x").has("a/x") && two.without("a/x").has("a/y"));
    }

    #[test]
    fn of_several_servers_only_what_all_say_is_promised() {
        let [a, b, c] = [
            r#"{"x/a":{"types":["p","q"],"deep":{"k":1,"l":2},"n":1},"x/only":{"n": 1.0}}"#,
            r#"{"x/a":{"types":["q","r"],"deep":{"k":1,"l":3},"n":2}}"#,
            r#"{"x/c":{}}"#,
        ]
        .map(read);
        let all = Extensions::union([&a, &b, &c]);
        assert_eq!(all.as_json(), r#"{"x/a":{"deep":{"k":1},"types":["q"]},"x/c":{},"x/only":{"n": 1.0}}"#);
        assert_eq!(Extensions::union([&a, &a]), a);
        assert!(Extensions::union([]).is_empty());
    }

    #[test]
    fn settings_with_a_secret_are_told_to_nobody() {
        let mask = Mask::of([&SecretText::new("hunter22")]);
        let declared =
            read(r#"{"x/a":{"key":"hunter22"},"x/e":{"key":"hunte\u007222"},"x/b":{},"x/hunt":{"k":"hunt"}}"#);
        assert_eq!(declared.without_secrets(&mask).as_json(), r#"{"x/b":{},"x/hunt":{"k":"hunt"}}"#);
    }

    #[test]
    fn extensions_are_written_and_read_as_json() {
        let declared = read(r#"{"a/x":{"n": 1.0}}"#);
        let json = serde_json::to_string(&declared).unwrap();
        assert_eq!(json, r#"{"a/x":{"n": 1.0}}"#);
        assert_eq!(serde_json::from_str::<Extensions>(&json).unwrap(), declared);
    }

    #[test]
    fn long_arrays_are_compared_in_part() {
        let elements =
            |from: usize| (from..from + 2 * MAX_COMPARED).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        let [one, other] = [0, 1].map(|from| read(&format!(r#"{{"x/a":{{"all":[{}]}}}}"#, elements(from))));
        let both: Value = serde_json::from_str(Extensions::union([&one, &other]).as_json()).unwrap();
        assert_eq!(both["x/a"]["all"].as_array().unwrap().len(), MAX_COMPARED - 1);
    }
}
