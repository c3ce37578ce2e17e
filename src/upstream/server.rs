//! One upstream: its target, the connection that its calls share, and the connections that are for one client each.

mod log_level;
mod subscribing;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::domain::item::{ItemKind, Listed};
use crate::domain::plan::TransportPlan;
use crate::domain::ports::ToClient;
use crate::domain::rpc::METHOD_NOT_FOUND;
use crate::domain::upstream::{
    Answer, ClientKey, FIRST_START, LogWish, OutCall, OutCompletion, Probed, Target, UpstreamError, UpstreamEvent,
};
use crate::domain::version::Era;

use super::context::UpstreamContext;
use super::handshake::speaks_still;
use super::list_reader::ListReader;
use super::own_connections::OwnConnections;
use super::request_failure::RequestFailure;
use super::server_connection::ServerConnection;
use super::server_message::readable;
use super::slot::{ConnectionUse, Purpose, Slot};
use super::stdio::ServerProcess;
use super::streamable::{HttpEndpoint, HttpSession};
use super::watched::Watched;
use super::wire::McpRequest;

/// The upper limit of all request timeouts.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// How long the connection of one client stays open without a call, at most.
const OWN_IDLE: Duration = Duration::from_secs(10 * 60);
/// The shortest time between two checks for an idle connection.
const SHORTEST_LOOK: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Server {
    plan: Arc<Connector>,
    /// The connection that is shared by lists, probes and the calls of clients without capabilities.
    slot: Arc<Slot>,
    own: OwnConnections,
}

/// Opens the connections of one upstream.
#[derive(Debug)]
struct Connector {
    target: Target,
    method: ConnectMethod,
    shared: Arc<UpstreamContext>,
    /// The era of the last handshake; `None` before the first one and after one that failed.
    era: Mutex<Option<Era>>,
    /// Whether the upstream was ever connected.
    connected: Mutex<bool>,
    /// What clients want to hear of.
    watched: Arc<Watched>,
}

#[derive(Debug)]
enum ConnectMethod {
    Process,
    Http(Arc<HttpEndpoint>),
    None(UpstreamError),
}

impl Server {
    /// Creates a server that is not connected yet.
    pub(super) fn new(target: &Target, shared: &Arc<UpstreamContext>) -> Self {
        let method = match &target.plan.transport {
            _ if !target.plan.enabled => ConnectMethod::None(UpstreamError::Connect("it is disabled".into())),
            TransportPlan::Process { .. } => ConnectMethod::Process,
            TransportPlan::External { url, .. } => match HttpEndpoint::new(target, url, shared) {
                Ok(endpoint) => ConnectMethod::Http(Arc::new(endpoint)),
                Err(error) => ConnectMethod::None(error),
            },
            TransportPlan::None => {
                ConnectMethod::None(UpstreamError::Connect("it has no transport that is spoken here".into()))
            }
        };
        let (target, shared) = (Arc::clone(target), Arc::clone(shared));
        let watched = shared.watched(&target.plan.key);
        let plan = Connector { target, method, shared, era: Mutex::default(), connected: Mutex::default(), watched };
        Self { plan: Arc::new(plan), slot: Arc::default(), own: OwnConnections::default() }
    }

    /// Whether this server's connection fits the target. Only the parts of the plan that concern the connection are
    /// compared. They include `enable`, because changing it requests a new connection.
    pub(super) fn serves(&self, target: &Target) -> bool {
        let (ours, theirs) = (&self.plan.target, target);
        let (our, their) = (&ours.plan, &theirs.plan);
        our.key == their.key
            && our.enabled == their.enabled
            && our.enable == their.enable
            && our.transport == their.transport
            && our.era == their.era
            && our.connect_timeout_ms == their.connect_timeout_ms
            && our.idle_timeout_ms == their.idle_timeout_ms
            && ours.values == theirs.values
            && ours.max_response_size == theirs.max_response_size
    }

