//! Sends a call to its upstream, and again if an attempt fails and the upstream's settings allow that. The bytes are the
//! same each time: chains do not run between attempts.

use std::time::Duration;

use tokio::time::Instant;

use super::recorder::CallRecorder;
use crate::domain::item::Hints;
use crate::domain::plan::RetryWhen;
use crate::domain::upstream::{OutCall, UpstreamError};
use crate::engine::chains::routed_call::Routed;
use crate::engine::chains::unchecked::{GuardedClient, Unchecked};
use crate::engine::servers::Servers;
use crate::telemetry::metrics::Metrics;

/// Returns the answer of the first attempt that has one, or the failure of the last attempt. The call's timeout is
/// for all attempts and the pauses between them.
pub(super) async fn send_until_answered(
    (servers, metrics): (&Servers, &Metrics),
    call: &Routed<'_>,
    out: &mut OutCall,
    client: &dyn GuardedClient,
    recorder: &mut CallRecorder,
) -> Result<Unchecked, UpstreamError> {
    let (retry, timeout) = (call.plan().retry, out.timeout);
    let (deadline, pause) = (Instant::now() + timeout, Duration::from_millis(u64::from(retry.backoff_ms)));
    let mut lost = None;
    for _ in 0..retry.attempts {
        let failure = match servers.call(&call.upstream.target, out, client).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        let left = deadline.saturating_duration_since(Instant::now()).saturating_sub(pause);
        if left.is_zero() || !may_be_sent_again(&failure, retry.when, call.route.item.hints) {
            return Err(of_all(failure, lost, timeout));
        }
        let upstream = &call.plan().key.name;
        metrics.retried(upstream, failure.reason());
        tracing::info!(
            upstream,
            reason = failure.reason().as_str(),
            "a call is sent again: {}",
            failure.without_content()
        );
        call.request.client.pauses();
        tokio::time::sleep(pause).await;
        recorder.asked_again();
        call.request.client.sent_again();
        out.timeout = left;
        lost = Some(failure).filter(|failure| !was_not_sent(failure)).or(lost);
    }
    let last = servers.call(&call.upstream.target, out, client).await;
    last.map_err(|failure| of_all(failure, lost, timeout))
}

/// Returns the failure of an attempt as that of the call: a timeout is named as it was set, and nothing says that the call was
/// not sent if an attempt was `lost` that may have been executed.
fn of_all(failure: UpstreamError, lost: Option<UpstreamError>, timeout: Duration) -> UpstreamError {
    match failure {
        UpstreamError::Timeout(_) => UpstreamError::Timeout(timeout),
        failure if was_not_sent(&failure) => lost.unwrap_or(failure),
        other => other,
    }
}

/// Whether the attempt ended before the call was sent.
fn was_not_sent(failure: &UpstreamError) -> bool {
    matches!(
        failure,
        UpstreamError::Connect(_)
            | UpstreamError::Late { .. }
            | UpstreamError::Start(_)
            | UpstreamError::RateLimited { .. }
            | UpstreamError::OwnProcesses(_)
            | UpstreamError::NoUserToken
            | UpstreamError::NeverAsked
    )
}

/// Whether a call may be sent again: always if nothing was executed, else only if the upstream's setting allows it.
fn may_be_sent_again(failure: &UpstreamError, when: RetryWhen, hints: Hints) -> bool {
    match failure {
        UpstreamError::Connect(_) | UpstreamError::Late { .. } | UpstreamError::NoToken { is_refused: false, .. } => {
            true
        }
        UpstreamError::Lost(_) | UpstreamError::Exited { .. } => match when {
            RetryWhen::Never => false,
            RetryWhen::IfSafe => hints.read_only || hints.idempotent,
            RetryWhen::Always => true,
        },
        // Another attempt would fail in the same way, or has no time left.
        UpstreamError::Start(_)
        | UpstreamError::Refused { .. }
        | UpstreamError::NeitherTransport { .. }
        | UpstreamError::Timeout(_)
        | UpstreamError::Unauthorized { .. }
        | UpstreamError::RateLimited { .. }
        | UpstreamError::NoToken { is_refused: true, .. }
        | UpstreamError::Protocol(_)
        | UpstreamError::Encoded(_)
        | UpstreamError::OwnProcesses(_)
        | UpstreamError::NoUserToken
        | UpstreamError::NeverAsked
        | UpstreamError::TooLarge(_)
        | UpstreamError::NoRoom
        | UpstreamError::Plugin(_)
        | UpstreamError::OfPlugin(..)
        | UpstreamError::Cancelled => false,
    }
}
