//! What a plugin says of its progress.

use serde::{Deserialize, Serialize};
use serde_json::Number;

/// The progress of a plugin (MCP, `notifications/progress`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginProgress {
    /// The amount of work done so far.
    pub progress: Number,
    /// The total amount of work; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Number>,
    /// A text about the progress, for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
