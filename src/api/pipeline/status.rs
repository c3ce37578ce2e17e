//! The status of a ToolPipeline.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::status::{Condition, TakenBy};

/// What came of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolPipelineStatus {
    /// The generation that this speaks of.
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Accepted, ResolvedRefs, Programmed, Ready; others while they are bad.
    #[schemars(length(max = 12), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// Gateways that run this revision, of those that take it.
    #[schemars(length(max = 16))]
    pub live: Option<String>,
    /// Who takes it.
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub gateways: Option<Vec<TakenBy>>,
    /// `Declared` or `Planned`.
    #[schemars(length(max = 16))]
    pub mode: Option<String>,
    /// Agents and phases, or stages.
    pub steps: Option<u32>,
    /// Of the pipeline with its plugins' digests: what a call's record names.
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// The tool's name.
    #[schemars(length(max = 128))]
    pub tool_name: Option<String>,
}
