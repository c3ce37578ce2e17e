//! The versions of MCP that are spoken, with clients and with servers alike.

/// Of the stateless era, the newest first.
pub const MODERN_VERSIONS: [&str; 1] = ["2026-07-28"];
/// The one that servers are spoken with.
pub const MODERN_VERSION: &str = MODERN_VERSIONS[0];
/// Of the era of sessions that `initialize` begins, the newest first.
pub const LEGACY_VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
/// The only one that has JSON-RPC batches.
pub const BATCH_VERSION: &str = LEGACY_VERSIONS[2];
/// Known, and not spoken: its transport is HTTP+SSE.
pub const UNSPOKEN_VERSION: &str = "2024-11-05";
