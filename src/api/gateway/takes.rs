//! Which objects a gateway takes, that is, uses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::{FromNamespaces, ObjectRef, Selector};

/// Which MCPUpstreams a gateway serves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakesUpstreams {
    /// Namespaces of the upstreams; upstreams of other namespaces must permit this in their `shareWith`. Default: the
    /// gateway's own.
    pub namespaces: Option<FromNamespaces>,
    /// Selects upstreams by their labels. Default: all.
    pub selector: Option<Selector>,
    /// Names under which clients see tools: `Always` is `{upstream}__{tool}`; `OnConflict` is the tool's own name,
    /// unless an earlier upstream was ever seen to have a tool of that name or the name begins with another upstream's
    /// prefix; `Never` is the tool's own name, and of two tools with the same name the later one is left out. Default:
    /// Always.
    pub prefix: Option<Prefix>,
}

/// Names under which clients see tools: `Always` is `{upstream}__{tool}`; `OnConflict` is the tool's own name, unless
/// an earlier upstream was ever seen to have a tool of that name or the name begins with another upstream's prefix;
/// `Never` is the tool's own name, and of two tools with the same name the later one is left out. Default: Always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Prefix {
    /// `{upstream}__{tool}`.
    Always,
    /// The tool's own name, unless an earlier upstream was ever seen to have a tool of that name or the name begins
    /// with another upstream's prefix.
    OnConflict,
    /// The tool's own name; of two tools with the same name, the later one is left out.
    Never,
}

/// Which PluginChains a gateway runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakesChains {
    /// Namespaces of the chains. A chain of another namespace must name the gateway in its `gateways`. Default: the
    /// gateway's own.
    pub namespaces: Option<FromNamespaces>,
    /// Selects chains by their labels. Default: all.
    pub selector: Option<Selector>,
    /// Chains that must be present: if one of them is missing, every call is refused. They cover upstreams of all
    /// namespaces and run last. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub required: Option<Vec<ObjectRef>>,
}

/// Which objects of one kind a gateway uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakesObjects {
    /// Namespaces of the objects. Default: the gateway's own.
    pub namespaces: Option<FromNamespaces>,
    /// Selects objects by their labels. Default: all.
    pub selector: Option<Selector>,
}
