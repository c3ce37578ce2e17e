//! The beginning of a body that refuses a request, as messages quote it.

use std::time::Duration;

use super::connection::HttpEndpoint;
use super::paced_body::PacedBody;
use super::response_body::whole;

/// How many characters of the body of a refusal are quoted.
const QUOTED: usize = 200;
/// The maximum size of a body that is quoted, and how long it may take.
const MAX_SAID: u64 = 8 << 10;
const SAYING: Duration = Duration::from_secs(1);

/// Returns a body that is only quoted; nothing if it is long or late.
pub(super) async fn beginning(endpoint: &HttpEndpoint, body: PacedBody) -> Vec<u8> {
    let reservation = endpoint.reservation();
    let read = tokio::time::timeout(SAYING, whole(body, MAX_SAID, &reservation)).await;
    read.ok().and_then(Result::ok).map(Into::into).unwrap_or_default()
}

/// Returns what is quoted of a text.
pub(super) fn quoted(said: &str) -> String {
    said.trim().chars().take(QUOTED).collect()
}
