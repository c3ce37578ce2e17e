//! The servers of MCP clients, in the spellings of Claude Desktop, Cursor, VS Code and those that follow them.

use serde_json::{Map, Value, json};

use super::converted::{Converted, Workspace};
use super::names::object_name;
use super::section::Section;

/// Why the inputs of VS Code are left out.
pub(super) const INPUTS: &str = "a gateway cannot ask for values: set the environment variable that each server names";

/// Converts a map from names to servers, which is at `path`.
pub(super) fn convert(servers: &Value, path: &str, converted: &mut Converted) {
    let Value::Object(servers) = servers else {
        return converted.leave_out(path, "it is no mapping from names to servers");
    };
    for (name, server) in servers {
        let field = format!("{path}.{name}");
        let Value::Object(members) = server else {
            converted.leave_out(field, "it is no mapping with `command` or `url`");
            continue;
        };
        upstream(name, Section::new(members, &field), &field, converted);
    }
}

fn upstream(name: &str, mut server: Section<'_>, field: &str, converted: &mut Converted) {
    let mut spec = Map::new();
    let kind = server.take(&["type", "transport", "transportType"]).and_then(Value::as_str).unwrap_or_default();
    if let Some(command) = server.take(&["command"]) {
        spec.insert("process".to_owned(), process(command, &mut server, converted));
    } else if let Some(url) = server.take(&["url", "serverUrl", "httpUrl"]) {
        spec.insert("external".to_owned(), external(url, kind, &mut server, converted));
    } else {
        return converted.leave_out(field, "it has neither `command` nor `url`");
    }
    server.copy(&["description"], &mut spec, "description");
    let enabled = server.take_bool("enabled", converted);
    let disabled = server.take_bool("disabled", converted);
    if let Some(enabled) = enabled.or(disabled.map(|disabled| !disabled)) {
        spec.insert("enabled".to_owned(), json!(enabled));
    }
    let mut tools = Map::new();
    server.copy(&["includeTools"], &mut tools, "include");
    server.copy(&["disabledTools", "excludeTools"], &mut tools, "exclude");
    if !tools.is_empty() {
        spec.insert("tools".to_owned(), Value::Object(tools));
    }
    let approval = "approval of calls is a matter of the client";
    server.leave_out(&["autoApprove", "alwaysAllow", "trust"], approval, converted);
    server.leave_out(&["timeout"], "its unit differs between clients: set spec.timeouts.callMs", converted);
    server.leave_out(
        &["envFile"],
        "files with variables are not read: set them in the gateway's environment",
        converted,
    );
    server.finish(converted);
    converted.add("MCPUpstream", &object_name(name, 48), Value::Object(spec), field);
}

fn process(command: &Value, server: &mut Section<'_>, converted: &mut Converted) -> Value {
    let Workspace { path, is_start } = converted.workspace.clone();
    let in_folder = |value: &Value| in_folder(value, &path);
    let mut process = Map::from_iter([("command".to_owned(), in_folder(command))]);
    match server.take(&["args"]) {
        Some(Value::Array(args)) => {
            for (i, _) in args.iter().enumerate().filter(|(_, arg)| has_reference(&in_folder(arg))) {
                converted
                    .leave_out(server.field(&format!("args[{i}]")), "references in arguments are passed as they stand");
            }
            process.insert("args".to_owned(), args.iter().map(&in_folder).collect());
        }
        Some(_) => converted.refuse(server.field("args"), "it is no list"),
        None => {}
    }
    if let Some(cwd) = server.take(&["cwd"]) {
        process.insert("cwd".to_owned(), in_folder(cwd));
    } else if is_start {
        process.insert("cwd".to_owned(), json!(path));
    }
    match server.take(&["env"]) {
        Some(Value::Object(variables)) => {
            let env: Vec<_> =
                variables.iter().filter_map(|(name, value)| variable(name, value, server, converted)).collect();
            process.insert("env".to_owned(), Value::Array(env));
        }
        Some(_) => converted.refuse(server.field("env"), "it is no mapping from names to values"),
        None => {}
    }
    Value::Object(process)
}

/// An environment variable, from a value or from the gateway's own environment.
fn variable(name: &str, value: &Value, server: &Section<'_>, converted: &mut Converted) -> Option<Value> {
    let field = server.field(&format!("env.{name}"));
    let value = match in_folder(value, &converted.workspace.path) {
        Value::String(text) => text,
        scalar @ (Value::Number(_) | Value::Bool(_)) => scalar.to_string(),
        _ => {
            converted.leave_out(field, "it is no text");
            return None;
        }
    };
    if let Some(reference) = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
        if let Some(input) = reference.strip_prefix("input:") {
            let from: String =
                input.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
            converted.leave_out(field, format!("the gateway reads it from its environment variable {from}"));
            return Some(json!({"name": name, "valueFrom": {"environment": from}}));
        }
        let from = reference.strip_prefix("env:").unwrap_or(reference);
        if from.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Some(json!({"name": name, "valueFrom": {"environment": from}}));
        }
    }
    if has_reference(&json!(value)) {
        converted.leave_out(field, "a reference must be the whole value");
        return None;
    }
    Some(json!({"name": name, "value": value}))
}

fn external(url: &Value, kind: &str, server: &mut Section<'_>, converted: &mut Converted) -> Value {
    let mut external = Map::from_iter([("url".to_owned(), url.clone())]);
    if kind.eq_ignore_ascii_case("sse") {
        external.insert("transport".to_owned(), json!("SSE"));
    }
    let headers = server.take(&["headers"]);
    if headers.is_some_and(|headers| !headers.is_object()) {
        converted.refuse(server.field("headers"), "it is no mapping from names to values");
    }
    if let Some(Value::Object(headers)) = headers {
        let mut sent = Vec::new();
        for (name, value) in headers {
            if has_reference(value) {
                let reason = "a header with a reference needs a Secret: spec.external.headers[].valueFrom.secretKeyRef";
                converted.leave_out(server.field(&format!("headers.{name}")), reason);
            } else {
                sent.push(json!({"name": name, "value": value}));
            }
        }
        external.insert("headers".to_owned(), Value::Array(sent));
    }
    Value::Object(external)
}

/// A text whose `${workspaceFolder}` is the workspace.
fn in_folder(value: &Value, workspace: &str) -> Value {
    match value {
        Value::String(text) => json!(text.replace("${workspaceFolder}", workspace)),
        other => other.clone(),
    }
}

fn has_reference(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.contains("${"))
}
