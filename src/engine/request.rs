//! A request by a client or a plugin, and the reply to it. All use cases share these types.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::domain::budget::Reservation;
use crate::domain::capabilities::ClientCapabilities;
use crate::domain::history::session_name;
use crate::domain::identity::Identity;
use crate::domain::item::ItemKind;
use crate::domain::limits::Tracker;
use crate::domain::log_level::LogLevel;
use crate::domain::method::Method;
use crate::domain::mirror::Mirrored;
use crate::domain::ports::ToClient;
use crate::domain::rpc::RpcError;
use crate::domain::secret::SecretText;
use crate::domain::task::OpenTask;
use crate::domain::upstream::InputRound;
use crate::domain::version::{Era, MODERN_VERSION};
use crate::engine::plan::snapshot::{Lookup, Snapshot};

pub use crate::engine::plan::endpoint::Endpoint;
pub(crate) use crate::engine::plan::endpoint::ItemName;

/// What a call of a pipeline has for its chains and its waits, in addition to the time of its run.
const BESIDE_RUN: Duration = Duration::from_secs(60);

/// The client that sent a request.
#[derive(Clone)]
pub struct Caller {
    /// The era of the client's protocol version.
    pub era: Era,
    /// The version of the protocol that the client speaks.
    pub version: &'static str,
    /// The identity that the credentials prove.
    pub identity: Arc<Identity>,
    /// The token that proves it; `None` if the client has proved it in another way, or to another replica.
    pub token: Option<Arc<SecretText>>,
    /// The id of the session; empty in the modern era, because it has no sessions.
    pub session: String,
    /// The questions of servers that the client answers, and its extensions.
    pub capabilities: ClientCapabilities,
    /// Counts the calls of the session, principal or address.
    pub tracker: Arc<Tracker>,
    /// Whether `tracker` counts by address. Many clients can share an address (behind an ingress, all of them do), so
    /// limits by address apply only while more than half of the calls that the gateway allows are in flight.
    pub by_address: bool,
}

impl Caller {
    /// A client of the modern era without capabilities, of which only the identity counts.
    pub fn without_session(identity: Arc<Identity>) -> Self {
        Self {
            era: Era::Modern,
            version: MODERN_VERSION,
            identity,
            token: None,
            session: String::new(),
            capabilities: ClientCapabilities::default(),
            tracker: Arc::default(),
            by_address: false,
        }
    }

    /// The identity, if it is known whole.
    pub fn whole_identity(&self) -> Option<Arc<Identity>> {
        Some(&self.identity).filter(|identity| identity.is_whole()).cloned()
    }

    /// Returns the name of the session in lists and records; empty in the modern era.
    pub(super) fn session_name(&self) -> String {
        session_name(&self.session)
    }
}

/// A request that uses one item: a tool call, or the fetching of a prompt or a resource.
pub struct CallRequest<'a> {
    /// The endpoint that received the request.
    pub endpoint: Endpoint<'a>,
    /// The client that sent the request. For a call that a plugin makes, the client of the enclosing call.
    pub caller: &'a Caller,
    /// The id of the call, if it has one before it begins: a UUID.
    pub id: Option<&'a str>,
    /// The id of the client's JSON-RPC request, as JSON; `None` for a call that no client makes over HTTP.
    pub rpc_id: Option<&'a str>,
    /// The kind of the item, which determines the method. Resources of templates are [`ItemKind::Resource`] too.
    pub kind: ItemKind,
    /// `params.name`, or `params.uri` of a resource.
    pub name: &'a str,
    /// `params.arguments` of a tool call; of other requests, all of `params`.
    pub input: Option<&'a RawValue>,
    /// `params._meta`.
    pub meta: Option<&'a RawValue>,
    /// What the client answers to an earlier result that asked for input.
    pub round: InputRound,
    /// Whether the client asked for progress notifications.
    pub wants_progress: bool,
    /// The lowest severity of the server's log messages that the client wants; `None` if it wants none.
    pub log_level: Option<LogLevel>,
    /// The channel to the client while the call runs.
    pub client: &'a dyn ToClient,
    /// Reserves memory for the answer until the caller of `Calls::call` has processed it.
    pub reservation: &'a Reservation,
    /// Compares arguments with the headers in which clients of the modern era repeat them; `None` for other calls.
    pub check_mirrored: Option<&'a CheckMirrored<'a>>,
    /// The call whose plugin makes this one; `None` if a client makes it.
    pub within: Option<Within<'a>>,
    /// What the request has to do with tasks.
    pub task: TaskUse<'a>,
}

