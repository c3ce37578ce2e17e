//! A document beside its schema: each finding is the path of a field, and what is wrong with it and what to do.
//!
//! Messages quote names and words of ours, never a value that may be confidential.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::MAX_PROBLEMS;
use super::names::nearest;
use super::schema::{Node, Type, Unique};
use crate::api::values::{DNS_LABEL, GLOB, HEADER_NAME, HOST_PORT, HTTP_URL, QUANTITY, SHA256, TOOL_NAME, URL_PATH};

/// A field and what is wrong with it.
pub type Finding = (String, String);

/// Everything that is wrong with `document`, up to [`MAX_PROBLEMS`].
pub fn walk(schema: &Node, document: &Value) -> Vec<Finding> {
    let mut walk = Walk { findings: Vec::new(), path: String::new() };
    walk.value(schema, document);
    walk.findings
}

struct Walk {
    findings: Vec<Finding>,
    path: String,
}

impl Walk {
    fn say(&mut self, message: impl Into<String>) {
        if self.findings.len() < MAX_PROBLEMS {
            self.findings.push((self.path.clone(), message.into()));
        }
    }

    /// Does `visit` with the path one member further.
    fn at(&mut self, name: &str, visit: impl FnOnce(&mut Self)) {
        let end = self.path.len();
        if end > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        visit(self);
        self.path.truncate(end);
    }

    /// Does `visit` with the path one item further.
    fn at_item(&mut self, index: usize, visit: impl FnOnce(&mut Self)) {
        let end = self.path.len();
        self.path.push_str(&format!("[{index}]"));
        visit(self);
        self.path.truncate(end);
    }

    fn value(&mut self, schema: &Node, value: &Value) {
        match (schema.kind, value) {
            (Type::Any, _) | (Type::AnyObject, Value::Object(_)) | (Type::Boolean, Value::Bool(_)) => {}
            (Type::Object, Value::Object(members)) => self.object(schema, members),
            (Type::Array, Value::Array(items)) => self.array(schema, items),
            (Type::String | Type::IntOrString, Value::String(text)) => self.string(schema, text),
            (Type::IntOrString, value) if is_whole(value) => {}
            (Type::Integer, value) if is_whole(value) => self.number(schema, value),
            (Type::Number, Value::Number(_)) => self.number(schema, value),
            (kind, value) => self.say(wrong_type(kind, value)),
        }
    }

    fn object(&mut self, schema: &Node, members: &Map<String, Value>) {
        self.size(schema, members.len(), "member");
        for name in schema.required.iter().filter(|name| !members.contains_key(*name)) {
            self.at(name, |walk| walk.say("is required; add it"));
        }
        for (name, value) in members {
            match schema.properties.get(name).or(schema.values.as_deref()) {
                Some(child) => self.at(name, |walk| walk.value(child, value)),
                None => self.at(name, |walk| walk.say(unknown(name, schema))),
            }
        }
    }

    fn array(&mut self, schema: &Node, items: &[Value]) {
        self.size(schema, items.len(), "item");
        for (i, item) in items.iter().enumerate() {
            if let Some(child) = &schema.items {
                self.at_item(i, |walk| walk.value(child, item));
            }
        }
        let mut seen = HashMap::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            let Some((mark, said)) = mark(&schema.unique, item) else { continue };
            if let Some(first) = seen.insert(mark, i) {
                self.at_item(i, |walk| {
                    walk.say(format!("{said} as item {first} of the list; each may stand there once"))
                });
            }
        }
    }

    fn string(&mut self, schema: &Node, text: &str) {
        if !schema.words.is_empty() {
            if !schema.words.iter().any(|word| word == text) {
                self.say(unknown_word(text, &schema.words));
            }
            return;
        }
        match schema.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            Some(pattern) => self.say(format!("must be {}", in_words(pattern.as_str()))),
            None => self.size(schema, text.chars().count(), "character"),
        }
    }

    fn size(&mut self, schema: &Node, size: usize, unit: &str) {
        let found = i64::try_from(size).unwrap_or(i64::MAX);
        let plural = |n: i64| if n == 1 { "" } else { "s" };
        match schema.size {
            (Some(n), _) if found < n => {
                self.say(format!("must have at least {n} {unit}{}; it has {found}", plural(n)))
            }
            (_, Some(n)) if found > n => self.say(format!("may have at most {n} {unit}{}; it has {found}", plural(n))),
            _ => {}
        }
    }

    fn number(&mut self, schema: &Node, value: &Value) {
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

/// Whether `value` is a whole number; 1.0 is one, as it is to an API server.
fn is_whole(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// What tells `item` from others, and how to say it.
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

fn wrong_type(kind: Type, found: &Value) -> String {
    let wanted = match kind {
        Type::Object | Type::AnyObject => "a mapping",
        Type::Array => "a list",
        Type::String => "a string",
        Type::Boolean => "true or false",
        Type::Integer => "a whole number",
        Type::Number => "a number",
        Type::IntOrString => "a whole number or a string",
        Type::Any => "something",
    };
    let (is, advice) = match (kind, found) {
        (_, Value::Null) => ("empty", "; give it a value, or take the line out"),
        (Type::Boolean, Value::String(text)) if is_old_boolean(text) => {
            ("a string", " (yes, no, on and off are words in YAML 1.2); write true or false")
        }
        (Type::Boolean | Type::Integer | Type::Number, Value::String(_)) => ("a string", "; take the quotes out"),
        (Type::String, Value::Number(_)) => ("a number", "; put it in quotes"),
        (Type::String, Value::Bool(_)) => ("true or false", "; put it in quotes"),
        (_, Value::Bool(_)) => ("true or false", ""),
        (_, Value::Number(_)) => ("a number", ""),
        (_, Value::String(_)) => ("a string", ""),
        (_, Value::Array(_)) => ("a list", ""),
        (_, Value::Object(_)) => ("a mapping", ""),
    };
    format!("must be {wanted}; it is {is}{advice}")
}

fn is_old_boolean(text: &str) -> bool {
    ["yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str())
}

fn unknown(name: &str, schema: &Node) -> String {
    let known = || schema.properties.keys().map(String::as_str);
    match nearest(name, known()) {
        Some(near) => format!("unknown field; did you mean {near}?"),
        None if schema.properties.is_empty() => "unknown field; there are none here, take it out".to_owned(),
        None => format!("unknown field; there are {}", known().collect::<Vec<_>>().join(", ")),
    }
}

fn unknown_word(text: &str, words: &[String]) -> String {
    let known = words.join(", ");
    match nearest(text, words.iter().map(String::as_str)) {
        Some(near) => format!("must be one of {known}; did you mean {near}?"),
        None => format!("must be one of {known}"),
    }
}

/// A pattern of ours as people say it.
fn in_words(pattern: &str) -> String {
    let words = match pattern {
        DNS_LABEL => "lower-case letters, digits and -, with a letter or digit first and last",
        HTTP_URL => "a URL that begins with http:// or https://",
        GLOB => "a name or glob of letters, digits and _ . - / * ?",
        SHA256 => "a SHA-256 digest: 64 lower-case hex digits",
        HOST_PORT => "host:port",
        TOOL_NAME => "letters, digits and _ . -",
        HEADER_NAME => "letters, digits and -",
        URL_PATH => "a path that begins with /, without query",
        QUANTITY => "a size such as 512Ki, 16Mi or 1048576",
        other => return format!("text that matches {other}"),
    };
    words.to_owned()
}
