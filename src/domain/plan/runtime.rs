//! Settings for running plugins.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::plugin::PluginPlan;
use super::wrapper::InterpreterPlan;
use crate::domain::ids::ObjectKey;
use crate::domain::sandbox::SandboxMode;

/// Settings for running plugins: the programs and folders to use, and the limits of each gateway process. Names, ranges
/// and defaults are those of document 000's PluginConfiguration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    /// The folder that `source.path` is relative to. Default: `/plugins`.
    pub plugin_dir: PathBuf,
    /// The Node.js program: a path, or a name that is looked up in PATH. Default: `node`.
    pub node_executable: PathBuf,
    /// Maximum number of concurrent plugin executions (1 to 100). Default: 10.
    pub max_concurrent_executions: u32,
    /// The number of warm workers for each plugin (0 to 20). Default: 5.
    pub pool_size_per_plugin: u32,
    /// Time limit of an execution in milliseconds, if neither the entry nor its plugin sets one (100 to 600,000).
    /// Default: 30,000.
    pub default_timeout_ms: u32,
    /// Maximum number of executions that can wait for a worker. Default: 100.
    pub max_queued_executions: u32,
    /// How long an execution can wait for a worker, in milliseconds. Default: 1000.
    pub queue_timeout_ms: u32,
    /// Maximum number of bytes of content in workers and queues together. Default: 64 MiB.
    pub max_bytes_in_flight: u64,
    /// How much of the sandbox plugins need; `None` means `Required` on systems that have a sandbox (Linux).
    #[serde(default)]
    pub sandbox: Option<SandboxMode>,
    /// The plugins whose programs may run. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_wrappers: Vec<ObjectKey>,
    /// The programs that run the code of such plugins. Default: none in a cluster, otherwise `python3`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interpreters: Vec<InterpreterPlan>,
}

impl Runtime {
    /// Whether the program of this form of a plugin may run: it is JavaScript, or the gateway allows its wrapper and has its
    /// interpreter in the same form.
    pub fn allows(&self, form: &PluginPlan) -> bool {
        self.allows_with(form, |known, wanted| known == wanted)
    }

    /// Like [`Self::allows`], also if the interpreter of that name has another path now. An edit of the path revokes nothing.
    pub fn allows_name(&self, form: &PluginPlan) -> bool {
        self.allows_with(form, |known, wanted| known.name == wanted.name)
    }

    fn allows_with(&self, form: &PluginPlan, is: impl Fn(&InterpreterPlan, &InterpreterPlan) -> bool) -> bool {
        form.wrapper.as_ref().is_none_or(|wrapper| {
            let has = |wanted| self.interpreters.iter().any(|known| is(known, wanted));
            self.allowed_wrappers.contains(&form.key) && wrapper.interpreter.as_ref().is_none_or(has)
        })
    }
}

impl Default for Runtime {
    fn default() -> Self {
        Self {
            plugin_dir: PathBuf::from("/plugins"),
            node_executable: PathBuf::from("node"),
            max_concurrent_executions: 10,
            pool_size_per_plugin: 5,
            default_timeout_ms: 30_000,
            max_queued_executions: 100,
            queue_timeout_ms: 1000,
            max_bytes_in_flight: 64 << 20,
            sandbox: None,
            allowed_wrappers: Vec::new(),
            interpreters: Vec::new(),
        }
    }
}
