//! Connects the adapters to the ports of the engine.

use std::sync::{Arc, LazyLock};

use anyhow::Context;
use kube::Client;

use super::clock::SystemClock;
use crate::domain::budget::ByteBudget;
use crate::domain::instance::Instance;
use crate::engine::{Engine, Ports};
use crate::identity::Tokens;
use crate::model::Models;
use crate::node::{Launcher, Lifetimes, WorkerMetrics, Workers};
use crate::store::Store;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::Traces;
use crate::transport::ServerLauncher;
use crate::upstream::{UpstreamMetrics, Upstreams};

/// The random identity of this process.
static INSTANCE: LazyLock<Instance> = LazyLock::new(|| Instance::new(&uuid::Uuid::new_v4().simple().to_string()));

/// Returns the identity that this process sends along with its requests to upstreams.
pub fn instance() -> Instance {
    INSTANCE.clone()
}

/// Creates an engine with the real adapters. It has no plan yet. `launcher` starts the processes of servers, and `store`
/// keeps the history. `client` is of the cluster that the gateway runs in, if it runs in one.
pub fn engine(
    traces: &Traces,
    launcher: ServerLauncher,
    store: &Arc<Store>,
    client: Option<Client>,
) -> anyhow::Result<Arc<Engine>> {
    let (workers, metrics, _) = workers()?;
    let counted = UpstreamMetrics::new().context("cannot make metrics of upstreams")?;
    counted.register(metrics.catalog()).context("cannot register metrics of upstreams")?;
    traces.register(metrics.catalog()).context("cannot register metrics of traces")?;
    let budget = Arc::new(ByteBudget::default());
    let upstreams = Upstreams::new(launcher, counted, &budget, instance());
    let ports = Ports {
        plugins: Arc::new(workers),
        upstreams: Arc::new(upstreams),
        models: Arc::new(Models::default()),
        values: Arc::clone(store) as _,
        records: Arc::clone(store) as _,
        history: Arc::clone(store) as _,
        audit: Some(Arc::clone(store) as _),
        credentials: Arc::new(Tokens::new(client)),
        clock: Arc::new(SystemClock::new()),
    };
    Ok(Engine::new(ports, metrics, budget))
}

/// Creates the `Workers` (no worker is started yet), the gateway's metrics, and the worker metrics. The worker metrics
/// are already registered in the gateway's catalog.
pub fn workers() -> anyhow::Result<(Workers, Metrics, WorkerMetrics)> {
    let metrics = Metrics::new().context("cannot register metrics")?;
    let own = WorkerMetrics::new().context("cannot make metrics of workers")?;
    own.register(metrics.catalog()).context("cannot register metrics of workers")?;
    let launcher = Launcher::current().context("cannot tell which program this is")?;
    let workers = Workers::new(launcher, Lifetimes::default(), own.clone());
    Ok((workers.context("cannot make a folder for plugin code")?, metrics, own))
}
