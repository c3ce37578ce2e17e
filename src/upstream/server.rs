//! One upstream: its target, the connection that its calls share, and the connections that are for one client each.

mod listing;
mod log_level;
mod subscribing;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::boxed::boxed;
use crate::domain::plan::{TransportPlan, ValueSource};
use crate::domain::ports::ToClient;
use crate::domain::secret::Mask;
use crate::domain::upstream::{Answer, ClientKey, OutCall, OutCompletion, Probed, ServerAnswer, Target, UpstreamError};
use crate::domain::version::Era;

use super::connector::Connector;
use super::context::UpstreamContext;
use super::handshake::speaks_still;
use super::late::unready;
use super::own_connections::{MAX_CLIENTS, MAX_OF_USERS, NoSlot, OwnConnections};
use super::request_failure::RequestFailure;
use super::server_message::readable;
use super::slot::{ConnectionSlot, ConnectionUse, Purpose};
use super::wire::McpRequest;

/// The upper limit of all request timeouts.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug)]
pub(super) struct Server {
    connector: Arc<Connector>,
    /// The connection that is shared by lists, probes and the calls of clients without capabilities.
    slot: Arc<ConnectionSlot>,
    own: OwnConnections,
}

impl Server {
    /// Creates a server that is not connected yet.
    pub(super) fn new(target: &Target, shared: &Arc<UpstreamContext>) -> Self {
        let connector = Connector::new(target, shared);
        let own = OwnConnections::new(if connector.has_users() { MAX_OF_USERS } else { MAX_CLIENTS });
        Self { connector: Arc::new(connector), slot: Arc::default(), own }
    }

    /// Whether this server's connection fits the target. Only the parts of the plan that concern the connection are
    /// compared. They include `enable`, because changing it requests a new connection.
    pub(super) fn serves(&self, target: &Target) -> bool {
        let (ours, theirs) = (&self.connector.target, target);
        let (our, their) = (&ours.plan, &theirs.plan);
        our.key == their.key
            && our.enabled == their.enabled
            && our.enable == their.enable
            && our.transport == their.transport
            && our.era == their.era
            && our.http_transport == their.http_transport
            && our.connect_timeout_ms == their.connect_timeout_ms
            && our.idle_timeout_ms == their.idle_timeout_ms
            && ours.values == theirs.values
            && ours.tls == theirs.tls
            && ours.allowed_addresses == theirs.allowed_addresses
            && ours.max_response_size == theirs.max_response_size
    }

