//! The form of a plugin that workers loaded last, stored so that it outlives the process. If the plugin's newest form
//! cannot be loaded, the stored form runs, even after a restart.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ids::ObjectKey;
use super::plan::PluginPlan;
use super::plugin::View;

/// A form of a plugin that a worker has loaded, with the settings of the entries that ran the plugin. Contains no
/// secret, except those that the plugin's manifest contains as plain text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptForm {
    /// The plugin in this form.
    pub plugin: PluginPlan,
    /// The plugin's code. `plugin.digest` is its digest.
    pub code: String,
    /// The settings of the entries that named the plugin; at most one element for each chain.
    pub entries: Vec<KeptEntry>,
}

/// The settings of one entry that are stored with the form of its plugin.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptEntry {
    /// The chain of the entry.
    pub chain: ObjectKey,
    /// The configuration of the entry, not merged with that of its plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Box<RawValue>>,
    /// The part of a response that the entry sees.
    pub view: View,
}
