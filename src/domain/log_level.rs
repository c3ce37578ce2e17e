//! Severities of log messages (MCP, logging; the levels of RFC 5424).

use serde::{Deserialize, Serialize};

/// The severity of a message, or the lowest severity that a client wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Details for debugging.
    #[default]
    Debug,
    /// Normal operation.
    Info,
    /// Unusual, but not an error.
    Notice,
    /// A condition that can lead to an error.
    Warning,
    /// An operation failed.
    Error,
    /// A component failed.
    Critical,
    /// Immediate action is required.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl LogLevel {
    /// Returns the level as JSON text, with the name that MCP gives it.
    pub fn as_json(self) -> &'static str {
        match self {
            Self::Debug => "\"debug\"",
            Self::Info => "\"info\"",
            Self::Notice => "\"notice\"",
            Self::Warning => "\"warning\"",
            Self::Error => "\"error\"",
            Self::Critical => "\"critical\"",
            Self::Alert => "\"alert\"",
            Self::Emergency => "\"emergency\"",
        }
    }

    /// Parses a level from JSON. Returns `None` if the text does not name one.
    pub fn parse(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_the_protocol_s_words_in_its_order() {
        let words = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
        let levels: Vec<_> = words.iter().map(|word| LogLevel::parse(&format!("\"{word}\"")).unwrap()).collect();
        assert!(levels.is_sorted_by(|a, b| a < b));
        assert!(levels.iter().zip(words).all(|(level, word)| level.as_json() == format!("\"{word}\"")));
        assert_eq!(LogLevel::parse("\"loud\""), None);
    }
}
