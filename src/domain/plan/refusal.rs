//! Why calls are refused.

use serde::{Deserialize, Serialize};

use crate::domain::reason::Reason;

/// Why calls are refused, and where that was said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// One word of the closed list.
    pub reason: Reason,
    /// For people.
    pub message: String,
}
