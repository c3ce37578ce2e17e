//! Authentication and authorization of clients in a plan.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::ids::ObjectKey;

/// The methods that prove who calls, besides `anonymous: {}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthenticationPlan {
    /// The issuers whose JSON Web Tokens are accepted.
    pub jwt: Vec<JwtPlan>,
    /// The API keys that are accepted; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_keys: Option<ApiKeysPlan>,
    /// Which tokens of Kubernetes service accounts are accepted; `None` if none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_review: Option<TokenReviewPlan>,
    /// The protected resource metadata (RFC 9728); `None` if clients get none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourcePlan>,
}

impl AuthenticationPlan {
    /// Whether there is none.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// An issuer of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JwtPlan {
    /// The URL of the issuer, as tokens have it.
    pub issuer: String,
    /// The accepted audiences; never empty.
    pub audiences: Vec<String>,
    /// The accepted algorithms by their names of RFC 7518 and RFC 8037; never empty.
    pub algorithms: Vec<String>,
    /// The URL of the keys; `None` if the metadata of the issuer names it.
    pub jwks_uri: Option<String>,
    /// The name and the key of the ConfigMap that has the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_ref: Option<(String, String)>,
    /// The keys in that ConfigMap (RFC 7517); `None` as long as they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks: Option<String>,
    /// Seconds between two fetches of the keys.
    pub refresh_seconds: u32,
    /// The claim that is the subject.
    pub subject_claim: String,
    /// The claim that has the groups.
    pub groups_claim: String,
    /// The tolerated difference between clocks, in seconds.
    pub skew_seconds: u32,
}

/// API keys that are stored in Secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKeysPlan {
    /// The header that has the key; `None` if it is a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The Secrets with the keys; each of their data keys is a subject.
    pub secrets: Vec<ObjectKey>,
    /// The groups of subjects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Vec<String>>,
}

/// Tokens of Kubernetes service accounts, which the API server verifies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenReviewPlan {
    /// The accepted audiences. If empty, those of the API server are accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audiences: Vec<String>,
}

/// How clients of the admin API authenticate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminMethodsPlan {
    /// The Secret and the key of it that has the accepted token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<(ObjectKey, String)>,
    /// Which tokens of Kubernetes service accounts are accepted; `None` if none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_review: Option<TokenReviewPlan>,
}

impl AdminMethodsPlan {
    /// Whether there is none.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The protected resource metadata of a gateway (RFC 9728).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourcePlan {
    /// The URL that identifies the gateway.
    pub resource: String,
    /// The URLs of authorization servers.
    pub authorization_servers: Vec<String>,
    /// The scopes that clients can request.
    pub scopes: Vec<String>,
    /// The URL of documentation for people.
    pub documentation: Option<String>,
}

/// The rules of a gateway: who may do what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationPlan {
    /// Whether a call is allowed to which no rule applies.
    pub allows_by_default: bool,
    /// The rules in the order in which they are written.
    pub rules: Vec<RulePlan>,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulePlan {
    /// The name of the rule.
    pub name: String,
    /// Whether the rule denies; otherwise it allows.
    pub denies: bool,
    /// The CEL condition.
    pub when: String,
    /// The text for a client whose call the rule denies.
    pub message: Option<String>,
    /// The scopes without which a rule that allows does not hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}
