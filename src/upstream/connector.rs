//! Opens the connections of one upstream, by the transport that its plan names.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::context::UpstreamContext;
use super::oauth::{PresentedToken, Tokens, UserTokens};
use super::server_connection::ServerConnection;
use super::slot::ConnectionSlot;
use super::stdio::ServerProcess;
use super::streamable::{HttpEndpoint, HttpSession, SseSession};
use super::subscriptions::Subscriptions;
use crate::domain::ids::ObjectKey;
use crate::domain::item::ItemKind;
use crate::domain::plan::{EraSetting, HttpTransport, TransportPlan};
use crate::domain::secret::{Mask, SecretText};
use crate::domain::upstream::{ClientKey, OutCall, Target, UpstreamError, UpstreamEvent};
use crate::domain::version::Era;

/// The time for connecting where none is set.
const UNLIMITED: Duration = Duration::from_secs(24 * 60 * 60);
/// How long the connection of one client stays open without a call, at most.
const OWN_IDLE: Duration = Duration::from_secs(10 * 60);
/// The shortest time between two checks for an idle connection.
const SHORTEST_LOOK: Duration = Duration::from_millis(50);

/// Opens the connections of one upstream.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) target: Target,
    method: ConnectMethod,
    /// The tokens of users; `None` if all requests carry that of the gateway, or none.
    users: Option<UserTokens>,
    pub(super) shared: Arc<UpstreamContext>,
    /// The era of the last handshake; `None` before the first one and after one that failed.
    era: Mutex<Option<Era>>,
    /// Whether the upstream was ever connected.
    connected: Mutex<bool>,
    /// Whether the server was found to be one of HTTP+SSE.
    is_sse: AtomicBool,
    /// What clients want to hear of.
    pub(super) watched: Arc<Subscriptions>,
}

#[derive(Debug)]
enum ConnectMethod {
    Process,
    Http(Arc<HttpEndpoint>),
    None(UpstreamError),
}

impl Connector {
    /// Creates the connector of an upstream. It does not connect yet.
    pub(super) fn new(target: &Target, shared: &Arc<UpstreamContext>) -> Self {
        let method = match &target.plan.transport {
            _ if !target.plan.enabled => ConnectMethod::None(UpstreamError::Connect("it is disabled".into())),
            TransportPlan::Process { .. } => ConnectMethod::Process,
            TransportPlan::External { url, .. } => match HttpEndpoint::new(target, url, shared) {
                Ok(endpoint) => ConnectMethod::Http(Arc::new(endpoint)),
                Err(error) => ConnectMethod::None(error),
            },
            TransportPlan::Pipeline(_) | TransportPlan::Plugin(_) | TransportPlan::None => {
                ConnectMethod::None(UpstreamError::Connect("it has no transport that is spoken here".into()))
            }
        };
        let gateway = if let ConnectMethod::Http(endpoint) = &method { endpoint.tokens() } else { None };
        let users =
            gateway.filter(|_| target.plan.exchanges_tokens()).map(|tokens| UserTokens::new(Arc::clone(tokens)));
        let (target, shared) = (Arc::clone(target), Arc::clone(shared));
        let (era, connected, is_sse) = (Mutex::default(), Mutex::default(), AtomicBool::default());
        let watched = shared.watched(&target.plan.key);
        Self { target, method, users, shared, era, connected, is_sse, watched }
    }

    /// The era of the last handshake; `None` before the first one and after one that failed.
    pub(super) fn era(&self) -> Option<Era> {
        *lock(&self.era)
    }

    /// Returns a mask of the values and the access token that the server gets with requests of this client, or with the
    /// gateway's own.
    pub(super) fn mask(&self, of: Option<&ClientKey>) -> Mask {
        Mask::of(self.target.values.iter().map(|(_, value)| value).chain(&self.access_token(of)))
    }

    /// Returns the access token that the server gets with requests of this client, or with the gateway's own.
    pub(super) fn access_token(&self, of: Option<&ClientKey>) -> Option<SecretText> {
        let ConnectMethod::Http(endpoint) = &self.method else { return None };
        let of_user = self.tokens_of(of);
        of_user.as_ref().or(endpoint.tokens()).and_then(|tokens| tokens.secret())
    }

    /// Returns the tokens of the user that this client acts for; `None` if the gateway's own are sent.
    pub(super) fn tokens_of(&self, of: Option<&ClientKey>) -> Option<Arc<Tokens>> {
        self.users.as_ref().zip(of).map(|(users, client)| users.of(&client.user))
    }

    /// Keeps the user's own token of a call, by which a token for the server can be got, until the returned value is dropped.
    ///
    /// # Errors
    /// If the server gets tokens of users, and the call has none.
    pub(super) fn present(&self, call: &OutCall) -> Result<Option<PresentedToken>, UpstreamError> {
        let Some(users) = &self.users else { return Ok(None) };
        let token = call.token.as_ref().filter(|_| !call.client.user.is_empty()).ok_or(UpstreamError::NoUserToken)?;
        Ok(Some(users.present(&call.client.user, token)))
    }

    /// Whether calls go over connections of their users, and over no other.
    pub(super) fn has_users(&self) -> bool {
        self.users.is_some()
    }

    /// Makes the next handshake determine the era again.
    pub(super) fn forget_era(&self) {
        *lock(&self.era) = None;
    }

