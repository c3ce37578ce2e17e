//! Upstreams at a URL.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::{KeyRef, LocalRef, ValueFrom};
use crate::api::values::{HEADER_NAME, HEADER_VALUE, HTTP_URL, HTTP_URL_OR_NONE};

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
#[x_kube(validation = Rule::new(
    "!self.url.matches('^https?://[^/?#]*@')"
).message(
    "external.url: a user or a password in the URL would not be sent: take it out, and send the header Authorization \
     (external.headers) with a value from a Secret"
))]
#[x_kube(validation = Rule::new(
    "!has(self.headers) || self.headers.all(h, self.headers.exists_one(o, o.name.lowerAscii() == h.name.lowerAscii()))"
).message(
    "external.headers: two have the same name, in which upper and lower case do not differ: take one out"
))]
pub struct External {
    /// URL of the MCP endpoint.
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub url: String,
    /// HTTP transport of the server: `StreamableHTTP`, `SSE` (HTTP+SSE of 2024-11-05), or `Auto`, which tries
    /// StreamableHTTP first. Default: Auto.
    pub transport: Option<HttpTransport>,
    /// The `Host` that is sent, for servers that check it. Default: the host and port of the `url`.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[A-Za-z0-9._\[\]:-]+$"))]
    pub host_header: Option<String>,
    /// HTTP headers that are sent with each request. Default: none.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub headers: Option<Vec<Header>>,
    /// OAuth client credentials of the gateway. Tokens of the gateway's clients are never sent to the server. Default: none.
    pub oauth: Option<OAuth>,
    /// Certificates for the connection. Default: the system's certificate authorities, and no client certificate.
    pub tls: Option<UpstreamTls>,
}

/// HTTP transport of the server: `StreamableHTTP`, `SSE` (HTTP+SSE of 2024-11-05), or `Auto`, which tries
/// StreamableHTTP first. Default: Auto.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HttpTransport {
    /// Tries StreamableHTTP first.
    Auto,
    /// Streamable HTTP.
    StreamableHTTP,
    /// The HTTP+SSE transport of 2024-11-05.
    SSE,
}

/// An HTTP header. Exactly one of `value`, `valueFrom` must be set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "has(self.value) != has(self.valueFrom)"
).message(
    "give exactly one of value, valueFrom"
))]
#[x_kube(validation = Rule::new(
    "!(self.name.lowerAscii() in ['accept', 'accept-encoding', 'connection', 'content-encoding', 'content-length', \
     'content-type', 'expect', 'hawsepipe-instance', 'host', 'keep-alive', 'last-event-id', 'mcp-method', 'mcp-name', \
     'mcp-protocol-version', 'mcp-session-id', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade'])"
).message(Message::Expression(
    "'header ' + self.name + ': the gateway sets this header itself, or HTTP does: take it out'".into()
)))]
#[x_kube(validation = Rule::new(
    "!self.name.lowerAscii().startsWith('mcp-param-')"
).message(Message::Expression(
    "'header ' + self.name + ': the gateway makes headers of this name from the arguments of a call: take it out'".into()
)))]
pub struct Header {
    /// Name of the header.
    #[schemars(length(min = 1, max = 128), regex(pattern = HEADER_NAME))]
    pub name: String,
    /// Value of the header.
    #[schemars(length(max = 4096), regex(pattern = HEADER_VALUE))]
    pub value: Option<String>,
    /// Source of the value; set only if `value` is not set.
    pub value_from: Option<ValueFrom>,
}

/// OAuth client credentials. Exactly one of `issuer`, `tokenURL` must be set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.issuer) ? 1 : 0) + (has(self.tokenURL) ? 1 : 0) == 1"
).message(
    "oauth: give exactly one of issuer, tokenURL"
))]
pub struct OAuth {
    /// URL of the issuer. The issuer's metadata names the token endpoint.
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub issuer: Option<String>,
    /// URL of the token endpoint.
    #[serde(rename = "tokenURL")]
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub token_url: Option<String>,
    /// Client id.
    #[serde(rename = "clientID")]
    #[schemars(length(min = 1, max = 253))]
    pub client_id: String,
    /// Secret key that holds the client secret.
    pub client_secret_ref: KeyRef,
    /// Scopes to request. Default: none.
    #[schemars(length(max = 32), inner(length(min = 1, max = 128)), extend("x-kubernetes-list-type" = "set"))]
    pub scopes: Option<Vec<String>>,
    /// Resource indicator (RFC 8707). Empty: none is sent, for issuers that reject it. Default: the upstream's `url`.
    #[schemars(length(max = 2048), regex(pattern = HTTP_URL_OR_NONE))]
    pub resource: Option<String>,
    /// Exchanges the token of each user for one that the server gets with the calls of that user (RFC 8693). Lists and probes
    /// use the gateway's own token. Default: all requests use the gateway's own token.
    pub token_exchange: Option<TokenExchange>,
}

/// Exchange of the tokens of users (RFC 8693).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenExchange {
    /// Name of the server at the issuer, which is requested as the `audience`. Default: none; `resource` is requested.
    #[schemars(length(min = 1, max = 2048))]
    pub audience: Option<String>,
}

/// Certificates for a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamTls {
    /// Certificate authorities to trust. Default: the system's.
    pub ca_ref: Option<CaRef>,
    /// Secret of type kubernetes.io/tls with the client certificate (`tls.crt`) and its key (`tls.key`). Default: none.
    pub client_certificate_secret_ref: Option<LocalRef>,
    /// Host name that is sent to the server (SNI), and that the server's certificate must be valid for. Default: the host of
    /// the upstream's `url`.
    #[schemars(length(max = 253))]
    pub server_name: Option<String>,
}

/// A key of a ConfigMap or Secret that holds certificate authorities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaRef {
    /// Kind of the object: `ConfigMap` or `Secret`. Default: ConfigMap.
    pub kind: Option<CaKind>,
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in the data of the object. Its value has one certificate or more, in PEM form.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// Kind of the object: `ConfigMap` or `Secret`. Default: ConfigMap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CaKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}
