//! Limits on the plugins and calls of a gateway.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::{FromNamespaces, LocalRef, PullPolicy, Selector};
use crate::api::values::Size;

/// Pattern of the name of an object, or of its namespace and name.
const OBJECT: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// Pattern of the name of a program.
const PROGRAM: &str = "^[A-Za-z0-9][A-Za-z0-9._+-]*$";
/// Pattern of absolute paths.
const ABSOLUTE: &str = "^/[^\\x00]*$";

/// Where plugins come from, and their limits in each pod (document 000's PluginConfiguration).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.poolSizePerPlugin) ? self.poolSizePerPlugin : 5) < (has(self.maxConcurrentExecutions) ? \
     self.maxConcurrentExecutions : 10)"
).message(
    "plugins.poolSizePerPlugin (default 5) must be less than maxConcurrentExecutions (default 10): set both"
))]
#[x_kube(validation = Rule::new(
    "!has(self.pluginDirFrom) || !has(self.pluginDir) || (self.pluginDir.matches('^(/[^/:]+)+$') && \
     !self.pluginDir.matches('/[.][.]?(/|$)') && \
     !self.pluginDir.matches('^/(bin|dev|etc|lib|lib64|proc|run|sbin|sys|tmp|usr|var/lib/hawsepipe|var/run)(/|$)') && \
     !self.pluginDir.matches('^/var(/lib)?$'))"
).message(
    "plugins.pluginDir: what pluginDirFrom mounts needs an absolute path without . and .. and :, outside the folders \
     of the system and of the gateway"
))]
pub struct GatewayPlugins {
    /// Namespaces from which typed plugins, that is, plugins of a type other than middleware, are registered.
    /// Middleware plugins need no registration, because chains name them. Default: the gateway's own namespace.
    pub namespaces: Option<FromNamespaces>,
    /// Selects the typed plugins of these namespaces by their labels. Default: all typed plugins of these namespaces.
    pub selector: Option<Selector>,
    /// How plugins are found: `Declared` uses Plugin objects only. `Directory`, which only a standalone gateway has, also makes a
    /// Plugin of each folder below `pluginDir` with a plugin.json, of the modules in `config/plugins.json`, of
    /// `wrappers/*/manifest.json`, and of packages in `node_modules` beside `pluginDir`. An object takes precedence over a
    /// folder of its name. Default: Declared.
    pub discovery: Option<Discovery>,
    /// Folder of plugin code; the `source.path` of a plugin is relative to it. If the MCPGateway is read from a file, a
    /// relative `pluginDir` starts at the folder of that file. Default: `/plugins` in a cluster, otherwise the folder
    /// `plugins` next to the manifests.
    #[schemars(length(min = 1, max = 1024))]
    pub plugin_dir: Option<String>,
    /// Source of the files that are mounted at `pluginDir`. Default: nothing is mounted, so the gateway image's own
    /// files are used.
    pub plugin_dir_from: Option<PluginDirFrom>,
    /// The Node.js executable, version 20 or later: a path, or a name that is looked up in PATH. Default: node.
    #[schemars(length(min = 1, max = 1024))]
    pub node_executable: Option<String>,
    /// Maximum number of executions of all plugins at the same time. Default: 10.
    #[schemars(range(min = 1, max = 100))]
    pub max_concurrent_executions: Option<u32>,
    /// Number of warm workers for each plugin; must be less than `maxConcurrentExecutions`. Default: 5.
    #[schemars(range(max = 20))]
    pub pool_size_per_plugin: Option<u32>,
    /// Time limit of one execution, in milliseconds, if neither the entry nor the plugin sets a time limit. Default:
    /// 30000.
    #[schemars(range(min = 100, max = 600_000))]
    pub default_timeout_ms: Option<u32>,
    /// `Required`: a plugin runs only in the complete sandbox. `BestEffort`: a plugin runs in as much of the sandbox as
    /// the kernel can enforce. Default: Required on Linux, otherwise BestEffort.
    pub sandbox: Option<SandboxMode>,
    /// Maximum number of executions that wait for a worker; further executions fail with PoolExhausted. Default: 100.
    #[schemars(range(max = 10_000))]
    pub max_queued_executions: Option<u32>,
    /// Milliseconds that an execution can wait for a worker. Default: 1000.
    #[schemars(range(max = 600_000))]
    pub queue_timeout_ms: Option<u32>,
    /// Maximum total size of the content in workers and queues. Default: 64Mi.
    pub max_bytes_in_flight: Option<Size>,
    /// The plugins whose `wrapper`, a program in any language, is allowed to run: a name in the gateway's own namespace, or
    /// `namespace/name`. Default: none.
    #[schemars(length(max = 64), inner(length(min = 1, max = 127), regex(pattern = OBJECT)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub allowed_wrappers: Option<Vec<String>>,
    /// The programs that run the code of wrappers. Default: none in a cluster; otherwise `python3`, if PATH has one.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub interpreters: Option<Vec<Interpreter>>,
}

/// A program that runs the code of wrappers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Interpreter {
    /// Name that a plugin gives as `wrapper.command`.
    #[schemars(length(min = 1, max = 63), regex(pattern = PROGRAM))]
    pub name: String,
    /// The program. The path is absolute.
    #[schemars(length(min = 1, max = 1024), regex(pattern = ABSOLUTE))]
    pub path: String,
    /// Files and folders that the program can read, as absolute paths. A Python can read its own library without them, and those
    /// of its virtual environment. Default: none.
    #[schemars(length(max = 32), inner(length(min = 1, max = 1024), regex(pattern = ABSOLUTE)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub read_paths: Option<Vec<String>>,
}

