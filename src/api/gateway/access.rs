//! Authentication and authorization of clients.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::gateway::inbound::TokenReview;
use crate::api::shared::{KeyRef, LocalRef};
use crate::api::values::{DNS_LABEL, FreeObject, FreeValue, HEADER_NAME, HTTP_URL, SCOPE, SECURE_URL};

/// Ways to authenticate clients; at least one must be set. The ways are tried in the order `jwt`, `apiKeys`,
/// `tokenReview`, `anonymous`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "has(self.jwt) || has(self.apiKeys) || has(self.tokenReview) || has(self.anonymous)"
).message(
    "authentication: name at least one way in (jwt, apiKeys, tokenReview); an open gateway says `anonymous: {}`"
))]
pub struct Authentication {
    /// Accepts JSON Web Tokens of these OpenID issuers. Default: none.
    #[schemars(length(min = 1, max = 8))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["issuer"]))]
    pub jwt: Option<Vec<Jwt>>,
    /// Accepts API keys that are stored in Secrets. Default: none.
    pub api_keys: Option<ApiKeys>,
    /// Accepts tokens of Kubernetes service accounts. Default: none.
    pub token_review: Option<TokenReview>,
    /// Accepts clients without credentials. Default: such clients are refused.
    pub anonymous: Option<Anonymous>,
    /// OAuth protected resource metadata (RFC 9728); each 401 response refers to this metadata in WWW-Authenticate.
    /// Default: none.
    pub resource_metadata: Option<ResourceMetadata>,
}

/// An OpenID issuer whose tokens are accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Jwt {
    /// URL of the issuer. It begins with https://, except if its host is this machine (localhost, 127.0.0.1 or [::1]).
    #[schemars(length(min = 1, max = 2048), regex(pattern = SECURE_URL))]
    pub issuer: String,
    /// Accepted audiences; a token for another audience is refused.
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "set"))]
    pub audiences: Vec<String>,
    /// Accepted signature algorithms. HS* and none are never accepted. Default: all algorithms that can be listed
    /// here.
    #[schemars(length(max = 9), extend("x-kubernetes-list-type" = "set"))]
    pub algorithms: Option<Vec<Algorithm>>,
    /// Where the issuer's keys are found. Default: at the URL that the issuer's metadata names.
    pub jwks: Option<Jwks>,
    /// Claims from which a client's subject and groups are read. Default: sub and groups.
    pub claims: Option<JwtClaims>,
    /// Tolerance, in seconds, when the times in a token are compared with the gateway's clock. Default: 30.
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
    /// Edwards-curve signatures.
    EdDSA,
}

/// Source of an issuer's keys: exactly one of `uri`, `configMapKeyRef`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.uri) ? 1 : 0) + (has(self.configMapKeyRef) ? 1 : 0) == 1"
).message(
    "jwks: give exactly one of uri, configMapKeyRef"
))]
pub struct Jwks {
    /// URL from which the keys are fetched; like that of the issuer, it begins with https://.
    #[schemars(length(min = 1, max = 2048), regex(pattern = SECURE_URL))]
    pub uri: Option<String>,
    /// Seconds between fetches of the keys from `uri`. Default: 300.
    #[schemars(range(min = 30, max = 86_400))]
    pub refresh_seconds: Option<u32>,
    /// ConfigMap key that holds the key set.
    pub config_map_key_ref: Option<KeyRef>,
}

/// Claims from which a client's identity is made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JwtClaims {
    /// Claim that becomes `identity.subject`. Default: sub.
    #[schemars(length(min = 1, max = 128))]
    pub subject: Option<String>,
    /// Claim that becomes `identity.groups`. Default: groups.
    #[schemars(length(min = 1, max = 128))]
    pub groups: Option<String>,
}

/// API keys that are stored in Secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeys {
    /// Request header that carries the key; in Authorization, the key is a Bearer token. Default: Authorization.
    #[schemars(length(min = 1, max = 64), regex(pattern = HEADER_NAME))]
    pub header: Option<String>,
    /// Secrets that hold the API keys. In such a Secret, each data key is the name of a subject, and its value is the
    /// subject's API key, or `sha256:` followed by the SHA-256 digest of the API key in hexadecimal.
    #[schemars(length(min = 1, max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub secret_refs: Vec<LocalRef>,
    /// Groups of individual subjects. Default: none.
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub subjects: Option<Vec<ApiKeySubject>>,
}

/// Groups of a subject that has an API key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeySubject {
    /// Name of the subject, which is its data key in the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Groups of the subject. Default: none.
    #[schemars(length(max = 32), inner(length(min = 1, max = 128)), extend("x-kubernetes-list-type" = "set"))]
    pub groups: Option<Vec<String>>,
}

