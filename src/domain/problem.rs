//! Problems: what is wrong with an object, described so that its owner can fix it.

use serde::{Deserialize, Serialize};

use super::ids::ObjectId;
use super::reason::Reason;

/// The severity of a Problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A part of the object has no effect, or less than intended.
    Warning,
    /// A part of the object cannot run as written.
    Error,
}

/// One finding: the object, the field, what was found, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub struct Problem {
    /// The severity: error or warning.
    pub level: Level,
    /// The category of the finding.
    pub reason: Reason,
    /// The object with the problem; `None` for a file that holds no object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectId>,
    /// The path of the field, such as `spec.entries[0].when`; empty for the object as a whole.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub field: String,
    /// What was found and what to do about it. Holds no value of a Secret and no line of plugin code.
    pub message: String,
    /// File, line and column, as `gateway.yaml:3:1`; `None` outside of files.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub place: Option<String>,
}

impl Problem {
    /// Creates a Problem of level error.
    pub fn error(reason: Reason, object: ObjectId, field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (field.into(), message.into());
        Self { level: Level::Error, reason, object: Some(object), field, message, place: None }
    }

    /// Creates a Problem of level warning.
    pub fn warning(reason: Reason, object: ObjectId, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::error(reason, object, field, message) }
    }

    /// Creates a Problem that is about no object, but a file or a folder.
    pub fn without_object(level: Level, reason: Reason, message: String) -> Self {
        Self { level, reason, object: None, field: String::new(), message, place: None }
    }

    /// Whether the level is error.
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
