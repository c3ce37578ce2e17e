//! Time, sizes, queue and permits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hawsepipe::domain::budget::Account;
use hawsepipe::domain::plan::Runtime;
use hawsepipe::domain::plugin::{Failure, Output};
use hawsepipe::domain::ports::{Answering, Host, LinkedPlugin, PluginProgress, RunPlugin};
use hawsepipe::domain::reason::Reason;

use serde_json::value::RawValue;
use tokio::task::JoinHandle;

use super::{Alone, Code, Rig, input, is_running, module, once, runtime};

const LOOP: &str = "if (input.rawContent === 'loop') for (;;);";

#[tokio::test]
async fn a_late_call_is_answered_at_its_deadline_and_its_process_killed() {
    let module =
        module(&format!("export default (input) => {{ {LOOP} return {{ text: 'fine', continue: true }} }}")).link();
    let once = once(&format!(
        "import {{ readFileSync }} from 'node:fs'; const input = JSON.parse(readFileSync(0));
         {LOOP} console.log('{{\"text\":\"fine\",\"continue\":true}}')"
    ))
    .link();
    let rig = Rig::with(&[&module, &once]).await;
    for plugin in [module, once] {
        let began = Instant::now();
        let ran = rig.run_for(&plugin, "loop", 150).await;
        let took = began.elapsed();
        let failure = ran.output.unwrap_err();
        assert_eq!((failure.reason, failure.message.as_str()), (Reason::Timeout, "timed out after 150ms"));
        assert!(took >= Duration::from_millis(150) && took < Duration::from_millis(250), "{took:?}");
        let pid = ran.worker_pid.unwrap();
        rig.until("it is gone", |_| !is_running(pid)).await;
        assert_eq!(rig.answer(&plugin, "").await.text, "fine");
    }
    assert_eq!(rig.count("hawsepipe_worker_kills_total", "timeout"), 2.0);
}

#[tokio::test]
async fn sizes_are_bounded_both_ways() {
    for mut code in [
        module("export default (input) => ({ text: 'x'.repeat(Number(input.rawContent)), continue: true })"),
        once(
            "import { readFileSync } from 'node:fs'; const input = JSON.parse(readFileSync(0));
             console.log(JSON.stringify({ text: 'x'.repeat(Number(input.rawContent)), continue: true }))",
        ),
    ] {
        (code.limits.max_input, code.limits.max_output) = (10, 100);
        let plugin = code.link();
        let rig = Rig::with(&[&plugin]).await;
        let ran = rig.run(&plugin, "00000000100").await;
        assert_eq!((ran.output.unwrap_err().reason, ran.worker_pid), (Reason::TooLarge, None));
        assert_eq!(rig.answer(&plugin, "0000000100").await.text.len(), 100);
        assert_eq!(rig.failure(&plugin, "101").await.reason, Reason::TooLarge);
        assert_eq!(rig.failure(&plugin, "30000000").await.reason, Reason::TooLarge);
        assert_eq!(rig.answer(&plugin, "7").await.text.len(), 7);
    }
}

#[tokio::test]
async fn a_busy_pool_turns_away_at_the_queues_bounds() {
    let plugin = module(
        "export default (input) => new Promise((done) =>
            setTimeout(() => done({ text: '', continue: true }), Number(input.rawContent)))",
    )
    .link();
    let rig = Rig::new();
    let runtime = Runtime { max_queued_executions: 1, queue_timeout_ms: 100, ..runtime() };
    rig.prepare(&[&plugin], &runtime).await;
    let busy = tokio::spawn(run(&rig, &plugin, "600"));
    rig.until("it is busy", |rig| rig.workers.workers().iter().any(|w| w.execution_count == 1)).await;
    let queued = tokio::spawn(run(&rig, &plugin, "0"));
    tokio::time::sleep(Duration::from_millis(20)).await;
    let began = Instant::now();
    let refused = rig.failure(&plugin, "0").await;
    assert_eq!((refused.reason, refused.message.as_str()), (Reason::PoolExhausted, "found the queue for workers full"));
    assert!(began.elapsed() < Duration::from_millis(50));
    let late = queued.await.unwrap().unwrap_err();
    assert_eq!((late.reason, late.message.as_str()), (Reason::PoolExhausted, "found no free worker within 100ms"));
    assert!(busy.await.unwrap().is_ok());
    assert_eq!(rig.answer(&plugin, "0").await.text, "");
}

