//! The legacy era, that is, the versions with `initialize` (MCP 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25): sessions,
//! and a stream for notifications that belong to no call. A disconnect does not cancel a call; `notifications/cancelled`
//! does.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::client::{ANONYMOUS, Client};
use super::cut_stream::continue_stream;
use super::dispatch::{ClientRequest, unknown_method};
use super::envelope::{ClientMessage, Params, object, text};
use super::exchange::{OpenStream, SessionOfPost};
use super::forward::{Forwarding, OfSession};
use super::forward_token::is_forwarded;
use super::gate::{Gate, PathEndpoint};
use super::listen::{RESOURCE_UPDATED, list_changed};
use super::message_sender::MessageSender;
use super::offer;
use super::response::{RpcResponse, empty, refuse};
use super::session_replicas::{Deleted, UsedSession};
use super::stream_place::StreamPlace;
use crate::domain::budget::Reservation;
use crate::domain::capabilities::ClientCapabilities;
use crate::domain::extensions::TASKS;
use crate::domain::item::ItemKind;
use crate::domain::method::Method as McpMethod;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::rpc::{INVALID_PARAMS, INVALID_REQUEST, REFUSED, RpcError, request};
use crate::domain::version::{Era, LEGACY_VERSIONS, is_to_come};
use crate::engine::access::session::Session;
use crate::engine::access::session_id::{SessionFacts, SessionScope};
use crate::engine::exchange::Exchange;
use crate::engine::{ListChanges, Notice, Reply, Snapshot};
use crate::transport::Accept;
use crate::transport::mcp_headers::{LAST_EVENT_ID, Presence, SESSION_HEADER, VERSION_HEADER, check_routing};
use crate::transport::sse::{KEEP_ALIVE, KEEP_ALIVE_EVERY, event, event_stream};

/// The maximum number of open GET streams of one session. Two are allowed, because the gateway may not yet have noticed
/// that the client has lost the first one.
const STREAMS_PER_SESSION: u32 = 2;
/// The maximum number of characters that are kept of a client's name and version together.
const MAX_CLIENT: usize = 128;
/// The error for a message outside of a session. Over HTTP+SSE, the stream is the session.
const NOT_BEGUN: &str =
    "no session has begun: begin with initialize, and over Streamable HTTP send the Mcp-Session-Id of its response";
/// The error for a session that is not known.
const NO_SESSION: &str = "Session not found: it ended, or was begun elsewhere; initialize again";

pub(super) async fn answer(
    gate: &Arc<Gate>,
    endpoint: &PathEndpoint,
    headers: &HeaderMap,
    peer: IpAddr,
    incoming: ClientMessage<'_>,
    exchange: &Exchange,
    of_post: &SessionOfPost,
) -> RpcResponse {
    if let Err((id, error)) = check_headers(headers, &incoming) {
        return RpcResponse::error(StatusCode::BAD_REQUEST, id, &error);
    }
    let id = match &incoming {
        ClientMessage::Request { id, method, params } if McpMethod::parse(method) == Some(McpMethod::Initialize) => {
            return initialize(gate, endpoint, id, params).await;
        }
        ClientMessage::Request { id, method, .. } if is_unknown_outside(headers, method) => {
            return RpcResponse::error(StatusCode::BAD_REQUEST, id, &unknown_method(method));
        }
        ClientMessage::Request { id, .. } => id,
        _ => "null",
    };
    let session = match find_session(gate, endpoint, headers, peer).await {
        Ok(session) => session,
        Err((status, message)) => return RpcResponse::error(status, id, &RpcError::new(INVALID_REQUEST, message)),
    };
    if matches!(incoming, ClientMessage::Request { .. }) {
        of_post.get_or_init(|| Arc::clone(&session));
    }
    let reservation = exchange.reservation();
    InSession { gate, endpoint, headers, peer, session: &session, exchange, reservation }.handle(incoming).await
}

/// What messages of a session are handled with.
#[derive(Clone, Copy)]
pub(super) struct InSession<'a> {
    pub(super) gate: &'a Arc<Gate>,
    pub(super) endpoint: &'a PathEndpoint,
    /// The headers of the request that the messages came in.
    pub(super) headers: &'a HeaderMap,
    /// The address of the client.
    pub(super) peer: IpAddr,
    pub(super) session: &'a Arc<Session>,
    pub(super) exchange: &'a Exchange,
    /// The memory of the answer.
    pub(super) reservation: &'a Arc<Reservation>,
}

