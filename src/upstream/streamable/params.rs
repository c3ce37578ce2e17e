//! Arguments that a modern server requires to be repeated in `Mcp-Param-*` headers (MCP 2026-07-28, transports: custom
//! headers).

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::value::RawValue;

use crate::domain::header_text::encode;
use crate::domain::item::{ItemKind, Listed};
use crate::domain::mirror::{Mirrored, marks};

/// For each tool of an upstream, the arguments that are repeated in headers.
#[derive(Debug, Default)]
pub(super) struct ParamHeaders(ArcSwap<HashMap<String, Vec<(HeaderName, Mirrored)>>>);

impl ParamHeaders {
    /// Reads from a complete list of tools which arguments are marked to be repeated. Tools with invalid marks are
    /// removed from the list, as the specification demands.
    pub(super) fn learn(&self, listed: &mut Listed) {
        let (mut marked, mut invalid) = (HashMap::new(), Vec::new());
        listed.items.retain(|tool| match tool.input_schema.as_deref().map_or(Ok(Vec::new()), marks) {
            Ok(mirrored) => {
                if !mirrored.is_empty() {
                    let named = mirrored.into_iter().filter_map(|m| Some((m.header.parse().ok()?, m)));
                    marked.insert(tool.name.clone(), named.collect());
                }
                true
            }
            Err(fault) => {
                invalid.push((tool.name.clone(), fault));
                false
            }
        });
        invalid.iter().for_each(|(tool, fault)| listed.leave_out(ItemKind::Tool, tool, fault));
        self.0.store(Arc::new(marked));
    }

    /// Adds the headers of one call. An argument that is absent, null or not a scalar has no header.
    pub(super) fn add(&self, headers: &mut HeaderMap, tool: &str, arguments: Option<&RawValue>) {
        let marked = self.0.load();
        let (Some(mirrored), Some(arguments)) = (marked.get(tool), arguments) else { return };
        for (header, mirrored) in mirrored {
            let value = mirrored.value(arguments).and_then(|text| HeaderValue::from_str(&encode(&text)).ok());
            if let Some(value) = value {
                headers.insert(header.clone(), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::item::Item;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    fn listed(items: Vec<Item>) -> Listed {
        Listed { items, ..Listed::default() }
    }

    fn tool(name: &str, properties: &str) -> Item {
        let definition = format!(r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{properties}}}}}"#);
        Item::parse(ItemKind::Tool, &raw(&definition)).unwrap()
    }

    const GOOD: &str = r#"{"region":{"type":"string","x-mcp-header":"Region"},
        "in":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Count"}}}}"#;

    #[test]
    fn marked_arguments_are_mirrored() {
        let params = ParamHeaders::default();
        let mut list = listed(vec![tool("t", GOOD), tool("u", "{}")]);
        params.learn(&mut list);
        assert_eq!(list.items.len(), 2);
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
            let mut list = listed(vec![tool("t", properties)]);
            ParamHeaders::default().learn(&mut list);
            assert!(list.items.is_empty() && list.left_out.len() == 1, "{properties}");
        }
        let mut list = listed(vec![tool("t", r#"{"a":{"default":{"x-mcp-header":7}}}"#)]);
        ParamHeaders::default().learn(&mut list);
        assert_eq!(list.items.len(), 1, "data is no schema");
    }
}
