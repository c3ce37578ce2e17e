//! Interprets the HTTP response to a request: its answer, the end of the session, or an error.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper::body::Incoming as Body;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::connection::{Connection, SESSION_ID, SMALL};
use super::response_body::{Messages, whole};
use crate::domain::invalid_message;
use crate::domain::ports::ToClient;
use crate::domain::requester::Requester;
use crate::domain::rpc::{INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, REFUSED};
use crate::domain::upstream::{Answer, UpstreamError, UpstreamEvent};
use crate::domain::version::Era;
use crate::transport::shared_flow::FlowReader;
use crate::upstream::call_questions::CallQuestions;
use crate::upstream::questions::{SHARED, ServerQuestion};
use crate::upstream::server_message::{self, Notice, ServerMessage};

/// How often a stream is continued, in a row, without a message.
const MOST_CUTS: u32 = 5;
/// How often the stream of one call is continued in all.
const MOST_CONTINUED: u32 = 4096;
/// The shortest and the longest time before a stream is continued.
const SHORTEST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(10);

/// The outcome of a request over HTTP.
#[derive(Debug)]
pub(super) enum HttpReply {
    Answer(Answer),
    /// A JSON-RPC error with a client error status (4xx), which shows that nothing was executed (MCP, Streamable HTTP).
    Refused(Box<RawValue>),
    /// The response was that of the server, and holds no answer, or none that can be used.
    Unusable(UpstreamError),
    /// The server no longer knows the session. Nothing was executed.
    SessionEnded,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Media {
    Json,
    Events,
    Other,
}

fn media(headers: &HeaderMap) -> Media {
    let value = headers.get(CONTENT_TYPE).map_or(&b""[..], |v| v.as_bytes());
    let kind = value.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    if kind.eq_ignore_ascii_case(b"application/json") {
        Media::Json
    } else if kind.eq_ignore_ascii_case(b"text/event-stream") {
        Media::Events
    } else {
        Media::Other
    }
}

/// Whether a response is a stream of events.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    media(headers) == Media::Events
}

/// Returns the content coding of a response, or `None` if its body is not encoded.
pub(super) fn encoding(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_ENCODING)?.as_bytes().trim_ascii();
    let named = !value.is_empty() && !value.eq_ignore_ascii_case(b"identity");
    named.then(|| String::from_utf8_lossy(value).chars().filter(|c| c.is_ascii_graphic()).take(20).collect())
}

/// Reads the response to the request `id` of a client. Passes the request's progress and log messages on to `to`, and
/// questions of the server to `asked`.
pub(super) async fn read<'a>(
    connection: &'a Arc<Connection>,
    response: Response<Body>,
    id: u64,
    client: Option<&Requester>,
    to: Option<&'a dyn ToClient>,
    asked: &mut CallQuestions<'a>,
) -> Result<HttpReply, UpstreamError> {
    let (status, headers) = (response.status(), response.headers());
    if status.is_success() && is_event_stream(headers) && encoding(headers).is_none() {
        let endpoint = &connection.endpoint;
        let messages = endpoint.events(response.into_body(), endpoint.flow(client));
        return read_events(connection, messages, id, to, asked).await;
    }
    match read_whole(connection, response, id, to, asked).await {
        Err(error) if is_of_server(status, &error) => Ok(HttpReply::Unusable(error)),
        read => read,
    }
}

/// Whether a response that failed with this error shows that the server has answered. A proxy may have given up a request
/// that the server still works on, and what is merely accepted has not been done.
fn is_of_server(status: StatusCode, error: &UpstreamError) -> bool {
    let goes_on = matches!(status, StatusCode::ACCEPTED | StatusCode::REQUEST_TIMEOUT)
        || status.as_u16() > StatusCode::NOT_IMPLEMENTED.as_u16();
    !goes_on && !matches!(error, UpstreamError::Lost(_) | UpstreamError::Unauthorized(_))
}

