//! What bounds plugins.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::domain::sandbox::SandboxMode;

/// What bounds plugins, for each gateway process. Names, ranges and defaults are document 000's PluginConfiguration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    /// The folder that `source.path` starts in.
    pub plugin_dir: PathBuf,
    /// Node's program: a path, or a name that PATH resolves.
    pub node_executable: PathBuf,
    /// Plugin executions at once (1 to 100).
    pub max_concurrent_executions: u32,
    /// Warm workers for each plugin (0 to 20).
    pub pool_size_per_plugin: u32,
    /// Milliseconds where neither entry nor plugin says otherwise (100 to 600,000).
    pub default_timeout_ms: u32,
    /// Executions that may wait for a worker.
    pub max_queued_executions: u32,
    /// Milliseconds that one may wait.
    pub queue_timeout_ms: u32,
    /// Bytes of content in workers and queues together.
    pub max_bytes_in_flight: u64,
    /// How much the sandbox of plugins matters; none is `Required` where the system has one at all (Linux).
    #[serde(default)]
    pub sandbox: Option<SandboxMode>,
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
        }
    }
}
