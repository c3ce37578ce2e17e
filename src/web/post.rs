//! Handles one POST: reads the body, and answers the message in the era to which the message belongs.

use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::http::{Extensions, HeaderMap, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::FutureExt;

use super::continued::{forward_to_parked, run_or_park};
use super::envelope::ClientMessage;
use super::exchange::{RunningMessage, SessionOfPost, respond};
use super::forward_token::Token;
use super::gate::{Gate, PathEndpoint};
use super::parked::Parking;
use super::response::{RpcResponse, refuse};
use super::{legacy, modern};
use crate::domain::budget::{Category, Reservation};
use crate::domain::version::Era;
use crate::engine::exchange::Exchange;
use crate::telemetry::trace_context::Cause;
use crate::transport::mcp_headers::mean_modern_era;
use crate::transport::{Accept, BodyError, Peer, is_json, read_body};

/// How many copies of a message are held until it is answered: the received one, and the one for the upstream.
const COPIES: u64 = 2;

/// Reads a message of at most `limit` bytes and answers it.
pub(super) async fn post(gate: &Arc<Gate>, endpoint: PathEndpoint, request: Request, limit: u64) -> Response {
    let (head, body) = request.into_parts();
    let accept = match check_media(&head.headers) {
        Ok(accept) => accept,
        Err((status, why)) => return refuse(status, why),
    };
    let declared = head.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let budget = gate.engine.budget();
    let peer = address_of(&head.extensions);
    let account = gate.engine.sessions().accounts().of(peer);
    let reservation = budget.reservation_for(Category::Request, &account);
    let body = match read_body(body, declared, limit, &reservation).await {
        Ok(body) if reservation.resize(COPIES * body.len() as u64).is_ok() => body,
        Ok(_) | Err(BodyError::NoRoom(_)) => return RpcResponse::no_room("null").into_response(),
        Err(error) => return refuse(error.status(), refusal(error)),
    };
    if head.extensions.get().is_some_and(|token: &Token| !token.is_for(&body)) {
        return refuse(StatusCode::FORBIDDEN, "this is not the body that a replica of this gateway forwarded");
    }
    if let Some(response) = forward_to_parked(gate, &endpoint, &head.headers, peer, &body).await {
        return response;
    }
    let exchange = Arc::new(Exchange::new(budget, &account, accept.events));
    let session = Arc::<SessionOfPost>::default();
    let era = if mean_modern_era(&head.headers) { Era::Modern } else { Era::Legacy };
    let cause = Cause::of_headers(&head.headers);
    let post = Post {
        gate: Arc::clone(gate),
        endpoint,
        headers: head.headers,
        peer,
        body,
        exchange: Arc::clone(&exchange),
        session: Arc::clone(&session),
        parking: (era == Era::Modern).then(|| Arc::new(Parking::new(budget, &account))),
        era,
        _reservation: reservation,
    };
    respond(gate, post.running(cause), exchange, &session, era).await
}

/// Checks the media types that a request names, and returns those that its client accepts.
fn check_media(headers: &HeaderMap) -> Result<Accept, (StatusCode, &'static str)> {
    const TYPES: &str = "Accept must name application/json, and text/event-stream for progress";
    if !is_json(headers) {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json"));
    }
    let accept = Accept::read(headers);
    if accept.json { Ok(accept) } else { Err((StatusCode::NOT_ACCEPTABLE, TYPES)) }
}

/// Returns the address of the client that sent a request with these extensions.
pub(super) fn address_of(extensions: &Extensions) -> IpAddr {
    extensions.get().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer: &Peer| peer.remote.ip())
}

/// One POST whose body was read completely.
struct Post {
    gate: Arc<Gate>,
    endpoint: PathEndpoint,
    headers: HeaderMap,
    peer: IpAddr,
    body: Bytes,
    exchange: Arc<Exchange>,
    session: Arc<SessionOfPost>,
    /// `None` in the legacy era.
    parking: Option<Arc<Parking>>,
    /// The era that the headers indicate.
    era: Era,
    /// The memory reserved for the body.
    _reservation: Reservation,
}

impl Post {
    /// Returns the future that handles the message.
    fn running(self, cause: Cause) -> RunningMessage {
        let (gate, parking, era) = (Arc::clone(&self.gate), self.parking.clone(), self.era);
        let running = RunningMessage::new(cause.around(self.answer()), era == Era::Legacy);
        match parking {
            Some(parking) => RunningMessage::new(run_or_park(gate, running, parking), false),
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
        let Self { gate, endpoint, headers, peer, body, exchange, session, parking, .. } = self;
        let incoming = match ClientMessage::parse(body) {
            Ok(incoming) => incoming,
            Err(unreadable) => return RpcResponse::error(StatusCode::BAD_REQUEST, unreadable.id, &unreadable.error),
        };
        if let ClientMessage::Request { id: read, .. } = &incoming {
            id.get_or_init(|| read);
        }
        if modern::is_of(headers, &incoming) {
            modern::answer(gate, endpoint, headers, *peer, incoming, exchange, parking.as_deref()).await
        } else {
            legacy::answer(gate, endpoint, headers, *peer, incoming, exchange, session).await
        }
    }
}

fn refusal(error: BodyError) -> String {
    match error {
        BodyError::TooLarge(_) => format!("{error} (limits.maxRequestSize)"),
        _ => error.to_string(),
    }
}
