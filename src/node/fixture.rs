//! Fixtures that tests of workers share.

use std::sync::Arc;

use serde_json::json;

use super::launcher::Launcher;
use super::metrics::WorkerMetrics;
use super::starter::{Lifetimes, Starter};
use crate::domain::plan::Runtime;
use crate::domain::ports::LinkedPlugin;

/// A Module plugin with a pool of one worker.
pub(super) fn plugin() -> Arc<LinkedPlugin> {
    let plan = json!({
        "key": {"namespace": "default", "name": "p"}, "id": "0a1b2c3d", "digest": "", "file_name": "index.js",
        "folder": null, "role": "Transform", "phases": ["Request", "Response"], "protocol": "Module", "enabled": true,
        "order": 0, "filter_upstreams": [], "filter_tools": [], "timeout_ms": null, "config": null, "env": [],
        "pool_size": null, "limits": {"max_input": 1000, "max_output": 1000, "max_stderr": 1000},
    });
    let plan = serde_json::from_value(plan).unwrap();
    Arc::new(LinkedPlugin { plan, code: "".into(), env: Vec::new(), identity: "p".into(), pool_size: 1 })
}

/// A starter that cannot start any worker, because the launcher's program does not exist.
pub(super) fn starter() -> Arc<Starter> {
    let launcher = Launcher::at("/none");
    Arc::new(Starter::new(launcher, Lifetimes::default(), WorkerMetrics::new().unwrap()).unwrap())
}

/// Runtime settings with these limits: concurrent executions, queued executions, and bytes in flight.
pub(super) fn runtime(permits: u32, queue: u32, bytes: u64) -> Runtime {
    Runtime {
        plugin_dir: ".".into(),
        node_executable: "node".into(),
        max_concurrent_executions: permits,
        pool_size_per_plugin: 1,
        default_timeout_ms: 1000,
        max_queued_executions: queue,
        queue_timeout_ms: 20,
        max_bytes_in_flight: bytes,
        ..Runtime::default()
    }
}
