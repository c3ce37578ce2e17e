//! A session of the legacy era.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dashmap::DashMap;
use schemars::JsonSchema;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::other_replicas::OtherReplicas;
use super::session_id::{SessionFacts, SessionScope};
use crate::domain::capabilities::ClientCapabilities;
use crate::domain::history::session_name;
use crate::domain::identity::Identity;
use crate::domain::limits::Tracker;
use crate::domain::log_level::LogLevel;
use crate::domain::network::network;
use crate::engine::exchange::ClientQuestions;
use crate::engine::notices::{Mailbox, Subscription};

/// How long a client has to send `notifications/initialized` (MCP 2025-11-25, lifecycle), in milliseconds.
pub(super) const READY_WITHIN_MS: u64 = 30_000;
/// The maximum number of requests of one session that are registered for cancellation at the same time.
const MAX_CANCELLABLE: usize = 1024;

/// A session of one client.
pub struct Session {
    /// The id of the session: visible ASCII, and impossible to guess.
    pub id: String,
    /// The negotiated protocol version.
    pub version: String,
    /// Name and version of the client, as it reports them.
    pub client: String,
    /// The questions of servers that the client answers, and its extensions.
    pub capabilities: ClientCapabilities,
    /// The questions that wait for the client's answers.
    pub questions: Arc<ClientQuestions>,
    /// The key of the identity to which the session belongs.
    principal: String,
    /// The network of the client that first used the session in this process.
    network: OnceLock<IpAddr>,
    /// The upstream whose endpoint the session was opened on; `None` for the endpoint of all upstreams.
    upstream: Option<String>,
    /// When the session was opened, in Unix milliseconds. Another replica may have opened it.
    pub created_at: u64,
    /// The replica at which the session was opened; `None` if it cannot be reached, or the id is not sealed.
    pub replica: Option<SocketAddr>,
    /// The time from which the session admits no more requests, in Unix milliseconds; `u64::MAX` if its id is not
    /// sealed.
    ends_at: u64,
    /// Counts the session's calls.
    pub tracker: Arc<Tracker>,
    /// Counts the session's open event streams.
    pub streams: Tracker,
    /// Counts the streams of calls that the client continues.
    pub continued: Tracker,
    /// Counts the messages of the client that are being forwarded to other replicas.
    pub forwarded: Arc<Tracker>,
    /// Cancelled when the session ends.
    pub ended: CancellationToken,
    /// Other replicas that use the session, besides the one that began it.
    pub others: OtherReplicas,
    ready: AtomicBool,
    last_used: AtomicU64,
    /// `None` if the client did not ask for a level.
    log_level: Mutex<Option<LogLevel>>,
    in_flight: DashMap<String, CancellationToken>,
    /// The changes of resources that the client is told of.
    pub mailbox: Arc<Mailbox>,
    /// By URI.
    subscriptions: Mutex<HashMap<String, Subscription>>,
}

/// A session as the admin API shows it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    /// The first characters of the session's id; see [`session_name`].
    #[serde(skip)]
    pub id: String,
    /// The negotiated protocol version.
    pub version: String,
    /// Name and version of the client, as it reports them.
    pub client: String,
    /// The upstream whose endpoint the session was opened on; absent for the endpoint of all upstreams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// When the session was opened, in Unix milliseconds. Another replica may have opened it.
    pub created_at: u64,
    /// When a request or an open stream last used the session, in Unix milliseconds.
    pub last_used_at: u64,
    /// The number of calls in flight.
    pub calls_in_flight: u32,
    /// The number of calls so far.
    pub calls_total: u64,
}

impl Session {
    /// Creates a session that is used for the first time in this process at `now`.
    pub(super) fn new(id: String, facts: SessionFacts, scope: SessionScope<'_>, ends_at: u64, now: u64) -> Self {
        let SessionFacts { version, client, capabilities, created_at, replica } = facts;
        Self {
            id,
            version,
            client,
            capabilities,
            questions: Arc::default(),
            principal: scope.principal.to_owned(),
            network: OnceLock::new(),
            upstream: scope.upstream.map(ToOwned::to_owned),
            created_at,
            replica,
            ends_at,
            tracker: Arc::default(),
            streams: Tracker::default(),
            continued: Tracker::default(),
            forwarded: Arc::default(),
            ended: CancellationToken::new(),
            others: OtherReplicas::default(),
            ready: AtomicBool::new(false),
            last_used: AtomicU64::new(now),
            log_level: Mutex::default(),
            in_flight: DashMap::new(),
            mailbox: Arc::default(),
            subscriptions: Mutex::default(),
        }
    }

