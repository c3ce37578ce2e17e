//! Changes of the prompts of agents, by plugins of type prompt-provider (document 002, `PromptProvider`).

use serde_json::{Map, Value};

/// The function of such a plugin.
pub(super) const GET_PROMPT_OVERRIDES: &str = "getPromptOverrides";

pub(super) fn parse(json: &str) -> Result<Map<String, Value>, String> {
    let prompts: Option<Map<String, Value>> =
        serde_json::from_str(json).map_err(|_| "its result is not an object of prompts by agent".to_owned())?;
    Ok(prompts.unwrap_or_default())
}