    /// Connects, or tests the existing connection with a request. A connection that was closed because it was idle
    /// stays closed. A connection that fails the test gets no more requests, unless a process with other requests in
    /// flight is only late. If the connection has ended, or the server refuses the request or answers as no server of
    /// its era would, a new connection is made immediately.
    pub(super) async fn probe(&self, limit: Duration) -> Result<Probed, UpstreamError> {
        if self.slot.rests() {
            return Ok(Probed::Resting);
        }
        let Some(lease) = self.slot.current(Purpose::Care) else { return self.connected().await };
        let request = if lease.facts().era == Era::Modern { McpRequest::Discover } else { McpRequest::Ping };
        match lease.ask(request, None, limit).await {
            Ok(answer) if speaks_still(lease.facts().era, lease.is_process(), &answer) => {
                return Ok(Probed::Up(lease.facts().clone()));
            }
            Ok(_) | Err(RequestFailure::Refused(_) | RequestFailure::Final(UpstreamError::Protocol(_))) => {
                self.renounce(&self.slot, &lease)
            }
            Err(RequestFailure::Stale(_)) => {}
            Err(RequestFailure::Final(error)) => {
                if matches!(error, UpstreamError::Timeout(_)) && lease.is_process() && !lease.is_sole() {
                    return Ok(Probed::Busy);
                }
                self.renounce(&self.slot, &lease);
                return Err(error);
            }
        }
        drop(lease);
        self.connected().await
    }

    async fn connected(&self) -> Result<Probed, UpstreamError> {
        Ok(Probed::Up(self.lease(&self.slot, None, Purpose::Care, true).await?.facts().clone()))
    }

    /// Stops new requests from using the connection, and makes the next handshake determine the era again.
    fn renounce(&self, slot: &Slot, lease: &ConnectionUse) {
        slot.discard(lease);
        *lock(&self.plan.era) = None;
    }

    /// Reads all pages of the server's list of items of this kind. A server that does not announce such items is not asked.
    /// Other lists than that of tools are only read over a connection that is open, and a server that does not know their
    /// methods has none of their items: servers that announce resources need not have templates.
    pub(super) async fn list(&self, kind: ItemKind, limit: Duration) -> Result<Listed, UpstreamError> {
        let lease = match kind {
            ItemKind::Tool => self.lease(&self.slot, None, Purpose::Care, false).await?,
            _ => {
                self.slot.current(Purpose::Care).ok_or_else(|| UpstreamError::Connect("it is not connected".into()))?
            }
        };
        if !lease.facts().has(kind) {
            return Ok(Listed::default());
        }
        match self.read_list(kind, lease.facts().era, limit).await {
            Err(UpstreamError::Refused { code: Some(METHOD_NOT_FOUND), .. }) if kind != ItemKind::Tool => {
                Ok(Listed::default())
            }
            read => read,
        }
    }

    /// Reads all pages of one list.
    async fn read_list(&self, kind: ItemKind, era: Era, limit: Duration) -> Result<Listed, UpstreamError> {
        let (mut list, mut cursor) = (ListReader::new(kind, era), None);
        loop {
            let request = McpRequest::List(kind, cursor.as_deref());
            let (answer, lease) = self.ask(request, Purpose::Care, None, limit).await?;
            cursor = list.add(&answer).map_err(|error| error.masked(&self.plan.target.mask()))?;
            if cursor.is_none() {
                let mut listed = list.finish();
                if kind == ItemKind::Tool {
                    lease.note_tools(&mut listed);
                }
                return Ok(listed);
            }
        }
    }

    pub(super) async fn call(&self, call: &OutCall, client: &dyn ToClient) -> Result<Answer, UpstreamError> {
        let may_be_asked = !call.client.capabilities.answers_nothing();
        let to = (call.wants_progress || call.log_level.is_some() || may_be_asked).then_some(client);
        let (answer, _lease) = self.ask(McpRequest::Use(call), Purpose::Call, to, call.timeout).await?;
        readable(answer)
    }

