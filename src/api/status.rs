//! What the status of every kind has in common.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::values::DNS_LABEL;

/// One condition, as Kubernetes has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Its name.
    #[schemars(length(min = 1, max = 316))]
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: ConditionStatus,
    /// One word.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
    /// For people.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// When `status` last changed.
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// The generation that this speaks of.
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// A condition's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It is not known yet.
    Unknown,
}

/// A gateway that takes the object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakenBy {
    /// The gateway's namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: String,
    /// The gateway's name.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// The revision that runs there.
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// Whether each of its ready pods runs this revision.
    pub programmed: Option<bool>,
    /// The name it has there.
    #[schemars(length(max = 128))]
    pub served_as: Option<String>,
}
