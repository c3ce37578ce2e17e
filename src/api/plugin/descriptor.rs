//! How a typed plugin describes itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Describes the plugin, with the fields of a `plugin.json`. Keys that are set here take precedence over those of a
/// `plugin.json` beside the code, and these over what the code's `getDescriptor` returns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Display name; the same as `name` in a `plugin.json`. Default: the object's name.
    #[schemars(length(max = 128))]
    pub display_name: Option<String>,
    /// Version of the plugin. Default: 0.0.0.
    #[schemars(length(max = 64))]
    pub version: Option<String>,
    /// What the plugin does, in one to three sentences; required for types sd-plugin, kb-plugin, gs-plugin, val-plugin and
    /// mrp-plan-plugin. Default: none.
    #[schemars(length(min = 1, max = 1024))]
    pub description: Option<String>,
    /// Cost of a run: `cheap`, `moderate` or `expensive`. Default: moderate.
    pub cost_class: Option<CostClass>,
    /// Whether the plugin calls language models. Default: false.
    #[serde(rename = "usesLLM")]
    pub uses_llm: Option<bool>,
    /// Roles of the models that the plugin calls. Default: none.
    #[schemars(length(max = 16), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub model_roles: Option<Vec<String>>,
    /// Maximum number of calls to language models in one run; required if `usesLLM` is true. Default: 0.
    #[serde(rename = "maxLLMCalls")]
    #[schemars(range(max = 1000))]
    pub max_llm_calls: Option<u32>,
    /// Tags of the plugin. Default: none.
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub tags: Option<Vec<String>>,
    /// Hints for planners; required for types sd-plugin, kb-plugin and gs-plugin, unless the plugin is a wrapper. `{}` is
    /// enough. Default: none.
    pub planner_hints: Option<PlannerHints>,
    /// Names of the capabilities that the plugin provides. Default: that of its type.
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub provides: Option<Vec<String>>,
    /// Inputs that the plugin accepts: `chat-turn`, `source-text`. Default: chat-turn.
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub accepts: Option<Vec<String>>,
}

/// Cost of a run: `cheap`, `moderate` or `expensive`. Default: moderate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CostClass {
    /// A run is cheap.
    #[serde(rename = "cheap")]
    Cheap,
    /// A run has a moderate cost.
    #[serde(rename = "moderate")]
    Moderate,
    /// A run is expensive.
    #[serde(rename = "expensive")]
    Expensive,
}

/// Hints for planners.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannerHints {
    /// Expected duration of a run, in milliseconds. Default: none.
    #[schemars(range(max = 600_000))]
    pub expected_latency_ms: Option<u32>,
    /// Expected number of calls to language models in a run. Default: none.
    #[serde(rename = "expectedLLMCalls")]
    #[schemars(range(max = 1000))]
    pub expected_llm_calls: Option<u32>,
    /// Cost of a run relative to other plugins, from 0 to 1000000. Default: none.
    #[schemars(range(min = 0.0, max = 1000000.0))]
    pub relative_cost: Option<f64>,
    /// Acts that the plugin supports. Default: none.
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub supported_acts: Option<Vec<String>>,
    /// Topics that the plugin is suited for. Default: none.
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub topic_tags: Option<Vec<String>>,
    /// Depth that the plugin is suited for. Default: none.
    #[schemars(length(max = 63))]
    pub preferred_depth: Option<String>,
    /// Role of the plugin as a fallback. Default: none.
    #[schemars(length(max = 63))]
    pub fallback_role: Option<String>,
    /// Confidence, from 0 to 1, of a result of the plugin if the plugin matches the request. Default: none.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence_when_matched: Option<f64>,
}
