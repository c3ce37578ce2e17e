//! What is wrong with an object, said so that its owner can put it right.

use serde::{Deserialize, Serialize};

use super::ids::ObjectId;
use super::reason::Reason;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something that was written has no effect, or less than meant.
    Warning,
    /// Something cannot run as it was written.
    Error,
}

/// One finding: the object, the field, what was found, what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Error or warning.
    pub level: Level,
    /// One word of the closed list.
    pub reason: Reason,
    /// The object it is about; none for a file that holds no object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectId>,
    /// The path of the field, such as `spec.entries[0].when`; empty for the object as a whole.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub field: String,
    /// What was found and what to do about it. Holds no value of a Secret and no line of plugin code.
    pub message: String,
}

impl Problem {
    /// A Problem of level error.
    pub fn error(reason: Reason, object: ObjectId, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Error, reason, object: Some(object), field: field.into(), message: message.into() }
    }

    /// A Problem of level warning.
    pub fn warning(reason: Reason, object: ObjectId, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::error(reason, object, field, message) }
    }

    /// Whether it is of level error.
    pub fn is_error(&self) -> bool {
        self.level == Level::Error
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(object) = &self.object {
            write!(f, "{object}: ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{} ({})", self.message, self.reason)
    }
}
