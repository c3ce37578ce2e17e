//! Handles one POST: reads the body, and answers the message in the era to which the message belongs.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::FutureExt;
use memchr::memmem;

use super::continued::run_or_park;
use super::elsewhere::{forward_to_parked, forward_to_task};
use super::envelope::ClientMessage;
use super::exchange::{RunningMessage, SessionOfPost, respond};
use super::forward_token::SentRequest;
use super::forwarded_identity::{MAX_IDENTITY, take_identity};
use super::legacy::OfPost;
use super::listener_context::{ListenerContext, PathEndpoint};
use super::parking::Parking;
use super::requester::Requester;
use super::response::{RpcResponse, refuse};
use super::{legacy, modern};
use crate::domain::boxed::boxed;
use crate::domain::budget::{Category, Reservation};
use crate::domain::version::Era;
use crate::engine::exchange::Exchange;
use crate::telemetry::trace_context::Cause;
use crate::transport::mcp_headers::mean_modern_era;
use crate::transport::{Accept, BodyError, is_encoded, is_json, read_body};

/// What the text of a message of the legacy era has whose call is to go on as a task.
const TASK_MEMBER: &[u8] = b"\"task\"";
/// How many copies of a message are held until it is answered: the received one, and the one for the upstream.
const COPIES: u64 = 2;

/// Reads a message of at most `limit` bytes and answers it.
pub(super) async fn post(
    gate: &Arc<ListenerContext>,
    endpoint: PathEndpoint,
    request: Request,
    limit: u64,
    requester: Requester,
) -> Response {
    let cause = Cause::of_headers(request.headers());
    let (post, exchange) = match receive(gate, endpoint, request, limit, requester).await {
        Ok(received) => received,
        Err(refusal) => return *refusal,
    };
    let (session, era) = (Arc::clone(&post.session), post.era);
    respond(gate, post.running(cause), exchange, &session, era).await
}

/// Reads a message of at most `limit` bytes. Returns it with the exchange in which it is answered, or the response that
/// refuses it.
async fn receive(
    gate: &Arc<ListenerContext>,
    endpoint: PathEndpoint,
    request: Request,
    limit: u64,
    mut requester: Requester,
) -> Result<(Post, Arc<Exchange>), Box<Response>> {
    let (head, body) = request.into_parts();
    let accept = check_media(&head.headers)?;
    let declared = head.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let budget = gate.engine.budget();
    let account = gate.engine.gate.sessions().accounts().of(requester.address);
    let reservation = budget.reservation_for(Category::Request, &account);
    let sent: Option<&SentRequest> = head.extensions.get();
    let limit = limit + sent.map_or(0, |sent| sent.identity_size.min(MAX_IDENTITY));
    let mut body = match read_body(body, declared, limit, &reservation, &gate.shutdown).await {
        Ok(body) if reservation.resize(COPIES * body.len() as u64).is_ok() => body,
        Ok(body) => return Err(Box::new(RpcResponse::no_room(request_id(&body)).into_response())),
        // The id is in the part that was not read.
        Err(BodyError::NoRoom(_)) => return Err(Box::new(RpcResponse::no_room("null").into_response())),
        Err(error) => return refused(error.status(), refusal(error)),
    };
    if sent.is_some_and(|sent| !take_sent(gate, sent, &mut body, &mut requester)) {
        return refused(StatusCode::FORBIDDEN, "this is not the body that a replica of this gateway forwarded");
    }
    let is_modern = mean_modern_era(&head.headers);
    if let Some(response) = forward(gate, &endpoint, &head.headers, &requester, &body).await {
        return Err(Box::new(response));
    }
    let exchange = Arc::new(Exchange::new(budget, &account, accept.events));
    let era = if is_modern { Era::Modern } else { Era::Legacy };
    let may_go_on = is_modern || memmem::find(&body, TASK_MEMBER).is_some();
    let post = Post {
        gate: Arc::clone(gate),
        endpoint,
        headers: head.headers,
        requester,
        body,
        exchange: Arc::clone(&exchange),
        session: Arc::default(),
        parking: may_go_on.then(|| Arc::new(Parking::new(budget, &account))),
        era,
        _reservation: reservation,
    };
    Ok((post, exchange))
}

/// Forwards a message to the replica that has the call or the task which it is about; `None` if none has it.
async fn forward(
    gate: &Arc<ListenerContext>,
    endpoint: &PathEndpoint,
    headers: &HeaderMap,
    requester: &Requester,
    body: &Bytes,
) -> Option<Response> {
    if mean_modern_era(headers)
        && let Some(response) = forward_to_parked(gate, endpoint, headers, requester, body).await
    {
        return Some(response);
    }
    forward_to_task(gate, endpoint, headers, requester, body).await
}

