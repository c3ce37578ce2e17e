//! Pipelines, as inputs of the compiler.

use crate::domain::ids::ObjectKey;
use crate::domain::plan::UpstreamPlan;

/// A ToolPipeline in the form that the compiler reads.
#[derive(Clone, Debug)]
pub struct PipelineInput {
    /// Gateways that the pipeline is for; empty means every gateway of its namespace.
    pub gateways: Vec<ObjectKey>,
    /// The pipeline, in the form of an upstream that the gateway runs itself. Its plugins are not resolved.
    pub plan: UpstreamPlan,
}
