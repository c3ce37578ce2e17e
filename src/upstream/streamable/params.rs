//! Arguments that a modern server wants mirrored in `Mcp-Param-*` headers: those that its tool's input schema marks
//! with `x-mcp-header` (MCP 2026-07-28, transports: custom headers).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::domain::ids::ObjectKey;
use crate::domain::raw::RawObject;
use crate::domain::tool::Tool;

/// The mark in a schema.
const MARK: &str = "x-mcp-header";
/// Keywords that hold one schema, a list of them, or a map of them. Marks are allowed below none of these.
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

/// A marked argument: the path of properties to it, and its header.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mirrored {
    path: Vec<String>,
    header: HeaderName,
}

/// The marked arguments of an upstream's tools.
#[derive(Debug, Default)]
pub(super) struct ParamHeaders(ArcSwap<HashMap<String, Vec<Mirrored>>>);

impl ParamHeaders {
    /// Reads the marks of a whole list of tools. Tools with marks that are not valid leave the list, as the
    /// specification demands.
    pub(super) fn learn(&self, upstream: &ObjectKey, tools: &mut Vec<Tool>) {
        let mut marked = HashMap::new();
        tools.retain(|tool| match tool.input_schema.as_deref().map_or(Ok(Vec::new()), marks) {
            Ok(mirrored) => {
                if !mirrored.is_empty() {
                    marked.insert(tool.name.clone(), mirrored);
                }
                true
            }
            Err(fault) => {
                tracing::warn!(%upstream, tool = tool.name, "the tool is left out: {fault}");
                false
            }
        });
        self.0.store(Arc::new(marked));
    }

    /// Adds the headers of one call. An argument that is absent, null or no scalar has none.
    pub(super) fn add(&self, headers: &mut HeaderMap, tool: &str, arguments: Option<&RawValue>) {
        let marked = self.0.load();
        let (Some(mirrored), Some(arguments)) = (marked.get(tool), arguments) else { return };
        for Mirrored { path, header } in mirrored {
            let value = scalar_at(arguments, path).and_then(|text| HeaderValue::from_str(&encode(&text)).ok());
            if let Some(value) = value {
                headers.insert(header.clone(), value);
            }
        }
    }
}

/// The text as a header value: in base64 where it would not survive as it is.
pub(super) fn encode(text: &str) -> String {
    let plain = text.bytes().all(|b| matches!(b, 0x20..=0x7e)) && text.trim() == text;
    let looks_encoded = text.starts_with("=?base64?") && text.ends_with("?=");
    if plain && !looks_encoded { text.to_owned() } else { format!("=?base64?{}?=", BASE64_STANDARD.encode(text)) }
}

fn scalar_at(arguments: &RawValue, path: &[String]) -> Option<String> {
    let (last, above) = path.split_last()?;
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

/// The marks of one schema. Fails with what is wrong about one.
fn marks(schema: &RawValue) -> Result<Vec<Mirrored>, String> {
    if memchr::memmem::find(schema.get().as_bytes(), MARK.as_bytes()).is_none() {
        return Ok(Vec::new());
    }
    let schema: Value =
        serde_json::from_str(schema.get()).map_err(|e| format!("its input schema cannot be read: {e}"))?;
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    // A schema that is read is at most 128 deep, so that the stack is bounded by its text.
    let mut waiting = vec![(Some(Vec::new()), &schema)];
    while let Some((path, node)) = waiting.pop() {
        let Value::Object(keywords) = node else { continue };
        if let Some(mark) = keywords.get(MARK) {
            let mirrored = read_mark(path.as_deref(), mark, keywords.get("type"))?;
            if !seen.insert(mirrored.header.clone()) {
                return Err(format!("{MARK} {:.60?} stands twice", mirrored.header));
            }
            found.push(mirrored);
        }
        for (keyword, value) in keywords {
            match (keyword.as_str(), value) {
                ("properties", Value::Object(properties)) => waiting.extend(properties.iter().map(|(name, schema)| {
                    let path = path.as_ref().map(|path| [path.as_slice(), std::slice::from_ref(name)].concat());
                    (path, schema)
                })),
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
    let header = token.and_then(|token| HeaderName::from_bytes(format!("mcp-param-{token}").as_bytes()).ok());
    let header = header.ok_or(format!("{MARK} on {:.60} is no header name", path.join(".")))?;
    match kind.and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => Ok(Mirrored { path: path.to_vec(), header }),
        _ => Err(format!("{MARK} on {:.60} is for strings, integers and booleans only", path.join("."))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    fn tool(name: &str, properties: &str) -> Tool {
        let definition = format!(r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{properties}}}}}"#);
        Tool::parse(&raw(&definition)).unwrap()
    }

    const GOOD: &str = r#"{"region":{"type":"string","x-mcp-header":"Region"},
        "in":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Count"}}}}"#;

    #[test]
    fn marked_arguments_are_mirrored() {
        let params = ParamHeaders::default();
        let mut tools = vec![tool("t", GOOD), tool("u", "{}")];
        params.learn(&ObjectKey::new("d", "u"), &mut tools);
        assert_eq!(tools.len(), 2);
        let mut headers = HeaderMap::new();
        params.add(&mut headers, "t", Some(&raw(r#"{"region":"zürich","in":{"n":12345678901234567890123},"x":1}"#)));
        assert_eq!(headers["mcp-param-region"], "=?base64?esO8cmljaA==?=");
        assert_eq!(headers["mcp-param-count"], "12345678901234567890123");
        headers.clear();
        params.add(&mut headers, "t", Some(&raw(r#"{"region":null,"in":7}"#)));
        params.add(&mut headers, "u", Some(&raw(r#"{"region":"x"}"#)));
        assert!(headers.is_empty());
    }

    #[test]
    fn tools_with_invalid_marks_are_dropped() {
        for properties in [
            r#"{"a":{"type":"number","x-mcp-header":"A"}}"#,
            r#"{"a":{"type":"string","x-mcp-header":""}}"#,
            r#"{"a":{"type":"string","x-mcp-header":"a b"}}"#,
            r#"{"a":{"type":"string","x-mcp-header":7}}"#,
            r#"{"a":{"type":["string"],"x-mcp-header":"A"}}"#,
            r#"{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}"#,
            r#"{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}"#,
        ] {
            let mut tools = vec![tool("t", properties)];
            ParamHeaders::default().learn(&ObjectKey::new("d", "u"), &mut tools);
            assert!(tools.is_empty(), "{properties}");
        }
        let mut tools = vec![tool("t", r#"{"a":{"default":{"x-mcp-header":7}}}"#)];
        ParamHeaders::default().learn(&ObjectKey::new("d", "u"), &mut tools);
        assert_eq!(tools.len(), 1, "data is no schema");
    }

    #[test]
    fn values_that_would_not_survive_are_encoded() {
        for plain in ["echo", "a b", ""] {
            assert_eq!(encode(plain), plain);
        }
        assert_eq!(encode(" a"), "=?base64?IGE=?=");
        assert_eq!(encode("=?base64?IGE=?="), "=?base64?PT9iYXNlNjQ/SUdFPT89?=");
    }
}
