//! Upstreams that are a command on the gateway's machine.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::KeyRef;

/// A command that serves MCP on standard input and output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// Program to run: a path, or a name that is looked up in PATH.
    #[schemars(length(min = 1, max = 4096))]
    pub command: String,
    /// Arguments of the program. Default: none.
    #[schemars(length(max = 256), inner(length(max = 4096)), extend("x-kubernetes-list-type" = "atomic"))]
    pub args: Option<Vec<String>>,
    /// Working folder of the program, relative to the manifest file. Default: the folder of that file.
    #[schemars(length(min = 1, max = 4096))]
    pub cwd: Option<String>,
    /// One process for each client session (`PerSession`), or one for all (`Shared`). Default: Shared.
    pub session: Option<ProcessSession>,
    /// Environment variables in addition to PATH, HOME, USER, LANG and TMPDIR, which are passed on. Default: none.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Option<Vec<ProcessEnvVar>>,
}

/// Number of processes: one for each client session (`PerSession`), or one for all (`Shared`). Default: Shared for
/// `process`, PerSession for `managed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProcessSession {
    /// One process for each client session.
    PerSession,
    /// One process for all client sessions.
    Shared,
}

/// An environment variable: exactly one of `value`, `valueFrom`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "has(self.value) != has(self.valueFrom)"
).message(
    "give exactly one of value, valueFrom"
))]
pub struct ProcessEnvVar {
    /// Name of the variable.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Value of the variable.
    #[schemars(length(max = 4096))]
    pub value: Option<String>,
    /// Where the value is read from.
    pub value_from: Option<ProcessValueFrom>,
}

/// Where a value is read from: exactly one of `secretKeyRef`, `configMapKeyRef`, `environment`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub struct ProcessValueFrom {
    /// Key of a Secret in the same namespace.
    pub secret_key_ref: Option<KeyRef>,
    /// Key of a ConfigMap in the same namespace.
    pub config_map_key_ref: Option<KeyRef>,
    /// Name of a variable in the gateway's own environment.
    #[schemars(length(min = 1, max = 128))]
    pub environment: Option<String>,
}
