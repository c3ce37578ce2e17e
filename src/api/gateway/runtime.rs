//! What bounds plugins and calls of a gateway.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::{FromNamespaces, LocalRef, PullPolicy, Selector};
use crate::api::values::{DNS_LABEL, Quantity};

/// Where plugins come from, and what bounds them in each pod (document 000's PluginConfiguration).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.poolSizePerPlugin) ? self.poolSizePerPlugin : 5) < (has(self.maxConcurrentExecutions) ? \
     self.maxConcurrentExecutions : 10)"
).message(
    "plugins.poolSizePerPlugin (default 5) must be less than maxConcurrentExecutions (default 10): set both"
))]
pub struct GatewayPlugins {
    /// Where typed plugins that register themselves are taken from; middleware comes through chains. Default: the
    /// gateway's own.
    pub namespaces: Option<FromNamespaces>,
    /// Labels of those plugins. Default: all.
    pub selector: Option<Selector>,
    /// `Declared`: Plugin objects only. `Directory`: also `{pluginDir}/{type}/{id}/` with a plugin.json. Default:
    /// Declared.
    pub discovery: Option<Discovery>,
    /// The folder that `source.path` starts in; in a file, relative to that file. Default: /plugins; of a folder of
    /// manifests, `plugins` in it.
    #[schemars(length(min = 1, max = 1024))]
    pub plugin_dir: Option<String>,
    /// What is mounted there. Default: what the image holds.
    pub plugin_dir_from: Option<PluginDirFrom>,
    /// Node's program, version 20 or later: a path, or a name that PATH resolves. Default: node.
    #[schemars(length(min = 1, max = 1024))]
    pub node_executable: Option<String>,
    /// Plugin executions at once. Default: 10.
    #[schemars(range(min = 1, max = 100))]
    pub max_concurrent_executions: Option<u32>,
    /// Warm workers for each plugin; less than `maxConcurrentExecutions`. Default: 5.
    #[schemars(range(max = 20))]
    pub pool_size_per_plugin: Option<u32>,
    /// Milliseconds for an execution where neither entry nor plugin says otherwise. Default: 30000.
    #[schemars(range(min = 100, max = 600_000))]
    pub default_timeout_ms: Option<u32>,
    /// How much the sandbox matters.
    pub sandbox: Option<SandboxMode>,
    /// Executions that may wait for a worker; beyond it they fail with PoolExhausted. Default: 100.
    #[schemars(range(max = 10_000))]
    pub max_queued_executions: Option<u32>,
    /// Milliseconds that one may wait. Default: 1000.
    #[schemars(range(max = 600_000))]
    pub queue_timeout_ms: Option<u32>,
    /// Bytes of content in workers and queues together. Default: 64Mi.
    pub max_bytes_in_flight: Option<Quantity>,
    /// Plugins in other languages that may run, by name. Default: none.
    #[schemars(length(max = 64), inner(length(min = 1, max = 63), regex(pattern = DNS_LABEL)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub allowed_wrappers: Option<Vec<String>>,
}

/// How plugins are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Discovery {
    /// Plugin objects only.
    Declared,
    /// Also the folders of the plugin directory.
    Directory,
}

/// What is mounted at the plugin directory: exactly one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.image) ? 1 : 0) + (has(self.configMapRef) ? 1 : 0) + (has(self.claimRef) ? 1 : 0) == 1"
).message(
    "pluginDirFrom: give exactly one of image, configMapRef, claimRef"
))]
pub struct PluginDirFrom {
    /// An image volume.
    pub image: Option<DirImage>,
    /// A ConfigMap.
    pub config_map_ref: Option<LocalRef>,
    /// A PersistentVolumeClaim.
    pub claim_ref: Option<LocalRef>,
}

/// An image whose files are mounted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DirImage {
    /// The image.
    #[schemars(length(min = 1, max = 1000))]
    pub reference: String,
    /// Default: that of the cluster for its tag.
    pub pull_policy: Option<PullPolicy>,
}

/// `Required`: a plugin runs in the whole sandbox or not at all. `BestEffort`: in as much of it as the kernel can
/// enforce. Default: Required; where a gateway runs on another system than Linux, BestEffort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SandboxMode {
    /// A plugin runs in the whole sandbox or not at all.
    Required,
    /// In as much of it as the kernel can enforce.
    BestEffort,
}

/// What bounds calls, in each pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.callTimeoutMs) ? self.callTimeoutMs : 30000) <= (has(self.callCeilingMs) ? self.callCeilingMs : \
     600000)"
).message(
    "limits.callTimeoutMs (default 30000) must not exceed callCeilingMs (default 600000)"
))]
pub struct GatewayLimits {
    /// Calls at once: protection from overload. Default: 1000.
    #[schemars(range(min = 1, max = 10_000))]
    pub concurrent_calls: Option<u32>,
    /// Milliseconds for an upstream's answer; an upstream or a tool may say otherwise. Default: 30000.
    #[schemars(range(min = 1, max = 600_000))]
    pub call_timeout_ms: Option<u32>,
    /// Milliseconds for a call as a whole; progress does not move it. Default: 600000.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub call_ceiling_ms: Option<u32>,
    /// Milliseconds for an upstream's list. Default: 5000.
    #[schemars(range(min = 1, max = 60_000))]
    pub list_timeout_ms: Option<u32>,
    /// Bytes of a request body. Default: 4Mi.
    pub max_request_size: Option<Quantity>,
    /// Bytes of an upstream's answer. Default: 16Mi.
    pub max_response_size: Option<Quantity>,
    /// For each session, or principal in the stateless era. Stateless callers without credentials are told apart by
    /// address, and only while more than half of concurrentCalls is in use; totalCalls does not count them.
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
    /// Calls at once; -1 is no limit. Default: 25.
    #[schemars(range(min = -1, max = 10_000))]
    pub concurrent_calls: Option<i32>,
    /// Calls in all; -1 is no limit. Default: -1.
    #[schemars(range(min = -1, max = 1_000_000_000))]
    pub total_calls: Option<i32>,
}
