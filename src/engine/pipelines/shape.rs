//! The shapes of the results of plugins' functions.

use super::{overrides, provider, step};
use crate::domain::pipeline::StepResult;
use crate::domain::plugin::PluginKind;

/// Checks that the result of a function has the shape that a gateway takes.
///
/// # Errors
/// If it has another one.
pub(crate) fn check_result(kind: PluginKind, function: &str, json: &str) -> Result<(), String> {
    match (kind, function) {
        (PluginKind::Phase, step::EXECUTE) => StepResult::parse(json).map(drop),
        (PluginKind::PromptProvider, overrides::GET_PROMPT_OVERRIDES) => overrides::parse(json).map(drop),
        (PluginKind::ToolProvider, provider::GET_TOOLS) => provider::listed(json).map(drop),
        (PluginKind::ToolProvider, provider::VALIDATE) => provider::faults(json).map(drop),
        (PluginKind::ToolProvider, provider::EXECUTE) => provider::result(json).map(drop),
        _ => Ok(()),
    }
}
