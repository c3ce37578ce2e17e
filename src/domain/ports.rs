//! The ports: traits through which the use cases reach the outside. Adapters implement them; tests use plain structs.
//!
//! Dropping the future of a call cancels the call. The adapter then notifies the other side.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::budget::Account;
pub use super::client_port::{Answering, ToClient};
use super::descriptor::Descriptor;
pub use super::identity_port::{ApiKey, Authenticate, Credential, FailedIssuer, Methods, NoAuthentication, Unproved};
use super::ids::ObjectKey;
use super::item::{ItemKind, Listed};
use super::model::{ModelAnswer, ModelFailure, ModelRequest};
use super::plan::{PluginPlan, Runtime};
use super::plugin::{Failure, Input, Ran};
pub use super::plugin_progress::PluginProgress;
use super::raw::to_raw;
use super::reason::Reason;
pub use super::record_ports::{Audit, History, NoHistory, RecentFailures, Records};
use super::rpc::{METHOD_NOT_FOUND, RpcError};
use super::sandbox::SandboxState;
use super::secret::{NoSecret, SecretText};
use super::upstream::{
    Answer, OutCall, OutCompletion, Probed, ServerAnswer, Subscribed, Target, UpstreamError, UpstreamEvent,
};

/// A plugin ready to be run: its plan, its code, and its environment with secrets resolved.
#[derive(Clone, Debug)]
pub struct LinkedPlugin {
    /// The plugin in the plan.
    pub plan: PluginPlan,
    /// The plugin's code, of which the plan holds only the digest.
    pub code: Arc<str>,
    /// All environment variables of the plugin's workers.
    pub env: Vec<(String, SecretText)>,
    /// Digest of everything that determines a worker: key, code, file name, folder, the files beside the code, protocol
    /// and its settings, limits, lifetime, egress, environment, pool size, Node.js and the sandbox mode; also, unless it
    /// is middleware, version and configuration. Workers with the same identity are interchangeable, others are not.
    pub identity: String,
    /// Number of warm workers to keep for the plugin.
    pub pool_size: u32,
}

/// Runs plugins in workers.
#[async_trait]
pub trait RunPlugin: Send + Sync + 'static {
    /// Makes a pool for each plugin that does not have one, and starts to load the plugin in a worker. Does not wait
    /// for the loads. The pools of other plugins stay until [`RunPlugin::retire`].
    async fn prepare(&self, wanted: &[Arc<LinkedPlugin>], runtime: &Runtime);

    /// Returns the loading state of the plugin.
    fn loading(&self, plugin: &Arc<LinkedPlugin>) -> Loading;

    /// Waits until more than `seen` loads have ended, successfully or not. Returns how many have ended.
    async fn loads(&self, seen: u64) -> u64;

    /// Drains the pools of all plugins except `keep`: executions in progress are completed, idle workers are ended.
    fn retire(&self, keep: &[Arc<LinkedPlugin>]);

    /// Runs one execution. Waiting for a worker and running together take at most the queue timeout plus `timeout`.
    /// Requests that the plugin makes during the execution go to `host`.
    async fn run(&self, plugin: &Arc<LinkedPlugin>, input: &Input<'_>, timeout: Duration, host: &dyn Host) -> Ran;

    /// Returns `Ok` unless it is known that this process cannot start the plugin. The failure then has the reason
    /// `NotLoaded`.
    fn availability(&self, plugin: &Arc<LinkedPlugin>) -> Result<(), Failure>;

    /// Returns what the code of a plugin says of it (`getDescriptor`); `None` until the plugin is loaded.
    fn described(&self, _: &Arc<LinkedPlugin>) -> Option<Descriptor> {
        None
    }

    /// Lists all workers.
    fn workers(&self) -> Vec<WorkerInfo>;

    /// Returns whether plugins need the complete sandbox, and which of its properties the kernel cannot enforce.
    fn sandbox(&self) -> SandboxState;

    /// Returns the limits that all plugins share, and how much of them is in use.
    fn load(&self) -> PluginLoad;

    /// Ends all workers and waits until they have exited.
    async fn shutdown(&self);
}

/// The loading state of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loading {
    /// The plugin is not being loaded: it was not [prepared](RunPlugin::prepare), or was retired since. Each
    /// execution starts a worker.
    Unprepared,
    /// The plugin's first worker is not ready yet.
    Underway,
    /// A worker has loaded the plugin. The state stays the same, even if all workers of the plugin end.
    Loaded,
    /// All attempts to load the plugin have failed.
    Failed {
        /// The failure, with the reason `NotLoaded`.
        failure: Failure,
        /// Whether the plugin is the cause, rather than this machine.
        own: bool,
    },
}

/// The requests that a plugin can make to the gateway during its execution. Their number is limited. A request that is
/// not answered before the execution ends is dropped.
pub trait Host: Send + Sync {
    /// Reports the progress of the plugin to the client.
    fn progress(&self, progress: PluginProgress);

