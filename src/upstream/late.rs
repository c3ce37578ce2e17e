//! Errors about connections that were not made in time. They name the time that was waited, and the setting.

use std::time::Duration;

use crate::domain::plan::{TransportPlan, UpstreamPlan};
use crate::domain::upstream::{FIRST_START, UpstreamError};

/// Returns the error for a handshake that was not done in time. `limit` is the time that it had, and `seen` is what is
/// known of the cause; empty if nothing is.
pub(super) fn late(plan: &UpstreamPlan, limit: Duration, seen: &str) -> UpstreamError {
    let connect = Duration::from_millis(u64::from(plan.connect_timeout_ms));
    let first = if limit > connect { ", which the first start of a process has at least" } else { "" };
    let ms = plan.connect_timeout_ms;
    let waited = format!("no handshake within {limit:?}{first} (spec.timeouts.connectMs is {ms})");
    UpstreamError::Late { waited, seen: seen.to_owned() }
}

/// Returns the error for a request that waited for a connection until its own time was over. `limit` is the time that it had.
pub(super) fn unready(plan: &UpstreamPlan, limit: Duration) -> UpstreamError {
    let first = match plan.transport {
        TransportPlan::Process { .. } => format!("; the first start of a process has at least {FIRST_START:?}"),
        TransportPlan::External { .. } | TransportPlan::None => String::new(),
    };
    let ms = plan.connect_timeout_ms;
    let waited = format!("not connected within the {limit:?} of the request (spec.timeouts.connectMs is {ms}{first})");
    UpstreamError::Late { waited, seen: String::new() }
}
