//! What is offered of an upstream's tools, and whether their definitions are pinned.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::values::{FreeValue, GLOB, SHA256, TOOL_NAME};

/// Which tools are offered, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.overrides) || self.overrides.all(o, !has(o.rename) || self.overrides.exists_one(p, has(p.rename) \
     && p.rename == o.rename))"
).message(
    "tools.overrides: two tools are renamed to the same word"
))]
pub struct UpstreamTools {
    /// Globs over the server's own names. Default: all.
    #[schemars(length(max = 256), inner(length(min = 1, max = 128), regex(pattern = GLOB)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub include: Option<Vec<String>>,
    /// Globs that take out. Default: none.
    #[schemars(length(max = 256), inner(length(min = 1, max = 128), regex(pattern = GLOB)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub exclude: Option<Vec<String>>,
    /// What is changed about single tools, by the server's own name. Default: nothing.
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub overrides: Option<Vec<ToolOverride>>,
}

/// What is changed about one tool; absent fields stay as the server has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.hidden) || !self.hidden || !has(self.rename)"
).message(
    "tools.overrides: a hidden tool has no name to change; drop `rename` or `hidden`"
))]
pub struct ToolOverride {
    /// The server's own name for it.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Another word for clients.
    #[schemars(length(min = 1, max = 64), regex(pattern = TOOL_NAME))]
    pub rename: Option<String>,
    /// Another title.
    #[schemars(length(max = 256))]
    pub title: Option<String>,
    /// Another description.
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// Hints that put the server's own right.
    pub annotations: Option<ToolAnnotations>,
    /// Not listed and not callable. Default: false.
    pub hidden: Option<bool>,
    /// Milliseconds for its calls. Default: the upstream's.
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout_ms: Option<u32>,
    /// What is changed about single arguments. Default: nothing.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub arguments: Option<Vec<ArgumentOverride>>,
}

/// The protocol's hints about a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnnotations {
    /// A title.
    #[schemars(length(max = 256))]
    pub title: Option<String>,
    /// It changes nothing.
    pub read_only_hint: Option<bool>,
    /// It may destroy.
    pub destructive_hint: Option<bool>,
    /// Twice is as once.
    pub idempotent_hint: Option<bool>,
    /// It reaches out.
    pub open_world_hint: Option<bool>,
}

/// What is changed about one argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArgumentOverride {
    /// Its name.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// A fixed value, any JSON.
    pub value: Option<FreeValue>,
    /// Out of the schema that clients see. Default: false.
    pub hidden: Option<bool>,
    /// Another description.
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
}

/// Whether changed tool definitions are noticed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pinning {
    /// `Off`; `Alert` raises a condition and an Event; `Enforce` also takes the tool out until it is approved.
    /// Default: Off.
    pub mode: Option<PinningMode>,
    /// Digests of definitions, as `hawsepipe tools pin` prints them. Default: the first definition seen is trusted.
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub approved: Option<Vec<ApprovedTool>>,
}

/// What a changed definition does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PinningMode {
    /// Nothing.
    Off,
    /// A condition and an Event.
    Alert,
    /// It also takes the tool out.
    Enforce,
}

/// An approved definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovedTool {
    /// The server's own name.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Digest of name, description, schemas and annotations, hex.
    #[schemars(length(equal = 64), regex(pattern = SHA256))]
    pub sha256: String,
}
