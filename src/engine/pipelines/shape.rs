//! The shapes of the results of plugins' functions.

use super::{changed, output_type, overrides, provider, step};
use crate::domain::pipeline::{
    Changes, PhaseOfPlugin, PipelineConfig, StepResult, check_output_schema, check_stage_result,
};
use crate::domain::plugin::{Failure, PluginKind};
use crate::domain::reason::Reason;

/// Checks that the result of a function has the shape that a gateway takes.
///
/// # Errors
/// If it has another one.
pub(crate) fn check_result(kind: PluginKind, function: &str, json: &str) -> Result<(), Failure> {
    if kind.is_stage() {
        // The message can quote the status.
        return check_stage_result(kind, function, json).map_err(|why| Failure::quoting(Reason::InvalidOutput, why));
    }
    let checked = match (kind, function) {
        (PluginKind::Phase, step::EXECUTE) => StepResult::parse(json).map(drop),
        (PluginKind::PromptProvider, overrides::GET_PROMPT_OVERRIDES) => overrides::parse(json).map(drop),
        (PluginKind::ToolProvider, provider::GET_TOOLS) => provider::listed(json).map(drop),
        (PluginKind::ToolProvider, provider::VALIDATE) => provider::faults(json).map(drop),
        (PluginKind::ToolProvider, provider::EXECUTE) => return provider::result(json).map(drop).map_err(|why| why.0),
        (PluginKind::PipelineCustomizer, changed::GET_CONFIG) => changed::parse::<PipelineConfig>(json).map(drop),
        (PluginKind::PipelineCustomizer, changed::GET_CHANGES) => changed::parse::<Changes>(json).map(drop),
        (PluginKind::PipelineCustomizer, changed::GET_PHASES) => changed::parse::<Vec<PhaseOfPlugin>>(json).map(drop),
        (PluginKind::OutputType, output_type::GET_SCHEMA) => {
            return check_output_schema(json).map_err(|(reason, why)| Failure::new(reason, why));
        }
        (PluginKind::OutputType, output_type::GET_CONFIG) => output_type::config(json).map(drop),
        (PluginKind::OutputType, output_type::GET_PROMPT) => changed::parse::<String>(json).map(drop),
        _ => Ok(()),
    };
    checked.map_err(|why| Failure::new(Reason::InvalidOutput, why))
}
