//! An upstream as the engine sees it: its target, its answers, its errors.

use core::net::IpAddr;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::announcement::Announcement;
use super::budget::Account;
use super::capabilities::ClientCapabilities;
use super::ids::ObjectKey;
use super::item::ItemKind;
use super::log_level::LogLevel;
use super::method::Method;
use super::plan::UpstreamPlan;
use super::secret::{Mask, SecretText};
use super::version::Era;

pub use super::upstream_error::UpstreamError;

/// How long calls wait for the first start of a process. It is long because `npx` may have to download the program.
pub const FIRST_START: Duration = Duration::from_secs(60);

/// The maximum number of resources of one upstream that can be subscribed to.
pub const MAX_SUBSCRIBED: usize = 1024;

/// An upstream with everything that is needed to connect to it: its plan, and the values of its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamTarget {
    /// The upstream in the plan.
    pub plan: UpstreamPlan,
    /// The headers or environment variables with their values, in the order of the plan's list. Optional values that
    /// are missing are left out.
    pub values: Vec<(String, SecretText)>,
    /// The certificates of the connection and the secret of OAuth with their values, in the order of the plan's list.
    pub tls: Vec<(String, SecretText)>,
    /// The addresses that the server may have although no upstream may by default.
    pub allowed_addresses: Vec<IpAddr>,
    /// Maximum size of an answer in bytes.
    pub max_response_size: u64,
}

impl UpstreamTarget {
    /// Returns a mask that hides the secret values of this target in what the server sends.
    pub fn mask(&self) -> Mask {
        Mask::of(self.values.iter().map(|(_, value)| value))
    }
}

/// What a server reports about itself in the handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServerFacts {
    /// The MCP era of the server.
    pub era: Era,
    /// The MCP version that gateway and server agreed on.
    pub version: String,
    /// The server's name, if it reports one.
    pub server_name: Option<String>,
    /// The server's version, if it reports one.
    pub server_version: Option<String>,
    /// Whether the server supports listing tools.
    pub has_tools: bool,
    /// Whether the server supports listing prompts.
    pub has_prompts: bool,
    /// Whether the server supports listing resources and their templates.
    pub has_resources: bool,
    /// What clients are told of the server.
    #[serde(skip)]
    pub announcement: Announcement,
    /// Whether the server completes arguments.
    pub has_completions: bool,
    /// Whether the server reports changes of resources that it is asked for.
    pub has_subscriptions: bool,
    /// Whether the server sends log messages.
    pub has_logging: bool,
    /// The kinds of items whose lists the server announces when they change.
    pub announces: Vec<ItemKind>,
}

impl ServerFacts {
    /// The facts of a server that says nothing but its version.
    pub fn new(era: Era, version: &str) -> Self {
        Self {
            era,
            version: version.to_owned(),
            server_name: None,
            server_version: None,
            has_tools: false,
            has_prompts: false,
            has_resources: false,
            announcement: Announcement::default(),
            has_completions: false,
            has_subscriptions: false,
            has_logging: false,
            announces: Vec::new(),
        }
    }

    /// Whether the server supports listing items of this kind.
    pub fn has(&self, kind: ItemKind) -> bool {
        match kind {
            ItemKind::Tool => self.has_tools,
            ItemKind::Prompt => self.has_prompts,
            ItemKind::Resource | ItemKind::Template => self.has_resources,
        }
    }