    /// Asks for completions; `None` if the server has none.
    pub(super) async fn complete(&self, completion: &OutCompletion) -> Result<Option<Answer>, UpstreamError> {
        if !self.lease(&self.slot, None, Purpose::Call, false).await?.facts().has_completions {
            return Ok(None);
        }
        let request = McpRequest::Complete(completion);
        let (answer, _lease) = self.ask(request, Purpose::Call, None, completion.timeout).await?;
        readable(answer).map(Some)
    }

    /// Refuses new calls, waits up to `patience` for those in flight, and ends the connection.
    pub(super) async fn close(&self, patience: Duration) {
        let own = self.own.close();
        let closing = own.iter().chain([&self.slot]).map(|slot| slot.close(patience));
        futures_util::future::join_all(closing).await;
    }

    /// Closes the connections that are for the client of this session alone.
    pub(super) fn forget_client(&self, session: &str) {
        self.own.forget(session);
    }

    /// Returns the slot to send a request over. A client that answers questions or has extensions has a connection of its
    /// own to a legacy server over HTTP, because `initialize` says for the whole connection what the client can do. Clients
    /// without a session that can do the same share one.
    async fn slot_for(&self, request: &McpRequest<'_>) -> Result<Arc<Slot>, UpstreamError> {
        let shared = || Ok(Arc::clone(&self.slot));
        let (McpRequest::Use(call), ConnectMethod::Http(_)) = (request, &self.plan.method) else {
            return shared();
        };
        if call.client.capabilities.is_empty() {
            return shared();
        }
        let known = *lock(&self.plan.era);
        let era = match known {
            Some(era) => era,
            None => self.lease(&self.slot, None, Purpose::Call, false).await?.facts().era,
        };
        let own = if era == Era::Legacy { self.own.slot(&call.client) } else { None };
        own.map_or_else(shared, Ok)
    }

