//! Tells a legacy server from which level on its log messages are wanted. Over a connection that clients share, that is the
//! lowest level that any of them asked for; the gateway passes on to each what it wants.

use std::sync::Arc;
use std::time::Duration;

use super::Server;
use crate::domain::log_level::LogLevel;
use crate::domain::version::Era;
use crate::upstream::slot::{ConnectionUse, Purpose};
use crate::upstream::wire::McpRequest;

/// How long a server has to answer.
const PATIENCE: Duration = Duration::from_secs(5);

impl Server {
    /// Tells the server, in the background, over the connections that are open.
    pub(in crate::upstream) fn want_log(self: &Arc<Self>, least: LogLevel, session: &str, level: LogLevel) {
        self.plan.watched.set_log_level(least);
        let own = self.own.of_session(session).into_iter().map(|slot| (slot, level));
        let slots = std::iter::once((Arc::clone(&self.slot), least)).chain(own);
        let leases = slots.filter_map(|(slot, level)| Some((slot.current(Purpose::Care)?, level)));
        for (lease, level) in leases.filter(|(lease, level)| lease.wants_level(*level, true)) {
            let telling = async move { tell(&lease, level).await };
            self.plan.shared.notify_later(&self.plan.target.plan.key, telling);
        }
    }

    /// Tells the server before a call whose client asked for this level. A shared connection keeps a lower one.
    pub(super) async fn tell_level(&self, lease: &ConnectionUse, level: LogLevel, is_shared: bool) {
        if lease.wants_level(level, !is_shared) {
            tell(lease, level).await;
        }
    }

    /// Tells the server over a new connection that clients share.
    pub(super) fn greet_with_level(&self) {
        let Some(level) = self.plan.watched.log_level() else { return };
        let Some(lease) = self.slot.current(Purpose::Care).filter(|lease| lease.wants_level(level, false)) else {
            return;
        };
        let telling = async move { tell(&lease, level).await };
        self.plan.shared.notify_later(&self.plan.target.plan.key, telling);
    }
}

impl ConnectionUse {
    /// Whether the server has to be told this level, and notes that it is. Unless it is the `exact` one that is wanted, a
    /// lower one does too.
    fn wants_level(&self, level: LogLevel, exact: bool) -> bool {
        let facts = self.facts();
        if facts.era != Era::Legacy || !facts.has_logging {
            return false;
        }
        let mut told = self.told_level();
        let is_due = told.is_none_or(|told| if exact { told != level } else { told > level });
        if is_due {
            *told = Some(level);
        }
        is_due
    }
}

async fn tell(lease: &ConnectionUse, level: LogLevel) {
    if let Err(failure) = lease.ask(McpRequest::SetLogLevel(level), None, PATIENCE).await {
        tracing::debug!("logging/setLevel was not answered: {failure:?}");
    }
}
