//! Upstreams that are a command on the gateway's machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::EnvVar;
use crate::api::values::NO_NUL;

/// A command that serves MCP on standard input and output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// Program to run: a path, relative to the folder of the manifest file, or a name that is looked up in PATH.
    #[schemars(length(min = 1, max = 4096), regex(pattern = NO_NUL))]
    pub command: String,
    /// Arguments of the program. Default: none.
    #[schemars(length(max = 256), inner(length(max = 4096), regex(pattern = NO_NUL)), extend("x-kubernetes-list-type" = "atomic"))]
    pub args: Option<Vec<String>>,
    /// Working folder of the program, relative to the folder of the manifest file. Default: the folder of the manifest
    /// file.
    #[schemars(length(min = 1, max = 4096), regex(pattern = NO_NUL))]
    pub cwd: Option<String>,
    /// Whether each client session has its own process (`PerSession`), or all sessions share one process (`Shared`). Log
    /// messages of a shared process are dropped. Default: Shared.
    pub session: Option<ProcessSession>,
    /// Environment variables of the program, in addition to PATH, HOME, USER, LANG and TMPDIR, which have the gateway's
    /// own values. Default: none.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Option<Vec<EnvVar>>,
}

/// Whether each client session has its own process (`PerSession`), or all sessions share one process (`Shared`). The
/// client of a `managed` server is a gateway's pod, which has one session for all its own clients. Default: Shared for
/// `process`, PerSession for `managed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProcessSession {
    /// One process for each client session.
    PerSession,
    /// One process for all client sessions.
    Shared,
}