    /// Calls a tool by the name that the gateway lists it under. The new call has the principal of the call on which
    /// the plugin runs, and goes through the same steps as any other.
    fn call_tool<'a>(&'a self, tool: &'a str, arguments: Option<&'a RawValue>) -> Answering<'a>;

    /// Answers another request, by its name. Only plugins that are not middleware can make some.
    fn callback<'a>(&'a self, op: &'a str, arguments: Option<&'a RawValue>) -> Answering<'a> {
        let _ = arguments;
        let error = RpcError::new(METHOD_NOT_FOUND, format!("{op:?} is no request that this plugin can make"));
        Box::pin(std::future::ready(Answer::Error(to_raw(&error))))
    }

    /// Returns the refusal with this reason and message, if a request of the plugin got it during this execution. A plugin that
    /// does not handle it fails for the same reason.
    fn refusal(&self, reason: &str, message: &str) -> Option<Failure> {
        let _ = (reason, message);
        None
    }

    /// The account of the client for which the plugin runs, which tells clients apart; `None` if there is no client.
    fn account(&self) -> Option<Arc<Account>> {
        None
    }
}

/// The limits that the executions of all plugins share, and their use at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginLoad {
    /// Maximum number of concurrent executions.
    pub permits: u32,
    /// The number of executions that are running.
    pub permits_in_use: u32,
    /// The number of executions that are waiting.
    pub queued: u32,
}

/// A worker process and its use, with the fields of PluginProcess in document 000.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerInfo {
    /// The process id.
    pub pid: u32,
    /// The plugin that the worker runs, as `namespace/name`.
    pub plugin: String,
    /// The plugin's id (document 000, Plugin.id).
    pub plugin_id: String,
    /// SHA-256 of the code that the worker loaded, in hex.
    pub revision: String,
    /// When the worker was started, in Unix milliseconds.
    pub spawned_at: u64,
    /// When the worker was last used, in Unix milliseconds; `None` before its first execution.
    pub last_used_at: Option<u64>,
    /// The number of executions that the worker has served.
    pub execution_count: u64,
    /// Whether the worker can still be used. False if it has ended or is about to be replaced.
    pub is_healthy: bool,
    /// Resident anonymous memory of the process in bytes. Pages of files are not included, such as those of the Node.js
    /// program, because all workers share them. `None` if the system does not report the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The state of the worker.
    pub state: WorkerState,
}

/// The states of a worker, which are those of PluginProcess in document 000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub enum WorkerState {
    /// Started, but not ready yet.
    Spawned,
    /// Ready and idle.
    Available,
    /// Serving an execution.
    Executing,
    /// About to be replaced.
    Unhealthy,
    /// Ended.
    Terminated,
}

impl WorkerState {
    /// Returns the state as a metric label; `None` for a worker that has ended.
    pub fn as_label(self) -> Option<&'static str> {
        match self {
            Self::Spawned => Some("spawned"),
            Self::Available => Some("available"),
            Self::Executing => Some("executing"),
            Self::Unhealthy => Some("unhealthy"),
            Self::Terminated => None,
        }
    }
}

/// Connects to upstream MCP servers and calls them.
#[async_trait]
pub trait CallUpstream: Send + Sync + 'static {
    /// Registers these upstreams, before a plan that names them is put in force. Does not connect to them yet. Other
    /// upstreams stay registered until [`CallUpstream::retire`].
    fn prepare(&self, targets: &[Target]);

    /// Closes the connections of all upstreams except `keep`, and removes those upstreams.
    fn retire(&self, keep: &[Target]);

    /// Connects to the server with a handshake, or, if the server is already connected, sends it a request (`ping`,
    /// `server/discover`).
    async fn probe(&self, target: &Target, timeout: Duration) -> Result<Probed, UpstreamError>;

    /// Fetches all pages of a list, in the server's order, within `timeout`. It is empty if the server announces no such items.
    async fn list(&self, target: &Target, kind: ItemKind, timeout: Duration) -> Result<Listed, UpstreamError>;

    /// Sends a request that uses one item. Notifications that the server sends meanwhile go to `client`. A server of the
    /// legacy era is not sent what answers a result ([`UpstreamError::NeverAsked`]).
    fn call<'a>(
        &'a self,
        target: &'a Target,
        call: &'a OutCall,
        client: &'a dyn ToClient,
    ) -> BoxFuture<'a, Result<ServerAnswer, UpstreamError>>;

    /// Whether a server at a URL is reached over HTTP+SSE, as far as that is known.
    fn is_over_sse(&self, target: &Target) -> bool {
        let _ = target;
        false
    }

    /// Sends a request for completions. Returns `None` without sending it if the server does not announce that it
    /// completes arguments.
    async fn complete(&self, target: &Target, completion: &OutCompletion) -> Result<Option<Answer>, UpstreamError> {
        let _ = (target, completion);
        Ok(None)
    }

    /// Makes the server report changes of a resource, as [`UpstreamEvent::Updated`]. The server is asked once however often
    /// this is called, and again over each new connection, until [`CallUpstream::unsubscribe`] was called as often as this
    /// returned [`Subscribed::Yes`].
    async fn subscribe(&self, target: &Target, uri: &str, timeout: Duration) -> Result<Subscribed, UpstreamError> {
        let _ = (target, uri, timeout);
        Ok(Subscribed::Unsupported)
    }

    /// Ends one subscription to a resource. Does not wait for the server.
    fn unsubscribe(&self, upstream: &ObjectKey, uri: &str) {
        let _ = (upstream, uri);
    }

    /// Counts log messages of an upstream that were dropped because their clients did not read them in time.
    fn log_dropped(&self, upstream: &ObjectKey, messages: usize);

    /// Closes the connections that are for the client of this session alone. If its client has ended the session
    /// (`has_ended`), it gets no further ones; a session that ended by itself may go on later.
    fn forget_client(&self, session: &str, has_ended: bool) {
        let _ = (session, has_ended);
    }

    /// Waits for the next event that an upstream reports on its own. Only one task can call this at a time.
    async fn next_event(&self) -> UpstreamEvent;

    /// Closes all connections, ends all child processes, and waits until these have exited.
    async fn shutdown(&self);

    /// Like [`CallUpstream::shutdown`], but child processes are killed immediately. Also cuts short a shutdown that is
    /// under way.
    async fn abort(&self);
}

