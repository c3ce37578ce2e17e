//! Interprets the HTTP response to a request: its answer, the end of the session, or an error.

use std::pin::pin;
use std::sync::Arc;

use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::connection::{Connection, HttpEndpoint};
use super::continued::read_events;
use super::http_reply::{HttpReply, take};
use super::media::{Media, encoding, is_event_stream, media};
use super::paced_body::PacedBody;
use super::response_body::whole;
use super::said::{beginning, quoted};
use super::too_many::TooMany;
use crate::domain::ports::ToClient;
use crate::domain::rpc::{INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, REFUSED, code_of};
use crate::domain::upstream::{Answer, UpstreamError, UpstreamEvent};
use crate::domain::version::Era;
use crate::transport::rate_limit::RateLimit;
use crate::upstream::call_questions::CallQuestions;
use crate::upstream::server_message::{self, ServerMessage};

/// The cause of a refusal for its `Host`, as servers check it against DNS rebinding.
const HOST_REFUSED: &str = ": it does not accept the Host of its URL: allow that at the server (FastMCP: \
                            TransportSecuritySettings.allowed_hosts), or set spec.external.hostHeader to one that it accepts";

/// Reads the response to the request `id` of a client. Passes the request's progress and log messages on to `to`, and
/// questions of the server to `asked`.
pub(super) async fn read<'a>(
    connection: &'a Arc<Connection>,
    response: Response<PacedBody>,
    id: u64,
    to: Option<&'a dyn ToClient>,
    asked: &mut CallQuestions<'a>,
) -> Result<HttpReply, UpstreamError> {
    let (status, headers) = (response.status(), response.headers());
    if status.is_success() && is_event_stream(headers) && encoding(headers).is_none() {
        let endpoint = &connection.endpoint;
        let messages = endpoint.events(response.into_body(), RateLimit::default());
        return read_events(connection, messages, id, to, asked).await;
    }
    read_whole(connection, response, id, to, asked).await
}

/// Reads a response that is no stream of events.
async fn read_whole<'a>(
    connection: &'a Arc<Connection>,
    response: Response<PacedBody>,
    id: u64,
    to: Option<&'a dyn ToClient>,
    asked: &mut CallQuestions<'a>,
) -> Result<HttpReply, UpstreamError> {
    let (status, mut media) = (response.status(), media(response.headers()));
    if status == StatusCode::TOO_MANY_REQUESTS {
        return Ok(HttpReply::TooMany(TooMany::read(&connection.endpoint, response).await));
    }
    if let Some(encoding) = encoding(response.headers()) {
        if status.is_success() {
            return Err(UpstreamError::Encoded(encoding));
        }
        media = Media::Other;
    }
    let is_unauthorized = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let ends_session = status == StatusCode::NOT_FOUND && connection.is_in_session();
    if is_unauthorized || media != Media::Json && status.is_client_error() && !ends_session {
        return Err(refused_by_status(&connection.endpoint, status, response.into_body()).await);
    }
    if !status.is_success() {
        return refusal(connection, status, media, response.into_body(), id).await;
    }
    match media {
        Media::Json => {
            let (limit, reservation) =
                (connection.endpoint.target.max_response_size, connection.endpoint.reservation());
            let text = asked.during(pin!(whole(response.into_body(), limit, &reservation))).await??;
            // A whole response cannot wait for an answer to a question in it.
            let answer = take(connection, &text, id, to, &mut CallQuestions::none())?;
            answer.ok_or_else(|| UpstreamError::Protocol("its response holds no answer".into()))
        }
        Media::Events | Media::Other => Err(UpstreamError::Protocol(format!(
            "HTTP {} whose Content-Type is neither application/json nor text/event-stream",
            status.as_u16()
        ))),
    }
}

/// Handles a response whose status is not a success. Most JSON-RPC errors in such a response are the answer to the
/// request, but some mean that the session has ended.
async fn refusal(
    connection: &Arc<Connection>,
    status: StatusCode,
    media: Media,
    body: PacedBody,
    id: u64,
) -> Result<HttpReply, UpstreamError> {
    if status == StatusCode::LOOP_DETECTED {
        return Err(UpstreamError::Protocol("HTTP 508: its URL leads back to this gateway".into()));
    }
    let in_session = connection.is_in_session();
    if in_session && status == StatusCode::NOT_FOUND {
        return Ok(HttpReply::SessionEnded);
    }
    let words = UpstreamError::Protocol(format!("HTTP {}{}", status.as_u16(), cause(status)));
    if media == Media::Json {
        let endpoint = &connection.endpoint;
        let reservation = endpoint.reservation();
        let text = whole(body, endpoint.target.max_response_size, &reservation).await?;
        if let Ok(ServerMessage::Answer { id: answered, answer: Answer::Error(error) }) = server_message::read(&text) {
            if in_session && status == StatusCode::BAD_REQUEST && says_session_unknown(&error) {
                return Ok(HttpReply::SessionEnded);
            }
            if status.is_client_error() && !is_refusal_of_era(connection.era, &error) {
                let (events, key) = (&endpoint.shared.events, endpoint.target.plan.key.clone());
                events.push(UpstreamEvent::Doubtful(key));
            }
            // A server that refuses a request early may not have read its id, so the error may have another id.
            let early = answered.is_none_or(|a| a.get().parse() == Ok(id)) || status.is_client_error();
            return match early {
                true if status.is_client_error() => Ok(HttpReply::Refused(error)),
                true => Ok(HttpReply::Answer(Answer::Error(error))),
                false => Err(words),
            };
        }
    }
    match status {
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            Err(UpstreamError::Lost(format!("HTTP {}", status.as_u16())))
        }
        _ => Err(words),
    }
}

/// Returns the error for a client error status (4xx), with the beginning of what the body says.
pub(super) async fn refused_by_status(endpoint: &HttpEndpoint, status: StatusCode, body: PacedBody) -> UpstreamError {
    let said = quoted(&String::from_utf8_lossy(&beginning(endpoint, body).await));
    let status_code = status.as_u16();
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return UpstreamError::Unauthorized { status: status_code, said };
    }
    let refuses_host = status == StatusCode::MISDIRECTED_REQUEST || said.to_ascii_lowercase().contains("host header");
    let cause = if refuses_host { HOST_REFUSED } else { cause(status) };
    UpstreamError::Refused { code: None, what: format!("HTTP {status_code}{cause}"), said }
}

/// Returns the probable cause of a status that an MCP endpoint does not answer with.
fn cause(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
            ": the path of its URL may not be that of its MCP endpoint"
        }
        _ if status.is_redirection() => {
            ": of redirects only 307 and 308 to the same origin are followed, so its URL must be where this one leads to"
        }
        _ => "",
    }
}

/// Whether servers of this era send this error with a client error status (MCP 2026-07-28, Streamable HTTP). A legacy
/// server sends errors with status 200.
fn is_refusal_of_era(era: Era, error: &RawValue) -> bool {
    let is_of_era = |code| matches!(code, PARSE_ERROR | INVALID_REQUEST | METHOD_NOT_FOUND | INVALID_PARAMS);
    era == Era::Modern && code_of(error).is_some_and(is_of_era)
}

/// Whether the error means that the session is unknown. Servers that follow the example of the TypeScript SDK answer
/// 400 with code -32000 where the specification requires 404.
fn says_session_unknown(error: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct ErrorMessage {
        code: i64,
        message: String,
    }
    serde_json::from_str::<ErrorMessage>(error.get())
        .is_ok_and(|e| e.code == REFUSED && e.message.to_ascii_lowercase().contains("session"))
}
