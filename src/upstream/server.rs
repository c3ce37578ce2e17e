//! One upstream: its target, and the one connection that its calls share.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::domain::plan::TransportPlan;
use crate::domain::ports::ToClient;
use crate::domain::tool::Tool;
use crate::domain::upstream::{Answer, Era, FIRST_START, OutCall, ServerFacts, Target, UpstreamError, UpstreamEvent};

use super::link::{Failure, Link};
use super::shared::Shared;
use super::slot::{Lease, Slot};
use super::stdio::Process;
use super::streamable::{Endpoint, Session};
use super::tools::ToolList;
use super::wire::Request;

/// No request waits longer, whatever it says.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// The shortest time between two looks at whether a session is idle.
const SHORTEST_LOOK: Duration = Duration::from_millis(50);

/// One upstream.
#[derive(Debug)]
pub(super) struct Server {
    plan: Arc<Plan>,
    slot: Arc<Slot>,
}

/// How connections to it are made.
#[derive(Debug)]
struct Plan {
    target: Target,
    way: Way,
    shared: Arc<Shared>,
    /// The era of the last handshake; none before the first one and after one that failed.
    era: Mutex<Option<Era>>,
    /// Whether it was ever connected to.
    connected: Mutex<bool>,
}

#[derive(Debug)]
enum Way {
    Process,
    Http(Arc<Endpoint>),
    None(UpstreamError),
}

impl Server {
    /// Nothing is connected yet.
    pub(super) fn new(target: &Target, shared: &Arc<Shared>) -> Self {
        let way = match &target.plan.transport {
            _ if !target.plan.enabled => Way::None(UpstreamError::Connect("it is disabled".into())),
            TransportPlan::Process { .. } => Way::Process,
            TransportPlan::External { url, .. } => match Endpoint::new(target, url, shared) {
                Ok(endpoint) => Way::Http(Arc::new(endpoint)),
                Err(error) => Way::None(error),
            },
            TransportPlan::None => Way::None(UpstreamError::Connect("it has no transport that is spoken here".into())),
        };
        let (target, shared) = (Arc::clone(target), Arc::clone(shared));
        let plan = Plan { target, way, shared, era: Mutex::default(), connected: Mutex::default() };
        Self { plan: Arc::new(plan), slot: Arc::default() }
    }

    /// The target that it was made for.
    pub(super) fn target(&self) -> &Target {
        &self.plan.target
    }

    /// Whether a connection of ours is one for this target: what else a plan says is not the connection's business.
    pub(super) fn serves(&self, target: &Target) -> bool {
        let (ours, theirs) = (&self.plan.target, target);
        let (our, their) = (&ours.plan, &theirs.plan);
        our.key == their.key
            && our.enabled == their.enabled
            && our.transport == their.transport
            && our.era == their.era
            && our.connect_timeout_ms == their.connect_timeout_ms
            && our.idle_timeout_ms == their.idle_timeout_ms
            && ours.values == theirs.values
            && ours.max_response_size == theirs.max_response_size
    }

    /// Connects, or asks a connected server something that it allows.
    pub(super) async fn probe(&self, limit: Duration) -> Result<ServerFacts, UpstreamError> {
        let Some(lease) = self.slot.current() else {
            return Ok(self.lease(true).await?.facts().clone());
        };
        let facts = lease.facts().clone();
        let request = if facts.era == Era::Modern { Request::Discover } else { Request::Ping };
        match lease.ask(request, None, limit).await {
            // An error is an answer too: not every server knows `ping`.
            Ok(_) => Ok(facts),
            Err(Failure::Stale(_)) => {
                drop(lease);
                Ok(self.lease(true).await?.facts().clone())
            }
            Err(Failure::Final(error)) => {
                if matches!(error, UpstreamError::Timeout(_)) && lease.is_sole() {
                    // Nobody waits for it, and it does not answer: the next probe begins anew.
                    lease.stop();
                }
                Err(error)
            }
        }
    }

    /// All pages of its tool list.
    pub(super) async fn list_tools(&self, limit: Duration) -> Result<Vec<Tool>, UpstreamError> {
        let lease = self.lease(false).await?;
        if !lease.facts().has_tools {
            return Ok(Vec::new());
        }
        drop(lease);
        let (mut list, mut cursor) = (ToolList::new(self.plan.target.plan.key.clone()), None);
        loop {
            let (answer, lease) = self.ask(Request::ListTools(cursor.as_deref()), None, limit).await?;
            cursor = list.add(&answer)?;
            if cursor.is_none() {
                let mut tools = list.finish();
                lease.note_tools(&mut tools);
                return Ok(tools);
            }
        }
    }