/// Calls language models.
#[async_trait]
pub trait CompleteModel: Send + Sync + 'static {
    /// Requests a chat completion. A request that fails for a passing reason is sent again, a few times.
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelAnswer, ModelFailure>;
}

/// No model can be reached.
pub struct NoModels;

#[async_trait]
impl CompleteModel for NoModels {
    async fn complete(&self, _: &ModelRequest<'_>) -> Result<ModelAnswer, ModelFailure> {
        Err(ModelFailure::new(Reason::ModelUnavailable, "this process calls no models"))
    }
}

/// A clock, so that tests can set the time.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time in Unix milliseconds.
    fn unix_millis(&self) -> u64;

    /// Returns the time since a fixed moment. Never goes back.
    fn monotonic(&self) -> Duration;
}

/// Resolves the secret values that plans refer to.
pub trait Secrets: Send + Sync {
    /// Returns the value under `key` of a Secret.
    ///
    /// # Errors
    /// Why the value is not available.
    fn secret(&self, secret: &ObjectKey, key: &str) -> Result<SecretText, NoSecret>;

    /// Returns the keys of a Secret of the gateway's own namespace; none if there is no such Secret.
    fn keys(&self, _secret: &ObjectKey) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Returns the value of a variable of the gateway's own environment; `None` if it is not set.
    fn environment(&self, name: &str) -> Option<SecretText>;
}

/// Analyses plugin code without running it.
pub trait Inspect: Send + Sync {
    /// Returns what the code exports and reads. The extension of `file_name` decides between ES module and CommonJS.
    /// The same code always has the same facts.
    ///
    /// # Errors
    /// If the code cannot be analysed now. This says nothing about the code, so the error must not be cached.
    fn inspect(&self, code: &str, file_name: &str) -> impl Future<Output = Result<CodeFacts, Unavailable>> + Send;
}

/// Why code could not be analysed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The parser did not answer within this time.
    #[error("the parser does not get through plugin code within {0:?}")]
    Late(Duration),
    /// The parser could not be started or reached.
    #[error("plugin code cannot be parsed now: {0}")]
    Unasked(String),
}

/// The facts about plugin code that parsing it finds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CodeFacts {
    /// Why the code does not parse. If set, the other fields are empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<SyntaxProblem>,
    /// Whether the code is an ES module: it has an import, an export, or a top-level `await`.
    #[serde(default)]
    pub is_module: bool,
    /// The names that the code exports, including `default`, and `*` if it exports names of another module without
    /// listing them. For CommonJS, the names that it assigns to `module.exports` or `exports`.
    #[serde(default)]
    pub exports: Vec<String>,
    /// The names of the environment variables that the code reads as `process.env.NAME`.
    #[serde(default)]
    pub reads_env: Vec<String>,
}

impl CodeFacts {
    /// Creates the facts for code that counts as unparsable for a reason that has no line and column, such as its size.
    pub fn unparsed(message: String) -> Self {
        Self { error: Some(SyntaxProblem { line: 0, column: 0, message }), ..Self::default() }
    }
}

/// Where and why code does not parse. The message names what was expected, never the code's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyntaxProblem {
    /// Line, from 1; 0 if unknown.
    pub line: u32,
    /// Column, from 1; 0 if unknown.
    pub column: u32,
    /// What the parser expected.
    pub message: String,
}