    /// Connects, or tests the existing connection with a request. A connection that was closed because it was idle
    /// stays closed. A connection that fails the test gets no more requests, unless a process, or a server over HTTP+SSE,
    /// with other requests in flight is only late; the stream of the latter must have brought something since the last probe.
    /// If the connection has ended, or the server refuses the request or
    /// answers as no server of its era would, a new connection is made immediately.
    pub(super) async fn probe(&self, limit: Duration) -> Result<Probed, UpstreamError> {
        if self.slot.rests() {
            return Ok(Probed::Resting);
        }
        let Some(lease) = self.slot.current(Purpose::Maintenance) else { return self.connected().await };
        let request = if lease.facts().era == Era::Modern { McpRequest::Discover } else { McpRequest::Ping };
        match lease.ask(request, None, limit).await {
            Ok(answer) if speaks_still(lease.facts().era, lease.is_duplex(), &answer) => {
                // What comes from now on counts for the next probe.
                lease.was_heard();
                return Ok(Probed::Up(lease.facts().clone().masked(&self.connector.mask(None))));
            }
            Ok(_)
            | Err(
                RequestFailure::Refused(_)
                | RequestFailure::Final(UpstreamError::Protocol(_) | UpstreamError::Refused { .. }),
            ) => self.renounce(&self.slot, &lease),
            Err(RequestFailure::Stale(_)) => self.slot.discard(&lease),
            // It answers.
            Err(RequestFailure::Final(UpstreamError::RateLimited { .. })) => {
                return Ok(Probed::Up(lease.facts().clone().masked(&self.connector.mask(None))));
            }
            Err(RequestFailure::Final(error)) => {
                let is_late = matches!(error, UpstreamError::Timeout(_)) && lease.is_duplex();
                if is_late && lease.was_heard() && !lease.is_sole() {
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
        let lease = self.lease(&self.slot, None, Purpose::Maintenance, true).await?;
        Ok(Probed::Up(lease.facts().clone().masked(&self.connector.mask(None))))
    }

    /// Stops new requests from using the connection, and makes the next handshake determine the era again.
    fn renounce(&self, slot: &ConnectionSlot, lease: &ConnectionUse) {
        slot.discard(lease);
        self.connector.forget_era();
    }

    pub(super) async fn call(&self, call: &OutCall, client: &dyn ToClient) -> Result<ServerAnswer, UpstreamError> {
        let _presented = self.connector.present(call)?;
        let asked = self.ask(McpRequest::Use(call), Purpose::Call, Some(client), call.timeout).await;
        let (answer, lease) = asked.map_err(|error| self.masked(error, Some(&call.client)))?;
        let answer = self.with_masked_error(readable(answer)?, Some(&call.client));
        Ok(ServerAnswer { era: lease.facts().era, answer })
    }

    /// Asks for completions; `None` if the server has none, or gets tokens of users: those of the gateway could be others'.
    pub(super) async fn complete(&self, completion: &OutCompletion) -> Result<Option<Answer>, UpstreamError> {
        if self.connector.has_users()
            || !self.lease(&self.slot, None, Purpose::Call, false).await?.facts().has_completions
        {
            return Ok(None);
        }
        let request = McpRequest::Complete(completion);
        let asked = self.ask(request, Purpose::Call, None, completion.timeout).await;
        let (answer, _lease) = asked.map_err(|error| self.masked(error, None))?;
        readable(answer).map(|answer| Some(self.with_masked_error(answer, None)))
    }

    /// Hides values that the server got in what it says of a failure.
    fn masked(&self, error: UpstreamError, of: Option<&ClientKey>) -> UpstreamError {
        error.masked(&self.connector.mask(of))
    }

    /// Refuses new calls, waits up to `patience` for those in flight, and ends the connection.
    pub(super) async fn close(&self, patience: Duration) {
        let own = self.own.close();
        let closing = own.iter().chain([&self.slot]).map(|slot| slot.close(patience));
        futures_util::future::join_all(closing).await;
    }

    /// Whether the server is reached over HTTP+SSE, as far as that is known.
    pub(super) fn is_over_sse(&self) -> bool {
        self.connector.is_over_sse()
    }

    /// Closes the connections that are for the client of this session alone.
    pub(super) fn forget_client(&self, session: &str, has_ended: bool) {
        self.own.forget(session, has_ended);
    }

    /// Returns the call whose client has a connection of its own for it; `None` if the request is sent over the shared one. A
    /// client that answers questions or has extensions has a connection of its own to a legacy server over HTTP, because
    /// `initialize` says for the whole connection what the client can do. Clients without a session that can do the same share
    /// such a connection, where questions come in the response to the call that they belong to. Over one stream nobody could
    /// tell whom the server asks, so that such clients use the shared one there. Each client session has a process of its own
    /// if the plan says so. Of a server that gets tokens of users, each user has connections of their own.
    async fn owner<'r>(&self, request: &McpRequest<'r>) -> Result<Option<&'r OutCall>, UpstreamError> {
        if let Some(owner) = self.owner_in(request, self.connector.era()) {
            return Ok(owner);
        }
        let era = self.lease(&self.slot, None, Purpose::Call, false).await?.facts().era;
        Ok(self.owner_in(request, Some(era)).flatten())
    }

    /// Like [`Self::owner`], for a server of this era; `None` if that is not known and decides.
    fn owner_in<'r>(&self, request: &McpRequest<'r>, era: Option<Era>) -> Option<Option<&'r OutCall>> {
        let McpRequest::Use(call) = request else { return Some(None) };
        if self.connector.has_users() {
            return Some(Some(*call));
        }
        let client = &call.client;
        let is_own = if self.connector.is_http() {
            let is_legacy = !client.capabilities.is_empty() && era? == Era::Legacy;
            is_legacy && !(self.is_over_sse() && client.session.is_empty())
        } else {
            self.connector.has_own_processes() && !client.session.is_empty()
        };
        Some(is_own.then_some(*call))
    }

    /// Sends a request and waits for its answer. `limit` includes the time to connect. If the request was not executed,
    /// because the connection had ended or the server refused the negotiated version or headers, it is sent once more
    /// over a new connection. Returns the answer and the use of the connection that it came over. `client` is that of a call,
    /// which is not sent if the client says so once there is a connection.
    async fn ask(
        &self,
        request: McpRequest<'_>,
        purpose: Purpose,
        client: Option<&dyn ToClient>,
        limit: Duration,
    ) -> Result<(Answer, ConnectionUse), UpstreamError> {
        let to = client.filter(|_| matches!(request, McpRequest::Use(call) if call.hears()));
        let limit = limit.min(LONGEST);
        let mut deadline = Instant::now() + limit;
        let mut again = true;
        loop {
            let (slot, lease) = match self.shared_now(&request, purpose) {
                Some(lease) => (Arc::clone(&self.slot), lease),
                // In a box, because most requests need no room for it.
                None => boxed(|| self.connection_in_time(&request, purpose, deadline, limit)).await?,
            };
            deadline = self.prepare(request, (&slot, &lease), client, (deadline, limit)).await?;
            let heard = lease.heard();
            match lease.ask(request, to, deadline.saturating_duration_since(Instant::now())).await {
                Ok(answer) => return Ok((answer, lease)),
                Err(RequestFailure::Refused(refusal)) => {
                    // A new handshake may help.
                    self.renounce(&slot, &lease);
                    if !(refusal.may_be_sent_again() && std::mem::take(&mut again)) {
                        return Err(refusal.into());
                    }
                }
                Err(RequestFailure::Stale(error)) => {
                    // The server may not know the session any more, while its stream is still open.
                    slot.discard(&lease);
                    if !std::mem::take(&mut again) {
                        return Err(error);
                    }
                }
                Err(RequestFailure::Final(UpstreamError::Timeout(_))) => {
                    // Nothing else would notice that the stream of one client is dead.
                    if heard.is_some() && lease.heard() == heard {
                        slot.discard(&lease);
                    }
                    return Err(UpstreamError::Timeout(limit));
                }
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    /// Prepares a connection for a request, and checks at the end whether it may still be sent. Returns the deadline of the request.
    async fn prepare(
        &self,
        request: McpRequest<'_>,
        (slot, lease): (&Arc<ConnectionSlot>, &ConnectionUse),
        client: Option<&dyn ToClient>,
        (mut deadline, limit): (Instant, Duration),
    ) -> Result<Instant, UpstreamError> {
        check_asked(&request, lease)?;
        if let McpRequest::Use(call) = request {
            // The time is not the call's.
            deadline += log_level::report(lease, call, Arc::ptr_eq(slot, &self.slot)).await;
        }
        if let Some(client) = client {
            let prepared = tokio::time::timeout_at(deadline, lease.prepare()).await;
            prepared.unwrap_or(Err(UpstreamError::Timeout(limit)))?;
            check_client(client)?;
        }
        Ok(deadline)
    }

    /// Like [`Self::connection_for`], until `deadline`, which is that of a request with this limit.
    async fn connection_in_time(
        &self,
        request: &McpRequest<'_>,
        purpose: Purpose,
        deadline: Instant,
        limit: Duration,
    ) -> Result<(Arc<ConnectionSlot>, ConnectionUse), UpstreamError> {
        let connecting = tokio::time::timeout_at(deadline, self.connection_for(request, purpose, deadline));
        connecting.await.unwrap_or_else(|_| Err(unready(&self.connector.target.plan, limit)))
    }

    /// Returns a use of the connection that all clients share, if it is open and the request goes over it.
    fn shared_now(&self, request: &McpRequest<'_>, purpose: Purpose) -> Option<ConnectionUse> {
        if self.owner_in(request, self.connector.era())?.is_some() {
            return None;
        }
        let lease = self.slot.current(purpose)?;
        self.greet_first(&lease);
        Some(lease)
    }

    /// Returns a use of the connection to send a request over, and its slot. Where a client gets no connection of its own
    /// in half of the time until `deadline`, such as from a server that takes one session only, the shared one is used,
    /// but not in the place of a process of its own, or of a connection of a user.
    async fn connection_for(
        &self,
        request: &McpRequest<'_>,
        purpose: Purpose,
        deadline: Instant,
    ) -> Result<(Arc<ConnectionSlot>, ConnectionUse), UpstreamError> {
        if let Some(call) = self.owner(request).await? {
            let limit = (deadline - Instant::now()) / 2;
            match self.own_connection(call, purpose, limit).await {
                Ok(own) => return Ok(own),
                Err(error) if self.is_own_needed() => return Err(error),
                Err(error) => {
                    tracing::debug!(upstream = %self.connector.target.plan.key, "a client gets no connection of its own: {error}");
                }
            }
        }
        Ok((Arc::clone(&self.slot), self.lease(&self.slot, None, purpose, false).await?))
    }

    /// Returns a use of the connection that is for the client of this call alone, and its slot. For one that must be made
    /// first, waits at most `limit`, unless it is the only place for the requests of its client.
    async fn own_connection(
        &self,
        call: &OutCall,
        purpose: Purpose,
        limit: Duration,
    ) -> Result<(Arc<ConnectionSlot>, ConnectionUse), UpstreamError> {
        let client = &call.client;
        let user = self.connector.tokens_of(Some(client)).and_then(|tokens| tokens.account());
        let slot = self.own.slot(client, user.as_ref().or(call.account.as_ref()));
        let slot = slot.map_err(if user.is_some() { NoSlot::of_user } else { NoSlot::of_process })?;
        if let Some(lease) = slot.current(purpose) {
            return Ok((slot, lease));
        }
        let made = self.lease(&slot, Some(client), purpose, false);
        let lease = match self.is_own_needed() {
            true => made.await?,
            false => tokio::time::timeout(limit, made).await.unwrap_or(Err(UpstreamError::Timeout(limit)))?,
        };
        Ok((slot, lease))
    }

    /// Whether no other connection stands in for that of a client.
    fn is_own_needed(&self) -> bool {
        self.connector.has_own_processes() || self.connector.has_users()
    }

    /// Greets the server if nobody has over this connection, which clients share.
    fn greet_first(&self, lease: &ConnectionUse) {
        if lease.is_new() {
            self.greet(lease);
        }
    }

    /// Returns a use of the connection in `slot`, which is for the client `of`, or for all if that is `None`.
    async fn lease(
        &self,
        slot: &Arc<ConnectionSlot>,
        of: Option<&ClientKey>,
        purpose: Purpose,
        insist: bool,
    ) -> Result<ConnectionUse, UpstreamError> {
        let connect = || Arc::clone(&self.connector).connect(Arc::downgrade(slot), of.cloned());
        let lease = slot.lease(&self.connector.shared.tasks, purpose, insist, connect).await?;
        if of.is_none() {
            self.greet_first(&lease);
        }
        Ok(lease)
    }
}

/// Whether a variable or a header with this name holds a secret. The configuration of MCP clients has secrets as text.
fn has_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["AUTH", "COOKIE", "CREDENTIAL", "KEY", "PASS", "SECRET", "TOKEN"].iter().any(|part| name.contains(part))
}

impl Server {
    /// Returns an answer with the values of Secrets, of the gateway's environment, of what has the name of a secret and of the
    /// access token hidden where it is an error. What else manifests say openly stays, and so do results, which are the
    /// content of calls.
    fn with_masked_error(&self, answer: Answer, of: Option<&ClientKey>) -> Answer {
        let Answer::Error(error) = answer else { return answer };
        let target = &self.connector.target;
        let named = match &target.plan.transport {
            TransportPlan::External { headers, .. } => &headers[..],
            TransportPlan::Process { env, .. } => &env[..],
            TransportPlan::Pipeline(_) | TransportPlan::Plugin(_) | TransportPlan::None => return Answer::Error(error),
        };
        let is_literal =
            |name: &str| named.iter().any(|it| it.name == name && matches!(it.value, ValueSource::Literal(_)));
        let is_open = |name: &str| is_literal(name) && !has_secret_name(name);
        let hidden = target.values.iter().filter(|(name, _)| !is_open(name)).map(|(_, value)| value);
        Answer::Error(Mask::of(hidden.chain(&self.connector.access_token(of))).masked_error(error))
    }
}

/// A legacy server asks for nothing in a result: it would execute a call that answers one as a new call.
fn check_asked(request: &McpRequest<'_>, lease: &ConnectionUse) -> Result<(), UpstreamError> {
    let is_asked = !request.answers_a_result() || lease.facts().era == Era::Modern;
    is_asked.then_some(()).ok_or(UpstreamError::NeverAsked)
}

/// Checks whether the client of a call still lets it be sent.
fn check_client(client: &dyn ToClient) -> Result<(), UpstreamError> {
    client.may_be_sent().then_some(()).ok_or(UpstreamError::Cancelled)
}
