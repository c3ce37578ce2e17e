//! The state of the bridge that all requests share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::keeper::Keeper;
use super::session::Sessions;

#[derive(Debug)]
pub(super) struct Bridge {
    pub(super) context: Arc<Context>,
    pub(super) sessions: Sessions,
    /// The process of all sessions, if they share one.
    pub(super) keeper: Keeper,
    /// The process of requests without a session.
    pub(super) sessionless: Keeper,
    /// Whether all sessions share one process.
    pub(super) is_shared: bool,
    /// Cancelled when the bridge begins no more sessions.
    pub(super) draining: CancellationToken,
    /// Cancelled when the bridge takes no more requests.
    pub(super) closing: CancellationToken,
}
