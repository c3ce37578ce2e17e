//! Arguments that clients of the modern era repeat in `Mcp-Param-*` headers: those that a tool's input schema marks
//! with `x-mcp-header` (MCP 2026-07-28, transports: custom headers).

use std::collections::HashSet;

use serde_json::Value;
use serde_json::value::RawValue;

use super::raw::RawObject;
use crate::domain::quoted::Quoted;

/// The keyword that marks an argument in a schema.
const MARK: &str = "x-mcp-header";
/// Keywords whose value is one schema; after them, those whose value is a list or a map of schemas. Marks are not
/// allowed anywhere inside these schemas.
const ONE: [&str; 11] = [
    "items",
    "contains",
    "unevaluatedItems",
    "additionalProperties",
    "propertyNames",
    "unevaluatedProperties",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const MAPS: [&str; 4] = ["patternProperties", "dependentSchemas", "$defs", "definitions"];

/// An argument that a schema marks, and the header that repeats it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// The path of the argument: the names of the enclosing properties, then its own name.
    pub path: Vec<String>,
    /// The name of the header that repeats the argument, in lower case.
    pub header: String,
    /// Whether the schema declares the argument as an integer. Integers are compared as numbers.
    pub integer: bool,
}

impl Mirrored {
    /// Returns the argument as the text that its header must contain; `None` if the argument is absent, null or not a
    /// scalar.
    pub fn value(&self, arguments: &RawValue) -> Option<String> {
        let (last, above) = self.path.split_last()?;
        let mut object = RawObject::parse(arguments.get()).ok()?;
        for key in above {
            object = RawObject::parse(object.get(key)?.get()).ok()?;
        }
        let raw = object.get(last)?.get();
        match raw.as_bytes().first()? {
            b'"' => serde_json::from_str(raw).ok(),
            b'{' | b'[' | b'n' => None,
            _ => Some(raw.to_owned()),
        }
    }

    /// Whether the decoded text of the header is equal to the argument. For integers, `42` is equal to `42.0`.
    pub fn agrees(&self, argument: &str, header: &str) -> bool {
        argument == header || (self.integer && whole(argument).is_some_and(|number| Some(number) == whole(header)))
    }
}

/// Returns the integer part of a decimal number whose fraction is absent or zero. Numbers with an exponent are not
/// recognised.
fn whole(number: &str) -> Option<&str> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (integer, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let fits = digits(integer.strip_prefix('-').unwrap_or(integer)) && digits(fraction);
    (fits && fraction.bytes().all(|b| b == b'0')).then_some(integer)
}

/// Returns the marked arguments of an input schema.
///
/// # Errors
/// If the schema cannot be read, or a mark in it is invalid. Such a tool must not be offered to clients.
pub fn marks(schema: &RawValue) -> Result<Vec<Mirrored>, String> {
    if !schema.get().contains(MARK) {
        return Ok(Vec::new());
    }
    let schema: Value =
        serde_json::from_str(schema.get()).map_err(|e| format!("its input schema cannot be read: {e}"))?;
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    // A work list, so that a deep schema needs no recursion. The parser allows a depth of at most 128, so the paths in
    // the list stay short.
    let mut waiting = vec![(Some(Vec::new()), &schema)];
    while let Some((path, node)) = waiting.pop() {
        let Value::Object(keywords) = node else { continue };
        if let Some(mark) = keywords.get(MARK) {
            let mirrored = read_mark(path.as_deref(), mark, keywords.get("type"))?;
            if !seen.insert(mirrored.header.clone()) {
                return Err(format!("{MARK} {} stands twice", Quoted(&mirrored.header, 60)));
            }
            found.push(mirrored);
        }
        for (keyword, value) in keywords {
            match (keyword.as_str(), value) {
                ("properties", Value::Object(properties)) => waiting.extend(properties.iter().map(|(name, schema)| {
                    let path = path.as_ref().map(|path| [path.as_slice(), std::slice::from_ref(name)].concat());
                    (path, schema)
                })),
                // Of draft-07, for tuples.
                ("items", Value::Array(list)) => waiting.extend(list.iter().map(|s| (None, s))),
                (word, value) if ONE.contains(&word) => waiting.push((None, value)),
                (word, Value::Array(list)) if LISTS.contains(&word) => waiting.extend(list.iter().map(|s| (None, s))),
                (word, Value::Object(map)) if MAPS.contains(&word) => waiting.extend(map.values().map(|s| (None, s))),
                _ => {}
            }
        }
    }
    Ok(found)
}

