//! What a gateway takes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::{FromNamespaces, ObjectRef, Selector};

/// Which MCPUpstreams a gateway takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakesUpstreams {
    /// Namespaces to take from; their owners consent by `shareWith`. Default: the gateway's own.
    pub namespaces: Option<FromNamespaces>,
    /// Labels of the upstreams. Default: all.
    pub selector: Option<Selector>,
    /// Names of tools: `Always` is `{upstream}__{tool}`; `OnConflict` keeps a tool's own name unless an earlier
    /// upstream was ever seen to have it or it begins with another upstream's prefix; `Never` leaves out the later of
    /// two. Default: Always.
    pub prefix: Option<Prefix>,
}

/// How a tool's public name comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Prefix {
    /// `{upstream}__{tool}`.
    Always,
    /// Its own name unless an earlier upstream was ever seen to have it, or it begins with another upstream's prefix.
    OnConflict,
    /// Its own name; the later of two is left out.
    Never,
}

/// Which PluginChains a gateway takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakesChains {
    /// Namespaces to take from. Default: the gateway's own.
    pub namespaces: Option<FromNamespaces>,
    /// Labels of the chains. Default: all.
    pub selector: Option<Selector>,
    /// Chains that must be in force before any call is served. They reach every upstream and run last. Default:
    /// none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub required: Option<Vec<ObjectRef>>,
}

/// Which objects of a kind a gateway takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakesObjects {
    /// Namespaces to take from. Default: the gateway's own.
    pub namespaces: Option<FromNamespaces>,
    /// Their labels. Default: all.
    pub selector: Option<Selector>,
}