/// How plugins are found: `Declared` uses Plugin objects only, `Directory` also uses each folder
/// `{pluginDir}/{type}/{id}/` that has a plugin.json. Default: Declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Discovery {
    /// Plugin objects only.
    Declared,
    /// Plugin objects, and folders in the plugin folder.
    Directory,
}

/// Source of the files that are mounted at the plugin folder: exactly one of `image`, `configMapRef`, `claimRef`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.image) ? 1 : 0) + (has(self.configMapRef) ? 1 : 0) + (has(self.claimRef) ? 1 : 0) == 1"
).message(
    "pluginDirFrom: give exactly one of image, configMapRef, claimRef"
))]
pub struct PluginDirFrom {
    /// The files of an image, as an image volume.
    pub image: Option<DirImage>,
    /// The data of a ConfigMap.
    pub config_map_ref: Option<LocalRef>,
    /// The volume of a PersistentVolumeClaim.
    pub claim_ref: Option<LocalRef>,
}

/// An image whose files are mounted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DirImage {
    /// Reference of the image.
    #[schemars(length(min = 1, max = 1000))]
    pub reference: String,
    /// When the image is pulled. Default: the cluster's default for the image's tag.
    pub pull_policy: Option<PullPolicy>,
}

/// `Required`: a plugin runs only in the complete sandbox. `BestEffort`: a plugin runs in as much of the sandbox as the
/// kernel can enforce. Default: Required on Linux, otherwise BestEffort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SandboxMode {
    /// A plugin runs only in the complete sandbox.
    Required,
    /// A plugin runs in as much of the sandbox as the kernel can enforce.
    BestEffort,
}

/// Limits on calls, for each pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.callTimeoutMs) ? self.callTimeoutMs : 30000) <= (has(self.callCeilingMs) ? self.callCeilingMs : \
     600000)"
).message(
    "limits.callTimeoutMs (default 30000) must not exceed callCeilingMs (default 600000): with a lower \
     callCeilingMs, set callTimeoutMs too"
))]
#[x_kube(validation = Rule::new(
    "!has(self.maxStreams) || self.maxStreams <= (has(self.maxConnections) ? self.maxConnections : 8192)"
).message(
    "limits.maxStreams must not exceed maxConnections (default 8192): each stream takes a connection"
))]
pub struct GatewayLimits {
    /// Maximum number of calls in flight, to protect the gateway from overload. Default: 1000.
    #[schemars(range(min = 1, max = 10_000))]
    pub concurrent_calls: Option<u32>,
    /// Maximum number of runs of pipelines in progress, also of those that wait for a user. One session, or one address of
    /// clients without sessions, has at most a quarter. Default: 500.
    #[schemars(range(min = 1, max = 10_000))]
    pub concurrent_runs: Option<u32>,
    /// Milliseconds to wait for an upstream's answer; an upstream or a tool override can set another limit. Default:
    /// 30000.
    #[schemars(range(min = 1, max = 600_000))]
    pub call_timeout_ms: Option<u32>,
    /// Time limit of a whole call, in milliseconds; progress notifications do not extend this limit. A call of a pipeline may
    /// take its `budgets.timeoutSeconds` and a minute, if that is longer. Default: 600000.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub call_ceiling_ms: Option<u32>,
    /// Milliseconds to wait for an upstream's tool list. Default: 5000.
    #[schemars(range(min = 1, max = 60_000))]
    pub list_timeout_ms: Option<u32>,
    /// Maximum size of a request body. Default: 4Mi.
    pub max_request_size: Option<Size>,
    /// Maximum size of an upstream's answer. Default: 16Mi.
    pub max_response_size: Option<Size>,
    /// Maximum number of connections of each listener; further clients wait until one is closed. Each takes a file
    /// descriptor. Default: 8192.
    #[schemars(range(min = 16, max = 100_000))]
    pub max_connections: Option<u32>,
    /// Maximum number of streams that clients hold open at each listener for notifications (GET of sessions,
    /// `subscriptions/listen`); further ones are refused. Default: 1000, at most half of `maxConnections`.
    #[schemars(range(max = 100_000))]
    pub max_streams: Option<u32>,
    /// Limits for each session or, for clients without sessions, for each principal. Clients with neither a session nor
    /// credentials are told apart by their IP address; for them, `totalCalls` does not apply, and
    /// `perSession.concurrentCalls` applies only while more than half of `limits.concurrentCalls` is in use.
    pub per_session: Option<SessionLimits>,
}

/// Limits of one session or principal, in each pod (document 003's ExecutionTracker).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(!has(self.totalCalls) || self.totalCalls != 0) && (!has(self.concurrentCalls) || self.concurrentCalls != 0)"
).message(
    "perSession: a limit is at least 1, or -1 for none; to refuse all calls set spec.stopped"
))]
pub struct SessionLimits {
    /// Maximum number of calls in flight; -1 means no limit. Default: 25.
    #[schemars(range(min = -1, max = 10_000))]
    pub concurrent_calls: Option<i32>,
    /// Maximum number of calls in total; -1 means no limit. Default: -1.
    #[schemars(range(min = -1, max = 1_000_000_000))]
    pub total_calls: Option<i32>,
}
