//! Refusals of calls.

use serde::{Deserialize, Serialize};

use crate::domain::reason::Reason;

/// Why calls are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Machine-readable reason.
    pub reason: Reason,
    /// Explanation for users.
    pub message: String,
}