    /// Sends a tool call.
    pub(super) async fn call(&self, call: &OutCall, client: &dyn ToClient) -> Result<Answer, UpstreamError> {
        let to = call.wants_progress.then_some(client);
        let (answer, _lease) = self.ask(Request::CallTool(call), to, call.timeout).await?;
        Ok(answer)
    }

    /// Lets no new call in, waits up to `patience` for those in flight, and ends the connection.
    pub(super) async fn close(&self, patience: Duration) {
        self.slot.close(patience).await;
    }

    /// Asks within `limit`, connecting included. What was not executed because the connection had ended is asked once
    /// more on a new one.
    async fn ask(
        &self,
        request: Request<'_>,
        to: Option<&dyn ToClient>,
        limit: Duration,
    ) -> Result<(Answer, Lease), UpstreamError> {
        let limit = limit.min(LONGEST);
        let deadline = Instant::now() + limit;
        let mut again = true;
        loop {
            let lease = match self.slot.current() {
                Some(lease) => lease,
                None => tokio::time::timeout_at(deadline, self.lease(false))
                    .await
                    .unwrap_or_else(|_| Err(UpstreamError::Connect(format!("not connected within {limit:?}"))))?,
            };
            match lease.ask(request, to, deadline - Instant::now()).await {
                Ok(answer) => return Ok((answer, lease)),
                Err(Failure::Stale(_)) if std::mem::take(&mut again) => {}
                Err(Failure::Final(UpstreamError::Timeout(_))) => return Err(UpstreamError::Timeout(limit)),
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    async fn lease(&self, insist: bool) -> Result<Lease, UpstreamError> {
        let connect = || Arc::clone(&self.plan).connect(Arc::downgrade(&self.slot));
        self.slot.lease(&self.plan.shared.tasks, insist, connect).await
    }
}

impl Plan {
    async fn connect(self: Arc<Self>, slot: Weak<Slot>) -> Result<Link, UpstreamError> {
        let before = *lock(&self.era);
        let made = self.open(before, &slot).await;
        *lock(&self.era) = made.as_ref().ok().map(|link| link.facts().era);
        let link = made.map_err(|error| match error {
            UpstreamError::Timeout(limit) => UpstreamError::Connect(format!("no handshake within {limit:?}")),
            error => error,
        })?;
        let facts = link.facts();
        let key = &self.target.plan.key;
        tracing::info!(upstream = %key, era = facts.era.as_str(), version = facts.version, "connected");
        if std::mem::replace(&mut *lock(&self.connected), true) {
            // What the server said of its tools in between is lost.
            self.shared.events.tell(UpstreamEvent::ToolsChanged(key.clone()));
        }
        Ok(link)
    }

    async fn open(&self, before: Option<Era>, slot: &Weak<Slot>) -> Result<Link, UpstreamError> {
        let limit = Duration::from_millis(u64::from(self.target.plan.connect_timeout_ms));
        match &self.way {
            Way::None(error) => Err(error.clone()),
            Way::Process => {
                let limit = if *lock(&self.connected) { limit } else { limit.max(FIRST_START) };
                Ok(Link::Process(Process::connect(&self.target, &self.shared, before, limit).await?))
            }
            Way::Http(endpoint) => {
                let session = Session::connect(endpoint, before, limit).await?;
                if session.facts().era == Era::Legacy {
                    let idle = Duration::from_millis(u64::from(self.target.plan.idle_timeout_ms));
                    self.shared.tasks.spawn(end_when_idle(slot.clone(), session.ended(), idle));
                }
                Ok(Link::Http(session))
            }
        }
    }
}

/// Ends a session that nobody has used for `limit`; a probe is a use.
async fn end_when_idle(slot: Weak<Slot>, ended: CancellationToken, limit: Duration) {
    let look = (limit / 4).max(SHORTEST_LOOK);
    while tokio::time::timeout(look, ended.cancelled()).await.is_err() {
        let Some(slot) = slot.upgrade() else { return };
        slot.evict_idle(limit);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
