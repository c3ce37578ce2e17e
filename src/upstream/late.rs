//! Errors about connections that were not made in time. They name the time that was waited, and the setting.

use std::time::Duration;

use crate::domain::plan::UpstreamPlan;
use crate::domain::upstream::UpstreamError;

/// Returns the error for a handshake that was not done in time. `limit` is the time that it had, and `seen` is what is
/// known of the cause; empty if nothing is.
pub(super) fn late(plan: &UpstreamPlan, limit: Duration, seen: &str) -> UpstreamError {
    let ms = plan.connect_timeout_ms;
    let waited = format!("no handshake within {limit:?} (spec.timeouts.connectMs is {ms})");
    UpstreamError::Late { waited, seen: seen.to_owned() }
}

/// Returns the error for a request that waited for a connection until its own time was over. `limit` is the time that it had.
pub(super) fn unready(plan: &UpstreamPlan, limit: Duration) -> UpstreamError {
    let setting = match plan.connect_timeout_ms {
        0 => "its process is still starting".to_owned(),
        ms => format!("spec.timeouts.connectMs is {ms}"),
    };
    let waited = format!("not connected within the {limit:?} of the request ({setting})");
    UpstreamError::Late { waited, seen: String::new() }
}
