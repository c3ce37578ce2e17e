//! Tools as upstreams list them.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::plan::ToolOverride;
use super::raw::{RawObject, to_raw};
use super::secret::Mask;
use super::tool_name::{MAX_NAME, is_valid_name};
use crate::domain::quoted::Quoted;

/// A tool of an upstream. Its definition is kept unchanged. Clones share the definition and the schemas.
#[derive(Clone, Debug)]
pub struct Tool {
    /// The server's own name for the tool.
    pub name: String,
    /// The whole definition as the server sent it.
    pub definition: Arc<RawValue>,
    /// The tool's input schema; `None` if the server sent none.
    pub input_schema: Option<Arc<RawValue>>,
    /// The tool's annotations, with the protocol's defaults filled in.
    pub hints: Hints,
    /// The `_meta` of the definition; `None` if there is none.
    pub meta: Option<Arc<RawValue>>,
}

/// A server's tool list.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// The tools, in the server's order.
    pub tools: Vec<Tool>,
    /// Messages that name tools which are not offered to clients, and say why; see [`Listed::leave_out`].
    pub left_out: Vec<String>,
}

/// Maximum number of tools that the messages about one list name.
const MAX_LEFT_OUT: usize = 20;

impl Listed {
    /// Records that a tool is not offered. After the first twenty tools, only records that there are more.
    pub fn leave_out(&mut self, tool: &str, fault: &str) {
        match self.left_out.len() {
            0..MAX_LEFT_OUT => self.left_out.push(format!("tool {tool:.128} is left out: {fault}")),
            MAX_LEFT_OUT => self.left_out.push("more tools are left out".to_owned()),
            _ => {}
        }
    }

    /// Returns the list with secret values hidden in the messages about tools that are left out. These messages contain
    /// names that the server sent.
    pub fn masked(mut self, mask: &Mask) -> Self {
        self.left_out.iter_mut().for_each(|said| *said = mask.masked(said.as_str()).into_owned());
        self
    }
}

/// A tool's annotations with the protocol's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// Whether the tool changes nothing. Default: false.
    pub read_only: bool,
    /// Whether the tool may destroy data. Default: true.
    pub destructive: bool,
    /// Whether calling the tool again with the same arguments has no further effect. Default: false.
    pub idempotent: bool,
    /// Whether the tool interacts with the outside world. Default: true.
    pub open_world: bool,
}

impl Default for Hints {
    fn default() -> Self {
        Self { read_only: false, destructive: true, idempotent: false, open_world: true }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Definition {
    name: String,
    input_schema: Option<Box<RawValue>>,
    annotations: Option<Box<RawValue>>,
    #[serde(rename = "_meta")]
    meta: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnnotationsJson {
    read_only_hint: Option<bool>,
    destructive_hint: Option<bool>,
    idempotent_hint: Option<bool>,
    open_world_hint: Option<bool>,
}

impl Tool {
    /// Parses one element of a server's `tools`. The error says why the element is not a valid tool.
    pub fn parse(definition: &RawValue) -> Result<Self, String> {
        let read: Definition = serde_json::from_str(definition.get()).map_err(|e| e.to_string())?;
        if !is_valid_name(&read.name) {
            return Err(format!("its name is not 1 to {MAX_NAME} of A-Z a-z 0-9 _ . -: {}", Quoted(&read.name, 40)));
        }
        let annotations =
            read.annotations.and_then(|a| serde_json::from_str::<Option<AnnotationsJson>>(a.get()).ok()).flatten();
        let default = Hints::default();
        let hints = annotations.map_or(default, |a| Hints {
            read_only: a.read_only_hint.unwrap_or(default.read_only),
            destructive: a.destructive_hint.unwrap_or(default.destructive),
            idempotent: a.idempotent_hint.unwrap_or(default.idempotent),
            open_world: a.open_world_hint.unwrap_or(default.open_world),
        });
        Ok(Self {
            name: read.name,
            definition: definition.to_owned().into(),
            input_schema: read.input_schema.map(Arc::from),
            hints,
            meta: read.meta.map(Arc::from),
        })
    }

    /// Returns the definition that clients see: with the name `public` and the override's title and description.
    /// Everything else keeps its bytes.
    pub fn public_definition(&self, public: &str, change: Option<&ToolOverride>) -> Arc<RawValue> {
        let title = change.and_then(|c| c.title.as_ref());
        let description = change.and_then(|c| c.description.as_ref());
        if public == self.name && title.is_none() && description.is_none() {
            return self.definition.clone();
        }
        let Ok(mut object) = RawObject::parse(self.definition.get()) else {
            return self.definition.clone();
        };
        object.set("name", to_raw(&public));
        if let Some(title) = title {
            object.set("title", to_raw(title));
        }
        if let Some(description) = description {
            object.set("description", to_raw(description));
        }
        object.to_raw().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_keeps_what_no_override_touches() {
        let raw = r#"{"name":"echo","inputSchema":{"x-n": 1.0},"annotations":{"readOnlyHint":true},"new":[1]}"#;
        let tool = Tool::parse(&RawValue::from_string(raw.into()).unwrap()).unwrap();
        assert!(tool.hints.read_only && tool.hints.destructive);
        let change = ToolOverride { description: Some("Says it again.".into()), ..ToolOverride::default() };
        assert_eq!(
            tool.public_definition("up__echo", Some(&change)).get(),
            r#"{"name":"up__echo","inputSchema":{"x-n": 1.0},"annotations":{"readOnlyHint":true},"new":[1],"description":"Says it again."}"#
        );
    }
}
