//! The state of the bridge that all requests share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::keeper::Keeper;
use super::session::Sessions;

/// The header that names a session.
pub(super) const SESSION: &str = "mcp-session-id";

#[derive(Debug)]
pub(super) struct Bridge {
    pub(super) context: Arc<Context>,
    pub(super) sessions: Sessions,
    pub(super) keeper: Keeper,
    /// Whether all sessions share one process.
    pub(super) is_shared: bool,
    /// Cancelled when the bridge begins no more sessions.
    pub(super) draining: CancellationToken,
}