/// Accepts clients without credentials.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Anonymous {}

/// OAuth protected resource metadata (RFC 9728) of this gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceMetadata {
    /// URL that identifies this gateway as a resource.
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub resource: String,
    /// URLs of authorization servers. Default: the issuers of `jwt`.
    #[schemars(length(max = 8), inner(length(min = 1, max = 2048), regex(pattern = HTTP_URL)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub authorization_servers: Option<Vec<String>>,
    /// Scopes that clients can request. Default: none.
    #[schemars(length(max = 32), inner(length(min = 1, max = 128)), extend("x-kubernetes-list-type" = "set"))]
    pub scopes_supported: Option<Vec<String>>,
    /// URL of documentation for people. Default: none.
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub documentation: Option<String>,
}

/// Rules that allow or deny calls and listings. The rules are applied before the request chains run, and again
/// afterwards, because the chains can change the call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Authorization {
    /// Effect if no rule applies: `Allow` or `Deny`. Default: Deny.
    pub default: Option<Effect>,
    /// Rules; if several apply, Deny takes precedence over Allow. If the condition of a rule cannot be evaluated, the
    /// rule applies if its effect is Deny, and does not apply if its effect is Allow.
    #[schemars(length(max = 128), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub rules: Vec<AccessRule>,
    /// Calls with the decisions that are expected for them. If the rules decide otherwise about one of them, they are not
    /// accepted, and the last accepted rules stay in force. Default: none.
    #[schemars(length(max = 128), extend("x-kubernetes-list-type" = "atomic"))]
    pub tests: Option<Vec<AccessTest>>,
}

/// A call of a tool, and the decision that is expected for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessTest {
    /// Client that calls. Default: a client without credentials.
    pub identity: Option<TestIdentity>,
    /// Name of the tool, or an object with its `name`, and with `upstream` (NAME or NAMESPACE/NAME), `labels` of the upstream
    /// and `annotations` of the tool. Hints that `annotations` leave out have the protocol's defaults. `tool.name` is the
    /// name, and `tool.upstreamName` is the same without the prefix of `upstream`.
    pub tool: FreeValue,
    /// Arguments of the call. Default: none.
    pub arguments: Option<FreeObject>,
    /// Expected decision: `allow` or `deny`.
    pub expect: Expectation,
}

/// The client in a test of rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestIdentity {
    /// Method that has proved the identity: `jwt`, `apiKey` or `tokenReview`. Default: jwt.
    pub method: Option<TestMethod>,
    /// Value of `identity.subject`.
    #[schemars(length(min = 1, max = 512))]
    pub subject: String,
    /// Value of `identity.issuer`. Default: empty.
    #[schemars(length(max = 2048))]
    pub issuer: Option<String>,
    /// Value of `identity.groups`. Default: none.
    #[schemars(length(max = 64), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "set"))]
    pub groups: Option<Vec<String>>,
    /// Value of `identity.scopes`. Default: none.
    #[schemars(length(max = 64), inner(length(min = 1, max = 128)), extend("x-kubernetes-list-type" = "set"))]
    pub scopes: Option<Vec<String>>,
    /// Value of `identity.claims`. Default: none.
    pub claims: Option<FreeObject>,
}

/// `jwt`, `apiKey` or `tokenReview`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TestMethod {
    /// A JSON Web Token.
    Jwt,
    /// An API key.
    ApiKey,
    /// A token of a Kubernetes service account.
    TokenReview,
}

/// `allow` or `deny`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Expectation {
    /// The call is allowed.
    Allow,
    /// The call is denied.
    Deny,
}

/// `Allow` or `Deny`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Effect {
    /// The call is allowed.
    Allow,
    /// The call is denied.
    Deny,
}

/// An authorization rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.scopes) || self.effect == 'Allow'"
).message(
    "rules: only a rule with the effect Allow has scopes"
))]
pub struct AccessRule {
    /// Name of the rule, unique in the list.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// Effect of the rule: `Allow` or `Deny`.
    pub effect: Effect,
    /// CEL condition over call, tool, upstream and identity; the rule applies to the calls for which the condition
    /// holds.
    #[schemars(length(min = 1, max = 1024))]
    pub when: String,
    /// Scopes of OAuth that the client's token must have, all of them, for an Allow to apply. If only scopes are missing,
    /// the call is answered with HTTP 403 and `insufficient_scope`. Default: none.
    #[schemars(length(max = 16), inner(length(min = 1, max = 128), regex(pattern = SCOPE)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub scopes: Option<Vec<String>>,
    /// Message for a client whose call this rule denies. Default: the rule's name.
    #[schemars(length(max = 512))]
    pub message: Option<String>,
}
