//! The eras of MCP, and the versions that the gateway uses with clients and servers.

use serde::Serialize;

/// Versions of the modern, stateless era, the newest first.
pub const MODERN_VERSIONS: [&str; 1] = ["2026-07-28"];
/// The modern version that the gateway uses with servers.
pub const MODERN_VERSION: &str = MODERN_VERSIONS[0];
/// Versions of the legacy era, with sessions, the newest first.
pub const LEGACY_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Whether clients of this version understand an event without data at the beginning of a stream (MCP 2025-11-25).
pub fn has_primed_streams(version: &str) -> bool {
    version == LEGACY_VERSIONS[0]
}

/// Whether sessions of this version have tasks in `capabilities.tasks` (MCP 2025-11-25).
pub fn has_tasks(version: &str) -> bool {
    version == LEGACY_VERSIONS[0]
}

/// Whether requests of a session of this version name it in a header (MCP 2025-06-18).
pub fn has_version_header(version: &str) -> bool {
    version >= LEGACY_VERSIONS[1]
}

/// Whether this is a version of MCP, which is a date, that is newer than all that the gateway knows.
pub fn is_to_come(version: &str) -> bool {
    let is_date = version.len() == MODERN_VERSION.len()
        && version.bytes().zip(MODERN_VERSION.bytes()).all(|(byte, of_date)| match of_date {
            b'-' => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    is_date && version > MODERN_VERSION
}

/// A generation of the MCP protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub enum Era {
    /// Sessions that `initialize` begins: 2025-11-25 and earlier.
    Legacy,
    /// No sessions: 2026-07-28.
    Modern,
}

impl Era {
    /// Returns the era as a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_to_come_are_later_dates() {
        for version in ["2026-07-29", "2027-01-01", "9999-12-31"] {
            assert!(is_to_come(version), "{version}");
        }
        for version in
            ["2026-07-28", "2026-07-27", "2025-11-25", "2024-11-05", "", "2027-1-1", "2027/01/01", "newest-one"]
        {
            assert!(!is_to_come(version), "{version}");
        }
    }
}