    /// Returns the facts with secret values hidden in what the server reports.
    pub fn masked(&self, mask: &Mask) -> Self {
        let hidden = |said: &Option<String>| said.as_ref().map(|said| mask.masked(said).into_owned());
        Self {
            server_name: hidden(&self.server_name),
            server_version: hidden(&self.server_version),
            announcement: self.announcement.masked(mask),
            ..self.clone()
        }
    }
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probed {
    /// The server is connected and answers.
    Up(ServerFacts),
    /// The server is connected, but works on a call and handles one request at a time, so it does not answer the probe
    /// yet.
    Busy,
    /// The connection was closed because no call used it. The next call or list opens it again; a probe does not.
    Resting,
}

/// Members of `params` as raw JSON, but the name of the item, `_meta`, `task`, and those of an [`InputRound`].
pub type OutMembers = Vec<(Cow<'static, str>, Box<RawValue>)>;

/// A request that uses one item, to be sent to an upstream: a tool call, or the fetching of a prompt or a resource.
#[derive(Clone, Debug)]
pub struct OutCall {
    /// The kind of the item, which determines the method.
    pub kind: ItemKind,
    /// The server's own name for the item, or its URI.
    pub name: String,
    /// The other members of `params`, such as `arguments`.
    pub members: OutMembers,
    /// The members of the client's `_meta` that are forwarded: the trace context, and those that MCP does not define.
    pub meta: Vec<(String, Box<RawValue>)>,
    /// Whether the client asked for progress notifications.
    pub wants_progress: bool,
    /// The lowest severity of log messages that the client wants; `None` if it wants none.
    pub log_level: Option<LogLevel>,
    /// How long to wait for the answer.
    pub timeout: Duration,
    /// Whether each progress notification of the server restarts the timeout.
    pub extend_on_progress: bool,
    /// The client that the server may ask during the call.
    pub client: ClientKey,
    /// How closely chains look at what the server asks during the call.
    pub watch: QuestionWatch,
    /// The account of the client's address, which has a share of the connections of clients of their own; `None` if no
    /// client made the call.
    pub account: Option<Arc<Account>>,
    /// The client's own token, if it is exchanged for one for the server. It is never sent to the server.
    pub token: Option<Arc<SecretText>>,
    /// What the client answers to an earlier result that asked for input.
    pub round: InputRound,
    /// The task that the request is about; `None` for requests that use the item themselves.
    pub task: Option<OutTask>,
    /// `params.task`, with which a client asks for a task: a JSON object. Only servers of the legacy era are sent it.
    pub task_wish: Option<Box<RawValue>>,
    /// The lowest level of log messages that the client asked for, of which a server with sessions is told before the call;
    /// `None` if it did not ask.
    pub asked_log_level: Option<LogLevel>,
}

impl OutCall {
    /// Whether the client may hear something of the server before the answer.
    pub fn hears(&self) -> bool {
        self.wants_progress || self.log_level.is_some() || !self.client.capabilities.answers_nothing()
    }
}

/// A request for completions of an argument (MCP, completion), to be sent to an upstream.
#[derive(Clone, Debug)]
pub struct OutCompletion {
    /// The members of `params`, but `_meta`. `ref` has the server's own name.
    pub members: OutMembers,
    /// The members of the client's `_meta` that are forwarded, as in [`OutCall`].
    pub meta: Vec<(String, Box<RawValue>)>,
    /// How long to wait for the answer.
    pub timeout: Duration,
}

/// What became of a request to report the changes of a resource.
#[derive(Debug)]
pub enum Subscribed {
    /// The server reports them.
    Yes,
    /// The server announces that it reports no changes.
    Unsupported,
    /// As many resources of the upstream are subscribed to as may be.
    TooMany,
    /// The server answered with this error.
    Refused(Box<RawValue>),
}

/// A task that an earlier call of an item began (SEP-2663; MCP 2025-11-25, tasks).
#[derive(Clone, Debug)]
pub struct OutTask {
    /// The method of the request.
    pub method: Method,
    /// The server's own id of the task.
    pub id: String,
}

/// What a client sends with a call that it repeats because the result asked for input (MCP 2026-07-28, multi-round-trip
/// requests). Empty for other calls.
#[derive(Clone, Debug, Default)]
pub struct InputRound {
    /// `params.inputResponses`: an object of the answers.
    pub responses: Option<Box<RawValue>>,
    /// `params.requestState`: a string of the server, sent back as it came.
    pub state: Option<Box<RawValue>>,
}

impl InputRound {
    /// Whether the client answers nothing.
    pub fn is_empty(&self) -> bool {
        self.responses.is_none() && self.state.is_none()
    }
}

/// How closely chains look at what a server asks during a call. A question that may belong to several calls is put to the
/// client of one of those at which they look most closely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuestionWatch {
    /// No chain sees a question.
    #[default]
    None,
    /// Chains see some of them.
    Watched,
    /// A question passes only if a plugin has run on it that checks it.
    Checked,
}

/// The key of a connection to a server that is not for all: what the client can do, and who that is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientKey {
    /// The questions that the client answers, and its extensions.
    pub capabilities: ClientCapabilities,
    /// The id of the client's session; empty if it has none.
    pub session: String,
    /// The user whose token is exchanged for one for the server, by [`token_key`](super::identity::Identity::token_key); empty
    /// if the server gets none.
    pub user: String,
}

impl OutCall {
    /// Returns the method of the request.
    pub fn method(&self) -> Method {
        self.task.as_ref().map_or_else(|| self.kind.used_by(), |task| task.method)
    }

    /// Returns the arguments; `None` if there are none.
    pub fn arguments(&self) -> Option<&RawValue> {
        self.members.iter().find(|(name, _)| name == "arguments").map(|(_, arguments)| &**arguments)
    }
}

/// An answer of a server, unchanged.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The `result` member of the response.
    Result(Box<RawValue>),
    /// The `error` member of the response.
    Error(Box<RawValue>),
}

/// An answer, and the era of the connection that it came over: a server can have changed it since the last probe.
#[derive(Clone, Debug)]
pub struct ServerAnswer {
    /// The era, in whose words the answer is.
    pub era: Era,
    /// The answer.
    pub answer: Answer,
}

/// Something that an upstream reports without being asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamEvent {
    /// The server announced that its list of items of this kind changed. For resources, this includes the list of their
    /// templates.
    ListChanged(ObjectKey, ItemKind),
    /// The same may have happened while the server could not announce it.
    ListStale(ObjectKey, ItemKind),
    /// A resource with this URI changed, which is one that was subscribed to or a part of one.
    Updated(ObjectKey, String),
    /// The server sent a log message outside of a response, over the connection of the session with this id. The text is that
    /// of the parameters.
    Logged(ObjectKey, String, String),
    /// The upstream's connection or process ended.
    Disconnected(ObjectKey),
    /// The server's answer suggests that it uses another MCP era.
    Doubtful(ObjectKey),
}

/// A shared [`UpstreamTarget`].
pub type Target = Arc<UpstreamTarget>;
