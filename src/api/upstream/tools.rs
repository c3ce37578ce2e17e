//! Which tools of an upstream are offered, and whether their definitions are pinned.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::values::{FreeValue, GLOB, SHA256, TOOL_NAME};

/// Which tools are offered to clients, and changes to their definitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.overrides) || self.overrides.all(o, !has(o.rename) || self.overrides.exists_one(p, has(p.rename) \
     && p.rename == o.rename))"
).message(
    "tools.overrides: two tools are renamed to the same word"
))]
pub struct UpstreamTools {
    /// Globs that select the tools to offer, by the server's own names for them. Default: all tools.
    #[schemars(length(max = 256), inner(length(min = 1, max = 128), regex(pattern = GLOB)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub include: Option<Vec<String>>,
    /// Globs that select tools that are not offered, even if `include` matches them too. Default: none.
    #[schemars(length(max = 256), inner(length(min = 1, max = 128), regex(pattern = GLOB)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub exclude: Option<Vec<String>>,
    /// Changes to individual tools, which are identified by the server's own names for them. Default: none.
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub overrides: Option<Vec<ToolOverride>>,
    /// Who can use the tools. With `Pipelines`, no client sees or calls them, and the pipelines can whose `tools.include`
    /// names them. Default: Clients.
    pub offered_to: Option<OfferedTo>,
}

/// Who can use a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OfferedTo {
    /// Clients, plugins and pipelines.
    Clients,
    /// Only pipelines.
    Pipelines,
}

/// Changes to the definition of one tool. An absent field changes nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.hidden) || !self.hidden || !has(self.rename)"
).message(
    "tools.overrides: a hidden tool has no name to change; drop `rename` or `hidden`"
))]
#[x_kube(validation = Rule::new(
    "!has(self.hidden) || !self.hidden || !has(self.answer)"
).message(
    "tools.overrides: a hidden tool is never called; drop `answer` or `hidden`"
))]
#[x_kube(validation = Rule::new(
    "!has(self.answer) || size(bytes(self.answer)) <= 16384"
).message(
    "tools.overrides: an answer has at most 16384 bytes"
))]
pub struct ToolOverride {
    /// The server's own name for the tool.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Name under which clients see the tool. Default: the server's own name.
    #[schemars(length(min = 1, max = 64), regex(pattern = TOOL_NAME))]
    pub rename: Option<String>,
    /// Title of the tool. Default: the server's title.
    #[schemars(length(max = 256))]
    pub title: Option<String>,
    /// Description of the tool. Default: the server's description.
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// Text that is put before the description, with an empty line between them, to tell models that the tool should
    /// not be used any more, and what to use instead. Default: none.
    #[schemars(length(min = 1, max = 1024))]
    pub deprecated: Option<String>,
    /// MCP annotations that replace those of the server; an absent one stays as the server has it. They count for
    /// `tool` in CEL and for `retry` too. Default: the server's annotations.
    pub annotations: Option<ToolAnnotations>,
    /// Whether the tool is hidden: neither listed nor callable. Default: false.
    pub hidden: Option<bool>,
    /// Who can use the tool. Default: `tools.offeredTo` of the upstream.
    pub offered_to: Option<OfferedTo>,
    /// Milliseconds to wait for the answer to a call of the tool. Default: the upstream's `timeouts.callMs`.
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout_ms: Option<u32>,
    /// Text with which the gateway answers calls of the tool itself: nothing is sent to the server. Chains run as on any
    /// other call. The tool has no output schema then. At most 16384 bytes. Default: none.
    #[schemars(length(min = 1, max = 16384))]
    pub answer: Option<String>,
    /// Changes to individual arguments. Default: none.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub arguments: Option<Vec<ArgumentOverride>>,
}

/// MCP annotations of a tool, which are hints for clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnnotations {
    /// Title of the tool.
    #[schemars(length(max = 256))]
    pub title: Option<String>,
    /// Whether the tool changes nothing.
    pub read_only_hint: Option<bool>,
    /// Whether the tool may destroy data.
    pub destructive_hint: Option<bool>,
    /// Whether calling the tool again with the same arguments has no further effect.
    pub idempotent_hint: Option<bool>,
    /// Whether the tool interacts with external systems.
    pub open_world_hint: Option<bool>,
}

/// Changes to one argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArgumentOverride {
    /// Name of the argument.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Fixed value of the argument, any JSON but null. It is put in after the request chains, right before the call is
    /// sent, also if the server's input schema does not have the argument, which is warned of. Clients need not give
    /// the argument, and cannot give it another value. Not for secrets: the value is kept as plain text, and unless the
    /// argument is hidden, clients see it. Default: none.
    pub value: Option<FreeValue>,
    /// Whether the argument is left out of the schema that clients see. A call that has the argument is not sent.
    /// Plugins can set it. Default: false.
    pub hidden: Option<bool>,
    /// Description of the argument. Default: the server's description.
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
}

/// What happens if the server changes a tool's definition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pinning {
    /// What happens if the server changes a tool's definition: `Off` does nothing, `Alert` raises a condition and an
    /// Event, `Enforce` also withdraws the tool until the new definition is approved. Default: Off.
    pub mode: Option<PinningMode>,
    /// Digests of the approved definitions; a tool that is not in the list is not approved. `hawsepipe tools pin` prints
    /// the list. Default: for each tool, the first definition that a pod saw since its start.
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub approved: Option<Vec<ApprovedTool>>,
}

/// What happens if the server changes a tool's definition: `Off` does nothing, `Alert` raises a condition and an Event,
/// `Enforce` also withdraws the tool until the new definition is approved. Default: Off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PinningMode {
    /// Nothing happens.
    Off,
    /// A condition and an Event are raised.
    Alert,
    /// A condition and an Event are raised, and the tool is withdrawn until the new definition is approved.
    Enforce,
}

/// An approved tool definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovedTool {
    /// The server's own name for the tool.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// SHA-256 digest of the tool's name, title, description, schemas, annotations, `execution`, `_meta.ui` and
    /// `_meta["ui/resourceUri"]`, in hexadecimal.
    #[schemars(length(equal = 64), regex(pattern = SHA256))]
    pub sha256: String,
}
