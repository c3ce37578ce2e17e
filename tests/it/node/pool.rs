//! How a pool grows, shrinks, renews itself, and what it does while starts fail.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hawsepipe::domain::plan::Runtime;
use hawsepipe::domain::ports::{LinkedPlugin, RunPlugin, WorkerState};
use hawsepipe::domain::reason::Reason;
use hawsepipe::node::Lifetimes;

use super::life::{MEET, meet};
use super::{Alone, Code, Rig, input, module, runtime};

const PID: &str = "export default () => ({ text: String(process.pid), continue: true });";

/// Workers are looked after often.
fn maintained() -> Lifetimes {
    Lifetimes { maintained_every: Duration::from_millis(20), ..Lifetimes::default() }
}

fn available(rig: &Rig) -> usize {
    rig.workers.workers().iter().filter(|worker| worker.state == WorkerState::Available).count()
}

#[tokio::test]
async fn workers_that_nobody_needs_go_and_the_last_used_stays() {
    let plugin = Code { size: 3, ..module(MEET) }.link();
    let rig = Rig::living(Lifetimes { max_idle: Duration::from_millis(500), ..maintained() });
    rig.prepare(&[&plugin], &Runtime { queue_timeout_ms: 30_000, ..runtime() }).await;
    meet(&rig, &plugin, "shrink").await;
    let last = rig.answer(&plugin, "").await.text;
    rig.until("it has shrunk", |rig| rig.workers.workers().len() == 1).await;
    assert_eq!(rig.workers.workers()[0].pid.to_string(), last);
    assert_eq!(rig.count("hawsepipe_worker_recycles_total", "idle"), 2.0);
    // And it grows again.
    meet(&rig, &plugin, "grow").await;
}

#[tokio::test]
async fn a_plugin_may_say_how_long_its_workers_serve() {
    let plugin = Code { max_executions: Some(2), ..module(PID) }.link();
    let rig = Rig::living(maintained());
    rig.prepare(&[&plugin], &runtime()).await;
    let mut pids = Vec::new();
    for _ in 0..6 {
        pids.push(rig.answer(&plugin, "").await.text);
    }
    pids.dedup();
    assert_eq!(pids.len(), 3, "{pids:?}");
    // One that is too old is replaced although nobody asks for it.
    let plugin = Code { max_lifetime_seconds: Some(1), ..module(PID) }.link();
    let rig = Rig::living(maintained());
    rig.prepare(&[&plugin], &runtime()).await;
    let first = rig.workers.workers()[0].pid;
    rig.until("it is replaced", |rig| {
        rig.workers.workers().iter().any(|worker| worker.pid != first && worker.state == WorkerState::Available)
    })
    .await;
    assert!(rig.count("hawsepipe_worker_recycles_total", "lifetime") >= 1.0);
}

#[tokio::test]
async fn a_worker_that_takes_too_much_memory_is_replaced() {
    let mut code = module(
        "const kept = [];
         export default (input) => {
             if (input.rawContent) kept.push(Buffer.alloc(Number(input.rawContent), 1));
             return { text: String(process.pid), continue: true };
         }",
    );
    code.limits.memory = 128 << 20;
    let plugin = code.link();
    let rig = Rig::living(maintained());
    rig.prepare(&[&plugin], &runtime()).await;
    let first = rig.answer(&plugin, "").await.text;
    assert_eq!(rig.answer(&plugin, &(16 << 20).to_string()).await.text, first);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(rig.answer(&plugin, &(88 << 20).to_string()).await.text, first);
    rig.until("it is replaced", |rig| {
        rig.workers.workers().iter().any(|w| w.pid.to_string() != first && w.state == WorkerState::Available)
    })
    .await;
    assert_ne!(rig.answer(&plugin, "").await.text, first);
    assert_eq!(rig.count("hawsepipe_worker_recycles_total", "memory"), 1.0);
}

#[tokio::test]
async fn one_that_takes_too_much_before_its_first_call_is_not_started_over_and_over() {
    let mut code = module(&format!("const kept = Buffer.alloc({}, 1); {PID}", 52 << 20));
    code.limits.memory = 64 << 20;
    let plugin = code.link();
    let rig = Rig::living(maintained());
    rig.prepare(&[&plugin], &runtime()).await;
    rig.until("it is seen", |rig| rig.workers.availability(&plugin).is_err()).await;
    let failure = rig.failure(&plugin, "").await;
    assert_eq!(failure.reason, Reason::NotLoaded);
    assert!(
        failure.message.starts_with("took more than three quarters of limits.memory (67108864 bytes)"),
        "{failure}"
    );
    tokio::time::sleep(Duration::from_millis(500)).await;
    let spawned = ["demand", "retry", "replace"].map(|cause| rig.count("hawsepipe_worker_spawns_total", cause));
    assert!(spawned.iter().sum::<f64>() <= 3.0, "{spawned:?}");
    assert!(rig.count("hawsepipe_worker_start_failures_total", "memory") >= 1.0);
}