    /// Whether the upstream is reached over HTTP.
    pub(super) fn is_http(&self) -> bool {
        matches!(self.method, ConnectMethod::Http(_))
    }

    /// Whether the server is reached over HTTP+SSE: by its setting, or because it was found.
    pub(super) fn is_over_sse(&self) -> bool {
        self.target.plan.http_transport == HttpTransport::Sse || self.is_sse.load(Ordering::Relaxed)
    }

    /// Whether each client session has a process of its own.
    pub(super) fn has_own_processes(&self) -> bool {
        matches!(self.target.plan.transport, TransportPlan::Process { per_session: true, .. })
    }

    /// Makes a connection, which is closed again where no call uses it: that of the client `of`, or that of all if it is
    /// `None`. `slot` holds it.
    pub(super) async fn connect(
        self: Arc<Self>,
        slot: Weak<ConnectionSlot>,
        of: Option<ClientKey>,
    ) -> Result<ServerConnection, UpstreamError> {
        let before = *lock(&self.era);
        let made = self.open(before, &slot, of.as_ref()).await;
        if of.is_some() {
            return made.map_err(|error| error.masked(&self.mask(of.as_ref())));
        }
        *lock(&self.era) = made.as_ref().ok().map(|link| link.facts().era);
        let link = made.map_err(|error| error.masked(&self.mask(None)))?;
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
        slot: &Weak<ConnectionSlot>,
        of: Option<&ClientKey>,
    ) -> Result<ServerConnection, UpstreamError> {
        let limit = Duration::from_millis(u64::from(self.target.plan.connect_timeout_ms));
        let link = match &self.method {
            ConnectMethod::None(error) => return Err(error.clone()),
            ConnectMethod::Process => {
                let limit = if limit.is_zero() { UNLIMITED } else { limit };
                ServerConnection::Process(ServerProcess::connect(&self.target, &self.shared, before, limit, of).await?)
            }
            ConnectMethod::Http(endpoint) => match self.tokens_of(of) {
                Some(tokens) => self.open_http(&Arc::new(endpoint.for_user(tokens)), before, limit, of).await?,
                None => self.open_http(endpoint, before, limit, of).await?,
            },
        };
        let idle = Duration::from_millis(u64::from(self.target.plan.idle_timeout_ms));
        let idle = if of.is_some() && (idle.is_zero() || idle > OWN_IDLE) { OWN_IDLE } else { idle };
        // Changes are reported over the connection that clients share.
        let watched = of.is_none().then(|| Arc::clone(&self.watched));
        let is_of_user = of.is_some() && self.has_users();
        let holds_something = link.is_duplex() || link.facts().era == Era::Legacy || is_of_user;
        if holds_something && !idle.is_zero() {
            let process = matches!(link, ServerConnection::Process(_)).then(|| self.target.plan.key.clone());
            self.shared.tasks.spawn(end_when_idle(slot.clone(), link.ended(), idle, watched, process));
        }
        Ok(link)
    }

    /// Connects over HTTP. Where a server may be one of Streamable HTTP or of HTTP+SSE, the latter is tried if it refuses
    /// `initialize` as such servers do, and is kept then (MCP 2025-03-26, transports, backwards compatibility).
    async fn open_http(
        &self,
        endpoint: &Arc<HttpEndpoint>,
        before: Option<Era>,
        limit: Duration,
        of: Option<&ClientKey>,
    ) -> Result<ServerConnection, UpstreamError> {
        // An authorization server has its own time, and gives its own errors.
        endpoint.prepare().await?;
        let setting = self.target.plan.http_transport;
        if self.is_over_sse() {
            let made = SseSession::connect(endpoint, limit, of).await.map(ServerConnection::Sse);
            if made.is_err() && of.is_none() {
                self.is_sse.store(false, Ordering::Relaxed);
            }
            return made;
        }
        let deadline = Instant::now() + limit;
        let (error, may_be_sse) = match HttpSession::connect(endpoint, before, limit, of).await {
            Ok(session) => return Ok(ServerConnection::Http(session)),
            Err(failure) => failure,
        };
        if setting != HttpTransport::Auto || !may_be_sse || self.target.plan.era == EraSetting::Modern {
            return Err(error);
        }
        match SseSession::connect(endpoint, deadline - Instant::now(), of).await {
            Ok(session) => {
                self.is_sse.store(true, Ordering::Relaxed);
                Ok(ServerConnection::Sse(session))
            }
            Err(no_sse) => Err(UpstreamError::NeitherTransport { post: Box::new(error), get: Box::new(no_sse) }),
        }
    }
}

/// Closes the connection in `slot` once no call has used it for `limit` and nobody wants to hear over it of what is
/// `watched`. Returns when the connection has ended.
async fn end_when_idle(
    slot: Weak<ConnectionSlot>,
    ended: CancellationToken,
    limit: Duration,
    watched: Option<Arc<Subscriptions>>,
    process: Option<ObjectKey>,
) {
    let look = (limit / 4).max(SHORTEST_LOOK);
    while tokio::time::timeout(look, ended.cancelled()).await.is_err() {
        let Some(slot) = slot.upgrade() else { return };
        if watched.as_ref().is_none_or(|watched| watched.is_empty())
            && slot.evict_idle(limit)
            && let Some(upstream) = &process
        {
            tracing::info!(
                %upstream,
                "its process ends after {limit:?} without a call (spec.timeouts.idleMs); the next call starts it again"
            );
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
