//! Upstreams that are a command on this machine.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::KeyRef;

/// A command that speaks MCP on standard input and output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// The program: a path, or a name that PATH resolves.
    #[schemars(length(min = 1, max = 4096))]
    pub command: String,
    /// Default: none.
    #[schemars(length(max = 256), inner(length(max = 4096)), extend("x-kubernetes-list-type" = "atomic"))]
    pub args: Option<Vec<String>>,
    /// The folder it starts in, relative to the file it is written in. Default: that file's folder.
    #[schemars(length(min = 1, max = 4096))]
    pub cwd: Option<String>,
    /// A process for each client session (`PerSession`) or one for all (`Shared`). Default: Shared.
    pub session: Option<ProcessSession>,
    /// Variables besides PATH, HOME, USER, LANG, TMPDIR. Default: none.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Option<Vec<ProcessEnvVar>>,
}

/// How client sessions map to processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProcessSession {
    /// One for each.
    PerSession,
    /// One for all.
    Shared,
}

/// A variable: exactly one of `value`, `valueFrom`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "has(self.value) != has(self.valueFrom)"
).message(
    "give exactly one of value, valueFrom"
))]
pub struct ProcessEnvVar {
    /// Its name.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Its value.
    #[schemars(length(max = 4096))]
    pub value: Option<String>,
    /// Where its value comes from.
    pub value_from: Option<ProcessValueFrom>,
}

/// Where a value comes from: exactly one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub struct ProcessValueFrom {
    /// A key of a Secret.
    pub secret_key_ref: Option<KeyRef>,
    /// A key of a ConfigMap.
    pub config_map_key_ref: Option<KeyRef>,
    /// A variable of the gateway's own environment.
    #[schemars(length(min = 1, max = 128))]
    pub environment: Option<String>,
}
