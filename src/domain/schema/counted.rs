//! Puts a counter in front of each schema in a schema, so that a check of a value can be measured while it runs, and
//! ended. What a check costs cannot be told from the size of the schema and of the value: alternatives, references and
//! patterns multiply it.
//!
//! The library evaluates `allOf` in its order. So `{"allOf": [COUNTER, SCHEMA]}` counts each time before SCHEMA is tried,
//! and means the same.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::counter::COUNTER;

/// The number of bytes of a pattern that count as one: how long it takes to compile one depends on its length.
pub(super) const PATTERN: usize = 100;

/// The steps of a byte that is decoded, as of base64.
const OF_DECODED: u64 = 1;
/// The steps of a byte that is read as JSON.
const OF_READ: u64 = 8;

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
#[derive(Default)]
pub(super) struct Counted {
    /// Where each schema is, as a JSON Pointer, before and after.
    places: HashMap<String, String>,
    /// How many patterns there are, in [`PATTERN`]s.
    patterns: usize,
}

impl Counted {
    /// Returns the schema with its counters, and how many patterns it has, in [`PATTERN`]s.
    ///
    /// # Errors
    /// A reference that leads to what is no schema, or a keyword that cannot be followed here.
    pub(super) fn of(schema: &Value) -> Result<(Value, usize), String> {
        let mut counted = Self::default();
        let Value::Object(root) = schema else { return Ok((schema.clone(), 0)) };
        let mut inner = counted.inside(root, "", "/allOf/1", true)?;
        counted.places.insert(String::new(), String::new());
        // They say what the document is, and are read from its root only.
        let mut outer = Map::new();
        for keyword in ["$schema", "$id", "id"] {
            if let Some(value) = inner.get(keyword).filter(|value| value.is_string()) {
                outer.insert(keyword.to_owned(), value.clone());
                inner.remove(keyword);
            }
        }
        outer.insert("allOf".to_owned(), json!([{COUNTER: weight(root)}, inner]));
        let mut whole = Value::Object(outer);
        counted.redirect(&mut whole)?;
        Ok((whole, counted.patterns))
    }

    /// Returns a schema with its counter. `from` and `to` are where it is, before and after.
    fn around(&mut self, schema: &Value, from: &str, to: &str) -> Result<Value, String> {
        self.places.insert(from.to_owned(), to.to_owned());
        let Value::Object(members) = schema else { return Ok(schema.clone()) };
        let inner = self.inside(members, from, &format!("{to}/allOf/1"), false)?;
        Ok(json!({"allOf": [{COUNTER: weight(members)}, inner]}))
    }

    /// Returns a schema whose inner schemas have their counters.
    fn inside(
        &mut self,
        schema: &Map<String, Value>,
        from: &str,
        to: &str,
        is_root: bool,
    ) -> Result<Map<String, Value>, String> {
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
            let (from, to) = (format!("{from}/{keyword}"), format!("{to}/{keyword}"));
            let changed = match (holds(keyword), value) {
                (Holds::Schema | Holds::Either, Value::Object(_) | Value::Bool(_)) => self.around(value, &from, &to)?,
                (Holds::List | Holds::Either, Value::Array(list)) => {
                    let each = list.iter().enumerate();
                    let each = each.map(|(n, value)| self.around(value, &format!("{from}/{n}"), &format!("{to}/{n}")));
                    each.collect::<Result<Value, _>>()?
                }
                (Holds::Map, Value::Object(map)) => {
                    if keyword == "patternProperties" {
                        self.patterns += map.keys().map(|pattern| size_of_pattern(pattern)).sum::<usize>();
                    }
                    let each = map.iter().map(|(name, value)| {
                        let step = name.replace('~', "~0").replace('/', "~1");
                        let value = self.around(value, &format!("{from}/{step}"), &format!("{to}/{step}"))?;
                        Ok((name.clone(), value))
                    });
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

    /// Has the references of a schema lead to where the schemas are now.
    fn redirect(&self, schema: &mut Value) -> Result<(), String> {
        let Value::Object(members) = schema else { return Ok(()) };
        if let Some(Value::String(reference)) = members.get_mut("$ref") {
            let place = reference.strip_prefix('#').and_then(|place| self.places.get(place));
            let place = place.ok_or_else(|| format!("a reference to {:?}, where no schema is", reference))?;
            *reference = format!("#{place}");
        }
        for (keyword, value) in members {
            match (holds(keyword), value) {
                (Holds::Schema | Holds::Either, value @ Value::Object(_)) => self.redirect(value)?,
                (Holds::List | Holds::Either, Value::Array(list)) => {
                    list.iter_mut().try_for_each(|value| self.redirect(value))?;
                }
                (Holds::Map, Value::Object(map)) => map.values_mut().try_for_each(|value| self.redirect(value))?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns for how many patterns one counts.
fn size_of_pattern(pattern: &str) -> usize {
    1 + pattern.len() / PATTERN
}

/// What it costs to try a schema, without the schemas in it: the number of values that it has.
fn weight(schema: &Map<String, Value>) -> Value {
    let own = |(keyword, value): (&String, &Value)| match holds(keyword) {
        Holds::Data => values(value),
        _ => 1,
    };
    let patterns = schema.get("patternProperties").and_then(Value::as_object);
    let names = patterns.map(|patterns| patterns.keys().collect::<Vec<_>>());
    json!({"values": schema.iter().map(own).sum::<u64>(), "pattern": schema.get("pattern"), "names": names,
        "format": schema.contains_key("format"), "content": of_content(schema)})
}

/// The steps of each byte of a string that is decoded, and read as JSON.
fn of_content(schema: &Map<String, Value>) -> u64 {
    let is_decoded = schema.get("contentEncoding").is_some_and(Value::is_string);
    let is_read = schema.get("contentMediaType").is_some_and(|it| it == "application/json");
    u64::from(is_decoded) * OF_DECODED + u64::from(is_read) * OF_READ
}

/// The number of values in a value.
pub(super) fn values(value: &Value) -> u64 {
    match value {
        Value::Array(list) => 1 + list.iter().map(values).sum::<u64>(),
        Value::Object(members) => 1 + members.values().map(values).sum::<u64>(),
        _ => 1,
    }
}
