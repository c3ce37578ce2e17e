//! Tells a legacy server from which level on its log messages are wanted. Over a connection that clients share, that is the
//! lowest level that any of them asked for; the gateway passes on to each what it wants.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Server;
use crate::domain::log_level::LogLevel;
use crate::domain::version::Era;
use crate::upstream::slot::{ConnectionUse, Purpose};
use crate::upstream::wire::McpRequest;

/// How long a server has to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a call waits until its server has answered. One that does not answer this may answer the call.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

impl Server {
    /// Tells the server, in the background, over the connections that are open.
    pub(in crate::upstream) fn want_log(self: &Arc<Self>, least: LogLevel, session: &str, level: LogLevel) {
        self.connector.watched.set_log_level(least);
        let own = self.own.of_session(session).into_iter().map(|slot| (slot, level));
        let slots = std::iter::once((Arc::clone(&self.slot), least)).chain(own);
        for (slot, level) in slots {
            if let Some(lease) = slot.current(Purpose::Maintenance) {
                let _ = self.tell_later(lease, level, true);
            }
        }
    }

    /// Tells the server before a call whose client asked for this level. A shared connection keeps a lower one.
    pub(super) async fn tell_level(&self, lease: &ConnectionUse, level: LogLevel, is_shared: bool) {
        if let Some(told) = self.tell_later(lease.another(Purpose::Maintenance), level, !is_shared) {
            let _ = tokio::time::timeout(LONGEST_WAIT, told).await;
        }
    }

    /// Tells the server over a new connection that clients share.
    pub(super) fn greet_with_level(&self) {
        let Some(level) = self.connector.watched.log_level() else { return };
        if let Some(lease) = self.slot.current(Purpose::Maintenance) {
            let _ = self.tell_later(lease, level, false);
        }
    }

    /// Tells the server in the background, if it has to be told. Unless it is the `exact` level that is wanted, a lower one
    /// does too. What is returned completes when the server has answered.
    fn tell_later(&self, lease: ConnectionUse, level: LogLevel, exact: bool) -> Option<oneshot::Receiver<()>> {
        let facts = lease.facts();
        if facts.era != Era::Legacy || !facts.has_logging || !lease.log_level().want(level, exact) {
            return None;
        }
        let (done, told) = oneshot::channel();
        let teller = Teller(lease);
        self.connector.shared.notify_later(&self.connector.target.plan.key, async move {
            teller.tell().await;
            drop(done);
        });
        Some(told)
    }
}

/// Tells a server the level that is wanted.
struct Teller(ConnectionUse);

impl Teller {
    async fn tell(&self) {
        let Some(telling) = self.0.log_level().begin().await else { return };
        if let Err(failure) = self.0.ask(McpRequest::SetLogLevel(telling.level), None, PATIENCE).await {
            tracing::debug!("logging/setLevel was not answered: {failure:?}");
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.log_level().end();
    }
}