impl InSession<'_> {
    /// Handles a message that is not `initialize`.
    pub(super) async fn handle(&self, incoming: ClientMessage<'_>) -> RpcResponse {
        let Self { gate, endpoint, headers, peer, session, exchange, reservation } = *self;
        let used = UsedSession::new(gate, endpoint, headers, session, peer);
        match incoming {
            ClientMessage::Answer { id, answer } => {
                MessageSender { used }.answered(id, answer).await;
                RpcResponse::accepted()
            }
            ClientMessage::Notification { method, params } => {
                taken(MessageSender { used }.notified(&method, &params).await)
            }
            ClientMessage::Request { id, method, params } => {
                let (client, method, params) = (Client::Legacy(session), &*method, &params);
                let request = ClientRequest { gate, endpoint, client, id, method, params, exchange, reservation };
                let reply = tokio::select! {
                    reply = request.reply() => reply,
                    never = used.keep_home_told() => match never {},
                };
                RpcResponse::reply(id, &reply, Era::Legacy)
            }
        }
    }
}

/// Returns the response to a notification, which only another replica sends in a session that has been ended.
fn taken(taken: Result<(), Deleted>) -> RpcResponse {
    match taken {
        Ok(()) => RpcResponse::accepted(),
        Err(Deleted) => RpcResponse::error(StatusCode::GONE, "null", &RpcError::new(INVALID_REQUEST, NO_SESSION)),
    }
}

/// Whether a request outside of a session has a method that this era does not have. Clients that ask with
/// `server/discover` first, and without the envelope of the modern era, continue with `initialize` after this error only.
fn is_unknown_outside(headers: &HeaderMap, method: &str) -> bool {
    let is_known = McpMethod::parse(method).is_some_and(|method| method.is_of(Era::Legacy));
    !is_known && !headers.contains_key(&SESSION_HEADER)
}

/// In this era, headers that repeat the body are optional. Those that are present must match it, because intermediaries
/// may route by them.
pub(super) fn check_headers<'a>(headers: &HeaderMap, incoming: &ClientMessage<'a>) -> Result<(), (&'a str, RpcError)> {
    let (id, method, params) = match incoming {
        ClientMessage::Request { id, method, params } => (*id, method, params),
        ClientMessage::Notification { method, params } => ("null", method, params),
        ClientMessage::Answer { .. } => return Ok(()),
    };
    check_routing(headers, method, |param| params.text_of(param), Presence::Optional).map_err(|error| (id, error))
}

/// `initialize`: begins a session. Its version is the requested one if that is supported, otherwise the newest.
async fn initialize(gate: &Gate, endpoint: &PathEndpoint, id: &str, params: &Params<'_>) -> RpcResponse {
    let Some(asked) = params.protocol_version.and_then(text) else {
        let error = RpcError::new(INVALID_PARAMS, "`protocolVersion` must be a string");
        return RpcResponse::reply(id, &Reply::Error(error), Era::Legacy);
    };
    if let Err(fault) = ClientCapabilities::check(params.capabilities, "capabilities") {
        return RpcResponse::reply(id, &Reply::Error(RpcError::new(INVALID_PARAMS, fault)), Era::Legacy);
    }
    if let Err(error) = gate.engine.admit_session() {
        return RpcResponse::error(StatusCode::SERVICE_UNAVAILABLE, id, &error);
    }
    let version = LEGACY_VERSIONS.into_iter().find(|version| *version == asked).unwrap_or(LEGACY_VERSIONS[0]);
    let said = gate.engine.announcement(endpoint.as_engine()).await;
    let (snapshot, now) = (gate.engine.snapshot(), gate.engine.now());
    let scope = scope(&snapshot, endpoint);
    let facts = SessionFacts {
        version: version.to_owned(),
        client: client_of(params),
        capabilities: ClientCapabilities::read(params.capabilities).without_extension(TASKS),
        created_at: now,
        replica: gate.listener.advertised,
    };
    let Some(session) = gate.engine.sessions().open(facts, scope) else {
        let data = json!({"reason": "Sessions", "retryAfterMs": 1000});
        let error = RpcError::new(REFUSED, "there are as many sessions as this gateway takes").with_data(data);
        return RpcResponse::error(StatusCode::SERVICE_UNAVAILABLE, id, &error);
    };
    gate.engine.metrics().sessions(gate.engine.sessions().count());
    let mut result = RawObject::default();
    result.set("protocolVersion", to_raw(&version));
    result.set("capabilities", offer::capabilities(Era::Legacy, &said));
    result.set("serverInfo", offer::server_info(&said));
    if let Some(instructions) = &said.instructions {
        result.set("instructions", to_raw(&instructions.as_ref()));
    }
    RpcResponse::reply(id, &Reply::Result(result.to_raw()), Era::Legacy).with_session(session.id.clone())
}

