//! Converts configuration of other forms into objects of ours: `plugins` (document 001, and document 000's
//! PluginConfiguration), the servers of MCP clients (`mcpServers`, or `servers` of VS Code), and document 003's
//! PluginSettings. A file can have them alone or together. Nothing is read here but the document.

mod converted;
mod foreign;
mod names;
mod plugins;
mod references;
mod section;
mod servers;
mod settings;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

pub use self::converted::{Converted, ConvertedObject, LeftOut, Variable, Workspace};
use self::section::Section;

/// The members of a document that have plugins or servers.
const FORMS: [&str; 4] = ["plugins", "mcpServers", "servers", "mcp"];

/// Whether a document has one of these forms: it is no Kubernetes object, and has a member that they begin with.
pub fn is_convertible(document: &Value) -> bool {
    let Value::Object(members) = document else { return false };
    let is_object = |name: &str| members.get(name).is_some_and(Value::is_object);
    let is_setting = |name: &&str| members.get(*name).is_some_and(Value::is_number);
    !members.contains_key("apiVersion")
        && !members.contains_key("kind")
        && (["plugins", "mcpServers", "servers"].into_iter().any(is_object)
            || members.get("mcpServers").is_some_and(Value::is_array)
            || members.get("mcp").is_some_and(|nested| nested["servers"].is_object())
            || settings::NUMBERS.iter().any(is_setting)
            || foreign::servers(members).is_some())
}

/// Converts a document for which [`is_convertible`] holds. `files` lists the names of the files in a plugin folder, whose
/// path is written as in the document.
pub fn convert(document: &Value, workspace: Workspace, files: &dyn Fn(&str) -> Option<Vec<String>>) -> Converted {
    let mut converted = Converted { workspace, ..Converted::default() };
    let empty = Map::new();
    let mut top = Section::new(document.as_object().unwrap_or(&empty), "");
    let mut gateway = Map::new();
    settings::limits(&mut top, &mut gateway);
    if let Some(plugins) = top.take(&["plugins"]) {
        plugins::convert(plugins, &mut gateway, &mut converted, files);
    }
    if let Some((field, why)) = document.as_object().and_then(foreign::servers) {
        converted.refuse(field, why);
        return converted;
    }
    match top.take(&["mcpServers"]) {
        Some(Value::Array(servers)) => settings::servers(servers, &mut converted),
        Some(servers) => servers::convert(servers, "mcpServers", &mut converted),
        None => {}
    }
    if let Some(servers) = top.take(&["servers"]) {
        servers::convert(servers, "servers", &mut converted);
    }
    if let Some(Value::Object(nested)) = top.take(&["mcp"]) {
        let mut nested = Section::new(nested, "mcp");
        if let Some(servers) = nested.take(&["servers"]) {
            servers::convert(servers, "mcp.servers", &mut converted);
        }
        nested.leave_out(&["inputs"], servers::INPUTS, &mut converted);
        nested.finish(&mut converted);
    }
    top.leave_out(&["inputs"], servers::INPUTS, &mut converted);
    refuse_other_cases(document, &mut converted);
    top.finish(&mut converted);
    if !gateway.is_empty() {
        gateway.insert("authentication".to_owned(), json!({"anonymous": {}}));
        converted.add("MCPGateway", "main", Value::Object(gateway), "plugins");
    }
    converted
}

/// Refuses the members of a document that differ from a form in the case of their letters.
fn refuse_other_cases(document: &Value, converted: &mut Converted) {
    for name in document.as_object().into_iter().flat_map(Map::keys) {
        if FORMS.iter().any(|form| form.eq_ignore_ascii_case(name) && form != name) {
            converted
                .refuse(name.as_str(), "the case of its letters is another one: plugins, mcpServers, servers, mcp");
        }
    }
}
