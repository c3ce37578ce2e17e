//! The kind ToolPipeline.

pub mod conversation;
pub mod declared;
pub mod planned;
pub mod status;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::conversation::Conversation;
use self::declared::Declared;
use self::planned::Planned;
use self::status::ToolPipelineStatus;
use crate::api::chain::ChainTools;
use crate::api::gateway::records::Model;
use crate::api::shared::ObjectRef;
use crate::api::upstream::tools::ToolAnnotations;
use crate::api::values::{FreeObject, Quantity, TOOL_NAME};

/// Steps made of plugins and tools, offered as one tool.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "hawsepipe.dev",
    version = "v1alpha1",
    kind = "ToolPipeline",
    namespaced,
    status = "ToolPipelineStatus",
    derive = "PartialEq",
    category = "hawsepipe",
    shortname = "tpipe",
    doc = "Steps made of plugins and tools, offered as one tool.",
    printcolumn(name = "TOOL", type_ = "string", json_path = ".status.toolName"),
    printcolumn(name = "MODE", type_ = "string", json_path = ".status.mode"),
    printcolumn(name = "STEPS", type_ = "integer", json_path = ".status.steps"),
    printcolumn(name = "LIVE", type_ = "string", json_path = ".status.live"),
    printcolumn(name = "READY", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "REASON", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "REVISION", type_ = "string", json_path = ".status.revision", priority = 1),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new(
        "self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
    ).message(
        "metadata.name: at most 63 characters of a-z, 0-9 and -, a letter first: it is a label value and by default the tool's name"
    ),
)]
#[x_kube(validation = Rule::new(
    "(has(self.declared) ? 1 : 0) + (has(self.planned) ? 1 : 0) == 1"
).message(
    "give exactly one of declared, planned"
))]
pub struct ToolPipelineSpec {
    /// Default: true.
    pub enabled: Option<bool>,
    /// Gateways it is for; across namespaces by name only. Default: every one of its namespace.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub gateways: Option<Vec<ObjectRef>>,
    /// What clients see of it.
    pub tool: PipelineTool,
    /// What its steps may call, by the names the gateway gives. Default: nothing.
    pub tools: Option<ChainTools>,
    /// What one run may use up. Default: each field's.
    pub budgets: Option<Budgets>,
    /// Models by role, before the gateway's; their Secrets are of this namespace. Default: the gateway's.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["role"]))]
    pub models: Option<Vec<Model>>,
    /// Agents in an order of yours. Default: none.
    pub declared: Option<Declared>,
    /// Plugins that a planner orders for each stage. Default: none.
    pub planned: Option<Planned>,
    /// What it answers with. Default: the synthesis report.
    pub output: Option<PipelineOutput>,
    /// A companion tool for follow-ups. Default: none.
    pub conversation: Option<Conversation>,
}

/// The tool that a pipeline is offered as.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineTool {
    /// Its name. Default: metadata.name.
    #[schemars(length(min = 1, max = 64), regex(pattern = TOOL_NAME))]
    pub name: Option<String>,
    /// Its title. Default: none.
    #[schemars(length(max = 256))]
    pub title: Option<String>,
    /// What models read to choose it.
    #[schemars(length(min = 1, max = 1024))]
    pub description: String,
    /// The protocol's hints. Default: none.
    pub annotations: Option<ToolAnnotations>,
    /// JSON Schema of its arguments. Default: an object with a string `prompt`.
    pub input_schema: Option<FreeObject>,
}

/// What one run may use up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budgets {
    /// Seconds for a run. Default: 300.
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_seconds: Option<u32>,
    /// Calls of tools. Default: 20.
    #[schemars(range(max = 10_000))]
    pub max_tool_calls: Option<u32>,
    /// Calls of models. Default: 40.
    #[serde(rename = "maxLLMCalls")]
    #[schemars(range(max = 10_000))]
    pub max_llm_calls: Option<u32>,
    /// Of the arguments. Default: 1Mi.
    pub max_input_size: Option<Quantity>,
}

/// What a pipeline answers with: at most one of `schema`, `plugin`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!(has(self.schema) && has(self.plugin))"
).message(
    "output: give schema or plugin, not both"
))]
pub struct PipelineOutput {
    /// What the synthesizer's `outputType` names. Default: report.
    #[schemars(length(min = 1, max = 63))]
    pub name: Option<String>,
    /// JSON Schema with a property `sources`, so that citations can be followed. Default: the synthesis report's.
    pub schema: Option<FreeObject>,
    /// A Plugin of type output-type. Default: none.
    pub plugin: Option<ObjectRef>,
}
