//! Asks a legacy server for log messages from a level on, before a call of a client that wants them. Many servers send none
//! until they are asked.

use std::time::Duration;

use tokio::time::Instant;

use crate::domain::log_level::LogLevel;
use crate::domain::upstream::{OutCall, UpstreamError};
use crate::domain::version::Era;
use crate::upstream::request_failure::RequestFailure;
use crate::upstream::slot::ConnectionUse;
use crate::upstream::wire::McpRequest;

/// How long a call waits for the server's response. A server that does not respond in time may still answer the call.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Asks the server for the level of a call's client, and returns how long that took. A connection that clients share keeps the
/// lowest one: the gateway passes on to each client only the messages from its level on. If it cannot tell whose they are, the
/// server is not asked for any.
pub(super) async fn report(lease: &ConnectionUse, call: &OutCall, is_of_all: bool) -> Duration {
    let (facts, is_shared) = (lease.facts(), is_of_all || call.client.session.is_empty());
    let is_dropped = is_shared && lease.is_duplex();
    let Some(level) = call.asked_log_level.filter(|_| facts.era == Era::Legacy && facts.has_logging && !is_dropped)
    else {
        return Duration::ZERO;
    };
    // Most servers send messages from this level on to clients that did not ask for another.
    let level = if is_shared { level.min(LogLevel::Info) } else { level };
    let began = Instant::now();
    let report = async {
        let mut reported = lease.log_level().lock().await;
        if reported.is_some_and(|known| if is_shared { known <= level } else { known == level }) {
            return;
        }
        // A server that does not respond is not asked again.
        match lease.ask(McpRequest::SetLogLevel(level), None, LONGEST_WAIT).await {
            Ok(_) | Err(RequestFailure::Final(UpstreamError::Timeout(_))) => *reported = Some(level),
            Err(failure) => tracing::debug!("logging/setLevel failed: {failure:?}"),
        }
    };
    // Those of other calls are waited for too.
    let _ = tokio::time::timeout(LONGEST_WAIT * 2, report).await;
    began.elapsed()
}
