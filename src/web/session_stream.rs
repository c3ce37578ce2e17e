//! The GET stream of a session, for notifications that belong to no call.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::client::Client;
use super::cut_stream::continue_stream;
use super::exchange::OpenStream;
use super::forward::Forwarding;
use super::legacy::find_session;
use super::listen::{RESOURCE_UPDATED, list_changed};
use super::listener_context::{ListenerContext, PathEndpoint};
use super::requester::Requester;
use super::response::refuse;
use super::session_replicas::UsedSession;
use super::stream_place::StreamPlace;
use crate::domain::item::ItemKind;
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::rpc::request;
use crate::domain::version::Era;
use crate::engine::access::session::Session;
use crate::engine::{Caller, ListChanges, Notice};
use crate::transport::Accept;
use crate::transport::mcp_headers::LAST_EVENT_ID;
use crate::transport::sse::{KEEP_ALIVE, KEEP_ALIVE_EVERY, event, event_stream};

/// The maximum number of open GET streams of one session. Two are allowed, because the gateway may not yet have noticed
/// that the client has lost the first one.
const STREAMS_PER_SESSION: u32 = 2;

/// GET: continues the stream of a call after the event that `Last-Event-ID` names, or opens a stream of notifications,
/// whose events have no ids.
pub(super) async fn open_stream(
    gate: &Arc<ListenerContext>,
    endpoint: &PathEndpoint,
    headers: &HeaderMap,
    requester: &Requester,
) -> Response {
    if !Accept::read(headers).events {
        return refuse(StatusCode::NOT_ACCEPTABLE, "Accept must name text/event-stream");
    }
    let session = match find_session(gate, endpoint, headers, requester).await {
        Ok(session) => session,
        Err((status, message)) => return refuse(status, message),
    };
    if let Some(last) = headers.get(&LAST_EVENT_ID) {
        let forwarding = Forwarding::request(Method::GET, endpoint, headers, Bytes::new(), requester);
        return continue_stream(gate, &session, last.to_str().unwrap_or_default(), headers, forwarding).await;
    }
    if let Err(error) = gate.engine.gate.admit_stream() {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, error.message);
    }
    let place = match StreamPlace::take(gate, requester.address) {
        Ok(place) => place,
        Err(error) => return refuse(StatusCode::TOO_MANY_REQUESTS, error.message),
    };
    let reader =
        StreamReader { caller: Client::Legacy(&session).caller(&gate.engine, requester), endpoint: endpoint.clone() };
    let Some(told) = SessionStream::open(place, &session, reader) else {
        let message = format!("{STREAMS_PER_SESSION} streams of this session are open, as many as may be");
        return refuse(StatusCode::TOO_MANY_REQUESTS, message);
    };
    let used = UsedSession::new(gate, endpoint, headers, &session, requester.address).kept();
    let home_told = AbortOnDropHandle::new(tokio::spawn(async move { used.as_used().keep_home_told().await }));
    let events = stream::unfold((told, home_told), |(mut told, home_told)| async move {
        let event = told.next().await?;
        Some((Ok::<_, Infallible>(event), (told, home_told)))
    });
    event_stream(Body::from_stream(events.take_until(requester.until_proved_again())))
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
pub(super) struct SessionStream {
    lists: ListChanges,
    /// The number of this stream at the mailbox of the session.
    reader: u64,
    /// The lists that changed, and of which the client is told next, in reverse.
    due: Vec<ItemKind>,
    session: Arc<Session>,
    place: StreamPlace,
    client: StreamReader,
    _open: OpenStream,
}

/// The client that reads a stream.
pub(super) struct StreamReader {
    pub(super) caller: Caller,
    pub(super) endpoint: PathEndpoint,
}

impl Drop for SessionStream {
    fn drop(&mut self) {
        self.session.mailbox.detach(self.reader);
        // The session is idle from now on.
        self.session.touch(self.place.gate.engine.now());
        self.session.streams.leave();
    }
}

impl SessionStream {
    /// Opens the stream in this place; `None`, which is counted, if the session has as many as it may.
    pub(super) fn open(place: StreamPlace, session: &Arc<Session>, client: StreamReader) -> Option<Self> {
        let engine = &place.gate.engine;
        if session.streams.enter(Some(STREAMS_PER_SESSION), None).is_err() {
            engine.metrics().refused(Reason::SessionStreams);
            return None;
        }
        let (lists, reader) = (ListChanges::new(&engine.in_force), session.mailbox.attach());
        let open = OpenStream::new(engine, Era::Legacy);
        Some(Self { lists, reader, due: Vec::new(), session: Arc::clone(session), place, client, _open: open })
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
                notice = self.session.mailbox.next(self.reader) => if self.may_be_told(&notice) {
                    return Some(event(&told(notice)));
                },
                () = tokio::time::sleep(KEEP_ALIVE_EVERY) => return Some(KEEP_ALIVE),
            }
        }
    }

    /// Whether the client may still see what the notice is about.
    fn may_be_told(&self, notice: &Notice) -> bool {
        let Notice::Updated(update) = notice else { return true };
        let StreamReader { caller, endpoint } = &self.client;
        self.place.gate.engine.chains.still_shows(caller, endpoint.as_engine(), &update.subscribed)
    }
}
