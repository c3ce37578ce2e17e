//! What the use cases ask of the outside, as traits. Adapters implement them, tests put plain structs in.
//!
//! A call is cancelled by dropping its future: the adapter then tells the other side.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use serde_json::value::RawValue;

use super::ids::ObjectKey;
use super::plan::{PluginPlan, Runtime};
use super::plugin::{Failure, Input, Ran};
use super::record::{CallRecord, PluginExecution};
use super::sandbox::SandboxState;
use super::secret::{NoSecret, SecretText};
use super::tool::Listed;
use super::upstream::{Answer, OutCall, Probed, Target, UpstreamError, UpstreamEvent};

/// A plugin ready to be run: its plan, its code, its environment with secrets resolved.
#[derive(Clone, Debug)]
pub struct LinkedPlugin {
    /// The plan.
    pub plan: PluginPlan,
    /// Its code, the text whose digest the plan names.
    pub code: Arc<str>,
    /// Its whole environment.
    pub env: Vec<(String, SecretText)>,
    /// What a worker is made of: a digest of key, code, file name, folder, the files beside the code, protocol and its
    /// settings, limits, lifetime, egress, environment, pool size, Node.js and how much the sandbox matters. Workers of one
    /// identity are alike; another identity means new workers.
    pub identity: String,
    /// Warm workers to keep.
    pub pool_size: u32,
}

/// Runs plugins in workers.
#[async_trait]
pub trait RunPlugin: Send + Sync + 'static {
    /// Makes a pool for each plugin that has none yet, and begins to load the plugin in a worker. Waits for none of them.
    /// Pools of plugins that are not named stay until [`RunPlugin::retire`].
    async fn prepare(&self, wanted: &[Arc<LinkedPlugin>], runtime: &Runtime);

    /// How far a plugin is loaded.
    fn loading(&self, plugin: &Arc<LinkedPlugin>) -> Loading;

    /// Waits until more than `seen` loads have ended, well or not, and says how many have.
    async fn loads(&self, seen: u64) -> u64;

    /// Drains the pools of all plugins but these: running calls end, idle workers go.
    fn retire(&self, keep: &[Arc<LinkedPlugin>]);

    /// Runs one execution. Never waits longer than the queue's deadline and `timeout` together. What the plugin asks for
    /// meanwhile goes to `host`.
    async fn run(&self, plugin: &Arc<LinkedPlugin>, input: &Input<'_>, timeout: Duration, host: &dyn Host) -> Ran;

    /// Whether this process can start the plugin at all, as far as it knows. An error has reason `NotLoaded`.
    fn availability(&self, plugin: &Arc<LinkedPlugin>) -> Result<(), Failure>;

    /// Every worker there is.
    fn workers(&self) -> Vec<WorkerInfo>;

    /// How it stands with the sandbox that they run in.
    fn sandbox(&self) -> SandboxState;

    /// How much of what bounds all plugins together is in use.
    fn load(&self) -> PluginLoad;

    /// Ends every worker and waits for it.
    async fn shutdown(&self);
}

/// How far a plugin is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loading {
    /// Nothing loads it: it was not [prepared](RunPlugin::prepare), or let go since. Each of its calls starts a worker.
    Unprepared,
    /// Its first worker is not ready yet.
    Underway,
    /// A worker has loaded it. It stays so, whatever becomes of its workers.
    Loaded,
    /// It was tried, and no worker has ever loaded it.
    Failed {
        /// Why. Its reason is `NotLoaded`.
        failure: Failure,
        /// Whether that is the plugin's own fault, not that of the machine.
        own: bool,
    },
}

/// What a plugin may ask of the gateway while its call runs. Everything that it asks is bounded here, and ends with the
/// call: what is not answered by then is dropped.
pub trait Host: Send + Sync {
    /// How far the plugin is, for the client.
    fn progress(&self, progress: PluginProgress);

    /// Calls a tool by the name that the gateway lists it under, as who made the plugin's call, on the way that every
    /// call takes.
    fn call_tool<'a>(&'a self, tool: &'a str, arguments: Option<&'a RawValue>) -> Answering<'a>;
}

/// An answer that is on its way.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

/// How far a plugin is (MCP, `notifications/progress`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginProgress {
    /// So much is done.
    pub progress: Number,
    /// Of so much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Number>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What bounds the executions of all plugins together, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginLoad {
    /// Executions that may run at once.
    pub permits: u32,
    /// Executions that run.
    pub permits_in_use: u32,
    /// Executions that wait.
    pub queued: u32,
}

/// A worker process, as document 000's PluginProcess has it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerInfo {
    /// Process id.
    pub pid: u32,
    /// The plugin it runs, as `namespace/name`.
    pub plugin: String,
    /// The plugin's id.
    pub plugin_id: String,
    /// Digest of the code that it loaded.
    pub revision: String,
    /// Unix milliseconds.
    pub spawned_at: u64,
    /// Unix milliseconds; none before its first execution.
    pub last_used_at: Option<u64>,
    /// Executions served.
    pub execution_count: u64,
    /// Whether it may serve another.
    pub is_healthy: bool,
    /// Bytes of its process's own memory: what it allocated and is resident, without the program that all share. None
    /// where the system does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Where it stands in its life.
    pub state: WorkerState,
}

