//! Plugins that pipelines run.

use serde::{Deserialize, Serialize};

use super::Refusal;
use crate::domain::ids::ObjectKey;
use crate::domain::plugin::PluginKind;

/// A plugin that runs before or after an agent (document 002, `PhaseInsertion`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsertedPhasePlan {
    /// The name of the step.
    pub name: String,
    /// The plugin that the step runs.
    pub plugin: PhasePluginPlan,
    /// The agent.
    pub agent: String,
    /// Whether the step runs before the agent; otherwise it runs after it.
    pub is_before: bool,
}

/// A plugin of type phase, as a step of a pipeline uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhasePluginPlan {
    /// The plugin.
    pub key: ObjectKey,
    /// The configuration of the step, whose keys replace those of the plugin's configuration, as JSON.
    pub config: Option<String>,
    /// The type that the plugin must have.
    #[serde(default = "phase")]
    pub kind: PluginKind,
    /// Why the plugin cannot run.
    pub unavailable: Option<Refusal>,
}

/// The type of plugins of steps, for plans that do not have the field.
fn phase() -> PluginKind {
    PluginKind::Phase
}