/// Reads a response that is no stream of events.
async fn read_whole<'a>(
    connection: &'a Arc<Connection>,
    response: Response<Body>,
    id: u64,
    to: Option<&'a dyn ToClient>,
    asked: &mut CallQuestions<'a>,
) -> Result<HttpReply, UpstreamError> {
    let (status, mut media) = (response.status(), media(response.headers()));
    if let Some(encoding) = encoding(response.headers()) {
        if status.is_success() {
            return Err(UpstreamError::Encoded(encoding));
        }
        media = Media::Other;
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

/// Checks that an answer is for the request `id`. `answered` is the id in the answer; an error may have none.
fn own(answered: Option<&RawValue>, id: u64, answer: Answer) -> Result<HttpReply, UpstreamError> {
    let is_own = match answered {
        Some(answered) => answered.get().parse() == Ok(id),
        None => matches!(answer, Answer::Error(_)),
    };
    if is_own {
        Ok(HttpReply::Answer(answer))
    } else {
        Err(UpstreamError::Protocol("its answer is to another request".into()))
    }
}

async fn read_events<'a>(
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
    let mut next = resume(connection, last, cut.flow()).await.ok()??;
    next.come_from(cut);
    Some(next)
}

/// Continues the stream of a call that ended before its answer, after the event with the id `last` (MCP 2025-11-25,
/// resumability). Returns `None` if the server does not continue it.
async fn resume(connection: &Connection, last: &str, flow: &FlowReader) -> Result<Option<Messages>, UpstreamError> {
    let Ok(last) = HeaderValue::from_str(last) else { return Ok(None) };
    let response = connection.get(Some(last)).await?;
    if response.status() != StatusCode::OK || encoding(response.headers()).is_some() {
        return Ok(None);
    }
    Ok(Some(connection.endpoint.events(response.into_body(), flow.clone())))
}

/// Handles text that a server sends in response to the request `id`. Returns `None` if it does not contain the answer.
fn take<'a>(
    connection: &'a Arc<Connection>,
    text: &[u8],
    id: u64,
    to: Option<&dyn ToClient>,
    asked: &mut CallQuestions<'a>,
) -> Result<Option<HttpReply>, UpstreamError> {
    let mut reply = None;
    for message in invalid_message::messages(text, connection.has_batches()) {
        match server_message::read(message)? {
            ServerMessage::Answer { .. } if reply.is_some() => {
                return Err(UpstreamError::Protocol("a batch answers the request twice".into()));
            }
            ServerMessage::Answer { id: answered, answer } => reply = Some(own(answered, id, answer)?),
            ServerMessage::Notification { notice: Notice::Progress, params } => {
                if let (Some(to), Some((token, params))) = (to, server_message::progress(params.as_deref()))
                    && token == id
                {
                    to.progress(params);
                }
            }
            // The stream of a request carries only messages about that request (MCP, Streamable HTTP), so log messages
            // are for its caller.
            ServerMessage::Notification { notice: Notice::Message, params } => {
                if let (Some(to), Some(params)) = (to, params) {
                    to.message(params.into_owned());
                }
            }
            ServerMessage::Request { id, method, params } => asked.ask(connection, id, &method, params.as_deref()),
            ServerMessage::Notification { notice: Notice::Cancelled, params } => {
                server_message::cancelled(params.as_deref()).into_iter().for_each(|id| asked.withdraw(&id));
            }
            other => handle(connection, other),
        }
    }
    Ok(reply)
}

/// Handles a message that is not for the caller of a request: a request of the server, a change of its tools, or an
/// answer that no caller waits for.
pub(super) fn handle(connection: &Arc<Connection>, message: ServerMessage<'_>) {
    let key = &connection.endpoint.target.plan.key;
    match message {
        ServerMessage::Request { id, method, params } => {
            let put =
                ServerQuestion::read(id, &method, params.as_deref()).and_then(|asked| match &connection.askable {
                    Some(calls) => calls.put(asked),
                    None => Err(asked.refused(SHARED)),
                });
            if let Err(answer) = put {
                connection.notify_later(answer);
            }
        }
        ServerMessage::Notification { notice: Notice::ListChanged(kind), .. } => {
            connection.endpoint.shared.events.push(UpstreamEvent::ListChanged(key.clone(), kind));
        }
        ServerMessage::Notification { notice: Notice::Message, params: Some(params) } => {
            connection.endpoint.shared.logged(key, &connection.under_way, &connection.audience, &params);
        }
        ServerMessage::Notification { notice: Notice::Updated, params } => {
            connection.endpoint.shared.updated(key, params.as_deref());
        }
        ServerMessage::Notification { notice: Notice::Cancelled, params } => {
            if let (Some(calls), Some(id)) = (&connection.askable, server_message::cancelled(params.as_deref())) {
                calls.withdraw(&id);
            }
        }
        ServerMessage::Notification { .. } => {}
        ServerMessage::Answer { .. } => tracing::debug!(upstream = %key, "an answer that nobody waits for was dropped"),
    }
}

/// Handles a response whose status is not a success. Most JSON-RPC errors in such a response are the answer to the
/// request, but some mean that the session has ended.
async fn refusal(
    connection: &Arc<Connection>,
    status: StatusCode,
    media: Media,
    body: Body,
    id: u64,
) -> Result<HttpReply, UpstreamError> {
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Err(UpstreamError::Unauthorized(format!("HTTP {}", status.as_u16())));
    }
    if status == StatusCode::LOOP_DETECTED {
        return Err(UpstreamError::Protocol("HTTP 508: its URL leads back to this gateway".into()));
    }
    let in_session = connection.era == Era::Legacy && connection.headers.contains_key(SESSION_ID);
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
    #[derive(Deserialize)]
    struct Coded {
        code: i64,
    }
    let code = serde_json::from_str::<Coded>(error.get()).map(|error| error.code);
    era == Era::Modern && matches!(code, Ok(PARSE_ERROR | INVALID_REQUEST | METHOD_NOT_FOUND | INVALID_PARAMS))
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
