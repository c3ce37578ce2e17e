//! How much of a server's log messages a client wants (MCP, logging; the words of RFC 5424).

use serde::{Deserialize, Serialize};

/// How grave a message is, or the least grave one that is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Details for those who look for a fault.
    #[default]
    Debug,
    /// What goes on.
    Info,
    /// Unusual, and no fault.
    Notice,
    /// It may become a fault.
    Warning,
    /// Something failed.
    Error,
    /// A part failed.
    Critical,
    /// Somebody has to act at once.
    Alert,
    /// The whole failed.
    Emergency,
}

impl LogLevel {
    /// The protocol's word, as JSON.
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

    /// The level that JSON text names.
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
