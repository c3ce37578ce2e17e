//! The result of a conversion: objects, and the parts of the source that they do not have.

use serde_json::{Value, json};

/// Returns the value of a variable of the gateway's environment.
pub type Variable = fn(&str) -> Option<String>;

/// The objects of a document, and the fields that have no place in them.
#[derive(Clone, Debug, Default)]
pub struct Converted {
    /// The objects, each with the field of the document that it was made from.
    pub objects: Vec<ConvertedObject>,
    /// Fields that no object has, with the reason.
    pub left_out: Vec<LeftOut>,
    /// Parts that cannot be converted. A Guard can be in them, so the objects are not the whole document.
    pub wrong: Vec<LeftOut>,
    pub(super) workspace: Workspace,
}

/// The folder that an MCP client has open, and its environment.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    /// The path, which `${workspaceFolder}` stands for.
    pub path: String,
    /// Whether servers start in it. They start in the folder of the file otherwise.
    pub is_start: bool,
    /// The variables that texts refer to; `None` if their values must not be in the objects.
    pub variable: Option<Variable>,
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
    pub(super) fn add(&mut self, kind: &str, name: &str, spec: Value, field: &str) {
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

    pub(super) fn leave_out(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        self.left_out.push(LeftOut { field: field.into(), reason: reason.into() });
    }

    pub(super) fn refuse(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        self.wrong.push(LeftOut { field: field.into(), reason: reason.into() });
    }
}
