//! The last form of a plugin that was loaded, stored so that it outlives the process: if the newest form cannot be
//! loaded, the stored one runs after a restart too.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ids::ObjectKey;
use super::plan::PluginPlan;
use super::plugin::View;

/// A form of a plugin that was loaded, with the settings that the entries which ran it passed to it. Holds no secret,
/// except what the plugin's manifest contains as plain text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptForm {
    /// The plugin in this form.
    pub plugin: PluginPlan,
    /// The plugin's code. `plugin.digest` is its digest.
    pub code: String,
    /// The settings of the entries that named the plugin, one for each chain.
    pub entries: Vec<KeptEntry>,
}

/// The settings of an entry that belong to the form of its plugin.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptEntry {
    /// The chain of the entry.
    pub chain: ObjectKey,
    /// The configuration of the entry, without that of its plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Box<RawValue>>,
    /// The part of a response that the entry sees.
    pub view: View,
}
