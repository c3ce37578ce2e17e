//! Where a plugin's code is, and what its workers may use.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::{KeyRef, LocalRef, PullPolicy};
use crate::api::values::Quantity;

/// Where code is: exactly one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.inline) ? 1 : 0) + (has(self.configMapKeyRef) ? 1 : 0) + (has(self.path) ? 1 : 0) + \
     (has(self.image) ? 1 : 0) == 1"
).message(
    "source: give exactly one of inline, configMapKeyRef, path, image"
))]
#[x_kube(validation = Rule::new(
    "(!has(self.path) || !self.path.startsWith('/') && !('..' in self.path.split('/'))) && (!has(self.image) || \
     !has(self.image.path) || !self.image.path.startsWith('/') && !('..' in self.image.path.split('/')))"
).message(
    "source: paths start in the plugin folder or the image: no leading /, no `..`"
))]
pub struct Source {
    /// The code itself.
    #[schemars(length(min = 1, max = 131072))]
    pub inline: Option<String>,
    /// A key of a ConfigMap; the key's ending tells ESM from CommonJS.
    pub config_map_key_ref: Option<KeyRef>,
    /// A file below the gateway's pluginDir, ending in .js, .mjs or .cjs.
    #[schemars(length(min = 1, max = 1024))]
    pub path: Option<String>,
    /// An image volume. Changing it rolls the gateway's pods.
    pub image: Option<PluginImage>,
}

/// An image that holds a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginImage {
    /// The image.
    #[schemars(length(min = 1, max = 1000))]
    pub reference: String,
    /// Default: that of the cluster for its tag.
    pub pull_policy: Option<PullPolicy>,
    /// Secrets to pull it with. Default: none.
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub pull_secrets: Option<Vec<LocalRef>>,
    /// The file inside the image. Default: index.mjs.
    #[schemars(length(min = 1, max = 1024))]
    pub path: Option<String>,
}

/// A plugin's workers, in each pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// Warm workers; 0 starts them on demand. Default: the gateway's poolSizePerPlugin.
    #[schemars(range(max = 20))]
    pub size: Option<u32>,
    /// Calls at once in one worker; more than 1 only for a Module that waits on IO. Default: 1.
    #[schemars(range(min = 1, max = 100))]
    pub concurrency: Option<u32>,
    /// Executions after which a worker is replaced. Default: 100000; 1000 of a Once script that is run again in one process.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_executions: Option<u32>,
    /// Seconds after which a worker is replaced. Default: 3600.
    #[schemars(range(min = 1, max = 86_400))]
    pub max_lifetime_seconds: Option<u32>,
}

/// What one execution may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginLimits {
    /// Memory of a worker, beside what Node.js takes to start. What is asked for beyond it fails; a worker that has three
    /// quarters of it after a call is replaced. Default: 256Mi.
    pub memory: Option<Quantity>,
    /// Bytes of content in. Default: 8Mi.
    pub max_input_size: Option<Quantity>,
    /// Bytes of content out. Default: 8Mi.
    pub max_output_size: Option<Quantity>,
    /// Bytes of standard error a call; beyond it the worker is replaced. Default: 64Ki.
    pub max_stderr_size: Option<Quantity>,
}

/// A helper in any language: JSON on stdin to its end, result on stdout, exit codes 0 to 3.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!self.command.startsWith('/') && !('..' in self.command.split('/'))"
).message(
    "wrapper.command starts in the source: no leading /, no `..`"
))]
pub struct Wrapper {
    /// The program, below the source; no shell.
    #[schemars(length(min = 1, max = 1024))]
    pub command: String,
    /// Default: none.
    #[schemars(length(max = 64), inner(length(max = 1024)), extend("x-kubernetes-list-type" = "atomic"))]
    pub args: Option<Vec<String>>,
    /// Default: 1.0.
    #[schemars(length(min = 1, max = 16))]
    pub protocol_version: Option<String>,
}
