//! How clients reach a gateway: listeners, Service, route, admin port, sessions.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::{KeyRef, LocalRef};
use crate::api::values::DNS_LABEL;

/// Rule that refuses hosts which are never the name in a Host header.
const HOSTS_RULE: &str = concat!(
    r"!has(self.hosts) || self.hosts.all(h, h.matches(",
    r"'^((\\*\\.)?[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*\\.?|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?$'))"
);
/// Rule that refuses origins which no browser sends (Fetch standard, "origin header"). Browser extensions and apps have
/// schemes of their own, whose hosts may have upper-case letters.
const ORIGINS_RULE: &str = concat!(
    r"!has(self.allowedOrigins) || self.allowedOrigins.all(o, o == 'null' || (o.matches('^https?:') ",
    r"? o.matches('^https?://([a-z0-9_-]+(\\.[a-z0-9_-]+)*\\.?|\\[[0-9a-f:.]+\\])(:[0-9]{1,5})?$') ",
    r"&& !o.matches('^(http://.*:80|https://.*:443)$') : o.matches('^[a-z][a-z0-9+.-]*://[^\\s/?#*]*$')))"
);

/// An address at which clients reach the gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(HOSTS_RULE).message(
    "hosts: each is a host such as mcp.example.com, *.example.com, 10.0.0.1 or [fd00::1], without scheme, path and blanks"
))]
#[x_kube(validation = Rule::new(ORIGINS_RULE).message(
    "allowedOrigins: each is an origin as browsers send it, such as https://app.example.com or http://localhost:3000: in \
     lower case, with scheme, without path, wildcard and default port"
))]
#[x_kube(validation = Rule::new("!has(self.path) || self.path != '/hawsepipe/forward'").message(
    "path: at /hawsepipe/forward the gateway's pods forward requests to each other: choose another one"
))]
pub struct Listener {
    /// Name of the listener, unique in the gateway.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// TCP port; must differ from `admin.port`.
    #[schemars(range(min = 1))]
    pub port: u16,
    /// Path of the endpoint that serves all upstreams. A single upstream is served at `{path without a final
    /// /mcp}/{upstream}/mcp`. Default: /mcp.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^/[A-Za-z0-9/_.~-]*$"))]
    pub path: Option<String>,
    /// Accepted Host headers besides loopback; their ports do not matter. `*.` stands for one or more labels. Default: in
    /// a cluster the names of the Service, `route.hostnames` and every IP address; elsewhere none.
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub hosts: Option<Vec<String>>,
    /// Accepted Origin headers, such as https://app.example.com, as browsers send them, beside the listener's own host and
    /// port: with https or a port, and not if only a `*.` matches the host. Default: none, so requests from pages of other
    /// servers are refused (protection from DNS rebinding).
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub allowed_origins: Option<Vec<String>>,
    /// Has no effect, and the next version of the API does not have it: the gateway no longer serves the HTTP+SSE transport
    /// of MCP 2024-11-05 to clients. Clients use Streamable HTTP at `path`. Default: false.
    #[serde(rename = "legacySSE")]
    pub legacy_sse: Option<bool>,
    /// Serves HTTPS with these certificates. Default: plain HTTP.
    pub tls: Option<ListenerTls>,
}

impl Default for Listener {
    /// The listener of a gateway in a cluster that declares none.
    fn default() -> Self {
        Self {
            name: "http".into(),
            port: 8080,
            path: None,
            hosts: None,
            allowed_origins: None,
            legacy_sse: None,
            tls: None,
        }
    }
}

/// Certificates of a listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// Secret of type kubernetes.io/tls with the listener's certificate.
    pub certificate_secret_ref: LocalRef,
    /// Secret key that holds the certificate authorities for client certificates. If set, clients must present a
    /// certificate. Default: none.
    #[serde(rename = "clientCASecretRef")]
    pub client_ca_secret_ref: Option<KeyRef>,
}

/// Settings of the Service `{name}-gateway`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayService {
    /// Type of the Service: `ClusterIP`, `NodePort` or `LoadBalancer`. Default: ClusterIP.
    pub r#type: Option<ServiceType>,
    /// Annotations of the Service. Default: none.
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 4096}))]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Type of the Service: `ClusterIP`, `NodePort` or `LoadBalancer`. Default: ClusterIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// Reachable inside the cluster.
    ClusterIP,
    /// Reachable at a port of each node.
    NodePort,
    /// Reachable through the cloud provider's load balancer.
    LoadBalancer,
}

/// An HTTPRoute of the Kubernetes Gateway API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Gateways (of the Gateway API) to which the route attaches.
    #[schemars(length(min = 1, max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub parent_refs: Vec<ParentRef>,
    /// Host names that the route matches. Listeners without `hosts` accept requests with these names. Default: the route
    /// matches the host names of the Gateway's listeners; the gateway refuses those that are not in `hosts` of a
    /// listener.
    #[schemars(length(max = 16), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub hostnames: Option<Vec<String>>,
}

/// A Gateway of the Kubernetes Gateway API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParentRef {
    /// Name of the Gateway.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the Gateway. Default: the MCPGateway's namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: Option<String>,
    /// Name of the Gateway's listener to which the route attaches. Default: every listener.
    #[schemars(length(max = 253))]
    pub section_name: Option<String>,
}

/// Settings of the admin port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Admin {
    /// TCP port of /metrics, /healthz, /readyz and the admin API. Default: 9090.
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// Whether the admin port also serves the console. Default: true.
    pub console: Option<bool>,
    /// How clients of the admin API authenticate. If set, clients on loopback must authenticate too. Default: the admin
    /// API needs no credentials, but only programs on the same machine, or in the same pod, can use it, over loopback.
    pub authentication: Option<AdminAuthentication>,
}

/// Ways to authenticate to the admin port; at least one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct AdminAuthentication {
    /// Accepts tokens of Kubernetes service accounts. Default: none.
    pub token_review: Option<TokenReview>,
    /// Secret key that holds a token of your choice. Requests with this token are accepted. Default: none.
    pub token_secret_ref: Option<KeyRef>,
}

/// Accepts tokens of Kubernetes service accounts. The API server verifies each token (TokenReview).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenReview {
    /// Accepted audiences; a token must be for at least one of them. Default: the API server's own audience.
    #[schemars(length(max = 8), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "set"))]
    pub audiences: Option<Vec<String>>,
}

/// Sessions of clients that use a protocol version before 2026-07-28.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sessions {
    /// Seconds after which an unused session ends. Default: 3600.
    #[schemars(range(min = 1, max = 604_800))]
    pub idle_seconds: Option<u32>,
    /// Key of a Secret that holds the cryptographic key for sealing session ids. Default: the key `key` of the Secret
    /// `{name}-gateway-seal`, if that Secret is mounted; otherwise, ids are not sealed, and a session cannot continue
    /// at another pod.
    pub sealing_key_secret_ref: Option<KeyRef>,
}
