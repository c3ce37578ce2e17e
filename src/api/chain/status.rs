//! The status of a PluginChain.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::status::{Condition, TakenBy};

/// Observed state of a PluginChain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginChainStatus {
    /// The `metadata.generation` that this status describes.
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Conditions of the types Accepted, ResolvedRefs, Programmed and Ready; other types appear only while something is
    /// wrong.
    #[schemars(length(max = 12), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// Number of gateways that run the current revision, out of the number that use the chain; for example, `1/2`.
    #[schemars(length(max = 16))]
    pub live: Option<String>,
    /// Gateways that use the chain.
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub gateways: Option<Vec<TakenBy>>,
    /// Digest of the chain and of its plugins' code. Records of calls contain this digest.
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// The chain's plugins in the order in which they run.
    #[schemars(length(max = 2048))]
    pub runs: Option<String>,
    /// Number of entries in the chain.
    pub entries: Option<u32>,
    /// Number of upstreams that the chain covers, or `32+` if more than 32. If several gateways use the chain, the
    /// highest of their numbers.
    #[schemars(length(max = 8))]
    pub upstreams: Option<String>,
}
