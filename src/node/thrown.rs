//! Exceptions that plugin code throws, as the host scripts describe them (`host/errors.cjs`).

use serde::Deserialize;

use super::log_mask::LogMask;
use crate::domain::plugin::Failure;
use crate::domain::reason::Reason;

/// An exception that plugin code threw.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Thrown {
    /// Its class and its text.
    pub message: String,
    /// The description without the text. Empty if the host gave none.
    #[serde(default)]
    pub summary: String,
    /// The places of its stack, one a line.
    #[serde(default)]
    pub stack: String,
    /// Whether it ends the process. Node.js then prints its text.
    #[serde(default)]
    pub fatal: bool,
}

impl Thrown {
    /// The description for logs and records.
    pub fn summary(&self) -> String {
        if self.summary.is_empty() { format!("a text of {} bytes", self.message.len()) } else { self.summary.clone() }
    }

    /// Creates the failure of a call. Its message begins with `words`.
    pub fn failure(&self, reason: Reason, words: &str) -> Failure {
        Failure::new(reason, format!("{words}: {}", self.summary())).with_text(format!("{words}: {}", self.message))
    }

    /// Writes the places of the stack to the log.
    pub fn log_stack(&self, log_mask: &LogMask) {
        if !self.stack.is_empty() {
            let (summary, stack) = (self.summary(), log_mask.masked(&*self.stack));
            tracing::debug!(target: "hawsepipe::plugin", plugin = log_mask.name(), "{}\n{stack}", log_mask.masked(summary));
        }
    }
}
