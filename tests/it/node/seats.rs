//! Several calls at a time in one worker (`pool.concurrency`), and what one of them does to the others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hawsepipe::domain::plan::Runtime;
use hawsepipe::domain::plugin::{Failure, Output};
use hawsepipe::domain::ports::{Answering, Host, LinkedPlugin, PluginProgress, RunPlugin, WorkerState};
use hawsepipe::domain::reason::Reason;
use hawsepipe::domain::upstream::Answer;
use hawsepipe::node::Lifetimes;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::callbacks::Echo;
use super::{Code, Rig, input, is_running, module, runtime};

/// Does what its content says, and tells in which process.
const OBEY: &str = "
import { setTimeout as sleep } from 'node:timers/promises';
let here = 0, heard = 'nothing';
export default async ({ rawContent: order, metadata }, ctx) => {
    here += 1;
    if (order === 'spin') for (;;);
    if (order.startsWith('compute ')) for (const end = Date.now() + Number(order.slice(8)); Date.now() < end;);
    if (order === 'hang') await new Promise(() => {});
    if (order === 'flood') return { text: 'x'.repeat(11 << 20), continue: true };
    if (order === 'throw') throw new Error('no');
    if (order === 'listen') await new Promise((done) => ctx.signal.addEventListener('abort', done)), heard = ctx.signal.reason.name;
    if (order.startsWith('meet ')) while (here < Number(order.slice(5))) await sleep(5);
    if (order.startsWith('sleep ')) await sleep(Number(order.slice(6)), undefined, { signal: ctx.signal });
    if (order === 'hold') await ctx.callTool('hold');
    return { text: [order, process.pid, heard].join(), continue: true };
};";

fn shared(concurrency: u32) -> Code {
    Code { concurrency, ..module(OBEY) }
}

/// The order that an answer is to, and the process that gave it.
fn parts(output: Result<Output, Failure>) -> (String, u32) {
    let text = output.unwrap().text;
    let mut parts = text.split(',');
    (parts.next().unwrap().to_owned(), parts.next().unwrap().parse().unwrap())
}

async fn call(rig: &Rig, plugin: &Arc<LinkedPlugin>, order: &str) -> (String, u32) {
    parts(rig.run_for(plugin, order, 20_000).await.output)
}

/// Lets those in that ask, as many as it has permits.
pub(super) struct Gate(pub(super) Semaphore);

impl Host for Gate {
    fn progress(&self, _: PluginProgress) {}

    fn call_tool<'a>(&'a self, _: &'a str, _: Option<&'a RawValue>) -> Answering<'a> {
        Box::pin(async move {
            self.0.acquire().await.unwrap().forget();
            Answer::Result(RawValue::NULL.to_owned())
        })
    }
}

async fn held(rig: &Rig, plugin: &Arc<LinkedPlugin>, gate: &Gate) -> (String, u32) {
    parts(rig.workers.run(plugin, &input("hold"), Duration::from_secs(20), gate).await.output)
}

fn only_worker(rig: &Rig) -> u32 {
    let workers = rig.workers.workers();
    assert_eq!(workers.len(), 1, "{workers:?}");
    workers[0].pid
}

#[tokio::test]
async fn one_worker_serves_several_calls_at_a_time() {
    let plugin = shared(3).link();
    let rig = Rig::with(&[&plugin]).await;
    let pid = only_worker(&rig);
    let (a, b, c) =
        tokio::join!(call(&rig, &plugin, "meet 3"), call(&rig, &plugin, "meet 2"), call(&rig, &plugin, "meet 1"));
    assert_eq!([a, b, c], [("meet 3".into(), pid), ("meet 2".into(), pid), ("meet 1".into(), pid)]);
    let worker = &rig.workers.workers()[0];
    assert_eq!((worker.pid, worker.execution_count, worker.state), (pid, 3, WorkerState::Available));
}