/// Checks that this is the body which another replica sent, and takes the identity of the client off its end, if it has one.
fn take_sent(gate: &ListenerContext, sent: &SentRequest, body: &mut Bytes, requester: &mut Requester) -> bool {
    if !sent.has_body(body) {
        return false;
    }
    if sent.identity_size == 0 {
        return true;
    }
    let (snapshot, seals) = (gate.engine.in_force.snapshot(), gate.engine.gate.sessions().seals());
    let whole = take_identity(seals, &snapshot.plan().gateway.key, body, sent.identity_size);
    let Some(whole) = whole.filter(|whole| whole.key() == requester.identity.key()) else { return false };
    requester.identity = Arc::new(whole);
    true
}

/// Returns the raw id of a request; `null` for other messages.
fn request_id(message: &[u8]) -> &str {
    if let Ok(ClientMessage::Request { id, .. }) = ClientMessage::parse(message) { id } else { "null" }
}

/// Checks the encoding and the media types that a request names, and returns those that its client accepts.
fn check_media(headers: &HeaderMap) -> Result<Accept, Box<Response>> {
    const TYPES: &str = "Accept must name application/json, and text/event-stream for progress";
    if is_encoded(headers) {
        return Err(Box::new(encoded()));
    }
    if !is_json(headers) {
        return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json");
    }
    let accept = Accept::read(headers);
    if accept.json { Ok(accept) } else { refused(StatusCode::NOT_ACCEPTABLE, TYPES) }
}

/// Returns the response to a body that is encoded (RFC 9110, 15.5.16).
fn encoded() -> Response {
    let message = "the body is encoded (Content-Encoding), which is not spoken here: send it as plain JSON";
    let mut response = refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, message);
    response.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    response
}

fn refused<T>(status: StatusCode, message: impl Into<String>) -> Result<T, Box<Response>> {
    Err(Box::new(refuse(status, message)))
}

/// One POST whose body was read completely.
struct Post {
    gate: Arc<ListenerContext>,
    endpoint: PathEndpoint,
    headers: HeaderMap,
    requester: Requester,
    body: Bytes,
    exchange: Arc<Exchange>,
    session: Arc<SessionOfPost>,
    /// `None` in the legacy era, unless the client may want the call to go on as a task.
    parking: Option<Arc<Parking>>,
    /// The era that the headers indicate.
    era: Era,
    /// The memory reserved for the body.
    _reservation: Reservation,
}

impl Post {
    /// Returns the future that handles the message. Only clients of the modern era cancel it by disconnecting.
    fn running(self, cause: Cause) -> RunningMessage {
        let (gate, parking, era) = (Arc::clone(&self.gate), self.parking.clone(), self.era);
        // In a box at once, because the future is large, and each move would copy it.
        let answering = boxed(|| self.answer());
        let outlives = era == Era::Legacy;
        let running = RunningMessage::new(cause.around(answering), outlives && parking.is_none());
        match parking {
            Some(parking) => RunningMessage::new(run_or_park(gate, running, parking), outlives),
            None => running,
        }
    }

    async fn answer(self) -> RpcResponse {
        let id = OnceLock::new();
        let answer = AssertUnwindSafe(self.answer_in_era(&id)).catch_unwind().await;
        // The engine ends and records calls that panic. This catches all other panics, because a client must not wait
        // for an answer that never comes.
        let answer = answer.unwrap_or_else(|_| RpcResponse::panicked(id.get().copied(), self.era));
        answer.held_in(self.exchange.reservation(), id.get().copied(), self.era)
    }

    /// Answers the message. If it is a request, sets `id` to its id as soon as that is known.
    async fn answer_in_era<'a>(&'a self, id: &OnceLock<&'a str>) -> RpcResponse {
        let Self { gate, endpoint, headers, requester, body, exchange, session, parking, .. } = self;
        let incoming = match ClientMessage::parse(body) {
            Ok(incoming) => incoming,
            Err(unreadable) => return RpcResponse::error(StatusCode::BAD_REQUEST, unreadable.id, &unreadable.error),
        };
        if let ClientMessage::Request { id: read, .. } = &incoming {
            id.get_or_init(|| read);
        }
        if modern::is_of(headers, &incoming) {
            modern::answer(gate, endpoint, headers, requester, incoming, exchange, parking.as_deref()).await
        } else {
            let of_post = OfPost { exchange, session, parking: parking.as_deref() };
            legacy::answer(gate, endpoint, headers, requester, incoming, of_post).await
        }
    }
}

fn refusal(error: BodyError) -> String {
    match error {
        BodyError::TooLarge(_) => format!("{error} (limits.maxRequestSize)"),
        _ => error.to_string(),
    }
}
