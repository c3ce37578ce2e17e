//! Which calls that failed are sent again.

use serde::{Deserialize, Serialize};

/// Which calls that failed are sent again, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPlan {
    /// The number of attempts after the first.
    pub attempts: u32,
    /// Milliseconds before each of them.
    pub backoff_ms: u32,
    /// Whether a call that the server may have executed is sent again.
    pub when: RetryWhen,
}

/// Whether a call that the server may have executed is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RetryWhen {
    /// It is not.
    Never,
    /// It is, if the tool is idempotent or changes nothing.
    IfSafe,
    /// It is: the owner of the upstream says that this is safe.
    Always,
}

impl Default for RetryPlan {
    fn default() -> Self {
        Self { attempts: 2, backoff_ms: 200, when: RetryWhen::IfSafe }
    }
}

impl RetryPlan {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
