//! Converts configuration of other forms into objects of ours: `plugins` (document 001, and document 000's
//! PluginConfiguration), the servers of MCP clients (`mcpServers`, or `servers` of VS Code), and document 003's
//! PluginSettings. A file can have them alone or together. Nothing is read here but the document.

mod names;
mod plugins;
mod section;
mod servers;
mod settings;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use self::section::Section;

/// The objects of a document, and the fields that have no place in them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Converted {
    /// The objects, each with the field of the document that it was made from.
    pub objects: Vec<ConvertedObject>,
    /// Fields that no object has, with the reason.
    pub left_out: Vec<LeftOut>,
    /// Parts that cannot be converted. A Guard can be in them, so the objects are not the whole document.
    pub wrong: Vec<LeftOut>,
    workspace: Workspace,
}

/// The folder that an MCP client has open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workspace {
    /// The path, which `${workspaceFolder}` stands for.
    pub path: String,
    /// Whether servers start in it. They start in the folder of the file otherwise.
    pub is_start: bool,
}

/// An object, such as an MCPUpstream.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvertedObject {
    /// The whole object.
    pub document: Value,
    /// The field of the source that it was made from, such as `mcpServers.github`.
    pub field: String,
}

/// A field without a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The path of the field in the source.
    pub field: String,
    /// Why it is left out. Never holds the value, which can be a secret.
    pub reason: String,
}

impl Converted {
    fn add(&mut self, kind: &str, name: &str, spec: Value, field: &str) {
        let is = |made: &Value| made["kind"] == kind && made["metadata"]["name"] == name;
        if let Some(other) = self.objects.iter().find(|made| is(&made.document)) {
            let reason = format!("{kind} {name} is made from {} too: rename or remove one of them", other.field);
            return self.refuse(field, reason);
        }
        let document = json!({
            "apiVersion": "hawsepipe.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
        });
        self.objects.push(ConvertedObject { document, field: field.to_owned() });
    }

    fn leave_out(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        self.left_out.push(LeftOut { field: field.into(), reason: reason.into() });
    }

    fn refuse(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        self.wrong.push(LeftOut { field: field.into(), reason: reason.into() });
    }
}

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
            || settings::NUMBERS.iter().any(is_setting))
}

/// Converts a document for which [`is_convertible`] holds. `files` lists the names of the files in a plugin folder, whose
/// path is written as in the document.
pub fn convert(document: &Value, workspace: Workspace, files: &dyn Fn(&str) -> Vec<String>) -> Converted {
    let mut converted = Converted { workspace, ..Converted::default() };
    let empty = Map::new();
    let mut top = Section::new(document.as_object().unwrap_or(&empty), "");
    let mut gateway = Map::new();
    settings::limits(&mut top, &mut gateway);
    if let Some(plugins) = top.take(&["plugins"]) {
        plugins::convert(plugins, &mut gateway, &mut converted, files);
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
    top.finish(&mut converted);
    if !gateway.is_empty() {
        gateway.insert("authentication".to_owned(), json!({"anonymous": {}}));
        converted.add("MCPGateway", "main", Value::Object(gateway), "plugins");
    }
    converted
}
