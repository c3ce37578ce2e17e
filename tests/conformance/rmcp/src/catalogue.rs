//! What the server has, as the suite wants it: `catalogue.json`.

use std::sync::{LazyLock, OnceLock};

use rmcp::ErrorData;
use serde_json::{Map, Value, json};

/// One red pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
/// No sound at all.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

/// The scheme of the resources, where it is another than the catalogue's: a gateway tells servers apart by their URIs.
pub static SCHEME: OnceLock<String> = OnceLock::new();

static CATALOGUE: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("catalogue.json").replace("test://", &uri(""));
    let text = text.replace("\"PNG\"", &format!("\"{PNG}\""));
    serde_json::from_str(&text.replace("\"WAV\"", &format!("\"{WAV}\""))).expect("the catalogue is JSON")
});

/// The URI of a resource.
pub fn uri(path: &str) -> String {
    format!("{}://{path}", SCHEME.get().map_or("test", String::as_str))
}

/// One part of it.
pub fn part(name: &str) -> &'static Value {
    &CATALOGUE[name]
}

/// A value of the SDK's types from its JSON.
pub fn typed<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|e| ErrorData::internal_error(e.to_string(), None))
}

/// A result of the SDK's types from its JSON: of the newer era a result says that it is one.
pub fn result<T: serde::de::DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    value["resultType"] = "complete".into();
    typed(value)
}

/// The definition of a tool.
pub fn tool(name: &str) -> Option<Value> {
    let (described, schema) = (&part("tools")[name], &part("schemas")[name]);
    if described.is_null() && schema.is_null() {
        return None;
    }
    let description = described.as_str().unwrap_or("Has a schema of its own");
    let empty = json!({"type": "object", "properties": {}});
    let schema = if schema.is_null() { &empty } else { schema };
    Some(json!({"name": name, "description": description, "inputSchema": schema}))
}

/// The definitions of all tools, by name.
pub fn tools() -> Vec<Value> {
    let named = |part: &'static Value| part.as_object().into_iter().flat_map(Map::keys);
    let names: std::collections::BTreeSet<_> = named(part("tools")).chain(named(part("schemas"))).collect();
    names.into_iter().filter_map(|name| tool(name)).collect()
}

/// A result that is one text.
pub fn text(text: impl Into<String>) -> Value {
    json!({"content": [{"type": "text", "text": text.into()}]})
}

/// The messages of a prompt, as a result.
pub fn prompt(name: &str, arguments: &Value) -> Option<Value> {
    let argument = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
    let contents = match name {
        "test_simple_prompt" => vec![json!({"type": "text", "text": "This is a simple prompt for testing."})],
        "test_prompt_with_arguments" => {
            let text = format!("Prompt with arguments: arg1='{}', arg2='{}'", argument("arg1"), argument("arg2"));
            vec![json!({"type": "text", "text": text})]
        }
        "test_prompt_with_embedded_resource" => vec![
            json!({"type": "resource", "resource": {
                "uri": argument("resourceUri"),
                "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            }}),
            json!({"type": "text", "text": "Please process the embedded resource above."}),
        ],
        "test_prompt_with_image" => vec![
            json!({"type": "image", "data": PNG, "mimeType": "image/png"}),
            json!({"type": "text", "text": "Please analyze the image above."}),
        ],
        _ => return None,
    };
    let messages: Vec<_> = contents.iter().map(|content| json!({"role": "user", "content": content})).collect();
    Some(json!({ "messages": messages }))
}

/// What a resource holds, as a result.
pub fn resource(address: &str) -> Option<Value> {
    let id = address.strip_prefix(&uri("template/")).and_then(|rest| rest.strip_suffix("/data"));
    let mut content = match (id, part("contents")[address].clone()) {
        (Some(id), _) => {
            let text = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")}).to_string();
            json!({"mimeType": "application/json", "text": text})
        }
        (None, Value::Null) => return None,
        (None, content) => content,
    };
    content["uri"] = address.into();
    Some(json!({ "contents": [content] }))
}
