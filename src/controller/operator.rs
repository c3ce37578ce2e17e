//! The operator's loops and what they share: one writes snapshots (`planning_loop`), one the objects of managed servers
//! (`managed_loop`), one statuses (`status_loop`). Meanwhile, pods are polled and the lease is renewed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Client;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::lease::{self, Leadership, LeaseSettings};
use super::liveness::Liveness;
use super::lowered::Lowering;
use super::managed_loop::ManagedLoop;
use super::managed_state::ManagedServers;
use super::metrics::ControllerMetrics;
use super::planning_loop::PlanningLoop;
use super::planning_state::PlanningState;
use super::pod_poller::{self, PodPoller};
use super::pods::ByGateway;
use super::status_loop::StatusLoop;
use super::watches::Watches;
use super::workload::{PodSettings, Workloads};
use super::writer::Writer;
use crate::domain::ports::Inspect;

/// Time limit of the last writes when the operator stops.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// Settings of the operator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespaces to watch; all if empty.
    pub namespaces: BTreeSet<String>,
    /// The lease that decides which process leads.
    pub lease: LeaseSettings,
    /// How the operator creates gateways' pods; `None` leaves their creation to users.
    pub pods: Option<PodSettings>,
    /// DNS domain of the cluster, such as `cluster.local`.
    pub cluster_domain: String,
}

/// The health of a running operator. Clones share their state.
#[derive(Clone, Default)]
pub struct OperatorHealth {
    /// Whether every watched kind has been listed once.
    pub(super) listed: Arc<AtomicBool>,
    /// Whether this process can get the lease, or another process holds it.
    pub(super) lease: Arc<AtomicBool>,
    /// Whether the operator's loops make progress.
    pub liveness: Liveness,
}

impl OperatorHealth {
    /// Checks whether the operator can bring edits into effect, or take over from the operator that does.
    ///
    /// # Errors
    /// Returns what is missing.
    pub fn ready(&self) -> Result<(), String> {
        let missing = if !self.listed.load(Ordering::Acquire) {
            "not every kind was listed yet; the log says which cannot be"
        } else if !self.lease.load(Ordering::Acquire) {
            "the Lease for leader election cannot be read or created; the log says why"
        } else {
            return Ok(());
        };
        Err(format!("not ready: {missing}"))
    }
}

/// Runs the planning loop until `stop`. After the last writes, or after [`LAST_WRITES`], cancels `written`, upon
/// which the lease is given back. Never returns: [`run`] ends once the lease is given back, so that writes in
/// progress can finish.
async fn plan(
    planning: PlanningLoop<impl Inspect + 'static>,
    listed: &AtomicBool,
    stop: &CancellationToken,
    written: &CancellationToken,
) {
    let plans = async {
        planning.run(listed, stop).await;
        written.cancel();
    };
    let too_long = async {
        stop.cancelled().await;
        tokio::time::sleep(LAST_WRITES).await;
        written.cancel();
    };
    tokio::join!(plans, too_long);
    std::future::pending().await
}

/// Runs the operator until `stop`, then gives the lease back. `inspect` parses the code of plugins.
pub async fn run(
    client: Client,
    settings: Settings,
    inspect: impl Inspect + 'static,
    metrics: ControllerMetrics,
    OperatorHealth { listed, lease, liveness }: OperatorHealth,
    stop: CancellationToken,
) {
    let watches = Arc::new(Watches::start(&client, settings.namespaces, settings.pods.is_some()));
    let leadership = Leadership::default();
    let writer = Writer::new(client.clone(), leadership.clone(), liveness.pulse("plans"));
    let keeping = (leadership, liveness.pulse("the lease"));
    let (mut tasks, written) = (JoinSet::new(), CancellationToken::new());
    tasks.spawn(lease::keep(client, settings.lease, keeping, lease, written.clone()));
    let (planning, plans) = watch::channel(PlanningState::default());
    let (reports, reported) = watch::channel(ByGateway::new());
    let status_changed = Arc::new(Notify::new());
    let (servers, managed) = watch::channel(ManagedServers::default());
    let told = settings.pods.as_ref().map(|_| managed.clone());
    if let Some(pods) = settings.pods.clone() {
        let (writer, placed) = (writer.for_loop(liveness.pulse("servers")), (pods, settings.cluster_domain.clone()));
        let servers = ManagedLoop::new(writer, Arc::clone(&watches), placed, plans.clone(), servers);
        tasks.spawn(servers.run(Arc::clone(&status_changed)));
    }
    let asking = PodPoller::new(writer.for_loop(liveness.pulse("pods")));
    let planning = PlanningLoop::new(
        Arc::clone(&watches),
        writer.clone(),
        Workloads::new(settings.pods, &settings.cluster_domain, writer.clone()),
        (Lowering::new(&settings.cluster_domain), inspect),
        metrics.clone(),
        (planning, reported.clone(), managed),
        Arc::clone(&status_changed),
    );
    let writer = writer.for_loop(liveness.pulse("statuses"));
    let statuses = StatusLoop::new(writer, Arc::clone(&watches), plans, reported, told, metrics);
    // A task of its own, because thousands of statuses must not delay the next edit.
    let changed = Arc::clone(&status_changed);
    tasks.spawn(async move { statuses.run(&changed).await });
    tokio::select! {
        () = plan(planning, &listed, &stop, &written) => {}
        () = pod_poller::follow(watches, asking, reports, status_changed) => {}
        // Either the lease was given back after `stop`, so that no write is in progress, or a task panicked. A panic
        // must end the process.
        Some(ended) = tasks.join_next() => if let Err(error) = ended {
            std::panic::resume_unwind(error.into_panic());
        },
    }
    tasks.shutdown().await;
}

#[cfg(test)]
pub(super) mod tests;
