//! The ToolPipeline custom resource.

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
use crate::api::values::{FreeObject, Size, TOOL_NAME};

/// A sequence of plugins and tools that clients see as one tool.
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
    doc = "A sequence of plugins and tools that clients see as one tool.",
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
    /// Whether the pipeline is offered to clients. Default: true.
    pub enabled: Option<bool>,
    /// Gateways that the pipeline is for, in any namespace. A gateway serves the pipeline only if the gateway's own
    /// `pipelines` field selects the pipeline too. Default: every gateway of the pipeline's namespace.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub gateways: Option<Vec<ObjectRef>>,
    /// The tool that clients see, and call to run the pipeline.
    pub tool: PipelineTool,
    /// Tools that the pipeline's steps can call, selected by the names that clients see. Default: none.
    pub tools: Option<ChainTools>,
    /// Limits of one run. Default: each field's own default.
    pub budgets: Option<Budgets>,
    /// Whose values the steps store (`ctx.store`). Default: each field's own default.
    pub store: Option<PipelineStore>,
    /// Language models by role. These models take precedence over the gateway's models for the same roles. Their API
    /// keys are read from Secrets in the pipeline's namespace. Default: only the gateway's models.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["role"]))]
    pub models: Option<Vec<Model>>,
    /// Agents that run in a declared order. Exactly one of `declared`, `planned` must be set. Default: none.
    pub declared: Option<Declared>,
    /// Plugins that a planner puts in order, stage by stage. Exactly one of `declared`, `planned` must be set. Default:
    /// none.
    pub planned: Option<Planned>,
    /// Form of the pipeline's answer. Default: the synthesis report.
    pub output: Option<PipelineOutput>,
    /// A second tool for follow-up questions. Default: none.
    pub conversation: Option<Conversation>,
}

/// The tool that clients see, and call to run a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineTool {
    /// Name of the tool. Default: the object's name.
    #[schemars(length(min = 1, max = 64), regex(pattern = TOOL_NAME))]
    pub name: Option<String>,
    /// Title of the tool. Default: none.
    #[schemars(length(max = 256))]
    pub title: Option<String>,
    /// Description of the tool. Models read it to choose a tool.
    #[schemars(length(min = 1, max = 1024))]
    pub description: String,
    /// MCP annotations of the tool. Default: for each hint, what holds for all tools that the steps can call; a tool that is not
    /// known counts as one that may destroy data.
    pub annotations: Option<ToolAnnotations>,
    /// JSON Schema of the tool's arguments. Default: an object with a string `prompt`.
    pub input_schema: Option<FreeObject>,
    /// Argument that is the query of a run. Without that argument, the query is the JSON of all arguments. Default: prompt.
    #[schemars(length(min = 1, max = 64))]
    pub query_argument: Option<String>,
}

/// Whose values the steps of a pipeline store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.scope) || self.scope != 'Shared' || has(self.writers)"
).message(
    "store: scope Shared needs writers: who may change what all callers read"
))]
#[x_kube(validation = Rule::new(
    "!has(self.writers) || has(self.scope) && self.scope == 'Shared'"
).message(
    "store: writers is for scope Shared: other callers do not read what a run of another scope stores"
))]
pub struct PipelineStore {
    /// Whose values a run writes: those of its `Conversation`, of its caller (`Principal`), or of all callers (`Shared`). Every
    /// run reads those of all callers too. Default: Conversation.
    pub scope: Option<StoreScope>,
    /// CEL over `identity`, as in rules of a gateway: who may change the values that all callers read. Required with scope
    /// Shared.
    #[schemars(length(min = 1, max = 4096))]
    pub writers: Option<String>,
}

/// Whose values a run writes: those of its `Conversation`, of its caller (`Principal`), or of all callers (`Shared`). Every run
/// reads those of all callers too. Default: Conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StoreScope {
    /// Values of runs of the same conversation by the same caller.
    Conversation,
    /// Values of runs of the same caller.
    Principal,
    /// Values of all runs with this scope.
    Shared,
}

/// Limits of one run of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budgets {
    /// Time limit of a run, in seconds. Default: 300.
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_seconds: Option<u32>,
    /// Maximum number of tool calls. Default: 20.
    #[schemars(range(max = 10_000))]
    pub max_tool_calls: Option<u32>,
    /// Maximum number of calls to language models. Default: 40.
    #[serde(rename = "maxLLMCalls")]
    #[schemars(range(max = 10_000))]
    pub max_llm_calls: Option<u32>,
    /// Maximum size of the tool's arguments. Default: 1Mi.
    pub max_input_size: Option<Size>,
}

/// Form of a pipeline's answer: at most one of `schema`, `plugin`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!(has(self.schema) && has(self.plugin))"
).message(
    "output: give schema or plugin, not both"
))]
pub struct PipelineOutput {
    /// Name that the synthesizer's `outputType` refers to. Default: report.
    #[schemars(length(min = 1, max = 63))]
    pub name: Option<String>,
    /// JSON Schema of the answer. The schema needs a property `sources`, so that citations can be followed. Default:
    /// the schema of the synthesis report.
    pub schema: Option<FreeObject>,
    /// Plugin of type output-type, which defines the form of the answer. Default: none.
    pub plugin: Option<ObjectRef>,
}