#[tokio::test]
async fn a_worker_that_is_full_gets_a_second_beside_it() {
    let plugin = Code { size: 2, ..shared(2) }.link();
    let rig = Rig::with(&[&plugin]).await;
    let gate = Gate(Semaphore::new(0));
    let calls = futures_util::future::join_all((0..4).map(|_| held(&rig, &plugin, &gate)));
    let (mut pids, ()) =
        tokio::join!(async { calls.await.into_iter().map(|(_, pid)| pid).collect::<Vec<_>>() }, async {
            rig.until("both are full", |rig| rig.asked() == 4).await;
            gate.0.add_permits(4);
        });
    pids.sort_unstable();
    assert!(pids[0] == pids[1] && pids[1] != pids[2] && pids[2] == pids[3], "{pids:?}");
}

#[tokio::test]
async fn what_calls_ask_is_answered_each_its_own() {
    let plugin = Code {
        concurrency: 4,
        ..module(
            "export default async ({ rawContent }, ctx) => {
                ctx.progress(Number(rawContent));
                const [now, late] = [ctx.callTool('say', { rawContent }), ctx.callTool('wait', { late: rawContent })];
                return { text: (await now).rawContent + (await late).late, continue: true };
             }",
        )
    }
    .link();
    let rig = Rig::with(&[&plugin]).await;
    let hosts: [Echo; 4] = std::array::from_fn(|_| Echo::default());
    let calls = hosts.iter().enumerate().map(async |(number, host)| {
        let number = number.to_string();
        let ran = rig.workers.run(&plugin, &input(&number), Duration::from_secs(20), host).await;
        assert_eq!(ran.output.unwrap().text, format!("{number}{number}"));
        assert_eq!(host.told(), [format!(r#"{{"progress":{number}}}"#)]);
    });
    futures_util::future::join_all(calls).await;
    assert_eq!(rig.workers.workers().len(), 1);
}

#[tokio::test]
async fn one_that_does_not_end_lets_the_others_end() {
    let plugin = shared(3).link();
    let rig = Rig::with(&[&plugin]).await;
    let pid = only_worker(&rig);
    let gate = Gate(Semaphore::new(0));
    let (late, other, next) = tokio::join!(rig.run_for(&plugin, "hang", 200), held(&rig, &plugin, &gate), async {
        rig.until("it gets no calls any more", |rig| rig.count("hawsepipe_worker_recycles_total", "stuck") > 0.0).await;
        // The other one goes on until this one was served.
        let next = call(&rig, &plugin, "").await;
        gate.0.add_permits(1);
        next
    });
    assert_eq!(late.output.unwrap_err().reason, Reason::Timeout);
    assert_eq!(other, ("hold".into(), pid));
    assert_ne!(next.1, pid, "another worker serves on");
    rig.until("it is gone", |_| !is_running(pid)).await;
    assert_eq!(rig.count("hawsepipe_worker_recycles_total", ""), 1.0);
    assert_eq!(rig.count("hawsepipe_worker_kills_total", ""), 0.0);
    assert_eq!(rig.workers.workers().len(), 1);
}

#[tokio::test]
async fn one_that_blocks_takes_its_worker_with_it() {
    let plugin = shared(3).link();
    let rig = Rig::with(&[&plugin]).await;
    let pid = only_worker(&rig);
    let (late, other) = tokio::join!(rig.run_for(&plugin, "spin", 200), rig.run_for(&plugin, "sleep 50", 20_000));
    assert_eq!(late.output.unwrap_err().reason, Reason::Timeout);
    let lost = other.output.unwrap_err();
    assert_eq!(lost.reason, Reason::Crashed);
    assert_eq!(lost.message, "was ended with its worker, which another call kept busy");
    assert!(other.ran < Duration::from_secs(5), "{:?}", other.ran);
    assert_ne!(call(&rig, &plugin, "").await.1, pid);
    assert_eq!(rig.count("hawsepipe_worker_kills_total", "timeout"), 1.0);
    assert_eq!(rig.count("hawsepipe_worker_kills_total", ""), 1.0);
}

#[tokio::test]
async fn one_that_nobody_waits_for_is_told_so_and_no_other() {
    let plugin = shared(3).link();
    let rig = Rig::with(&[&plugin]).await;
    let pid = only_worker(&rig);
    let (given_up, other) = tokio::join!(
        tokio::time::timeout(Duration::from_millis(200), rig.run_for(&plugin, "listen", 20_000)),
        call(&rig, &plugin, "sleep 600"),
    );
    assert!(given_up.is_err());
    assert_eq!(other, ("sleep 600".into(), pid));
    let text = rig.answer(&plugin, "").await.text;
    assert_eq!(text, format!(",{pid},AbortError"));
    assert_eq!(rig.count("hawsepipe_worker_recycles_total", "") + rig.count("hawsepipe_worker_kills_total", ""), 0.0);
}

#[tokio::test]
async fn one_that_answers_too_much_is_the_one_that_is_blamed() {
    let plugin = shared(3).link();
    let rig = Rig::with(&[&plugin]).await;
    let (other, flood) = tokio::join!(rig.run(&plugin, "sleep 3000"), rig.run(&plugin, "flood"));
    assert_eq!(flood.output.unwrap_err().reason, Reason::TooLarge);
    let lost = other.output.unwrap_err();
    assert_eq!(
        (lost.reason, lost.message.as_str()),
        (Reason::Crashed, "was ended with its worker, which another call broke")
    );
    assert_eq!(rig.count("hawsepipe_worker_kills_total", "broken"), 1.0);
    // One that only fails harms nobody.
    let (other, failed) = tokio::join!(rig.run(&plugin, "sleep 100"), rig.run(&plugin, "throw"));
    assert_eq!(failed.output.unwrap_err().reason, Reason::PluginError);
    let (_, pid) = parts(other.output);
    assert_eq!(only_worker(&rig), pid);
}

#[tokio::test]
async fn workers_are_replaced_while_they_are_in_calls() {
    let plugin = Code { size: 2, max_executions: Some(20), ..shared(4) }.link();
    let rig = Rig::living(Lifetimes { maintained_every: Duration::from_millis(20), ..Lifetimes::default() });
    rig.prepare(&[&plugin], &runtime()).await;
    let left = AtomicU32::new(400);
    let client = async || {
        while let Ok(number) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)) {
            let order = format!("sleep {}", number % 7);
            assert_eq!(call(&rig, &plugin, &order).await.0, order);
        }
    };
    futures_util::future::join_all((0..8).map(|_| client())).await;
    let replaced = rig.count("hawsepipe_worker_recycles_total", "executions");
    assert!((15.0..=40.0).contains(&replaced), "{replaced}");
    assert_eq!(rig.count("hawsepipe_worker_kills_total", ""), 0.0);
    rig.until("no more than two are left", |rig| rig.workers.workers().len() <= 2).await;
}

