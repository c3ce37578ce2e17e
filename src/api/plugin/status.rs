//! The status of a Plugin.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::status::{Condition, TakenBy};
use crate::api::values::SHA256;

/// Observed state of a Plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// The `metadata.generation` that this status describes.
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Conditions of the types Accepted, ResolvedRefs, Programmed and Ready; other types appear only while something is
    /// wrong.
    #[schemars(length(max = 12), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// Number of gateways whose ready pods all run the current version of the plugin, out of the number that use the
    /// plugin; for example, `1/2`.
    #[schemars(length(max = 16))]
    pub live: Option<String>,
    /// Gateways that use the plugin.
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub gateways: Option<Vec<TakenBy>>,
    /// Identifier derived from namespace and name; stays the same when the plugin is edited.
    #[schemars(length(max = 64))]
    pub id: Option<String>,
    /// Type of the plugin.
    #[schemars(length(max = 32))]
    pub r#type: Option<String>,
    /// Role of the plugin.
    #[schemars(length(max = 16))]
    pub role: Option<String>,
    /// SHA-256 digest of the plugin's code, in hexadecimal.
    #[schemars(length(equal = 64), regex(pattern = SHA256))]
    pub sha256: Option<String>,
    /// Size of the code in bytes.
    #[schemars(range(min = 0))]
    pub size_bytes: Option<i64>,
    /// Protocol of the plugin. If `spec.protocol` is `Auto`, this is the protocol that was chosen.
    #[schemars(length(max = 16))]
    pub protocol: Option<String>,
    /// Names that the code exports.
    #[schemars(length(max = 64), inner(length(max = 128)), extend("x-kubernetes-list-type" = "set"))]
    pub exports: Option<Vec<String>>,
    /// Number of chains that name the plugin. If the plugin is deleted, calls that these chains select can be refused.
    pub chains: Option<u32>,
    /// Version of the plugin that ready pods run.
    pub running: Option<RunningRevision>,
}

/// A version of a plugin that ready pods run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunningRevision {
    /// SHA-256 digest of the code, in hexadecimal.
    #[schemars(length(equal = 64), regex(pattern = SHA256))]
    pub sha256: Option<String>,
    /// The `metadata.generation` of the version that runs.
    #[schemars(range(min = 0))]
    pub generation: Option<i64>,
}
