//! What a pipeline, and in part a provider of tools, answers in the place of a server when it is probed or its lists are read.

use serde_json::value::RawValue;

use crate::domain::item::{Item, ItemKind, Listed};
use crate::domain::plan::PipelinePlan;
use crate::domain::upstream::{Probed, ServerFacts, UpstreamError};
use crate::domain::version::{Era, MODERN_VERSION};

/// Returns the result of a probe.
pub(in crate::engine) fn probed() -> Probed {
    Probed::Up(ServerFacts { has_tools: true, ..ServerFacts::new(Era::Modern, MODERN_VERSION) })
}

/// Returns the list of tools: that of the pipeline.
///
/// # Errors
/// If the definition of the tool is not valid.
pub(in crate::engine) fn listed(plan: &PipelinePlan) -> Result<Listed, UpstreamError> {
    let invalid = |why: String| UpstreamError::Protocol(format!("the definition of its tool is not valid: {why}"));
    let definition = RawValue::from_string(plan.definition.clone()).map_err(|error| invalid(error.to_string()))?;
    let item = Item::parse(ItemKind::Tool, &definition).map_err(|fault| invalid(fault.to_string()))?;
    Ok(Listed { items: vec![item], ..Listed::default() })
}