/// Many hold a seat and wait for the right to use it when its worker dies of another call.
#[tokio::test]
async fn those_that_have_not_begun_get_another_worker() {
    let plugin = shared(8).link();
    let rig = Rig::new();
    rig.prepare(&[&plugin], &Runtime { max_concurrent_executions: 1, ..runtime() }).await;
    let pid = only_worker(&rig);
    let (late, others) = tokio::join!(
        rig.run_for(&plugin, "spin", 300),
        futures_util::future::join_all((0..6).map(|_| rig.run(&plugin, "")))
    );
    assert_eq!(late.output.unwrap_err().reason, Reason::Timeout);
    let served = others.into_iter().map(|ran| parts(ran.output).1).collect::<BTreeSet<_>>();
    assert_eq!(served, BTreeSet::from([only_worker(&rig)]));
    assert!(!served.contains(&pid));
}

/// One that hangs up takes no other call with it, although its worker listens to nobody for a while.
#[tokio::test]
async fn others_outlive_one_that_nobody_waits_for_while_they_compute() {
    let plugin = shared(3).link();
    let rig = Rig::with(&[&plugin]).await;
    let pid = only_worker(&rig);
    let (given_up, other) = tokio::join!(
        tokio::time::timeout(Duration::from_millis(100), rig.run_for(&plugin, "sleep 60000", 10_000)),
        call(&rig, &plugin, "compute 1000"),
    );
    assert!(given_up.is_err());
    assert_eq!(other.1, pid);
    assert_eq!(rig.count("hawsepipe_worker_kills_total", ""), 0.0);
}
