//! What the owner of an upstream changes about one tool.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Refusal;

/// Changes to one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOverride {
    /// The server's own name for the tool.
    pub name: String,
    /// The name that clients see instead.
    pub rename: Option<String>,
    /// The title that clients see instead.
    pub title: Option<String>,
    /// The description that clients see instead.
    pub description: Option<String>,
    /// Text that is put before the description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    /// The annotations that count instead of the server's.
    #[serde(default, skip_serializing_if = "AnnotationsOverride::is_empty")]
    pub annotations: AnnotationsOverride,
    /// Whether the tool is neither listed nor callable.
    pub hidden: bool,
    /// Whether only pipelines can use the tool; `None` means the upstream's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_pipelines: Option<bool>,
    /// How long to wait for the tool's answer, in milliseconds; `None` means the upstream's setting.
    pub timeout_ms: Option<u32>,
    /// The text that answers calls of the tool; nothing is sent to the server then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Changes to individual arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<ArgumentOverride>,
    /// If set, calls of the tool are refused, because a protective setting cannot be enforced.
    pub refusing: Option<Refusal>,
}

impl ToolOverride {
    /// Whether clients see another definition than the server's, apart from the name.
    pub fn changes_definition(&self) -> bool {
        self.title.is_some()
            || self.description.is_some()
            || self.deprecated.is_some()
            || !self.annotations.is_empty()
            || self.decides_what_is_sent()
    }

    /// Whether a gateway must know the changes to arguments and the answer: without them, it would send what must not
    /// be sent.
    pub fn decides_what_is_sent(&self) -> bool {
        self.answer.is_some() || !self.arguments.is_empty()
    }
}

/// Annotations of a tool. `None` means that the server's counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationsOverride {
    /// The title of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether the tool changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// Whether the tool may destroy data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Whether calling the tool again with the same arguments has no further effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// Whether the tool interacts with external systems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl AnnotationsOverride {
    /// Whether all annotations of the server count.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Changes to one argument of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgumentOverride {
    /// The name of the argument.
    pub name: String,
    /// The value that is sent, whatever the client gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Whether clients neither see the argument nor can give it.
    #[serde(default)]
    pub hidden: bool,
    /// The description that clients see instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}
