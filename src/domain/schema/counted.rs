//! Puts a counter in front of each schema in a schema, so that a check of a value can be measured while it runs, and
//! ended. What a check costs cannot be told from the size of the schema and of the value: alternatives, references and
//! patterns multiply it.
//!
//! The library evaluates `allOf` in its order. So `{"allOf": [COUNTER, SCHEMA]}` counts each time before SCHEMA is tried,
//! and means the same.

use serde_json::{Map, Value, json};

use super::counter::COUNTER;

/// The number of bytes of a pattern that count as one: how long it takes to compile one depends on its length.
pub(super) const PATTERN: usize = 100;

/// The steps of a byte that is decoded, as of base64.
const OF_DECODED: u64 = 1;
/// The steps of a byte that is read as JSON.
const OF_READ: u64 = 8;

/// The steps of finding out whether a schema is one.
const OF_READING: u64 = 400;
/// The steps of compiling a schema, beside those of what it holds.
const OF_SCHEMA: u64 = 500;
/// The steps of a value of a schema that is no schema, in either.
const OF_VALUE: u64 = 20;
/// The steps of compiling a pattern.
const OF_PATTERN: u64 = 50_000;
/// The steps of a value that is copied. It takes a fifth of that time, but some 400 bytes for as long as the schema is used.
const OF_COPIED: u64 = 200;
/// The number of values that a schema has with its counter, beside those that it holds.
const OF_COUNTER: u64 = 7;
/// The number of bytes of a text that is copied which count as one value.
const COPIED_BYTES: usize = 400;

/// The keywords whose schemas the library copies, with all that they hold, to say what did not fit; and those that some
/// drafts do not know, where it copies them as well. A schema with `unevaluatedItems` or `unevaluatedProperties` it copies
/// whole, at each level.
const COPIED: [&str; 10] = [
    "not",
    "contentSchema",
    "contains",
    "dependencies",
    "dependentSchemas",
    "else",
    "if",
    "prefixItems",
    "propertyNames",
    "then",
];
/// The keywords whose elements have to be distinct.
const COMPARED: [&str; 3] = ["enum", "required", "type"];

/// What the members of a schema hold that JSON Schema (2020-12, core 10 and 11, and older drafts) takes as schemas.
pub(super) enum Holds {
    Schema,
    List,
    Map,
    /// A schema, or a list of them.
    Either,
    Data,
}

/// What a keyword holds.
pub(super) fn holds(keyword: &str) -> Holds {
    match keyword {
        "additionalItems"
        | "additionalProperties"
        | "contains"
        | "contentSchema"
        | "else"
        | "if"
        | "not"
        | "propertyNames"
        | "then"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Holds::Schema,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Holds::List,
        "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" | "properties" => {
            Holds::Map
        }
        "items" => Holds::Either,
        _ => Holds::Data,
    }
}

/// A schema with its counters.
pub(super) struct Counted {
    pub(super) schema: Value,
    /// How many patterns there are, in [`PATTERN`]s.
    pub(super) patterns: usize,
    /// The steps of finding out whether it is a schema, which the library does before it compiles it.
    pub(super) reading: u64,
    /// How many distinct references there are.
    references: usize,
    /// The number of bytes of the URI that the schema says it has.
    base: usize,
}

impl Counted {
    /// Returns the schema with its counters. It has so many distinct references.
    ///
    /// # Errors
    /// A reference that leads to what is no schema, or a keyword that cannot be followed here.
    pub(super) fn of(schema: &Value, references: usize) -> Result<Self, String> {
        let Value::Object(root) = schema else {
            return Ok(Self { schema: schema.clone(), patterns: 0, reading: 0, references, base: 0 });
        };
        let id = |keyword| root.get(keyword).and_then(Value::as_str).map_or(0, str::len);
        let base = id("$id").max(id("id"));
        let mut counted = Self { schema: Value::Null, patterns: 0, reading: 0, references, base };
        let mut inner = counted.inside(root, true)?;
        // They say what the document is, and are read from its root only.
        let mut outer = Map::new();
        for keyword in ["$schema", "$id", "id"] {
            if let Some(value) = inner.get(keyword).filter(|value| value.is_string()) {
                outer.insert(keyword.to_owned(), value.clone());
                inner.remove(keyword);
            }
        }
        outer.insert("allOf".to_owned(), behind_counter(counted.weight(root), inner));
        let mut whole = Value::Object(outer);
        redirect(&mut whole, schema)?;
        counted.schema = whole;
        Ok(counted)
    }

