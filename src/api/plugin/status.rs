//! The status of a Plugin.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::status::{Condition, TakenBy};
use crate::api::values::SHA256;

/// What came of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// The generation that this speaks of.
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Accepted, ResolvedRefs, Programmed, Ready; others while they are bad.
    #[schemars(length(max = 12), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// Gateways whose every ready pod runs this digest, of gateways that use it.
    #[schemars(length(max = 16))]
    pub live: Option<String>,
    /// Who uses it.
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub gateways: Option<Vec<TakenBy>>,
    /// Document 000's Plugin.id: of namespace and name.
    #[schemars(length(max = 64))]
    pub id: Option<String>,
    /// As it came out.
    #[schemars(length(max = 32))]
    pub r#type: Option<String>,
    /// As it came out.
    #[schemars(length(max = 16))]
    pub role: Option<String>,
    /// Digest of what was applied, hex.
    #[schemars(length(equal = 64), regex(pattern = SHA256))]
    pub sha256: Option<String>,
    /// Bytes of its code.
    #[schemars(range(min = 0))]
    pub size_bytes: Option<i64>,
    /// As it came out, `Auto` resolved.
    #[schemars(length(max = 16))]
    pub protocol: Option<String>,
    /// Names that its code exports.
    #[schemars(length(max = 64), inner(length(max = 128)), extend("x-kubernetes-list-type" = "set"))]
    pub exports: Option<Vec<String>>,
    /// Chains that name it: look here before you delete it.
    pub chains: Option<u32>,
    /// What runs.
    pub running: Option<RunningRevision>,
}

/// What runs of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunningRevision {
    /// Its digest, hex.
    #[schemars(length(equal = 64), regex(pattern = SHA256))]
    pub sha256: Option<String>,
    /// The generation it is of.
    #[schemars(range(min = 0))]
    pub generation: Option<i64>,
}