fn read_mark(path: Option<&[String]>, mark: &Value, kind: Option<&Value>) -> Result<Mirrored, String> {
    let path = path.filter(|path| !path.is_empty()).ok_or(format!("{MARK} does not stand on a plain property"))?;
    let token = mark.as_str().filter(|token| !token.is_empty());
    let header = token.filter(|token| token.bytes().all(is_token_byte));
    let header = header.ok_or(format!("{MARK} on {:.60} is not a header name", path.join(".")))?;
    let header = format!("mcp-param-{}", header.to_ascii_lowercase());
    match kind.and_then(Value::as_str) {
        Some(kind @ ("string" | "integer" | "boolean")) => {
            Ok(Mirrored { path: path.to_vec(), header, integer: kind == "integer" })
        }
        _ => Err(format!("{MARK} on {:.60} is for strings, integers and booleans only", path.join("."))),
    }
}

/// Whether a byte is allowed in a token (RFC 9110, section 5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn integers_agree_as_numbers() {
        let mark = |integer| Mirrored { path: vec!["n".into()], header: "mcp-param-n".into(), integer };
        for (argument, header, integer, agrees) in [
            ("42", "42", true, true),
            ("42", "42.0", true, true),
            ("42.00", "42", true, true),
            ("12345678901234567890123", "12345678901234567890123.0", true, true),
            ("42", "42.5", true, false),
            ("42", "43", true, false),
            ("42", "4.2e1", true, false),
            ("42", "42.0", false, false),
        ] {
            assert_eq!(mark(integer).agrees(argument, header), agrees, "{argument} {header}");
        }
    }

    /// Returns the header and the path of each marked argument.
    fn marked(schema: &Value) -> Result<Vec<(String, String)>, String> {
        let schema = RawValue::from_string(schema.to_string()).unwrap();
        let mut found: Vec<_> = marks(&schema)?.into_iter().map(|m| (m.header, m.path.join("."))).collect();
        found.sort();
        Ok(found)
    }

    #[test]
    fn marks_are_found_on_properties_at_any_depth() {
        let schema = json!({"type": "object", "properties": {
            "city": {"type": "string", "x-mcp-header": "City"},
            "at": {"type": "object", "properties": {"hour": {"type": "integer", "x-mcp-header": "Hour"}}},
            "plain": {"type": "number"},
        }});
        let expected = [("mcp-param-city", "city"), ("mcp-param-hour", "at.hour")];
        assert_eq!(marked(&schema).unwrap(), expected.map(|(header, path)| (header.to_owned(), path.to_owned())));
    }

    #[test]
    fn marks_that_are_not_on_a_plain_property_are_refused() {
        let mark = json!({"type": "string", "x-mcp-header": "City"});
        let below = |keyword: &str, value: Value| json!({"properties": {"a": {keyword: value}}});
        let one = ONE.iter().map(|keyword| below(keyword, mark.clone()));
        let lists = LISTS.iter().map(|keyword| below(keyword, json!([mark])));
        let maps = MAPS.iter().map(|keyword| below(keyword, json!({"b": mark})));
        // A property that is itself below such a keyword cannot have a mark either.
        let inner = below("items", json!({"properties": {"b": mark}}));
        let tuple = below("items", json!([mark]));
        for schema in one.chain(lists).chain(maps).chain([inner, tuple, mark.clone()]) {
            let error = marked(&schema).unwrap_err();
            assert!(error.contains("does not stand on a plain property"), "{schema}: {error}");
        }
    }

    #[test]
    fn a_mark_needs_a_header_name_of_its_own_and_a_scalar() {
        let schema = |first: Value, second: Value| json!({"properties": {"a": first, "b": second}});
        let mark = |kind: &str, name: &str| json!({"type": kind, "x-mcp-header": name});
        for (first, second, part) in [
            (mark("string", "City"), mark("string", "cITY"), "stands twice"),
            (mark("string", ""), json!({}), "is not a header name"),
            (mark("string", "a b"), json!({}), "is not a header name"),
            (mark("number", "City"), json!({}), "strings, integers and booleans only"),
            (json!({"x-mcp-header": "City"}), json!({}), "strings, integers and booleans only"),
        ] {
            let error = marked(&schema(first, second)).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