    /// Returns a schema with its counter.
    fn around(&mut self, schema: &Value) -> Result<Value, String> {
        let Value::Object(members) = schema else { return Ok(schema.clone()) };
        let inner = self.inside(members, false)?;
        let counted = Map::from_iter([("allOf".to_owned(), behind_counter(self.weight(members), inner))]);
        Ok(Value::Object(counted))
    }

    /// Returns a schema whose inner schemas have their counters.
    fn inside(&mut self, schema: &Map<String, Value>, is_root: bool) -> Result<Map<String, Value>, String> {
        let unknown = |keyword: &str| format!("{keyword:?}");
        if let Some(keyword) = ["$dynamicRef", "$recursiveRef"].into_iter().find(|it| schema.contains_key(*it)) {
            return Err(unknown(keyword));
        }
        // A schema of its own in another one: its references begin there.
        let is_own = |keyword: &&str| schema.get(*keyword).is_some_and(Value::is_string);
        if let Some(keyword) = ["$id", "id"].into_iter().find(is_own).filter(|_| !is_root) {
            return Err(unknown(keyword));
        }
        let mut members = Map::new();
        // A counter of the schema's own would count as one of these.
        for (keyword, value) in schema.iter().filter(|(keyword, _)| *keyword != COUNTER) {
            let changed = match (holds(keyword), value) {
                (Holds::Schema | Holds::Either, Value::Object(_) | Value::Bool(_)) => self.around(value)?,
                (Holds::List | Holds::Either, Value::Array(list)) => {
                    list.iter().map(|value| self.around(value)).collect::<Result<Value, _>>()?
                }
                (Holds::Map, Value::Object(map)) => {
                    if keyword == "patternProperties" {
                        self.patterns += map.keys().map(|pattern| size_of_pattern(pattern)).sum::<usize>();
                    }
                    let each = map.iter().map(|(name, value)| Ok((name.clone(), self.around(value)?)));
                    Value::Object(each.collect::<Result<_, String>>()?)
                }
                _ => value.clone(),
            };
            if keyword == "pattern" {
                self.patterns += size_of_pattern(value.as_str().unwrap_or_default());
            }
            members.insert(keyword.clone(), changed);
        }
        Ok(members)
    }

