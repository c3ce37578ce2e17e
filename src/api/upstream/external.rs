//! Upstreams at a URL.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::{KeyRef, LocalRef, ValueFrom};
use crate::api::values::{HEADER_NAME, HTTP_URL};

/// A server at a URL (document 003's sseConfig with `transport: SSE`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.oauth) || !has(self.headers) || !self.headers.exists(h, h.name.lowerAscii() == 'authorization')"
).message(
    "external: oauth sets Authorization; take that header out"
))]
#[x_kube(validation = Rule::new(
    "!has(self.tls) || self.url.startsWith('https://')"
).message(
    "external.tls needs an https:// url"
))]
pub struct External {
    /// Its endpoint.
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub url: String,
    /// `Auto` tries the modern one first; `StreamableHTTP`; `SSE`. Default: Auto.
    pub transport: Option<HttpTransport>,
    /// Headers to send along. Default: none.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub headers: Option<Vec<Header>>,
    /// The gateway's own identity; a client's token is never passed on. Default: none.
    pub oauth: Option<OAuth>,
    /// Certificates. Default: the system's authorities.
    pub tls: Option<UpstreamTls>,
}

/// How a server is spoken with over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HttpTransport {
    /// The modern one first.
    Auto,
    /// Streamable HTTP.
    StreamableHTTP,
    /// The HTTP+SSE transport of 2024-11-05.
    SSE,
}

/// A header: exactly one of `value`, `valueFrom`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "has(self.value) != has(self.valueFrom)"
).message(
    "give exactly one of value, valueFrom"
))]
pub struct Header {
    /// Its name.
    #[schemars(length(min = 1, max = 128), regex(pattern = HEADER_NAME))]
    pub name: String,
    /// Its value.
    #[schemars(length(max = 4096))]
    pub value: Option<String>,
    /// Where its value comes from.
    pub value_from: Option<ValueFrom>,
}

/// Client credentials: exactly one of `issuer`, `tokenURL`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.issuer) ? 1 : 0) + (has(self.tokenURL) ? 1 : 0) == 1"
).message(
    "oauth: give exactly one of issuer, tokenURL"
))]
pub struct OAuth {
    /// Whose metadata names the token endpoint.
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub issuer: Option<String>,
    /// The token endpoint.
    #[serde(rename = "tokenURL")]
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub token_url: Option<String>,
    /// The client.
    #[serde(rename = "clientID")]
    #[schemars(length(min = 1, max = 253))]
    pub client_id: String,
    /// Its secret.
    pub client_secret_ref: KeyRef,
    /// Default: none.
    #[schemars(length(max = 32), inner(length(min = 1, max = 128)), extend("x-kubernetes-list-type" = "set"))]
    pub scopes: Option<Vec<String>>,
    /// RFC 8707. Default: the url.
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub resource: Option<String>,
}

/// Certificates of a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamTls {
    /// Authorities to trust. Default: the system's.
    pub ca_ref: Option<CaRef>,
    /// A Secret of type kubernetes.io/tls. Default: none.
    pub client_certificate_secret_ref: Option<LocalRef>,
    /// The name that the certificate must be for. Default: the url's host.
    #[schemars(length(max = 253))]
    pub server_name: Option<String>,
}

/// Certificate authorities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaRef {
    /// `ConfigMap` or `Secret`. Default: ConfigMap.
    pub kind: Option<CaKind>,
    /// The object's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key in it.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// Where authorities are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CaKind {
    /// In a ConfigMap.
    ConfigMap,
    /// In a Secret.
    Secret,
}
