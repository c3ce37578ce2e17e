//! How much a schema holds with its references followed, and which schemas are not used.

use std::collections::BTreeSet;

use serde_json::Value;

use super::patterns::MAX_LENGTH;
use super::said::shortened;
use super::unusable::{MAX_DEPTH, MAX_PLACES, Unusable};

/// The places that a pattern counts for: it reads every byte of a string.
const OF_PATTERN: usize = 50;
/// The places of another keyword that reads all of a string or list.
const OF_READING: usize = 20;
/// A place counts again for so many levels, because the library copies the schemas of some keywords at each level,
const LEVELS: usize = 8;
/// and for so many bytes of the path to it, which the library keeps for each keyword.
const PATH: usize = 256;

/// The keywords that depend on more of a string than that it is one.
const READING: [&str; 10] = [
    "const",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "enum",
    "format",
    "maxLength",
    "minLength",
    "pattern",
    "uniqueItems",
];

/// What the members of a schema hold that JSON Schema (2020-12, core 10 and 11, and older drafts) takes as schemas.
enum Holds {
    Schema,
    List,
    Map,
    /// A schema, or a list of them.
    Either,
    Data,
}

fn holds(keyword: &str) -> Holds {
    match keyword {
        "additionalItems"
        | "additionalProperties"
        | "contains"
        | "contentSchema"
        | "else"
        | "if"
        | "not"
        | "propertyNames"
        | "then" => Holds::Schema,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Holds::List,
        "dependencies" | "dependentSchemas" | "patternProperties" | "properties" => Holds::Map,
        "items" => Holds::Either,
        _ => Holds::Data,
    }
}

/// Where a schema is: how many schemas it is in, and the bytes of the path to it.
#[derive(Clone, Copy)]
struct Position {
    depth: usize,
    path: usize,
}

impl Position {
    fn at(self, name: &str) -> Self {
        Self { path: self.path + 1 + name.len(), ..self }
    }
}

/// The places and patterns of a schema.
pub(super) struct Places<'a> {
    root: &'a Value,
    pub(super) count: usize,
    pub(super) patterns: BTreeSet<&'a str>,
    /// Whether a keyword depends on more of a string than that it is one.
    pub(super) reads_strings: bool,
}

impl<'a> Places<'a> {
    /// Counts the places of the document `root`.
    ///
    /// # Errors
    /// If they are too many or too deep, as those of a recursive schema always are, or if there is a reference or a keyword
    /// that is not followed.
    pub(super) fn of(root: &'a Value) -> Result<Self, Unusable> {
        let is_draft_4 = root["$schema"].as_str().is_some_and(|draft| draft.contains("draft-04"));
        let names = ["$schema", if is_draft_4 { "id" } else { "$id" }];
        let members = root.as_object().into_iter().flatten();
        // The references of a schema that has a name of its own begin there.
        if let Some(name) = members.filter_map(|(_, value)| named(value, names)).next() {
            return Err(Unusable::Unfollowed(format!("{name:?} below its root")));
        }
        // The library reads those outside of schemas too, when it holds the document against its meta-schema.
        if let Some(pattern) = long_pattern(root) {
            return Err(Unusable::Pattern(shortened(&format_args!("{pattern:?}"))));
        }
        let mut places = Self { root, count: 0, patterns: BTreeSet::new(), reads_strings: false };
        places.schema(root, Position { depth: 0, path: 0 })?;
        Ok(places)
    }

    fn add(&mut self, values: usize, at: Position) -> Result<(), Unusable> {
        self.count += values * (1 + at.depth / LEVELS + at.path / PATH);
        if self.count > MAX_PLACES { Err(Unusable::Unfolds) } else { Ok(()) }
    }

    fn schema(&mut self, schema: &'a Value, at: Position) -> Result<(), Unusable> {
        let Value::Object(members) = schema else { return self.add(values(schema), at) };
        if at.depth > MAX_DEPTH {
            return Err(Unusable::Unfolds);
        }
        self.add(1, at)?;
        members.iter().try_for_each(|(keyword, value)| self.keyword(keyword, value, at.at(keyword)))
    }