/// Document 000's lifecycle of a PluginProcess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum WorkerState {
    /// Started, not yet ready.
    Spawned,
    /// Idle.
    Available,
    /// In a call.
    Executing,
    /// To be replaced.
    Unhealthy,
    /// Gone.
    Terminated,
}

impl WorkerState {
    /// The metric label; none for a worker that is gone.
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

/// Speaks with upstream MCP servers.
#[async_trait]
pub trait CallUpstream: Send + Sync + 'static {
    /// Makes ready to reach these upstreams, before a plan that names them is in force. Nothing is connected yet, and
    /// upstreams that are not named stay until [`CallUpstream::retire`].
    fn prepare(&self, targets: &[Target]);

    /// Ends the connections of all upstreams but these.
    fn retire(&self, keep: &[Target]);

    /// Connects and shakes hands, or asks a connected server something that it allows (`ping`, `server/discover`).
    async fn probe(&self, target: &Target, timeout: Duration) -> Result<Probed, UpstreamError>;

    /// All pages of its tool list, in its order.
    async fn list_tools(&self, target: &Target, timeout: Duration) -> Result<Listed, UpstreamError>;

    /// Sends a tool call. What the server sends meanwhile goes to `client`.
    async fn call(&self, target: &Target, call: OutCall, client: &dyn ToClient) -> Result<Answer, UpstreamError>;

    /// The next thing that an upstream tells unasked; waits for it. One reader at a time.
    async fn next_event(&self) -> UpstreamEvent;

    /// Closes every connection and ends every child, and waits for it.
    async fn shutdown(&self);

    /// The same at once: no child gets time to end by itself. Also cuts short a [`CallUpstream::shutdown`] under way.
    async fn abort(&self);
}

/// The way back to a client while its call runs.
pub trait ToClient: Send + Sync {
    /// One `notifications/progress` of this call: its `params` without `progressToken`.
    fn progress(&self, params: Box<RawValue>);

    /// One `notifications/message` of the server that is about this call: its `params`.
    fn message(&self, params: Box<RawValue>) {
        drop(params);
    }
}

/// Keeps what happened.
pub trait Records: Send + Sync + 'static {
    /// One row for each plugin execution. Never blocks.
    fn execution(&self, row: PluginExecution);

    /// One row for each call. Never blocks.
    fn call(&self, row: CallRecord);

    /// The newest executions first, at most `limit`; of one plugin (`namespace/name` or a bare name) where it is given.
    fn recent_executions(&self, plugin: Option<&str>, limit: usize) -> Vec<Arc<PluginExecution>>;

    /// The newest calls first, at most `limit`.
    fn recent_calls(&self, limit: usize) -> Vec<Arc<CallRecord>>;

    /// From now on, keeps at most so many rows of each plugin's executions.
    fn set_per_plugin(&self, rows: usize) {
        let _ = rows;
    }

    /// How many rows left to make room for newer ones, by kind.
    fn dropped(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Time.
pub trait Clock: Send + Sync + 'static {
    /// Unix milliseconds.
    fn unix_millis(&self) -> u64;

    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
}

/// Values that plans only name.
pub trait Secrets: Send + Sync {
    /// The value under `key` of a Secret.
    ///
    /// # Errors
    /// Why there is none.
    fn secret(&self, secret: &ObjectKey, key: &str) -> Result<SecretText, NoSecret>;

    /// A variable of the gateway's own environment.
    fn environment(&self, name: &str) -> Option<SecretText>;
}

/// Looks at code without running it.
pub trait Inspect: Send + Sync {
    /// What the code exports and reads. `file_name`'s ending tells ESM from CommonJS. The same code gives the same facts.
    ///
    /// # Errors
    /// If the code could not be inspected now. That says nothing about the code and must not be cached.
    fn inspect(&self, code: &str, file_name: &str) -> impl Future<Output = Result<CodeFacts, Unavailable>> + Send;
}

/// Why code could not be looked at now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The parser was asked, and took longer than this.
    #[error("the parser does not get through plugin code within {0:?}")]
    Late(Duration),
    /// It could not be asked.
    #[error("plugin code cannot be parsed now: {0}")]
    Unasked(String),
}

/// What is known of plugin code from parsing it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CodeFacts {
    /// Why it does not parse; then nothing else is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<SyntaxProblem>,
    /// Whether it is an ES module: it imports, exports, or awaits at top level.
    #[serde(default)]
    pub is_module: bool,
    /// Names it exports, `default` among them; of CommonJS what it assigns to `module.exports` or `exports`.
    #[serde(default)]
    pub exports: Vec<String>,
    /// Names `NAME` of `process.env.NAME` that it reads.
    #[serde(default)]
    pub reads_env: Vec<String>,
}

impl CodeFacts {
    /// Of code that does not parse for no place in it.
    pub fn unparsed(message: String) -> Self {
        Self { error: Some(SyntaxProblem { line: 0, column: 0, message }), ..Self::default() }
    }
}

/// Where code does not parse. The message names what was expected, never the code's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyntaxProblem {
    /// From 1; 0 where no place is known.
    pub line: u32,
    /// From 1; 0 where no place is known.
    pub column: u32,
    /// What is wrong.
    pub message: String,
}
