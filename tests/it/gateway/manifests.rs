//! Manifests that tests make: JSON values, written as the YAML documents that they also are.

use serde_json::{Value, json};

use crate::fixtures::fixture;

/// Any object of ours.
pub fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// A gateway that anybody may call, with this besides.
pub fn gateway(spec: &Value) -> Value {
    let mut all = json!({"authentication": {"anonymous": {}}});
    merge(&mut all, spec);
    object("MCPGateway", "main", &all)
}

/// The server that answers byte for byte, over stdio.
pub fn raw_server(name: &str, arguments: &[&str]) -> Value {
    let mut all = vec![fixture("servers/raw.mjs").display().to_string(), "--stdio".to_owned()];
    all.extend(arguments.iter().map(|a| (*a).to_owned()));
    object("MCPUpstream", name, &json!({"process": {"command": "node", "args": all}}))
}

/// A plugin of this code.
pub fn plugin(name: &str, code: &str, spec: &Value) -> Value {
    let mut all = json!({"source": {"inline": code}});
    merge(&mut all, spec);
    object("Plugin", name, &all)
}

/// A chain for one tool.
pub fn chain(name: &str, phase: &str, tool: &str, entries: &[Value]) -> Value {
    object("PluginChain", name, &json!({"phase": phase, "tools": {"include": [tool]}, "entries": entries}))
}

/// Puts the members of `more` into `object`.
pub fn merge(object: &mut Value, more: &Value) {
    for (key, value) in more.as_object().unwrap() {
        object[key] = value.clone();
    }
}

/// The text of a file that holds these objects.
pub fn yaml(objects: &[Value]) -> String {
    objects.iter().map(|object| format!("---\n{object}\n")).collect()
}
