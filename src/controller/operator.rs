//! The operator's two loops, and what they share: one brings snapshots to what objects say (`planning_loop`), one
//! brings statuses to what is true (`status_loop`). Beside them pods are asked, and the lease is kept.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kube::Client;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::lease::{self, Leadership, LeaseSettings};
use super::liveness::Liveness;
use super::metrics::ControllerMetrics;
use super::planning_loop::PlanningLoop;
use super::planning_state::PlanningState;
use super::pod_poller::{self, PodPoller};
use super::pods::ByGateway;
use super::status_loop::StatusLoop;
use super::watches::Watches;
use super::writer::Writer;
use crate::domain::ports::Inspect;

/// How long the last writes may take when the operator ends.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// How the operator runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespaces to watch; empty is all.
    pub namespaces: BTreeSet<String>,
    /// The lease of the leader.
    pub lease: LeaseSettings,
}

/// What the operator tells of itself while it runs.
#[derive(Clone, Default)]
pub struct OperatorHealth {
    /// Whether every kind was listed once.
    pub ready: Arc<AtomicBool>,
    /// Whether its loops go round.
    pub liveness: Liveness,
}

/// Plans until `stop`. Has the lease given back once what waits is written, or that takes too long: until it is, writes
/// that were begun may end.
async fn plan(
    planning: PlanningLoop<impl Inspect + 'static>,
    ready: &AtomicBool,
    stop: &CancellationToken,
    written: &CancellationToken,
) {
    let plans = async {
        planning.run(ready, stop).await;
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

/// Runs until `stop`.
pub async fn run(
    client: Client,
    settings: Settings,
    inspect: impl Inspect + 'static,
    metrics: ControllerMetrics,
    OperatorHealth { ready, liveness }: OperatorHealth,
    stop: CancellationToken,
) {
    let watches = Arc::new(Watches::start(&client, settings.namespaces));
    let leadership = Leadership::default();
    let writer = Writer::new(client.clone(), leadership.clone(), liveness.pulse("plans"));
    let keeping = (leadership.clone(), liveness.pulse("the lease"));
    let (mut tasks, written) = (JoinSet::new(), CancellationToken::new());
    tasks.spawn(lease::keep(client, settings.lease, keeping, written.clone()));
    let (planning, plans) = watch::channel(PlanningState::default());
    let (reports, reported) = watch::channel(ByGateway::new());
    let status_changed = Arc::new(Notify::new());
    let asking = PodPoller::new(writer.for_loop(liveness.pulse("pods")));
    let planning = PlanningLoop::new(
        Arc::clone(&watches),
        writer.clone(),
        leadership,
        inspect,
        metrics.clone(),
        (planning, reported.clone()),
        Arc::clone(&status_changed),
    );
    let writer = writer.for_loop(liveness.pulse("statuses"));
    let statuses = StatusLoop::new(writer, Arc::clone(&watches), plans, reported, metrics);
    // In a task of its own: thousands of statuses are not to hold up the next edit.
    let changed = Arc::clone(&status_changed);
    tasks.spawn(async move { statuses.run(&changed).await });
    tokio::select! {
        () = plan(planning, &ready, &stop, &written) => {}
        () = pod_poller::follow(watches, asking, reports, status_changed) => {}
        // After `stop` the lease was given back, and no write is under way.
        // A panic is to end the process.
        Some(ended) = tasks.join_next() => if let Err(error) = ended {
            std::panic::resume_unwind(error.into_panic());
        },
    }
    tasks.shutdown().await;
}

#[cfg(test)]
mod tests;
