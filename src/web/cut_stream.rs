//! Continues the stream of a call over another connection, after the event that `Last-Event-ID` names (MCP 2025-11-25,
//! resumability). If another replica has the call, the request goes there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use super::exchange::{CallStream, ResumedStream};
use super::forward::Forwarding;
use super::forward_token::is_forwarded;
use super::listener_context::ListenerContext;
use super::response::{empty, refuse};
use crate::domain::reason::Reason;
use crate::engine::access::sealed_id::{IdPurpose, NotOpened};
use crate::engine::access::session::Session;
use crate::engine::exchange::Exchange;

/// The maximum number of continued streams of one session at a time.
const CONTINUED_PER_SESSION: u32 = 32;
/// How long a replica may take to begin a stream.
const HEAD: Duration = Duration::from_secs(5);

/// The stream of a call that its client comes back to.
struct CutStream {
    exchange: Arc<Exchange>,
    /// What the ids of its events begin with.
    id: String,
    after: u64,
}

/// Why a stream is not continued here.
enum NotContinued {
    /// Nobody sealed the id for this session.
    Foreign,
    /// What comes next is not kept.
    Gone,
    /// The client has the answer, and nothing comes next.
    Complete,
    /// This replica has the stream.
    At(SocketAddr),
}

/// Continues the stream of a call after the event with the id `last`. `forwarding` is the client's request, which has these
/// headers.
pub(super) async fn continue_stream(
    gate: &ListenerContext,
    session: &Arc<Session>,
    last: &str,
    headers: &HeaderMap,
    forwarding: Forwarding<'_>,
) -> Response {
    const GONE: &str = "the events after Last-Event-ID are not kept any more";
    match CutStream::find(gate, session, last) {
        Ok(cut) => {
            let busy = || refuse(StatusCode::TOO_MANY_REQUESTS, "as many streams are continued as may be");
            cut.resume(gate, session).unwrap_or_else(busy)
        }
        Err(NotContinued::Complete) => empty(StatusCode::NO_CONTENT),
        Err(NotContinued::At(_)) if is_forwarded(headers) => refuse(StatusCode::BAD_REQUEST, GONE),
        Err(NotContinued::At(replica)) => {
            let forwarded = gate.forward(replica, forwarding, HEAD).await;
            forwarded
                .unwrap_or_else(|why| refuse(StatusCode::BAD_GATEWAY, format!("the stream cannot be continued: {why}")))
        }
        Err(NotContinued::Gone) => refuse(StatusCode::BAD_REQUEST, GONE),
        Err(NotContinued::Foreign) => {
            refuse(StatusCode::BAD_REQUEST, "Last-Event-ID is not the id of an event of a stream of this session")
        }
    }
}

impl CutStream {
    /// Finds the stream whose last event that arrived has the id `last`. Only events of calls have ids.
    fn find(gate: &ListenerContext, session: &Session, last: &str) -> Result<Self, NotContinued> {
        let (id, after) = last.split_once('.').ok_or(NotContinued::Foreign)?;
        let after = after.parse().map_err(|_| NotContinued::Foreign)?;
        let sealed = gate.open_id(IdPurpose::Stream, &session.id, id).map_err(|why| match why {
            NotOpened::Foreign => NotContinued::Foreign,
            NotOpened::Expired => NotContinued::Gone,
        })?;
        let Some(exchange) = gate.engine.gate.sessions().exchanges().find(&session.id, sealed.handle) else {
            return Err(gate.elsewhere(sealed.replica).map_or(NotContinued::Gone, NotContinued::At));
        };
        if exchange.is_complete_after(after) {
            return Err(NotContinued::Complete);
        }
        Ok(Self { exchange, id: id.to_owned(), after })
    }

    /// Continues the stream over another connection. The stream over the one before ends. `None`, which is counted, if the
    /// session continues too many streams.
    fn resume(self, gate: &ListenerContext, session: &Arc<Session>) -> Option<Response> {
        if session.continued.enter(Some(CONTINUED_PER_SESSION), None).is_err() {
            gate.engine.metrics().refused(Reason::ContinuedStreams);
            return None;
        }
        let counted = ResumedStream(Arc::clone(session));
        Some(CallStream::continued(&gate.engine, self.exchange, self.id, self.after, counted).into_response())
    }
}
