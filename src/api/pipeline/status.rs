//! The status of a ToolPipeline.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::status::{Condition, TakenBy};

/// Observed state of a ToolPipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolPipelineStatus {
    /// The `metadata.generation` that this status describes.
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Conditions of the types Accepted, ResolvedRefs, Programmed and Ready; other types appear only while something is
    /// wrong.
    #[schemars(length(max = 12), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// Number of gateways that run the current revision, out of the number that use the pipeline; for example, `1/2`.
    #[schemars(length(max = 16))]
    pub live: Option<String>,
    /// Gateways that use the pipeline.
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub gateways: Option<Vec<TakenBy>>,
    /// Whether the pipeline is `Declared` or `Planned`.
    #[schemars(length(max = 16))]
    pub mode: Option<String>,
    /// Number of agents and inserted phases of a declared pipeline, or of stages of a planned pipeline.
    pub steps: Option<u32>,
    /// Digest of the pipeline and of its plugins' code. Records of calls contain this digest.
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// Name of the tool that clients call to run the pipeline.
    #[schemars(length(max = 128))]
    pub tool_name: Option<String>,
}
