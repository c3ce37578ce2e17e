//! References to variables of the environment in the files of MCP clients.

use serde_json::{Value, json};

use super::converted::Converted;
use crate::domain::environment_text::EnvironmentText;

/// Returns a header or a variable. If it refers to variables of the gateway's environment, the gateway reads them when it uses
/// it, so that no object has their values.
pub(super) fn named(name: &str, value: &Value, field: &str, converted: &mut Converted) -> Option<Value> {
    let value = match value {
        Value::String(text) => text.replace(FOLDER, &converted.workspace.path),
        scalar @ (Value::Number(_) | Value::Bool(_)) => scalar.to_string(),
        _ => {
            converted.leave_out(field, "it is no text");
            return None;
        }
    };
    if !EnvironmentText::is_needed(&value) {
        return Some(json!({"name": name, "value": value}));
    }
    let text = variables(&value, field, converted)?;
    let sole = text.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
    let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let from = sole.filter(is_name).unwrap_or(&text);
    Some(json!({"name": name, "valueFrom": {"environment": from}}))
}

/// Returns a value with its references replaced.
pub(super) fn resolved(value: &Value, field: &str, converted: &mut Converted) -> Value {
    let Value::String(text) = value else { return value.clone() };
    let text = text.replace(FOLDER, &converted.workspace.path);
    if !EnvironmentText::is_needed(&text) {
        return json!(text);
    }
    let Some(variable) = converted.workspace.variable else {
        converted.refuse(field, "a manifest has no references to variables here: write the value into it");
        return Value::Null;
    };
    let text = variables(&text, field, converted);
    let resolved = text.as_deref().map(|text| EnvironmentText::parse(text).and_then(|parts| parts.resolve(variable)));
    if let Some(Err(unset)) = resolved {
        converted.refuse(field, format!("the environment variable {unset} is not set"));
    }
    resolved.and_then(Result::ok).map_or(Value::Null, Value::from)
}

/// The variable that stands for the folder of the workspace.
const FOLDER: &str = "${workspaceFolder}";

/// Returns a text with the references of all clients in one spelling: `${env:NAME}` is `${NAME}`, and so is `${input:name}`,
/// because a gateway cannot ask.
fn variables(text: &str, field: &str, converted: &mut Converted) -> Option<String> {
    let mut parts = text.replace("${env:", "${");
    while let Some((before, input)) = parts.split_once("${input:") {
        let (input, behind) = input.split_once('}').unwrap_or((input, ""));
        let name: String =
            input.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
        converted.leave_out(field, format!("the gateway reads it from its environment variable {name}"));
        parts = format!("{before}${{{name}}}{behind}");
    }
    let Err(wrong) = EnvironmentText::parse(&parts) else { return Some(parts) };
    let forms = "${NAME}, ${NAME:-default} or ${env:NAME}";
    converted.refuse(field, format!("{wrong:.64} is no reference to a variable: write {forms}"));
    None
}