/// Returns the name and version that the client reports about itself, for display.
fn client_of(params: &Params<'_>) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Info {
        name: String,
        version: String,
    }
    let info = params.client_info.and_then(object).and_then(|info| serde_json::from_str(info).ok());
    let Info { name, version } = info.unwrap_or_default();
    format!("{name} {version}").trim().chars().filter(|c| !c.is_control()).take(MAX_CLIENT).collect()
}

/// Finds the session that a request names. The request must arrive at the endpoint at which the session was opened.
pub(super) async fn find_session(
    gate: &Arc<Gate>,
    endpoint: &PathEndpoint,
    headers: &HeaderMap,
    client: IpAddr,
) -> Result<Arc<Session>, (StatusCode, String)> {
    // A session has the version that `initialize` agreed on, whichever newer one its client also knows.
    let serves = |version: &str| LEGACY_VERSIONS.contains(&version) || is_to_come(version);
    if let Some(version) = headers.get(&VERSION_HEADER)
        && !version.to_str().is_ok_and(serves)
    {
        let message = format!("Unsupported protocol version; {} are spoken in sessions", LEGACY_VERSIONS.join(", "));
        return Err((StatusCode::BAD_REQUEST, message));
    }
    let Some(id) = headers.get(&SESSION_HEADER).and_then(|id| id.to_str().ok()) else {
        return Err((StatusCode::BAD_REQUEST, NOT_BEGUN.to_owned()));
    };
    let sessions = gate.engine.sessions();
    let session = sessions.find(id, scope(&gate.engine.snapshot(), endpoint), gate.engine.now());
    let Some(session) = session else {
        let status =
            if is_forwarded(headers) && sessions.was_deleted(id) { StatusCode::GONE } else { StatusCode::NOT_FOUND };
        return Err((status, NO_SESSION.to_owned()));
    };
    let told = UsedSession::new(gate, endpoint, headers, &session, client).tell_home().await;
    told.map_err(|Deleted| (StatusCode::NOT_FOUND, NO_SESSION.to_owned()))?;
    Ok(session)
}

/// Returns the scope of a request's session: the gateway, the principal and the endpoint.
pub(super) fn scope<'a>(snapshot: &'a Snapshot, endpoint: &'a PathEndpoint) -> SessionScope<'a> {
    SessionScope { gateway: &snapshot.plan().gateway.key, principal: ANONYMOUS, upstream: endpoint.upstream() }
}

/// DELETE: ends a session, here and at the other replicas that use it, even if the client does not wait for the answer.
pub(super) async fn end_session(
    gate: &Arc<Gate>,
    endpoint: &PathEndpoint,
    headers: &HeaderMap,
    client: IpAddr,
) -> Response {
    let (own, endpoint, headers) = (Arc::clone(gate), endpoint.clone(), headers.clone());
    let ending = gate.engine.run_detached(async move {
        let session = find_session(&own, &endpoint, &headers, client).await?;
        own.engine.end_session(&session.id);
        UsedSession::new(&own, &endpoint, &headers, &session, client).pass_to_others(&OfSession::End).await;
        Ok(())
    });
    match ending.await {
        Ok(Some(Ok(()))) => empty(StatusCode::NO_CONTENT),
        Ok(Some(Err((status, message)))) => refuse(status, message),
        Ok(None) => refuse(StatusCode::SERVICE_UNAVAILABLE, "this gateway is about to end"),
        Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR, "the gateway failed while it ended the session"),
    }
}