#[tokio::test]
async fn starts_that_fail_leave_alone_what_runs_and_are_tried_one_at_a_time() {
    let folder = std::env::temp_dir().join(format!("hawsepipe-half-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("value.mjs"), "").unwrap();
    let code = format!(
        "import {:?}; export default (input) => new Promise((done) =>
        setTimeout(() => done({{ text: String(process.pid), continue: true }}), Number(input.rawContent)));",
        folder.join("value.mjs").to_str().unwrap()
    );
    let plugin = Code { folder: Some(folder.clone()), size: 5, ..module(&code) }.link();
    let rig = Rig::living(maintained());
    rig.prepare(&[&plugin], &runtime()).await;
    fs::write(folder.join("value.mjs"), "throw new TypeError('no more')").unwrap();
    let calls = futures_util::future::join_all((0..5).map(|_| rig.answer(&plugin, "100"))).await;
    assert!(calls.iter().all(|answer| answer.text == calls[0].text));
    // What serves goes on serving, and of the four that lack one at a time is tried.
    let starting = |rig: &Rig| rig.workers.workers().iter().filter(|w| w.state == WorkerState::Spawned).count();
    let failures = |rig: &Rig| rig.count("hawsepipe_worker_start_failures_total", "load");
    rig.until("the first ones have failed", |rig| failures(rig) >= 4.0).await;
    let first = failures(&rig);
    for _ in 0..50 {
        assert_eq!(rig.answer(&plugin, "20").await.text, calls[0].text);
        assert!(starting(&rig) <= 1, "{:?}", rig.workers.workers());
    }
    // However many calls go well meanwhile, starts wait for their time, which is two seconds by now.
    let again = failures(&rig) - first;
    assert!(again <= 3.0, "{again} more");
    // One that works shows that more may.
    fs::write(folder.join("value.mjs"), "").unwrap();
    rig.until("one is there again", |rig| available(rig) >= 2).await;
    fs::remove_dir_all(folder).unwrap();
}

/// A plugin that answers with its number, a little later.
fn numbered(n: u32) -> Arc<LinkedPlugin> {
    let code = format!(
        "export default () => new Promise((done) => setTimeout(() => done({{ text: '{n}', continue: true }}), 5))"
    );
    Code { size: 3, ..module(&code) }.link()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_revision_takes_over_under_load_without_a_failed_call() {
    let revisions = [1, 2, 3].map(numbered);
    let rig = Rig::living(maintained());
    let runtime = Runtime { queue_timeout_ms: 10_000, ..runtime() };
    rig.prepare(&[&revisions[0]], &runtime).await;
    let current = Arc::new(std::sync::Mutex::new(Arc::clone(&revisions[0])));
    let over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let (workers, current, over) = (Arc::clone(&rig.workers), Arc::clone(&current), Arc::clone(&over));
            tokio::spawn(async move {
                let mut answers = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let plugin = Arc::clone(&current.lock().unwrap());
                    let ran = workers.run(&plugin, &input(""), Duration::from_secs(10), &Alone).await;
                    answers.push(ran.output.unwrap().text);
                }
                answers
            })
        })
        .collect();
    rig.until("it has grown", |rig| rig.workers.workers().len() == 3).await;
    for (old, new) in [(0, 1), (1, 2)] {
        rig.prepare(&[&revisions[old], &revisions[new]], &runtime).await;
        let of = |rig: &Rig| rig.workers.workers().iter().filter(|w| w.revision == revisions[new].plan.digest).count();
        assert!(of(&rig) >= 1);
        *current.lock().unwrap() = Arc::clone(&revisions[new]);
        rig.workers.retire(std::slice::from_ref(&revisions[new]));
        rig.until("it has as many workers as the one before", |rig| of(rig) == 3).await;
        rig.until("the old ones are gone", |rig| rig.workers.workers().len() == 3).await;
    }
    over.store(true, Ordering::Relaxed);
    for caller in callers {
        let mut answers = caller.await.unwrap();
        answers.dedup();
        assert_eq!(answers, ["1", "2", "3"]);
    }
}