    /// Counts what one keyword of a schema holds.
    fn keyword(&mut self, keyword: &str, value: &'a Value, at: Position) -> Result<(), Unusable> {
        let inner = Position { depth: at.depth + 1, ..at };
        self.reads_strings |= READING.contains(&keyword);
        match (keyword, value) {
            ("$ref", Value::String(reference)) => {
                let inner = Position { path: reference.len(), ..inner };
                return self.target(reference).and_then(|target| self.schema(target, inner));
            }
            ("$dynamicRef" | "$recursiveRef" | "unevaluatedItems" | "unevaluatedProperties", _) => {
                return Err(Unusable::Unfollowed(format!("{keyword:?}")));
            }
            ("pattern", Value::String(pattern)) => self.pattern(pattern, at)?,
            ("contentEncoding" | "contentMediaType" | "format" | "uniqueItems", _) => self.add(OF_READING, at)?,
            _ => {}
        }
        match (holds(keyword), value) {
            (Holds::Schema | Holds::Either, Value::Object(_)) => self.schema(value, inner),
            (Holds::List | Holds::Either, Value::Array(list)) => list.iter().try_for_each(|it| self.schema(it, inner)),
            (Holds::Map, Value::Object(map)) => map.iter().try_for_each(|(name, value)| {
                if keyword == "patternProperties" {
                    self.pattern(name, at)?;
                }
                self.schema(value, inner.at(name))
            }),
            _ => self.add(values_of(keyword, value), at),
        }
    }

    fn pattern(&mut self, pattern: &'a str, at: Position) -> Result<(), Unusable> {
        self.patterns.insert(pattern);
        self.add(OF_PATTERN, at)
    }

    /// What a reference leads to. Only JSON Pointers into the same document are followed, in the one way to write each.
    fn target(&self, reference: &str) -> Result<&'a Value, Unusable> {
        let pointer = reference.strip_prefix('#').filter(|pointer| !pointer.contains('%'));
        let target = pointer.and_then(|pointer| self.root.pointer(pointer));
        target.ok_or_else(|| Unusable::Unfollowed(shortened(&format_args!("a reference to {reference:?}"))))
    }
}

/// Returns which of the names a value has, at any depth, as a member that is a string.
fn named<'n>(value: &Value, names: [&'n str; 2]) -> Option<&'n str> {
    match value {
        Value::Array(list) => list.iter().find_map(|value| named(value, names)),
        Value::Object(members) => {
            let own = names.into_iter().find(|name| members.get(*name).is_some_and(Value::is_string));
            own.or_else(|| members.values().find_map(|value| named(value, names)))
        }
        _ => None,
    }
}

/// Returns a string or name at any depth that is too long and, as a part of a schema, would be a pattern.
fn long_pattern(value: &Value) -> Option<&str> {
    match value {
        Value::Array(list) => list.iter().find_map(long_pattern),
        Value::Object(members) => members.iter().find_map(|(name, value)| {
            let mut patterns: Vec<&str> = value.as_str().filter(|_| name == "pattern").into_iter().collect();
            if name == "patternProperties" {
                patterns.extend(value.as_object().into_iter().flatten().map(|(name, _)| name.as_str()));
            }
            patterns.into_iter().find(|pattern| pattern.len() > MAX_LENGTH).or_else(|| long_pattern(value))
        }),
        _ => None,
    }
}

/// The number of values in a value.
fn values(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(values).sum::<usize>(),
        Value::Object(members) => 1 + members.iter().map(|(name, value)| values_of(name, value)).sum::<usize>(),
        _ => 1,
    }
}

/// The number of values in the value of a keyword. The library compares all lists and objects of an `enum` with one another.
fn values_of(keyword: &str, value: &Value) -> usize {
    let compared = value.as_array().into_iter().flatten().filter(|it| it.is_array() || it.is_object()).count();
    values(value) * if keyword == "enum" { compared.max(1) } else { 1 }
}