    /// Sends a request and waits for its answer. `limit` includes the time to connect. If the request was not executed,
    /// because the connection had ended or the server refused the negotiated version or headers, it is sent once more
    /// over a new connection. Returns the answer and the use of the connection that it came over.
    async fn ask(
        &self,
        request: McpRequest<'_>,
        purpose: Purpose,
        to: Option<&dyn ToClient>,
        limit: Duration,
    ) -> Result<(Answer, ConnectionUse), UpstreamError> {
        let limit = limit.min(LONGEST);
        let deadline = Instant::now() + limit;
        let late = || UpstreamError::Connect(format!("not connected within the {limit:?} of the request"));
        let mut again = true;
        loop {
            let connecting = tokio::time::timeout_at(deadline, self.connection_for(&request, purpose));
            let (slot, lease) = connecting.await.unwrap_or_else(|_| Err(late()))?;
            if let McpRequest::Use(OutCall { log: LogWish { level: Some(level), .. }, .. }) = request {
                let telling = self.tell_level(&lease, *level, Arc::ptr_eq(&slot, &self.slot));
                // A server that does not answer this may answer the call.
                let _ = tokio::time::timeout_at(deadline, telling).await;
            }
            match lease.ask(request, to, deadline.saturating_duration_since(Instant::now())).await {
                Ok(answer) => return Ok((answer, lease)),
                Err(RequestFailure::Refused(refusal)) => {
                    // A new handshake may help.
                    self.renounce(&slot, &lease);
                    if !(refusal.may_be_sent_again() && std::mem::take(&mut again)) {
                        return Err(refusal.into());
                    }
                }
                Err(RequestFailure::Stale(_)) if std::mem::take(&mut again) => {}
                Err(RequestFailure::Final(UpstreamError::Timeout(_))) => return Err(UpstreamError::Timeout(limit)),
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    /// Returns a use of the connection to send a request over, and its slot.
    async fn connection_for(
        &self,
        request: &McpRequest<'_>,
        purpose: Purpose,
    ) -> Result<(Arc<Slot>, ConnectionUse), UpstreamError> {
        let slot = self.slot_for(request).await?;
        let lease = match slot.current(purpose) {
            Some(lease) => lease,
            None if Arc::ptr_eq(&slot, &self.slot) => self.lease(&slot, None, purpose, false).await?,
            None => match self.lease(&slot, request.client(), purpose, false).await {
                Ok(lease) => lease,
                // A server may take one session only, or no more. The call then goes over the shared connection.
                Err(error) => {
                    tracing::debug!(upstream = %self.plan.target.plan.key, "a client gets no connection of its own: {error}");
                    let lease = self.lease(&self.slot, None, purpose, false).await?;
                    return Ok((Arc::clone(&self.slot), lease));
                }
            },
        };
        Ok((slot, lease))
    }

    /// Returns a use of the connection in `slot`, which is for the client `of`, or for all if that is `None`.
    async fn lease(
        &self,
        slot: &Arc<Slot>,
        of: Option<&ClientKey>,
        purpose: Purpose,
        insist: bool,
    ) -> Result<ConnectionUse, UpstreamError> {
        let connect = || Arc::clone(&self.plan).connect(Arc::downgrade(slot), of.cloned());
        let lease = slot.lease(&self.plan.shared.tasks, purpose, insist, connect).await?;
        if of.is_none() && lease.is_new() {
            self.greet(&lease);
        }
        Ok(lease)
    }
}

impl Connector {
    async fn connect(
        self: Arc<Self>,
        slot: Weak<Slot>,
        of: Option<ClientKey>,
    ) -> Result<ServerConnection, UpstreamError> {
        let before = *lock(&self.era);
        let made = self.open(before, &slot, of.as_ref()).await;
        if of.is_some() {
            return made.map_err(|error| error.masked(&self.target.mask()));
        }
        *lock(&self.era) = made.as_ref().ok().map(|link| link.facts().era);
        let link = made.map_err(|error| error.masked(&self.target.mask()))?;
        let facts = link.facts();
        let key = &self.target.plan.key;
        tracing::info!(upstream = %key, era = facts.era.as_str(), version = facts.version, "connected");
        if std::mem::replace(&mut *lock(&self.connected), true) {
            // The server may have announced changes of its lists while it was not connected.
            for kind in ItemKind::ANNOUNCED {
                self.shared.events.push(UpstreamEvent::ListStale(key.clone(), kind));
            }
        }
        Ok(link)
    }

    async fn open(
        &self,
        before: Option<Era>,
        slot: &Weak<Slot>,
        of: Option<&ClientKey>,
    ) -> Result<ServerConnection, UpstreamError> {
        let limit = Duration::from_millis(u64::from(self.target.plan.connect_timeout_ms));
        let link = match &self.method {
            ConnectMethod::None(error) => return Err(error.clone()),
            ConnectMethod::Process => {
                let limit = if *lock(&self.connected) { limit } else { limit.max(FIRST_START) };
                ServerConnection::Process(ServerProcess::connect(&self.target, &self.shared, before, limit).await?)
            }
            ConnectMethod::Http(endpoint) => {
                ServerConnection::Http(HttpSession::connect(endpoint, before, limit, of).await?)
            }
        };
        let idle = Duration::from_millis(u64::from(self.target.plan.idle_timeout_ms));
        let idle = if of.is_some() && (idle.is_zero() || idle > OWN_IDLE) { OWN_IDLE } else { idle };
        // Changes are reported over the connection that clients share.
        let watched = of.is_none().then(|| Arc::clone(&self.watched));
        let holds_something = link.is_process() || link.facts().era == Era::Legacy;
        if holds_something && !idle.is_zero() {
            self.shared.tasks.spawn(end_when_idle(slot.clone(), link.ended(), idle, watched));
        }
        Ok(link)
    }
}

/// Closes the connection in `slot` once no call has used it for `limit` and nobody wants to hear over it of what is
/// `watched`. Returns when the connection has ended.
async fn end_when_idle(slot: Weak<Slot>, ended: CancellationToken, limit: Duration, watched: Option<Arc<Watched>>) {
    let look = (limit / 4).max(SHORTEST_LOOK);
    while tokio::time::timeout(look, ended.cancelled()).await.is_err() {
        let Some(slot) = slot.upgrade() else { return };
        if watched.as_ref().is_none_or(|watched| watched.is_empty()) {
            slot.evict_idle(limit);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
