//! Where a plugin's code comes from, and what its workers can use.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::{KeyRef, LocalRef, PullPolicy};
use crate::api::values::{Quantity, Size};

/// Where the plugin's code comes from: exactly one of `inline`, `configMapKeyRef`, `path`, `image`.
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
    /// ConfigMap key that holds the code. The extension in the key's name decides whether the code is an ES module or
    /// CommonJS, or TypeScript.
    pub config_map_key_ref: Option<KeyRef>,
    /// File in the gateway's `pluginDir`, with the extension .js, .mjs, .cjs, .ts or .mts. Code in
    /// TypeScript is an ES module and needs Node.js 22.18 or newer, which removes types and checks none.
    #[schemars(length(min = 1, max = 1024))]
    pub path: Option<String>,
    /// Image that holds the code, for plugins in the namespace of their gateway. The gateway's pods mount it as an image
    /// volume, which needs Kubernetes 1.35 or newer, and containerd 2.1 or CRI-O 1.31 on the nodes. A change of the image
    /// restarts the pods one after another; pods that are started while the image cannot be pulled do not become ready.
    /// The operator has to run with --gateway-image. A gateway mounts at most 64 images.
    pub image: Option<PluginImage>,
}

/// An image that holds a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginImage {
    /// Reference of the image.
    #[schemars(length(min = 1, max = 1000))]
    pub reference: String,
    /// When the image is pulled. Default: the cluster's default for the image's tag.
    pub pull_policy: Option<PullPolicy>,
    /// Secrets for pulling the image. Default: none.
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub pull_secrets: Option<Vec<LocalRef>>,
    /// File inside the image. Default: index.mjs.
    #[schemars(length(min = 1, max = 1024))]
    pub path: Option<String>,
}

/// Workers of a plugin, in each pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// Number of warm workers; 0 means that workers are started on demand. Default: the gateway's `poolSizePerPlugin`.
    #[schemars(range(max = 20))]
    pub size: Option<u32>,
    /// Number of executions at the same time in one worker. More than 1 requires protocol Module and is useful if the
    /// plugin waits for IO. Default: 1; 16 for a `type` other than middleware.
    #[schemars(range(min = 1, max = 100))]
    pub concurrency: Option<u32>,
    /// Number of executions after which a worker is replaced. Default: 100000; 1000 for protocol Once with `reuse`.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_executions: Option<u32>,
    /// Seconds after which a worker is replaced. Default: 3600.
    #[schemars(range(min = 1, max = 86_400))]
    pub max_lifetime_seconds: Option<u32>,
}

/// Limits of one execution and of its worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginLimits {
    /// Memory that a worker can allocate in addition to what Node.js needs to start. Allocations beyond this limit
    /// fail, and a worker that still holds three quarters of the limit after an execution is replaced. Default: 256Mi.
    pub memory: Option<Size>,
    /// Maximum size of the content that the plugin receives. Default: 8Mi; 64Ki for a wrapper of a `type` other than
    /// middleware.
    pub max_input_size: Option<Size>,
    /// Maximum size of the content that the plugin returns. Default: 8Mi.
    pub max_output_size: Option<Size>,
    /// Maximum size of the values that the plugin stores (`ctx.store`) for one conversation, caller or namespace, by the
    /// pipeline's `store.scope`; and 16 times that in all. Default: 64Mi.
    pub store_size: Option<Size>,
    /// Maximum size of the output to standard error in one execution. If a worker exceeds this limit, the worker is
    /// replaced. With `pool.concurrency` above 1, the output is counted from the start of the worker's latest
    /// execution. Default: 64Ki.
    pub max_stderr_size: Option<Quantity>,
}

/// A program in any language. With protocol Once, it reads one line of JSON from standard input, writes one to standard output,
/// and exits with 0. With protocol Lines, it does so for each line until standard input ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!self.command.startsWith('/') && !('..' in self.command.split('/'))"
).message(
    "wrapper.command starts in the source: no leading /, no `..`"
))]
pub struct Wrapper {
    /// The program: the name of the file of `source`, a path with `/` that starts at its folder, or one of the gateway's
    /// `plugins.interpreters`. The program is started without a shell.
    #[schemars(length(min = 1, max = 1024))]
    pub command: String,
    /// Arguments of the program. `{entry}` stands for the path of the code. Default: the path of the code, if an interpreter runs
    /// it. Inline code, and that of a ConfigMap, is the last argument if none has `{entry}`.
    #[schemars(length(max = 64), inner(length(max = 1024)), extend("x-kubernetes-list-type" = "atomic"))]
    pub args: Option<Vec<String>>,
    /// Version of the contract, which is 1.0. Default: 1.0.
    #[schemars(length(min = 1, max = 16))]
    pub protocol_version: Option<String>,
}