/// What a request has to do with tasks, that is, with calls that go on after their answer.
#[derive(Clone, Copy, Debug, Default)]
pub enum TaskUse<'a> {
    /// Nothing, as far as the client says. A server of the modern era can still begin one.
    #[default]
    None,
    /// The client wants the call to go on as a task: `params.task` (MCP 2025-11-25, tasks).
    Begins(&'a RawValue),
    /// The request is about a task that an earlier call of the tool began.
    Of(&'a OpenTask),
}

/// Compares a tool's marked arguments with the headers that repeat them. Returns an error if they differ.
pub type CheckMirrored<'a> = dyn Fn(&[Mirrored]) -> Result<(), RpcError> + Sync + 'a;

/// The enclosing call of a call that a plugin makes.
#[derive(Clone, Copy)]
pub struct Within<'a> {
    /// The id of the enclosing call.
    pub request_id: &'a str,
    /// How many calls enclose the new call, at least 1.
    pub depth: u32,
    /// Whether a step of a pipeline makes the call.
    pub is_of_pipeline: bool,
}

impl CallRequest<'_> {
    /// Returns the name of the item that the request uses.
    pub(super) fn item(&self) -> ItemName<'_> {
        ItemName { endpoint: self.endpoint, kind: self.kind, name: self.name }
    }

    /// Returns how long the request may take: as long as a run of its pipeline, if that is longer than other calls.
    pub(super) fn ceiling(&self, snapshot: &Snapshot) -> Duration {
        let ceiling = Duration::from_millis(snapshot.plan().gateway.limits.call_ceiling_ms.into());
        let upstreams = &snapshot.linked.upstreams;
        if self.kind != ItemKind::Tool || upstreams.iter().all(|upstream| upstream.pipeline.is_none()) {
            return ceiling;
        }
        let Lookup::Found(found) = self.item().find(snapshot) else { return ceiling };
        let pipeline = upstreams[found.route.upstream].target.plan.pipeline();
        let run = pipeline.map(|pipeline| Duration::from_secs(pipeline.budgets.timeout_seconds.into()));
        run.map_or(ceiling, |run| ceiling.max(run + BESIDE_RUN))
    }

    /// Returns the method of the request.
    pub(super) fn method(&self) -> Method {
        self.open_task().map_or_else(|| self.kind.used_by(), |task| task.method)
    }

    /// Returns the task that the request is about; `None` if it is about none.
    pub(super) fn open_task(&self) -> Option<&OpenTask> {
        if let TaskUse::Of(task) = self.task { Some(task) } else { None }
    }

    /// Whether the request counts as a call of its session: it does unless it is about a task, whose call was counted.
    pub(super) fn is_call(&self) -> bool {
        self.open_task().is_none()
    }

    /// How many calls enclose this one; 0 for a call of a client.
    pub(super) fn depth(&self) -> u32 {
        self.within.map_or(0, |within| within.depth)
    }
}

/// Makes calls on behalf of plugins and pipelines. They pass the same stages as calls of clients.
pub(in crate::engine) trait InnerCalls: Send + Sync {
    /// Runs a call and returns the reply.
    fn call<'a>(self: Arc<Self>, request: CallRequest<'a>) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>>;
}

/// The reply to a call.
#[derive(Debug)]
pub enum Reply {
    /// The upstream's `result`, or one that the gateway made.
    Result(Box<RawValue>),
    /// The `error` that the upstream sent.
    UpstreamError(Box<RawValue>),
    /// An `error` of the gateway itself.
    Error(RpcError),
}
