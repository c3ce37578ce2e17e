//! Messages about faults in a document. They quote only names and words of the API, never a value from the document,
//! because the value could be confidential.

use serde_json::Value;

use super::schema::{SchemaNode, SchemaType};
use crate::api::values::{
    DNS_LABEL, GLOB, HEADER_NAME, HEADER_VALUE, HOST_PORT, HTTP_URL, IP_ADDRESS, LABEL_VALUE, NO_NUL, QUANTITY, SCOPE,
    SECURE_URL, SHA256, SIZE, TOOL_NAME, URL_PATH, VARIABLE_NAME,
};
use crate::config::nearest::nearest;

/// Returns the message for a value whose type is not `kind`.
pub fn wrong_type(kind: SchemaType, found: &Value) -> String {
    let wanted = match kind {
        SchemaType::Object | SchemaType::AnyObject => "a mapping",
        SchemaType::Array => "a list",
        SchemaType::String => "a string",
        SchemaType::Boolean => "true or false",
        SchemaType::Integer => "a whole number",
        SchemaType::Number => "a number",
        SchemaType::IntOrString => "a whole number or a string",
        SchemaType::Any => "something",
    };
    let (is, advice) = match (kind, found) {
        (_, Value::Null) => ("empty", "; give it a value, or take it out"),
        (SchemaType::Boolean, Value::String(text)) if is_old_boolean(text) => {
            ("a string", " (yes, no, on and off are words in YAML 1.2); write true or false")
        }
        (SchemaType::Boolean, Value::String(text)) if text.parse::<bool>().is_ok() => {
            ("a string", "; take the quotes out")
        }
        (SchemaType::Integer | SchemaType::Number, Value::String(text)) if text.parse::<f64>().is_ok() => {
            ("a string", "; take the quotes out")
        }
        (SchemaType::Boolean | SchemaType::Integer | SchemaType::Number, Value::String(_)) => ("a string", ""),
        (SchemaType::String, Value::Number(_)) => ("a number", "; put it in quotes"),
        (SchemaType::String, Value::Bool(_)) => ("true or false", "; put it in quotes"),
        (_, Value::Bool(_)) => ("true or false", ""),
        (SchemaType::Integer | SchemaType::IntOrString, Value::Number(number)) if has_no_fraction(number) => {
            ("a number that is too large", "")
        }
        (SchemaType::Integer | SchemaType::IntOrString, Value::Number(_)) => ("a number with a fraction", ""),
        (_, Value::Number(_)) => ("a number", ""),
        (_, Value::String(_)) => ("a string", ""),
        (_, Value::Array(_)) => ("a list", ""),
        (_, Value::Object(_)) => ("a mapping", ""),
    };
    format!("must be {wanted}; it is {is}{advice}")
}

fn has_no_fraction(number: &serde_json::Number) -> bool {
    number.as_f64().is_none_or(|number| number.fract() == 0.0)
}

fn is_old_boolean(text: &str) -> bool {
    ["yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str())
}

/// Returns the message for a field that the schema does not have.
pub fn unknown(name: &str, schema: &SchemaNode) -> String {
    let known = || schema.properties.keys().map(String::as_str);
    match nearest(name, known()) {
        Some(near) => format!("unknown field; did you mean {near}?"),
        None if schema.properties.is_empty() => "unknown field; there are none here, take it out".to_owned(),
        None => format!("unknown field; there are {}", known().collect::<Vec<_>>().join(", ")),
    }
}

/// Returns the message for a text that is not one of the enum values `words`.
pub fn unknown_word(text: &str, words: &[String]) -> String {
    let known = words.join(", ");
    match nearest(text, words.iter().map(String::as_str)) {
        Some(near) => format!("must be one of {known}; did you mean {near}?"),
        None => format!("must be one of {known}"),
    }
}

/// Describes in plain language one of the API's patterns, which `text` does not match.
pub fn in_words(pattern: &str, text: &str) -> String {
    let words = match pattern {
        DNS_LABEL => "lower-case letters, digits and -, with a letter or digit first and last",
        HTTP_URL => "a URL such as https://host:8443/path, with a port of at most 65535",
        SECURE_URL => "a URL such as https://host/path; only for localhost, 127.0.0.1 and [::1] can it be http://",
        SCOPE => "a scope of OAuth: printable ASCII without spaces, quotes and backslashes",
        GLOB => "a name or glob of letters, digits and _ . - / * ?",
        SHA256 => "a SHA-256 digest: 64 lower-case hex digits",
        HOST_PORT => "host:port",
        IP_ADDRESS => "an IP address, without a port",
        TOOL_NAME => "letters, digits and _ . -",
        HEADER_NAME => "letters, digits and -",
        HEADER_VALUE => "text without line breaks and other control characters",
        VARIABLE_NAME => "the name of a variable, without = and without the character NUL",
        NO_NUL => "text without the character NUL",
        URL_PATH => "a path that begins with /, without query",
        LABEL_VALUE => "at most 63 letters, digits and - _ ., with a letter or digit first and last",
        SIZE if text.starts_with('0') => "a size of one byte or more such as 512Ki, 16Mi or 1048576",
        QUANTITY | SIZE => "a size such as 512Ki, 16Mi or 1048576",
        other => return format!("text that matches {other}"),
    };
    words.to_owned()
}
