//! Refusals of calls.

use serde::{Deserialize, Serialize};

use crate::domain::reason::Reason;

/// Why calls are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The category of the reason.
    pub reason: Reason,
    /// The explanation for users.
    pub message: String,
}
