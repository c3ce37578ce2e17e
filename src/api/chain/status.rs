//! The status of a PluginChain.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::status::{Condition, TakenBy};

/// What came of a chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginChainStatus {
    /// The generation that this speaks of.
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Accepted, ResolvedRefs, Programmed, Ready; others while they are bad.
    #[schemars(length(max = 12), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// Gateways that run this revision, of those that take it.
    #[schemars(length(max = 16))]
    pub live: Option<String>,
    /// Who takes it.
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub gateways: Option<Vec<TakenBy>>,
    /// Of the chain with its plugins' digests: what a call's record names.
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// Its plugins in the order that came out.
    #[schemars(length(max = 2048))]
    pub runs: Option<String>,
    /// Entries it has.
    pub entries: Option<u32>,
    /// Upstreams it covers; `32+` beyond 32.
    #[schemars(length(max = 8))]
    pub upstreams: Option<String>,
}