#[tokio::test]
async fn permits_bound_all_plugins_and_a_waiting_worker_holds_none() {
    let sleeper = "export default () => new Promise((done) =>
        setTimeout(() => done({ text: String(Date.now()), continue: true }), 150))";
    let [busy, other] = ["", " "].map(|end| module(&format!("{sleeper}{end}")).link());
    let rig = Rig::new();
    rig.prepare(&[&busy, &other], &Runtime { max_concurrent_executions: 2, ..runtime() }).await;
    // Two calls of one plugin with one worker take one permit, so the other plugin runs at once.
    let began = Instant::now();
    let waiting = [tokio::spawn(run(&rig, &busy, "")), tokio::spawn(run(&rig, &busy, ""))];
    rig.until("it is busy", |rig| rig.workers.workers().iter().any(|w| w.execution_count == 1)).await;
    rig.answer(&other, "").await;
    assert!(began.elapsed() < Duration::from_millis(290), "{:?}", began.elapsed());
    for call in waiting {
        call.await.unwrap().unwrap();
    }
    // With one permit they run one after another.
    rig.prepare(&[&busy, &other], &Runtime { max_concurrent_executions: 1, ..runtime() }).await;
    let (first, second) = tokio::join!(rig.answer(&busy, ""), rig.answer(&other, ""));
    let ends = [first, second].map(|output| output.text.parse::<i64>().unwrap());
    assert!((ends[0] - ends[1]).abs() >= 140, "{ends:?}");
}

#[tokio::test]
async fn content_in_flight_is_bounded() {
    let plugin = Code { size: 2, ..module("export default () => new Promise(() => {})") }.link();
    let rig = Rig::new();
    rig.prepare(&[&plugin], &Runtime { max_bytes_in_flight: 1000, ..runtime() }).await;
    let content = "x".repeat(600);
    let busy = tokio::spawn(run(&rig, &plugin, &content));
    rig.until("it is busy", |rig| rig.workers.workers().iter().any(|w| w.execution_count == 1)).await;
    assert_eq!(rig.failure(&plugin, &content).await.reason, Reason::PoolExhausted);
    busy.abort();
    assert!(busy.await.unwrap_err().is_cancelled());
    // Its content is no longer in flight, so this one comes as far as its deadline.
    assert_eq!(rig.run_for(&plugin, &content, 50).await.output.unwrap_err().reason, Reason::Timeout);
    rig.until("it is killed", |rig| rig.count("hawsepipe_worker_kills_total", "cancelled") == 1.0).await;
}

fn run(rig: &Rig, plugin: &Arc<LinkedPlugin>, content: &str) -> impl Future<Output = Result<(), Failure>> + use<> {
    let (workers, plugin, content) = (Arc::clone(&rig.workers), Arc::clone(plugin), content.to_owned());
    async move { workers.run(&plugin, &input(&content), Duration::from_secs(5), &Alone).await.output.map(|_| ()) }
}

/// A client, by the account of its address.
struct Address(Arc<Account>);

impl Host for Address {
    fn progress(&self, _: PluginProgress) {}

    fn call_tool<'a>(&'a self, tool: &'a str, _: Option<&'a RawValue>) -> Answering<'a> {
        panic!("nobody asks for {tool} here")
    }

    fn account(&self) -> Option<Arc<Account>> {
        Some(Arc::clone(&self.0))
    }
}