/// GET: continues the stream of a call after the event that `Last-Event-ID` names, or opens a stream of notifications,
/// whose events have no ids.
pub(super) async fn open_stream(
    gate: &Arc<Gate>,
    endpoint: &PathEndpoint,
    headers: &HeaderMap,
    client: IpAddr,
) -> Response {
    if !Accept::read(headers).events {
        return refuse(StatusCode::NOT_ACCEPTABLE, "Accept must name text/event-stream");
    }
    let session = match find_session(gate, endpoint, headers, client).await {
        Ok(session) => session,
        Err((status, message)) => return refuse(status, message),
    };
    if let Some(last) = headers.get(&LAST_EVENT_ID) {
        let forwarding = Forwarding::request(Method::GET, endpoint, headers, Bytes::new(), client);
        return continue_stream(gate, &session, last.to_str().unwrap_or_default(), headers, forwarding).await;
    }
    if let Err(error) = gate.engine.admit_stream() {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, error.message);
    }
    let told = StreamPlace::take(gate, client).and_then(|place| ListenStream::open(place, &session));
    let Some(told) = told else {
        let most = gate.max_streams();
        let message = format!(
            "as many streams are open as may be: {STREAMS_PER_SESSION} a session, {most} in all (limits.maxStreams), of which one address has a part"
        );
        return refuse(StatusCode::TOO_MANY_REQUESTS, message);
    };
    let used = UsedSession::new(gate, endpoint, headers, &session, client).kept();
    let home_told = AbortOnDropHandle::new(tokio::spawn(async move { used.as_used().keep_home_told().await }));
    let events = stream::unfold((told, home_told), |(mut told, home_told)| async move {
        let event = told.next().await?;
        Some((Ok::<_, Infallible>(event), (told, home_told)))
    });
    event_stream(Body::from_stream(events))
}

/// Returns the notification for a notice.
fn told(notice: Notice) -> String {
    match notice {
        Notice::Updated(update) => request(None, RESOURCE_UPDATED, Some(&to_raw(&json!({"uri": &*update.changed})))),
        Notice::Logged(params) => {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{params}}}"#)
        }
    }
}

/// The notification stream of a session. It reports changes of the lists, and of the resources that the session
/// subscribed to.
pub(super) struct ListenStream {
    lists: ListChanges,
    /// The number of this stream at the mailbox of the session.
    reader: u64,
    /// The lists that changed, and of which the client is told next, in reverse.
    due: Vec<ItemKind>,
    session: Arc<Session>,
    place: StreamPlace,
    _open: OpenStream,
}

impl Drop for ListenStream {
    fn drop(&mut self) {
        self.session.mailbox.detach(self.reader);
        // The session is idle from now on.
        self.session.touch(self.place.gate.engine.now());
        self.session.streams.leave();
    }
}

impl ListenStream {
    /// Opens the stream in this place; `None` if the session has as many as it may.
    pub(super) fn open(place: StreamPlace, session: &Arc<Session>) -> Option<Self> {
        session.streams.enter(Some(STREAMS_PER_SESSION), None).ok()?;
        let engine = &place.gate.engine;
        let (lists, reader) = (ListChanges::new(engine), session.mailbox.attach());
        let open = OpenStream::new(engine, Era::Legacy);
        Some(Self { lists, reader, due: Vec::new(), session: Arc::clone(session), place, _open: open })
    }

    /// Returns the next events, or `None` at the end. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        let gate = Arc::clone(&self.place.gate);
        self.session.touch(gate.engine.now());
        loop {
            if let Some(kind) = self.due.pop() {
                return Some(event(&request(None, list_changed(kind), None)));
            }
            tokio::select! {
                biased;
                () = self.session.ended.cancelled() => return None,
                () = gate.shutdown.cancelled() => return None,
                changed = self.lists.next() => self.due = changed?,
                notice = self.session.mailbox.next(self.reader) => return Some(event(&told(notice))),
                () = tokio::time::sleep(KEEP_ALIVE_EVERY) => return Some(KEEP_ALIVE),
            }
        }
    }
}
