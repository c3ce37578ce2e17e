//! Selects the objects that a gateway uses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::{FromNamespaces, ObjectRef, Selector};
use crate::api::values::IP_ADDRESS;

/// Selects the MCPUpstreams that a gateway serves, and determines how their tools are named.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakesUpstreams {
    /// Namespaces of the upstreams. An upstream of another namespace must permit its use in `shareWith`. Default: the
    /// gateway's own namespace.
    pub namespaces: Option<FromNamespaces>,
    /// Selects upstreams by their labels. Default: all.
    pub selector: Option<Selector>,
    /// Names under which clients see tools. `Always`: `{upstream}__{tool}`. `OnConflict`: the tool's own name, or
    /// `{upstream}__{tool}` if an earlier upstream has ever offered a tool of that name, if the name begins with
    /// another upstream's prefix, or if the gateway has no room to remember the name. `Never`: the tool's own name; if
    /// two tools have the same name, the later tool is left out. Upstreams are ordered by their creation in a cluster,
    /// otherwise as in the manifests. Default: Always.
    pub prefix: Option<Prefix>,
    /// Maximum length of the names of tools at the endpoint for all upstreams. A longer name is replaced by its beginning,
    /// `_`, and 8 digits of a digest of the whole name. Clients add a prefix such as `mcp__hawsepipe__`, and providers of
    /// models allow 64 characters. Default: 128, and a longer name is left out.
    #[schemars(range(min = 24, max = 128))]
    pub max_name_length: Option<u32>,
    /// What the list of tools of the endpoint for all upstreams shows. `All`: every tool. `Search`: two tools of the
    /// gateway, `search_tools`, which finds tools by words, and `call_tool`, which calls one. Tools can still be called
    /// by their names, and the path of one upstream shows all its tools. Default: All.
    pub tool_discovery: Option<ToolDiscovery>,
    /// Whether clients see tools whose input schemas are not valid: `LeaveOut` or `Offer`. Providers of models reject a
    /// whole request for one such tool. Default: LeaveOut.
    pub invalid_tools: Option<InvalidTools>,
    /// IP addresses that upstreams at URLs, their token endpoints, and issuers of clients' tokens may have although they are
    /// link-local, or those of the metadata service of a cloud or of the API server of the cluster. Default: none, and such
    /// servers are not reached.
    #[schemars(length(max = 32), inner(length(max = 45), regex(pattern = IP_ADDRESS)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub allowed_addresses: Option<Vec<String>>,
}

/// Whether clients see tools whose input schemas are not valid: `LeaveOut` or `Offer`. Providers of models reject a whole
/// request for one such tool. Default: LeaveOut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InvalidTools {
    /// Clients do not see them.
    LeaveOut,
    /// Clients see them.
    Offer,
}

/// What the list of tools of the endpoint for all upstreams shows. `All`: every tool. `Search`: two tools of the gateway,
/// `search_tools`, which finds tools by words, and `call_tool`, which calls one. Tools can still be called by their names,
/// and the path of one upstream shows all its tools. Default: All.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ToolDiscovery {
    /// Every tool.
    All,
    /// Two tools of the gateway: one finds tools, the other one calls them.
    Search,
}

/// Names under which clients see tools. `Always`: `{upstream}__{tool}`. `OnConflict`: the tool's own name, or
/// `{upstream}__{tool}` if an earlier upstream has ever offered a tool of that name, if the name begins with another
/// upstream's prefix, or if the gateway has no room to remember the name. `Never`: the tool's own name; if two tools
/// have the same name, the later tool is left out. Upstreams are ordered by their creation in a cluster, otherwise as
/// in the manifests. Default: Always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Prefix {
    /// `{upstream}__{tool}`.
    Always,
    /// The tool's own name, or `{upstream}__{tool}` if an earlier upstream has ever offered a tool of that name, if the
    /// name begins with another upstream's prefix, or if the gateway has no room to remember the name.
    OnConflict,
    /// The tool's own name; if two tools have the same name, the later tool is left out.
    Never,
}

/// Selects the PluginChains that a gateway runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakesChains {
    /// Namespaces of the chains. A chain of another namespace must name the gateway in its `gateways`. Default: the
    /// gateway's own namespace.
    pub namespaces: Option<FromNamespaces>,
    /// Selects chains by their labels. Default: all.
    pub selector: Option<Selector>,
    /// Chains that must be in force: while one of them is not, every call is refused. They can cover upstreams of any
    /// namespace, and run last, like the chains of the gateway's own namespace. A chain that selects no upstream of the
    /// gateway is in force and guards nothing, which the warning `NoUpstreams` says. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub required: Option<Vec<ObjectRef>>,
}

/// Selects the objects of one kind that a gateway uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakesObjects {
    /// Namespaces of the objects. Default: the gateway's own namespace.
    pub namespaces: Option<FromNamespaces>,
    /// Selects objects by their labels. Default: all.
    pub selector: Option<Selector>,
}
