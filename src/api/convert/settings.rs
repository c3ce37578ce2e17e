//! Document 003's PluginSettings: an array of MCPServerConfig with their section bindings, and three numbers.

use serde_json::{Map, Value, json};

use super::converted::Converted;
use super::names::{is_label_value, object_name};
use super::section::Section;
use crate::domain::plan::SERVER_ID;

/// The three numbers: the time limit of a call in milliseconds, and the calls of a session, at a time and in all.
pub(super) const NUMBERS: [&str; 3] = ["mcpGlobalTimeout", "mcpConcurrentLimit", "mcpSessionLimit"];

/// Converts the three numbers into a gateway's limits.
pub(super) fn limits(top: &mut Section<'_>, gateway: &mut Map<String, Value>) {
    let [timeout, concurrent, total] = NUMBERS;
    let (mut limits, mut session) = (Map::new(), Map::new());
    top.copy(&[timeout], &mut limits, "callTimeoutMs");
    top.copy(&[concurrent], &mut session, "concurrentCalls");
    top.copy(&[total], &mut session, "totalCalls");
    if !session.is_empty() {
        limits.insert("perSession".to_owned(), Value::Object(session));
    }
    if !limits.is_empty() {
        gateway.insert("limits".to_owned(), Value::Object(limits));
    }
}

/// Converts an array of MCPServerConfig.
pub(super) fn servers(servers: &[Value], converted: &mut Converted) {
    let name_of = |server: &Value| object_name(server["name"].as_str().unwrap_or_default(), 48);
    let named: Vec<_> = servers.iter().map(|server| (server["id"].as_str(), name_of(server))).collect();
    for (i, server) in servers.iter().enumerate() {
        let field = format!("mcpServers[{i}]");
        let (Value::Object(members), Some(_)) = (server, server["name"].as_str()) else {
            converted.leave_out(field, "it is no mapping with a `name`");
            continue;
        };
        let mut section = Section::new(members, &field);
        let bindings = section.take_list("sectionBindings", converted);
        upstream(&named[i].1, section, &field, converted);
        for (n, binding) in bindings.into_iter().flatten().enumerate() {
            let upstream =
                binding["serverId"].as_str().and_then(|id| named.iter().find(|(known, _)| *known == Some(id)));
            let name = format!("{:.56}-{}", named[i].1, n + 1);
            let at = format!("{field}.sectionBindings[{n}]");
            match upstream {
                Some((_, upstream)) => section_binding(binding, upstream, &name, &at, converted),
                None => converted.refuse(at, "its serverId names no server of this file"),
            }
        }
    }
}

/// The forms that a server can have.
const FORMS: &str = "a server has transport stdio or sse with deploymentType managed and dockerConfig, or transport sse with \
                     deploymentType external and sseConfig.url";

fn upstream(name: &str, mut server: Section<'_>, field: &str, converted: &mut Converted) {
    let id = server.take(&["id"]).and_then(Value::as_str);
    server.take(&["name"]);
    let [transport, deployment] = ["transport", "deploymentType"].map(|name| server.take(&[name]).cloned());
    let (docker, sse) = (server.take(&["dockerConfig"]), server.take(&["sseConfig"]));
    let mut spec = Map::new();
    let [transport, deployment] = [&transport, &deployment].map(|word| word.as_ref().map_or(Some(""), Value::as_str));
    match (transport, deployment, docker, sse) {
        (Some("stdio" | "sse" | ""), Some("managed" | ""), Some(Value::Object(docker)), None) => {
            let docker = Section::new(docker, format!("{field}.dockerConfig"));
            spec.insert("managed".to_owned(), managed(docker, transport, converted));
        }
        (Some("sse" | ""), Some("external" | ""), None, Some(Value::Object(sse))) if sse.contains_key("url") => {
            let mut sse = Section::new(sse, format!("{field}.sseConfig"));
            let kind = if transport == Some("sse") { "SSE" } else { "Auto" };
            spec.insert("external".to_owned(), json!({"url": sse.take(&["url"]), "transport": kind}));
            sse.finish(converted);
        }
        _ => return converted.refuse(field, FORMS),
    }
    server.copy(&["enabled"], &mut spec, "enabled");
    let state = "it is state, which the gateway keeps itself";
    server.leave_out(&["lastConnectedAt", "failureCount", "autoDisabled"], state, converted);
    server.finish(converted);
    converted.add("MCPUpstream", name, Value::Object(spec), field);
    if let (Some(id), Some(made)) = (id.filter(|id| is_label_value(id)), converted.objects.last_mut()) {
        made.document["metadata"]["labels"] = json!({SERVER_ID: id});
    }
}

fn managed(mut docker: Section<'_>, transport: Option<&str>, converted: &mut Converted) -> Value {
    let mut managed = Map::new();
    docker.copy(&["image"], &mut managed, "image");
    docker.copy(&["containerName"], &mut managed, "containerName");
    docker.copy(&["command"], &mut managed, "command");
    if let Some(Value::Object(ports)) = docker.take(&["ports"]) {
        let ports = ports.iter().map(|(name, port)| json!({"name": object_name(name, 15), "port": port}));
        managed.insert("ports".to_owned(), ports.collect());
    }
    managed.insert("transport".to_owned(), json!(if transport == Some("sse") { "SSE" } else { "Stdio" }));
    docker.finish(converted);
    Value::Object(managed)
}

/// The forms that a binding can have.
const SECTIONS: &str = "a binding has sectionType heading with headingText, block with blockId, or range with startLine and endLine, \
                        and nothing of another one";

/// Bindings of these settings are for every document.
fn section_binding(binding: &Value, upstream: &str, name: &str, field: &str, converted: &mut Converted) {
    let empty = Map::new();
    let mut section = Section::new(binding.as_object().unwrap_or(&empty), field);
    section.take(&["serverId"]);
    let wanted = section.take(&["sectionType"]);
    let has = |names: &[&str]| names.iter().any(|name| binding.get(*name).is_some_and(|value| !value.is_null()));
    let given =
        [("heading", has(&["headingText"])), ("block", has(&["blockId"])), ("range", has(&["startLine", "endLine"]))];
    let given: Vec<_> = given.into_iter().filter(|(_, has)| *has).map(|(kind, _)| kind).collect();
    if given.len() != 1 || wanted.is_some_and(|wanted| wanted != given[0]) {
        return converted.refuse(field, SECTIONS);
    }
    let mut spec = Map::from_iter([
        ("document".to_owned(), json!({"glob": "**"})),
        ("upstream".to_owned(), json!({"name": upstream})),
    ]);
    if let Some(text) = section.take(&["headingText"]).and_then(Value::as_str) {
        let level = text.bytes().take_while(|byte| *byte == b'#').count();
        let mut heading = json!({"text": text[level..].trim()});
        if level > 0 {
            heading["level"] = json!(level);
        }
        spec.insert("heading".to_owned(), heading);
    }
    if let Some(id) = section.take(&["blockId"]).and_then(Value::as_str) {
        spec.insert("block".to_owned(), json!({"id": id.trim_start_matches('^')}));
    }
    let mut range = Map::new();
    section.copy(&["startLine"], &mut range, "startLine");
    section.copy(&["endLine"], &mut range, "endLine");
    if !range.is_empty() {
        spec.insert("range".to_owned(), Value::Object(range));
    }
    section.copy(&["inheritToChildren"], &mut spec, "inheritToChildren");
    section.finish(converted);
    converted.add("SectionBinding", name, Value::Object(spec), field);
}
