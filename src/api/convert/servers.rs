//! The servers of MCP clients, in the spellings of Claude Desktop, Cursor, VS Code and those that follow them.

use serde_json::{Map, Value, json};

use super::converted::{Converted, Workspace};
use super::names::object_name;
use super::references::{named, resolved};
use super::section::Section;

/// Why the inputs of VS Code are left out.
pub(super) const INPUTS: &str = "a gateway cannot ask for values: set the environment variable that each server names";

/// Why servers over WebSocket are refused.
const NO_WEBSOCKET: &str = "WebSocket is no transport of MCP: a server has `command`, or `url` with http:// or https:// and, in the \
                            place of ws or websocket, type http or sse";

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
    let (wrong, enabled) = (converted.wrong.len(), server.take_bool("enabled", converted));
    let disabled = server.take_bool("disabled", converted);
    let enabled = enabled.or(disabled.map(|disabled| !disabled));
    let mut spec = Map::new();
    let kind = server.take(&["type", "transport", "transportType"]).and_then(Value::as_str).unwrap_or_default();
    if let Some(command) = server.take(&["command"]) {
        spec.insert("process".to_owned(), process(command, &mut server, converted));
    } else if let Some(url) = server.take(&["url", "serverUrl", "httpUrl"]) {
        if is_websocket(url, kind) {
            converted.refuse(server.field("url"), NO_WEBSOCKET);
        } else {
            spec.insert("external".to_owned(), external(url, kind, &mut server, converted));
        }
    } else {
        return converted.leave_out(field, "it has neither `command` nor `url`");
    }
    if enabled == Some(false) && converted.wrong.len() > wrong {
        // It need not be complete.
        let why = converted.wrong.drain(wrong..).next().map(|wrong| format!("{}: {}", wrong.field, wrong.reason));
        return converted.leave_out(field, format!("it is disabled; {}", why.unwrap_or_default()));
    }
    if spec.is_empty() {
        return;
    }
    if let Some(enabled) = enabled {
        spec.insert("enabled".to_owned(), json!(enabled));
    }
    server.copy(&["description"], &mut spec, "description");
    let mut tools = Map::new();
    server.copy(&["includeTools"], &mut tools, "include");
    server.copy(&["disabledTools", "excludeTools"], &mut tools, "exclude");
    if !tools.is_empty() {
        spec.insert("tools".to_owned(), Value::Object(tools));
    }
    leave_out(&mut server, converted);
    server.finish(converted);
    converted.add("MCPUpstream", &object_name(name, 48), Value::Object(spec), field);
}

/// Leaves out the fields of clients that have no counterpart.
fn leave_out(server: &mut Section<'_>, converted: &mut Converted) {
    let approval = "approval of calls is a matter of the client";
    server.leave_out(&["autoApprove", "alwaysAllow", "trust"], approval, converted);
    server.leave_out(&["timeout"], "its unit differs between clients: set spec.timeouts.callMs", converted);
    let files = "files with variables are not read: set them in the gateway's environment";
    server.leave_out(&["envFile"], files, converted);
}

fn process(command: &Value, server: &mut Section<'_>, converted: &mut Converted) -> Value {
    let Workspace { path, is_start, .. } = converted.workspace.clone();
    let command = resolved(command, &server.field("command"), converted);
    let mut process = Map::from_iter([("command".to_owned(), command)]);
    match server.take(&["args"]) {
        Some(Value::Array(args)) => {
            let args = args.iter().enumerate();
            let args = args.map(|(i, arg)| resolved(arg, &server.field(&format!("args[{i}]")), converted));
            process.insert("args".to_owned(), args.collect());
        }
        Some(_) => converted.refuse(server.field("args"), "it is no list"),
        None => {}
    }
    if let Some(cwd) = server.take(&["cwd"]) {
        process.insert("cwd".to_owned(), resolved(cwd, &server.field("cwd"), converted));
    } else if is_start {
        process.insert("cwd".to_owned(), json!(path));
    }
    if let Some(env) = all_named("env", server, converted) {
        process.insert("env".to_owned(), env);
    }
    Value::Object(process)
}

fn is_websocket(url: &Value, kind: &str) -> bool {
    let url = url.as_str().unwrap_or_default().to_ascii_lowercase();
    ["ws", "websocket"].iter().any(|it| kind.eq_ignore_ascii_case(it))
        || url.starts_with("ws:")
        || url.starts_with("wss:")
}

fn external(url: &Value, kind: &str, server: &mut Section<'_>, converted: &mut Converted) -> Value {
    let url = resolved(url, &server.field("url"), converted);
    let mut external = Map::from_iter([("url".to_owned(), url)]);
    if kind.eq_ignore_ascii_case("sse") {
        external.insert("transport".to_owned(), json!("SSE"));
    }
    if let Some(headers) = all_named("headers", server, converted) {
        external.insert("headers".to_owned(), headers);
    }
    Value::Object(external)
}

/// Returns the variables or headers of a server as a list.
fn all_named(member: &'static str, server: &mut Section<'_>, converted: &mut Converted) -> Option<Value> {
    let Value::Object(values) = server.take(&[member])? else {
        converted.refuse(server.field(member), "it is no mapping from names to values");
        return None;
    };
    let of =
        |(name, value): (&String, &Value)| named(name, value, &server.field(&format!("{member}.{name}")), converted);
    Some(values.iter().filter_map(of).collect())
}