/// Takes as long as it is told, and answers with how many it answered before.
const COUNTS: &str = "let count = 0;
    export default async ({ rawContent }) => {
        await new Promise((resolve) => setTimeout(resolve, Number(rawContent)));
        return { text: `${count++}`, continue: true };
    }";

/// Has a client call a plugin that takes so many milliseconds.
fn run_for(
    (rig, plugin): (&Rig, &Arc<LinkedPlugin>),
    client: &Arc<Address>,
    millis: &'static str,
) -> JoinHandle<Result<Output, Failure>> {
    let (workers, plugin, client) = (Arc::clone(&rig.workers), Arc::clone(plugin), Arc::clone(client));
    tokio::spawn(async move { workers.run(&plugin, &input(millis), Duration::from_secs(5), &*client).await.output })
}

#[tokio::test]
async fn clients_take_turns_and_the_one_with_most_calls_gives_way() {
    let plugin = module(COUNTS).link();
    let rig = Rig::with(&[&plugin]).await;
    rig.prepare(&[&plugin], &Runtime { max_queued_executions: 10, queue_timeout_ms: 30_000, ..runtime() }).await;
    let run = |client, millis| run_for((&rig, &plugin), client, millis);
    let [many, few] = [(); 2].map(|()| Arc::new(Address(Arc::default())));
    // The first one runs until the others wait.
    let mut of_many = vec![run(&many, "2000")];
    rig.until("one runs", |rig| rig.asked() == 1).await;
    of_many.extend((0..10).map(|_| run(&many, "10")));
    rig.until("the others wait", |rig| rig.workers.load().queued == 10).await;
    let place = run(&few, "10").await.unwrap().unwrap().text;
    assert!(place.parse::<u32>().unwrap() <= 3, "as the next or nearly, not as the eleventh: {place}");
    let mut refused = 0;
    for call in of_many {
        if let Err(failure) = call.await.unwrap() {
            assert_eq!(failure.message, "found the queue for workers full");
            refused += 1;
        }
    }
    assert_eq!(refused, 1, "the last one gave way");
}

#[tokio::test]
async fn who_has_most_calls_at_one_plugin_gives_way_to_others_at_another() {
    let [one, other] = ["", " "].map(|end| module(&format!("{COUNTS}{end}")).link());
    let rig = Rig::new();
    let bounds = Runtime { max_queued_executions: 10, queue_timeout_ms: 30_000, ..runtime() };
    rig.prepare(&[&one, &other], &bounds).await;
    let [many, few] = [(); 2].map(|()| Arc::new(Address(Arc::default())));
    for plugin in [&one, &other] {
        run_for((&rig, plugin), &many, "0").await.unwrap().unwrap();
    }
    // Both plugins are busy until all others wait.
    let busy = [run_for((&rig, &one), &many, "2000"), run_for((&rig, &other), &few, "2000")];
    rig.until("both are busy", |rig| rig.asked() == 4).await;
    let of_many: Vec<_> = (0..10).map(|_| run_for((&rig, &one), &many, "10")).collect();
    rig.until("the queue is full", |rig| rig.workers.load().queued == 10).await;
    let of_few: Vec<_> = (0..2).map(|_| run_for((&rig, &other), &few, "10")).collect();
    rig.until("two have given way", |_| of_many.iter().filter(|call| call.is_finished()).count() == 2).await;
    assert_eq!(rig.workers.load().queued, 10);
    let refused = run_for((&rig, &other), &many, "10").await.unwrap().unwrap_err();
    assert_eq!(refused.message, "found the queue for workers full", "eight do not displace two");
    for call in busy.into_iter().chain(of_few) {
        call.await.unwrap().unwrap();
    }
    let mut refused = 0;
    for call in of_many {
        if let Err(failure) = call.await.unwrap() {
            assert_eq!(
                (failure.reason, &*failure.message),
                (Reason::PoolExhausted, "found the queue for workers full")
            );
            refused += 1;
        }
    }
    assert_eq!(refused, 2);
    assert_eq!(rig.workers.load().queued, 0);
}
