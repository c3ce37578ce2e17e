//! Who may come in, and what they may do.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::gateway::inbound::TokenReview;
use crate::api::shared::{KeyRef, LocalRef};
use crate::api::values::{DNS_LABEL, HEADER_NAME, HTTP_URL};

/// Ways in, tried in this order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "has(self.jwt) || has(self.apiKeys) || has(self.tokenReview) || has(self.anonymous)"
).message(
    "authentication: name at least one way in (jwt, apiKeys, tokenReview); an open gateway says `anonymous: {}`"
))]
pub struct Authentication {
    /// Tokens of OpenID issuers. Default: none.
    #[schemars(length(min = 1, max = 8))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["issuer"]))]
    pub jwt: Option<Vec<Jwt>>,
    /// Keys from Secrets. Default: none.
    pub api_keys: Option<ApiKeys>,
    /// Kubernetes service accounts. Default: none.
    pub token_review: Option<TokenReview>,
    /// Anyone. Default: nobody.
    pub anonymous: Option<Anonymous>,
    /// RFC 9728 metadata, named in each 401's WWW-Authenticate. Default: none.
    pub resource_metadata: Option<ResourceMetadata>,
}

/// One issuer of tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Jwt {
    /// Its URL.
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub issuer: String,
    /// A token for another service is no token here.
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "set"))]
    pub audiences: Vec<String>,
    /// The asymmetric ones; HS* and none are never taken. Default: all of these.
    #[schemars(length(max = 9), extend("x-kubernetes-list-type" = "set"))]
    pub algorithms: Option<Vec<Algorithm>>,
    /// Its keys. Default: by the issuer's metadata.
    pub jwks: Option<Jwks>,
    /// Where subject and groups come from.
    pub claims: Option<JwtClaims>,
    /// Tolerance for times in a token. Default: 30.
    #[schemars(range(max = 300))]
    pub clock_skew_seconds: Option<u32>,
}

/// A signature algorithm of RFC 7518 or RFC 8037.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    RS256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    RS384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    RS512,
    /// RSASSA-PSS with SHA-256.
    PS256,
    /// RSASSA-PSS with SHA-384.
    PS384,
    /// RSASSA-PSS with SHA-512.
    PS512,
    /// ECDSA with P-256.
    ES256,
    /// ECDSA with P-384.
    ES384,
    /// Edwards-curve.
    EdDSA,
}

/// An issuer's keys: exactly one of `uri`, `configMapKeyRef`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.uri) ? 1 : 0) + (has(self.configMapKeyRef) ? 1 : 0) == 1"
).message(
    "jwks: give exactly one of uri, configMapKeyRef"
))]
pub struct Jwks {
    /// Where they are fetched.
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub uri: Option<String>,
    /// Seconds between fetches. Default: 300.
    #[schemars(range(min = 30, max = 86_400))]
    pub refresh_seconds: Option<u32>,
    /// Where they are kept.
    pub config_map_key_ref: Option<KeyRef>,
}

/// Claims that the identity is made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JwtClaims {
    /// Of `identity.subject`. Default: sub.
    #[schemars(length(min = 1, max = 128))]
    pub subject: Option<String>,
    /// Of `identity.groups`. Default: groups.
    #[schemars(length(min = 1, max = 128))]
    pub groups: Option<String>,
}

/// Keys from Secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeys {
    /// The header they come in; Authorization as a Bearer token. Default: Authorization.
    #[schemars(length(min = 1, max = 64), regex(pattern = HEADER_NAME))]
    pub header: Option<String>,
    /// Each data key is a subject, its value the key or `sha256:{hex}` of it.
    #[schemars(length(min = 1, max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub secret_refs: Vec<LocalRef>,
    /// What is known of subjects. Default: nothing.
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub subjects: Option<Vec<ApiKeySubject>>,
}

/// A subject of an API key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeySubject {
    /// The data key in a Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its groups. Default: none.
    #[schemars(length(max = 32), inner(length(min = 1, max = 128)), extend("x-kubernetes-list-type" = "set"))]
    pub groups: Option<Vec<String>>,
}

/// Anyone may come in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Anonymous {}

/// RFC 9728 metadata of this resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceMetadata {
    /// Its URL.
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub resource: String,
    /// Default: the issuers of `jwt`.
    #[schemars(length(max = 8), inner(length(min = 1, max = 2048), regex(pattern = HTTP_URL)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub authorization_servers: Option<Vec<String>>,
    /// Default: none.
    #[schemars(length(max = 32), inner(length(min = 1, max = 128)), extend("x-kubernetes-list-type" = "set"))]
    pub scopes_supported: Option<Vec<String>>,
    /// Default: none.
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub documentation: Option<String>,
}

/// Rules on calls and lists, asked before the request chain and again on what it made of the call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Authorization {
    /// Where no rule speaks. Default: Deny.
    pub default: Option<Effect>,
    /// Deny beats Allow. An Allow that errs does not allow, a Deny that errs denies.
    #[schemars(length(max = 128), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub rules: Vec<AccessRule>,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Effect {
    /// It lets the call by.
    Allow,
    /// It does not.
    Deny,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessRule {
    /// Its name, unique in the list.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// `Allow` or `Deny`.
    pub effect: Effect,
    /// CEL over call, tool, upstream, identity.
    #[schemars(length(min = 1, max = 1024))]
    pub when: String,
    /// What the client is told on a denial. Default: the rule's name.
    #[schemars(length(max = 512))]
    pub message: Option<String>,
}
