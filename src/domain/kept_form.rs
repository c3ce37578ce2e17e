//! The form of a plugin that was loaded last, as it outlives the process: where the newest cannot be loaded, it is what
//! runs after a restart too.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ids::ObjectKey;
use super::plan::PluginPlan;
use super::plugin::View;

/// A plugin in a form that was loaded, and what the entries that ran it handed it. Holds no secret but what the plugin's
/// manifest has as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptForm {
    /// The plugin.
    pub plugin: PluginPlan,
    /// The text whose digest it names.
    pub code: String,
    /// What each chain that named it had written for it.
    pub entries: Vec<KeptEntry>,
}

/// What belongs to a plugin's form of the entry that names it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptEntry {
    /// The chain.
    pub chain: ObjectKey,
    /// The entry's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Box<RawValue>>,
    /// What of a response it sees.
    pub view: View,
}