    /// What it costs to try a schema, and to compile it, without the schemas in it.
    fn weight(&mut self, schema: &Map<String, Value>) -> Map<String, Value> {
        let own = |(keyword, value): (&String, &Value)| match holds(keyword) {
            Holds::Data => values(value),
            _ => 1,
        };
        let values = schema.iter().map(own).sum::<u64>();
        let compared = COMPARED.iter().filter_map(|keyword| schema.get(*keyword)).map(of_comparing).sum::<u64>();
        self.reading += OF_READING + values * OF_VALUE + compared;
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        let names = patterns.map(|patterns| patterns.keys().map(|name| json!(name)).collect());
        let all = [
            ("values", Some(json!(values))),
            ("compiling", Some(json!(self.of_compiling(schema, values)))),
            ("pattern", schema.get("pattern").cloned()),
            ("names", names),
            ("format", schema.get("format").map(|_| json!(true))),
            ("content", Some(of_content(schema)).filter(|steps| *steps > 0).map(Value::from)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

    /// The steps of compiling a schema with so many values of its own, without the schemas in it.
    fn of_compiling(&self, schema: &Map<String, Value>, values: u64) -> u64 {
        let own = schema.get("pattern").and_then(Value::as_str).map_or(0, size_of_pattern);
        let names = schema.get("patternProperties").and_then(Value::as_object);
        let of_names = names.into_iter().flat_map(Map::keys).map(|name| size_of_pattern(name)).sum::<usize>();
        let followed = if schema.contains_key("$ref") { self.references } else { 0 };
        let once = OF_SCHEMA + (self.base + followed) as u64 + (own + of_names) as u64 * OF_PATTERN;
        once + values * OF_VALUE + copied(schema) * OF_COPIED
    }
}

/// The number of values that the library copies of a schema.
fn copied(schema: &Map<String, Value>) -> u64 {
    match ["unevaluatedItems", "unevaluatedProperties"].iter().any(|keyword| schema.contains_key(*keyword)) {
        true => schema.values().map(size_of_copy).sum(),
        false => COPIED.iter().filter_map(|keyword| schema.get(*keyword)).map(size_of_copy).sum(),
    }
}

/// The steps of finding out whether the elements of lists are distinct. The library compares all with one another that hold
/// the same in another structure.
fn of_comparing(value: &Value) -> u64 {
    let Value::Array(list) = value else { return 0 };
    let structures: Vec<_> = list.iter().filter(|it| it.is_array() || it.is_object()).map(values).collect();
    structures.iter().sum::<u64>().saturating_mul(structures.len() as u64)
}

/// Has the references of a schema lead to where the schemas of `root` are once they have their counters.
fn redirect(schema: &mut Value, root: &Value) -> Result<(), String> {
    let Value::Object(members) = schema else { return Ok(()) };
    if let Some(Value::String(reference)) = members.get_mut("$ref") {
        let place = reference.strip_prefix('#').and_then(|place| moved(root, place));
        let place = place.ok_or_else(|| format!("a reference to {:?}, where no schema is", reference))?;
        *reference = format!("#{place}");
    }
    for (keyword, value) in members {
        match (holds(keyword), value) {
            (Holds::Schema | Holds::Either, value @ Value::Object(_)) => redirect(value, root)?,
            (Holds::List | Holds::Either, Value::Array(list)) => {
                list.iter_mut().try_for_each(|value| redirect(value, root))?;
            }
            (Holds::Map, Value::Object(map)) => map.values_mut().try_for_each(|value| redirect(value, root))?,
            _ => {}
        }
    }
    Ok(())
}

/// Returns where the schema that a JSON Pointer leads to is once all have their counters; `None` if no schema is there.
fn moved(root: &Value, pointer: &str) -> Option<String> {
    let (mut schema, mut place) = (root, String::new());
    let mut steps = pointer.split('/');
    if steps.next() != Some("") {
        return None;
    }
    while let Some(keyword) = steps.next() {
        let value = schema.as_object()?.get(keyword)?;
        place.extend(["/allOf/1/", keyword]);
        schema = match (holds(keyword), value) {
            (Holds::Schema | Holds::Either, Value::Object(_) | Value::Bool(_)) => value,
            (Holds::List | Holds::Either, Value::Array(_)) | (Holds::Map, Value::Object(_)) => {
                let step = steps.next()?;
                place.extend(["/", step]);
                value.pointer(&format!("/{step}"))?
            }
            _ => return None,
        };
    }
    Some(place)
}

/// Returns for how many patterns one counts.
fn size_of_pattern(pattern: &str) -> usize {
    1 + pattern.len() / PATTERN
}

/// Returns what `allOf` holds in place of a schema. (`json!` would copy the schema, at each level that it is deep.)
fn behind_counter(weight: Map<String, Value>, schema: Map<String, Value>) -> Value {
    let counter = Map::from_iter([(COUNTER.to_owned(), Value::Object(weight))]);
    Value::Array(vec![Value::Object(counter), Value::Object(schema)])
}

/// The steps of each byte of a string that is decoded, and read as JSON.
fn of_content(schema: &Map<String, Value>) -> u64 {
    let is_decoded = schema.get("contentEncoding").is_some_and(Value::is_string);
    let is_read = schema.get("contentMediaType").is_some_and(|it| it == "application/json");
    u64::from(is_decoded) * OF_DECODED + u64::from(is_read) * OF_READ
}

/// The number of values in a value once it has its counters, where long texts count as several.
fn size_of_copy(value: &Value) -> u64 {
    match value {
        Value::Array(list) => 1 + list.iter().map(size_of_copy).sum::<u64>(),
        Value::Object(members) => OF_COUNTER + members.values().map(size_of_copy).sum::<u64>(),
        Value::String(text) => 1 + (text.len() / COPIED_BYTES) as u64,
        _ => 1,
    }
}

/// The number of values in a value.
pub(super) fn values(value: &Value) -> u64 {
    match value {
        Value::Array(list) => 1 + list.iter().map(values).sum::<u64>(),
        Value::Object(members) => 1 + members.values().map(values).sum::<u64>(),
        _ => 1,
    }
}
