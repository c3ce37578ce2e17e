//! What a typed plugin says of itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a plugin describes itself, as in its `plugin.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Its name for people, `name` of a `plugin.json`. Default: the object's name.
    #[schemars(length(max = 128))]
    pub display_name: Option<String>,
    /// Default: none.
    #[schemars(length(max = 64))]
    pub version: Option<String>,
    /// Default: none.
    #[schemars(length(min = 1, max = 1024))]
    pub description: Option<String>,
    /// `cheap`, `moderate` or `expensive`. Default: none.
    pub cost_class: Option<CostClass>,
    /// Default: false.
    #[serde(rename = "usesLLM")]
    pub uses_llm: Option<bool>,
    /// Roles of models that it asks. Default: none.
    #[schemars(length(max = 16), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub model_roles: Option<Vec<String>>,
    /// Default: none.
    #[serde(rename = "maxLLMCalls")]
    #[schemars(range(max = 1000))]
    pub max_llm_calls: Option<u32>,
    /// Default: none.
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub tags: Option<Vec<String>>,
    /// Hints for planners; required for sd, kb and gs plugins.
    pub planner_hints: Option<PlannerHints>,
    /// Default: none.
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub provides: Option<Vec<String>>,
    /// Default: none.
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub accepts: Option<Vec<String>>,
}

/// How dear a plugin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CostClass {
    /// Cheap.
    #[serde(rename = "cheap")]
    Cheap,
    /// Moderate.
    #[serde(rename = "moderate")]
    Moderate,
    /// Expensive.
    #[serde(rename = "expensive")]
    Expensive,
}

/// Hints for planners.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannerHints {
    /// Default: none.
    #[schemars(range(max = 600_000))]
    pub expected_latency_ms: Option<u32>,
    /// Default: none.
    #[serde(rename = "expectedLLMCalls")]
    #[schemars(range(max = 1000))]
    pub expected_llm_calls: Option<u32>,
    /// Default: none.
    #[schemars(range(min = 0.0, max = 1000000.0))]
    pub relative_cost: Option<f64>,
    /// Default: none.
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub supported_acts: Option<Vec<String>>,
    /// Default: none.
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub topic_tags: Option<Vec<String>>,
    /// Default: none.
    #[schemars(length(max = 63))]
    pub preferred_depth: Option<String>,
    /// Default: none.
    #[schemars(length(max = 63))]
    pub fallback_role: Option<String>,
    /// From 0 to 1. Default: none.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence_when_matched: Option<f64>,
}
