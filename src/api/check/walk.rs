//! Walks a document together with its schema and collects findings. A finding is the path of a field, and a message
//! that describes what is wrong with the field and how to fix it.
//!
//! Of the values in a document, messages quote only numbers and the keys of list items, because other values could be
//! confidential.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::schema::{SchemaNode, SchemaType, Unique};
use super::words::{in_words, unknown, unknown_word, wrong_type};

/// The path of a field, and the message about it.
pub type Finding = (String, String);

/// The findings in a document. `faults`, `unknown` and `empty` have at most [`MAX_PROBLEMS`] items each.
#[derive(Default)]
pub struct WalkFindings {
    /// Values that violate the schema.
    pub faults: Vec<Finding>,
    /// The fields that the schema does not have; each is also one of the faults.
    pub unknown: Vec<Finding>,
    /// Whether one of the faults makes it impossible to evaluate the validation rules. An API server does not evaluate
    /// them in this case either.
    pub stops: bool,
    /// Null fields, which count as absent.
    pub empty: Vec<Finding>,
}

/// Returns the violations of `schema` in `document`, and the null fields.
pub fn walk(schema: &SchemaNode, document: &Value) -> WalkFindings {
    let mut walk = DocumentWalk { found: WalkFindings::default(), path: String::new() };
    walk.value(schema, document);
    walk.found
}

struct DocumentWalk {
    found: WalkFindings,
    path: String,
}

impl DocumentWalk {
    /// Adds a fault that does not prevent rules from being evaluated.
    fn say(&mut self, message: impl Into<String>) {
        if self.found.faults.len() < MAX_PROBLEMS {
            self.found.faults.push((self.path.clone(), message.into()));
        }
    }

    /// Adds a fault that prevents rules from being evaluated.
    fn stop(&mut self, message: impl Into<String>) {
        self.found.stops = true;
        self.say(message);
    }

    /// Adds the current field, which the schema does not have.
    fn unknown(&mut self, message: String) {
        if self.found.unknown.len() < MAX_PROBLEMS {
            self.found.unknown.push((self.path.clone(), message.clone()));
        }
        self.stop(message);
    }

    /// Reports the current field as null. Null fields in metadata are not reported, because tools write such fields
    /// there.
    fn empty(&mut self) {
        if self.found.empty.len() < MAX_PROBLEMS && !self.path.starts_with("metadata.") {
            let message = "is empty and counts as absent; give it a value, or take the line out";
            self.found.empty.push((self.path.clone(), message.to_owned()));
        }
    }

    /// Calls `visit` with the member's name appended to the path.
    fn at(&mut self, name: &str, visit: impl FnOnce(&mut Self)) {
        let end = self.path.len();
        if end > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        visit(self);
        self.path.truncate(end);
    }

    /// Calls `visit` with the item's index appended to the path.
    fn at_item(&mut self, index: usize, visit: impl FnOnce(&mut Self)) {
        let end = self.path.len();
        self.path.push_str(&format!("[{index}]"));
        visit(self);
        self.path.truncate(end);
    }

    fn value(&mut self, schema: &SchemaNode, value: &Value) {
        match (schema.kind, value) {
            (SchemaType::Any, _)
            | (SchemaType::AnyObject, Value::Object(_))
            | (SchemaType::Boolean, Value::Bool(_)) => {}
            (SchemaType::Object, Value::Object(members)) => self.object(schema, members),
            (SchemaType::Array, Value::Array(items)) => self.array(schema, items),
            (SchemaType::String | SchemaType::IntOrString, Value::String(text)) => self.string(schema, text),
            (SchemaType::Integer | SchemaType::IntOrString, value) if is_whole(value) => self.number(schema, value),
            (SchemaType::Number, Value::Number(_)) => self.number(schema, value),
            (kind, value) => self.stop(wrong_type(kind, value)),
        }
    }

