//! Reads a response that is a stream of events, and continues it where a legacy server ends it before the answer (MCP
//! 2025-11-25, resumability).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, StatusCode};

use super::connection::{Connection, SMALL};
use super::http_reply::{HttpReply, take};
use super::media::encoding;
use super::response_body::Messages;
use crate::domain::ports::ToClient;
use crate::domain::upstream::UpstreamError;
use crate::domain::version::Era;
use crate::transport::rate_limit::RateLimit;
use crate::upstream::call_questions::CallQuestions;

/// How often a stream is continued, in a row, without a message.
const MOST_CUTS: u32 = 5;
/// How often the stream of one call is continued in all.
const MOST_CONTINUED: u32 = 4096;
/// The shortest and the longest time before a stream is continued.
const SHORTEST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(10);

/// Reads the events of the response to the request `id` until its answer.
pub(super) async fn read_events<'a>(
    connection: &'a Arc<Connection>,
    mut messages: Messages,
    id: u64,
    to: Option<&'a dyn ToClient>,
    asked: &mut CallQuestions<'a>,
) -> Result<HttpReply, UpstreamError> {
    let (mut cuts, mut continued) = (0, 0);
    loop {
        let next = asked.during(pin!(messages.next())).await?;
        let failure = match next {
            Ok(Some(text)) => {
                if let Some(own) = take(connection, text.as_bytes(), id, to, asked)? {
                    messages.finish(&connection.endpoint.shared, &connection.endpoint.target.plan.key, SMALL);
                    return Ok(own);
                }
                cuts = 0;
                continue;
            }
            Ok(None) => {
                if let (Some(to), Some((_, retry)), Era::Legacy) = (to, messages.place(), connection.era) {
                    to.stream_ended(retry);
                }
                UpstreamError::Lost("its event stream ended before the answer".into())
            }
            Err(error) => error,
        };
        (cuts, continued) = (cuts + 1, continued + 1);
        if continued > MOST_CONTINUED {
            return Err(failure);
        }
        let rest = asked.during(pin!(go_on(connection, &messages, cuts))).await?;
        messages = rest.ok_or(failure)?;
    }
}

/// Continues a stream that ended before the answer: servers may end one on purpose, so that clients come back later (MCP
/// 2025-11-25). Returns `None` if it cannot be continued, or was cut `cuts` times without a message.
async fn go_on(connection: &Connection, cut: &Messages, cuts: u32) -> Option<Messages> {
    let (last, retry) = cut.place().filter(|_| connection.era == Era::Legacy && cuts <= MOST_CUTS)?;
    let wait = retry.unwrap_or(SHORTEST_RETRY).clamp(SHORTEST_RETRY, LONGEST_RETRY);
    tokio::time::sleep(wait).await;
    let mut next = resume(connection, last, cut.rate()).await.ok()??;
    next.come_from(cut);
    Some(next)
}

/// Continues the stream of a call that ended before its answer, after the event with the id `last` (MCP 2025-11-25,
/// resumability). Returns `None` if the server does not continue it.
async fn resume(connection: &Connection, last: &str, rate: &RateLimit) -> Result<Option<Messages>, UpstreamError> {
    let Ok(last) = HeaderValue::from_str(last) else { return Ok(None) };
    let response = connection.get(Some(last)).await?;
    if response.status() != StatusCode::OK || encoding(response.headers()).is_some() {
        return Ok(None);
    }
    Ok(Some(connection.endpoint.events(response.into_body(), rate.clone())))
}
