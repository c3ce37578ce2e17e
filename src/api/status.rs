//! Types that the statuses of all kinds have in common.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::values::DNS_LABEL;

/// A condition, in the form that all Kubernetes statuses use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition.
    #[schemars(length(min = 1, max = 316))]
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: ConditionStatus,
    /// Machine-readable reason, as one CamelCase word.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
    /// Human-readable explanation.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// When `status` last changed.
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// The `metadata.generation` that the condition describes.
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// Status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// It is not known yet whether the condition holds.
    Unknown,
}

/// A gateway that uses the object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakenBy {
    /// Namespace of the MCPGateway.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: String,
    /// Name of the MCPGateway.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// Digest of the object's version that the gateway's plan contains.
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// Whether every ready pod of the gateway runs this version.
    pub programmed: Option<bool>,
    /// Name under which the gateway serves the object.
    #[schemars(length(max = 128))]
    pub served_as: Option<String>,
}
