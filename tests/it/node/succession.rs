//! The successor of a worker that has few calls left is started while that worker still serves.

use std::time::Duration;

use hawsepipe::domain::ports::{RunPlugin, WorkerState};
use hawsepipe::node::Lifetimes;

use super::{Rig, module, runtime};

/// Calls of a worker: its last twentieth is two of them, whatever its jitter.
const CALLS: u64 = 60;
/// Enough for each of three workers to serve its time.
const ENOUGH: usize = 180;

const PID: &str = "export default () => ({ text: String(process.pid), continue: true });";

fn pids(rig: &Rig, state: WorkerState) -> Vec<u32> {
    rig.workers.workers().iter().filter(|worker| worker.state == state).map(|worker| worker.pid).collect()
}

/// Waits until no worker is being started. All the while one is ready, and there are never more than two.
async fn until_started(rig: &Rig) {
    rig.until("the successor is ready", |rig| {
        assert!(!pids(rig, WorkerState::Available).is_empty(), "a call would wait: {:?}", rig.workers.workers());
        assert!(rig.workers.workers().len() <= 2, "{:?}", rig.workers.workers());
        pids(rig, WorkerState::Spawned).is_empty()
    })
    .await;
}

#[tokio::test]
async fn no_call_waits_for_the_start_of_a_successor() {
    let plugin = module(PID).link();
    let rig = Rig::living(Lifetimes { max_executions: Some(CALLS), ..Lifetimes::default() });
    rig.prepare(&[&plugin], &runtime()).await;
    let (mut served, mut beside) = (Vec::new(), 0);
    while served.len() < ENOUGH {
        let ready = pids(&rig, WorkerState::Available);
        let pid = rig.run(&plugin, "").await.worker_pid.unwrap();
        assert!(ready.contains(&pid), "call {} was served by {pid}, which was not ready: {ready:?}", served.len());
        served.push(pid);
        // The task that starts a successor runs before this one goes on.
        tokio::time::sleep(Duration::from_millis(1)).await;
        if pids(&rig, WorkerState::Spawned).is_empty() {
            continue;
        }
        // One of the last calls comes while it starts, and the worker that it is to follow serves it.
        let old = pids(&rig, WorkerState::Available);
        served.push(rig.run(&plugin, "").await.worker_pid.unwrap());
        assert!(old.contains(served.last().unwrap()), "{old:?}, {served:?}");
        until_started(&rig).await;
        beside += 1;
    }
    let mut workers = served;
    workers.dedup();
    assert!((3..=4).contains(&workers.len()), "{workers:?}");
    assert!((workers.len() - 1..=workers.len()).contains(&beside), "{beside} successors of {workers:?}");
    assert_eq!(rig.count("hawsepipe_worker_spawns_total", "demand"), 1.0);
    assert_eq!(rig.count("hawsepipe_worker_spawns_total", "replace"), beside as f64);
    rig.until("the old ones are gone", |rig| rig.workers.workers().len() == 1).await;
    assert_eq!(rig.count("hawsepipe_worker_recycles_total", "executions"), beside as f64);
}