    fn object(&mut self, schema: &SchemaNode, members: &Map<String, Value>) {
        self.size(schema, members.values().filter(|value| !value.is_null()).count(), "member");
        for name in schema.required.iter().filter(|name| !members.contains_key(*name)) {
            self.at(name, |walk| walk.stop("is required; add it"));
        }
        for (name, value) in members {
            self.at(name, |walk| match schema.member(name) {
                Some(_) if value.is_null() && schema.required.contains(name) => {
                    walk.stop("is required; it is empty, give it a value");
                }
                Some(_) if value.is_null() => walk.empty(),
                Some(child) => walk.value(child, value),
                None => walk.unknown(unknown(name, schema)),
            });
        }
    }

    fn array(&mut self, schema: &SchemaNode, items: &[Value]) {
        self.size(schema, items.len(), "item");
        for (i, item) in items.iter().enumerate() {
            if let Some(child) = &schema.items {
                self.at_item(i, |walk| walk.value(child, item));
            }
        }
        if matches!(schema.unique, Unique::Keys(_)) && !items.iter().all(Value::is_object) {
            return;
        }
        let mut seen: HashMap<_, Vec<usize>> = HashMap::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            let Some((mark, said)) = mark(&schema.unique, item) else { continue };
            let places = seen.entry(mark).or_default();
            places.push(i);
            // Only the first duplicate of a value is reported.
            if let [first, _] = places[..] {
                self.at_item(i, |walk| {
                    walk.say(format!("{said} as item {first} of the list; each may stand there once"))
                });
            }
        }
    }

    fn string(&mut self, schema: &SchemaNode, text: &str) {
        if !schema.words.is_empty() {
            if !schema.words.iter().any(|word| word == text) {
                self.stop(unknown_word(text, &schema.words));
            }
            return;
        }
        let length = text.chars().count();
        let is_too_long = schema.size.1.is_some_and(|most| i64::try_from(length).is_ok_and(|length| length > most));
        match schema.pattern.as_ref().filter(|pattern| !is_too_long && !pattern.is_match(text)) {
            Some(pattern) => self.say(format!("must be {}", in_words(pattern.as_str(), text))),
            None => self.size(schema, length, "character"),
        }
    }

    fn size(&mut self, schema: &SchemaNode, size: usize, unit: &str) {
        let found = i64::try_from(size).unwrap_or(i64::MAX);
        let plural = |n: i64| if n == 1 { "" } else { "s" };
        match schema.size {
            (Some(n), _) if found < n => {
                self.say(format!("must have at least {n} {unit}{}; it has {found}", plural(n)))
            }
            (_, Some(n)) if found > n => self.stop(format!("may have at most {n} {unit}{}; it has {found}", plural(n))),
            _ => {}
        }
    }

    fn number(&mut self, schema: &SchemaNode, value: &Value) {
        let number = value.as_f64().unwrap_or(f64::NAN);
        let low = schema.minimum.is_some_and(|least| number < least);
        if low || schema.maximum.is_some_and(|most| number > most) {
            self.say(match (schema.minimum, schema.maximum) {
                (Some(least), Some(most)) => format!("must be from {least} to {most}; it is {value}"),
                (Some(least), None) => format!("must be at least {least}; it is {value}"),
                _ => format!("is out of range: {value}"),
            });
        }
    }
}

/// Whether `value` is a whole number that fits into an `i64`. As in an API server, floats such as 1.0 count as whole
/// numbers, up to 2^53 - 1.
fn is_whole(value: &Value) -> bool {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    value.is_i64() || value.as_f64().is_some_and(|number| number.fract() == 0.0 && number.abs() <= EXACT)
}

/// Returns a text that must be unique to `item`, and the words with which a message describes a duplicate. Returns
/// `None` if items can repeat, or if `item` does not have all keys.
fn mark(unique: &Unique, item: &Value) -> Option<(String, String)> {
    match unique {
        Unique::No => None,
        Unique::Item => Some((item.to_string(), "is the same".to_owned())),
        Unique::Keys(keys) => {
            let values: Option<Vec<_>> = keys.iter().map(|key| item.get(key)).collect();
            let values = values?.into_iter().map(ToString::to_string).collect::<Vec<_>>();
            Some((values.join("\0"), format!("has the same {} ({})", keys.join(", "), values.join(", "))))
        }
    }
}

/// Maximum number of faults, of null fields and of broken rules that are reported for one object, each counted
/// separately.
pub const MAX_PROBLEMS: usize = 100;