    /// Whether a client in `scope` may use the session at `now`.
    pub(super) fn admits(&self, scope: SessionScope<'_>, now: u64) -> bool {
        self.principal == scope.principal && self.upstream.as_deref() == scope.upstream && now < self.ends_at
    }

    /// Returns the identity to which the session belongs, for another replica.
    pub fn identity(&self) -> Identity {
        Identity::forwarded(&self.principal, "")
    }

    /// Whether other replicas can take the session over.
    pub(super) fn is_shared(&self) -> bool {
        self.ends_at != u64::MAX
    }

    /// Returns the replicas that use the session, as far as they are known: the one that began it first.
    pub fn replicas(&self) -> Vec<SocketAddr> {
        self.replica.into_iter().chain(self.others.known()).collect()
    }

    /// Records the address of a client that uses the session.
    pub fn note_address(&self, client: IpAddr) {
        self.network.get_or_init(|| network(client));
    }

    pub(super) fn network(&self) -> Option<IpAddr> {
        self.network.get().copied()
    }

    /// Restarts the idle time of the session.
    pub fn touch(&self, now: u64) {
        self.last_used.store(now, Ordering::Relaxed);
    }

    pub(super) fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }

    /// Whether the session must end at `now`: it was idle for `idle_ms` and no stream of it is open, its client did not
    /// send `notifications/initialized` in time, or it is too old. False while a call is in flight.
    pub(super) fn is_over(&self, now: u64, idle_ms: u64) -> bool {
        let idle = !self.is_in_use() && now.saturating_sub(self.last_used()) >= idle_ms;
        let late = !self.is_ready() && now.saturating_sub(self.created_at) >= READY_WITHIN_MS;
        (idle || late || now >= self.ends_at) && self.tracker.in_flight() == 0
    }

    /// Records that the client has sent `notifications/initialized`.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    pub(super) fn is_in_use(&self) -> bool {
        self.tracker.in_flight() > 0 || self.streams.in_flight() > 0
    }

    /// The lowest severity of log messages that the client wants. By default all messages are sent.
    pub fn log_level(&self) -> LogLevel {
        self.asked_log_level().unwrap_or_default()
    }

    /// The lowest severity of log messages that the client asked for; `None` if it did not ask.
    pub fn asked_log_level(&self) -> Option<LogLevel> {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the lowest severity of log messages that the client wants.
    pub fn set_log_level(&self, level: LogLevel) {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    /// Ends the session: its streams are closed, its subscriptions end, but its calls continue.
    pub(super) fn end(&self) {
        self.ended.cancel();
        drop(std::mem::take(&mut *self.subscriptions()));
    }

    /// Whether the client has a subscription to this resource.
    pub fn has_subscribed(&self, uri: &str) -> bool {
        self.subscriptions().contains_key(uri)
    }

    /// Keeps a subscription until the session ends. Returns false if the session has ended.
    pub fn subscribed(&self, uri: &str, subscription: Subscription) -> bool {
        let mut subscriptions = self.subscriptions();
        if self.ended.is_cancelled() {
            return false;
        }
        // Of two requests at a time, the first one counts.
        subscriptions.entry(uri.to_owned()).or_insert(subscription);
        true
    }

    /// Ends the subscription to a resource, if there is one.
    pub fn unsubscribe(&self, uri: &str) {
        let subscription = self.subscriptions().remove(uri);
        drop(subscription);
    }

    fn subscriptions(&self) -> MutexGuard<'_, HashMap<String, Subscription>> {
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the request with this id (raw JSON) as in flight, unless it is, or [`MAX_CANCELLABLE`] requests are.
    /// [`Session::cancel`] cancels the returned token of a registered request.
    pub fn begin(&self, request: &str) -> CancellationToken {
        if let Some(known) = self.in_flight.get(request) {
            return known.clone();
        }
        if self.in_flight.len() >= MAX_CANCELLABLE {
            return CancellationToken::new();
        }
        self.in_flight.entry(request.to_owned()).or_default().clone()
    }

    /// Removes the request with this id from those in flight.
    pub fn finish(&self, request: &str) {
        self.in_flight.remove(request);
    }

    /// Cancels the request with this id, if it is registered as in flight. Returns whether it is.
    pub fn cancel(&self, request: &str) -> bool {
        let token = self.in_flight.get(request);
        token.as_ref().inspect(|token| token.cancel()).is_some()
    }

    pub(crate) fn view(&self) -> SessionView {
        SessionView {
            id: session_name(&self.id),
            version: self.version.clone(),
            client: self.client.clone(),
            upstream: self.upstream.clone(),
            created_at: self.created_at,
            last_used_at: self.last_used.load(Ordering::Relaxed),
            calls_in_flight: self.tracker.in_flight(),
            calls_total: self.tracker.total(),
        }
    }
}
