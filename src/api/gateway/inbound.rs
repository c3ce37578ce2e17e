//! How clients come to a gateway: listeners, Service, route, admin port, sessions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::{KeyRef, LocalRef};
use crate::api::values::DNS_LABEL;

/// One address that clients come in by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Its name, unique in the gateway.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// TCP port; not that of `admin.port`.
    #[schemars(range(min = 1))]
    pub port: u16,
    /// Path of the endpoint for all upstreams. That of one is `{path minus /mcp}/{upstream}/mcp`. Default: /mcp.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^/[A-Za-z0-9/_.~-]*$"))]
    pub path: Option<String>,
    /// Accepted Host headers. Default: the Service's names and loopback.
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub hosts: Option<Vec<String>>,
    /// Accepted Origin headers. Default: none, so browsers are refused (DNS rebinding).
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub allowed_origins: Option<Vec<String>>,
    /// The HTTP+SSE transport of 2024-11-05 for old clients. Default: false.
    #[serde(rename = "legacySSE")]
    pub legacy_sse: Option<bool>,
    /// Serve HTTPS. Default: plain HTTP.
    pub tls: Option<ListenerTls>,
}

/// Certificates of a listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// A Secret of type kubernetes.io/tls.
    pub certificate_secret_ref: LocalRef,
    /// Certificate authorities; where set, clients need a certificate. Default: none.
    #[serde(rename = "clientCASecretRef")]
    pub client_ca_secret_ref: Option<KeyRef>,
}

/// The Service `{name}-gateway`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayService {
    /// `ClusterIP`, `NodePort` or `LoadBalancer`. Default: ClusterIP.
    pub r#type: Option<ServiceType>,
    /// Default: none.
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 4096}))]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// The type of the Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// Inside the cluster.
    ClusterIP,
    /// On each node.
    NodePort,
    /// By the cloud's balancer.
    LoadBalancer,
}

/// An HTTPRoute of Gateway API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The Gateways that it attaches to.
    #[schemars(length(min = 1, max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub parent_refs: Vec<ParentRef>,
    /// Hosts that it matches. Default: those of the Gateway.
    #[schemars(length(max = 16), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub hostnames: Option<Vec<String>>,
}

/// A Gateway of Gateway API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParentRef {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace. Default: the gateway's own.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: Option<String>,
    /// Its listener. Default: every one.
    #[schemars(length(max = 253))]
    pub section_name: Option<String>,
}

/// The admin port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Admin {
    /// TCP port of /metrics, /healthz, /readyz and the admin API. Default: 9090.
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// Whether the console is served there. Default: true.
    pub console: Option<bool>,
    /// Who may use the admin API. Default: programs on the same machine, or in the same pod, over loopback. Where it is
    /// set, they too are asked who they are.
    pub authentication: Option<AdminAuthentication>,
}

/// Ways into the admin port; at least one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct AdminAuthentication {
    /// Kubernetes service accounts.
    pub token_review: Option<TokenReview>,
    /// A token of your own.
    pub token_secret_ref: Option<KeyRef>,
}

/// Tokens of Kubernetes service accounts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenReview {
    /// Audiences that a token must be for. Default: the API server's.
    #[schemars(length(max = 8), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "set"))]
    pub audiences: Option<Vec<String>>,
}

/// Sessions of the protocol eras before 2026-07-28.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sessions {
    /// Seconds after which an unused session ends. Default: 3600.
    #[schemars(range(min = 1, max = 604_800))]
    pub idle_seconds: Option<u32>,
    /// The key that session ids are sealed with. Default: a Secret `{name}-gateway-seal` that the operator makes.
    pub sealing_key_secret_ref: Option<KeyRef>,
}
