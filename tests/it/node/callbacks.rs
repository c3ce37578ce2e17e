//! What a Module asks of the gateway while its call runs, and how it learns that nobody waits any more.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hawsepipe::domain::plan::Runtime;
use hawsepipe::domain::ports::{Answering, Host, LinkedPlugin, PluginProgress, RunPlugin};
use hawsepipe::domain::raw::to_raw;
use hawsepipe::domain::rpc::RpcError;
use hawsepipe::domain::upstream::Answer;
use hawsepipe::node::Workers;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Alone, Rig, input, is_running, module, runtime};

/// Answers `say` with what it is given, `wait` with the same a while later, and refuses everything else.
#[derive(Default)]
pub struct Echo(Mutex<Vec<String>>);

impl Echo {
    /// What progress it was told of.
    pub fn told(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Host for Echo {
    fn progress(&self, progress: PluginProgress) {
        self.0.lock().unwrap().push(to_raw(&progress).get().to_owned());
    }

    fn call_tool<'a>(&'a self, tool: &'a str, arguments: Option<&'a RawValue>) -> Answering<'a> {
        Box::pin(async move {
            if tool == "wait" {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            match (tool, arguments) {
                ("say" | "wait", Some(arguments)) => Answer::Result(arguments.to_owned()),
                _ => Answer::Error(to_raw(&RpcError::new(-32602, "no").with_data(json!({"reason": tool})))),
            }
        })
    }
}

async fn ask(rig: &Rig, plugin: &Arc<LinkedPlugin>, content: &str, host: &dyn Host) -> String {
    let ran = rig.workers.run(plugin, &input(content), Duration::from_secs(20), host).await;
    ran.output.unwrap().text
}

#[tokio::test]
async fn what_it_asks_is_answered_within_the_call() {
    let plugin = module(
        "export default async ({ rawContent }, { callTool, progress }) => {
            progress(1, 3, 'begun'); progress(2.5); progress(Number.NaN); progress('x'); progress();
            const late = callTool('wait', { late: true });
            const all = [await callTool('say', { a: rawContent }), await late, await callTool('say')];
            const error = await callTool('nobody', {}).catch(({ name, code, message, data }) => ({ name, code, message, data }));
            return { text: JSON.stringify([...all, error]), continue: true };
         }",
    )
    .link();
    let rig = Rig::with(&[&plugin]).await;
    let host = Echo::default();
    let text = ask(&rig, &plugin, "é😀", &host).await;
    let error = json!({"name": "CallToolError", "code": -32602, "message": "no", "data": {"reason": "nobody"}});
    let expected = json!([{"a": "é😀"}, {"late": true}, {}, error]);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    let told = [r#"{"progress":1,"total":3,"message":"begun"}"#, r#"{"progress":2.5}"#];
    assert_eq!(host.told(), told);
    assert_eq!(rig.counted("hawsepipe_plugin_callbacks_total", r#"callback="call_tool",outcome="ok""#), 3.0);
    assert_eq!(rig.counted("hawsepipe_plugin_callbacks_total", r#"callback="call_tool",outcome="error""#), 1.0);
    assert_eq!(rig.counted("hawsepipe_plugin_callbacks_total", r#"callback="progress",outcome="ok""#), 2.0);
}

/// Answers every tool with what another plugin makes of nothing.
struct Nested {
    workers: Arc<Workers>,
    plugin: Arc<LinkedPlugin>,
}

impl Host for Nested {
    fn progress(&self, _: PluginProgress) {}

    fn call_tool<'a>(&'a self, _: &'a str, _: Option<&'a RawValue>) -> Answering<'a> {
        Box::pin(async move {
            let ran = self.workers.run(&self.plugin, &input(""), Duration::from_secs(20), &Alone).await;
            Answer::Result(to_raw(&ran.output.map_or_else(|failure| failure.to_string(), |output| output.text)))
        })
    }
}

#[tokio::test]
async fn while_one_waits_for_an_answer_another_may_run_and_after_that_it_counts_again() {
    let outer = module(
        "export default async (_, ctx) => {
            const [a, b] = await Promise.all([ctx.callTool('x', {}), ctx.callTool('x', {})]);
            return { text: `${a} ${b} ${await ctx.callTool('x', {})}`, continue: true };
         }",
    )
    .link();
    let inner = module("export default () => ({ text: 'inner', continue: true });").link();
    let rig = Rig::new();
    rig.prepare(&[&outer, &inner], &Runtime { max_concurrent_executions: 1, ..runtime() }).await;
    let host = Nested { workers: Arc::clone(&rig.workers), plugin: inner };
    for _ in 0..3 {
        assert_eq!(ask(&rig, &outer, "", &host).await, "inner inner inner");
        let load = rig.workers.load();
        assert_eq!((load.permits, load.permits_in_use), (1, 0), "what was taken is given back, once");
    }
}

#[tokio::test]
async fn large_questions_and_answers_pass_whole_and_many_at_once() {
    let plugin = module(
        "export default async ({ rawContent }, ctx) => {
            const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => ctx.callTool('say', { i, rawContent })));
            return { text: String(answers.every((a, i) => a.i === i && a.rawContent === rawContent)), continue: true };
         }",
    )
    .link();
    let rig = Rig::with(&[&plugin]).await;
    for content in ["", "x", &"é".repeat(500_000)] {
        assert_eq!(ask(&rig, &plugin, content, &Echo::default()).await, "true", "{}", content.len());
    }
}

#[tokio::test]
async fn what_is_asked_after_the_call_fails_and_what_nobody_awaits_harms_nobody() {
    let plugin = module(
        "let old;
         export default async ({ rawContent }, ctx) => {
            if (rawContent === 'first') {
                old = ctx;
                ctx.callTool('wait', {});
                ctx.callTool('nobody', {});
                return { text: String(process.pid), continue: true };
            }
            const late = await old.callTool('say', {}).catch((e) => e.message);
            old.progress(1);
            return { text: `${process.pid} ${late}`, continue: true };
         }",
    )
    .link();
    let rig = Rig::with(&[&plugin]).await;
    let host = Echo::default();
    let pid = ask(&rig, &plugin, "first", &host).await;
    assert_eq!(ask(&rig, &plugin, "", &host).await, format!("{pid} the call is over"));
    assert!(host.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn asks_that_it_forges_are_nobodys() {
    let plugin = module(
        "import { writeSync } from 'node:fs';
         const frame = (kind, header) => {
            const json = Buffer.from(header), head = Buffer.alloc(8);
            head.writeUInt32LE((kind << 24 | json.length) >>> 0);
            writeSync(3, Buffer.concat([head, json]));
         };
         export default () => {
            for (const kind of [8, 10]) for (const header of ['', '{', '{}', '[]', '{\"id\":99,\"ask\":1,\"tool\":\"say\",\"progress\":1}',
                '{\"id\":-1}', '{\"id\":\"1\"}', '{\"id\":1,\"ask\":1e99,\"tool\":7,\"progress\":{}}']) frame(kind, header);
            for (const kind of [1, 4, 5, 6, 9, 11, 12, 13, 14]) frame(kind, '{\"id\":1,\"ask\":1,\"stream\":1}');
            return { text: 'fine', continue: true };
         }",
    )
    .link();
    let rig = Rig::with(&[&plugin]).await;
    assert_eq!(ask(&rig, &plugin, "", &Alone).await, "fine");
    assert_eq!(ask(&rig, &plugin, "", &Alone).await, "fine");
    assert_eq!(rig.count("hawsepipe_worker_spawns_total", "replace"), 0.0);
}

#[tokio::test]
async fn a_call_that_is_given_up_is_told_so_and_its_worker_serves_on() {
    let plugin = module(
        "let told = 'nothing';
         export default async ({ rawContent }, ctx) => {
            if (rawContent === 'ask') return { text: `${process.pid} ${told}`, continue: true };
            const asked = ctx.callTool('hang', {}).catch((e) => e.name);
            await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
            const late = await ctx.callTool('say', {}).catch((e) => e.name);
            told = `${ctx.signal.reason.name} ${await asked} ${late}`;
            return { text: '', continue: true };
         }",
    )
    .link();
    let rig = Rig::with(&[&plugin]).await;
    let pid = rig.workers.workers()[0].pid;
    for _ in 0..3 {
        let given_up = spawn_call(&rig, &plugin, "wait");
        rig.until("it is asked", |rig| rig.asked() % 2 == 1).await;
        given_up.abort();
        assert!(given_up.await.unwrap_err().is_cancelled());
        let text = rig.answer(&plugin, "ask").await.text;
        assert_eq!(text, format!("{pid} AbortError AbortError AbortError"));
    }
    assert_eq!(rig.count("hawsepipe_worker_kills_total", "cancelled"), 0.0);
    assert_eq!(rig.count("hawsepipe_worker_spawns_total", "replace"), 0.0);
}

#[tokio::test]
async fn one_that_does_not_end_its_call_is_killed() {
    for code in ["await new Promise(() => {});", "for (;;);"] {
        let plugin = module(&format!(
            "export default async ({{ rawContent }}, ctx) => {{
                ctx.signal;
                if (rawContent) {{ {code} }}
                return {{ text: 'fine', continue: true }};
             }}"
        ))
        .link();
        let rig = Rig::with(&[&plugin]).await;
        let pid = rig.workers.workers()[0].pid;
        let given_up = spawn_call(&rig, &plugin, "wait");
        rig.until("it is asked", |rig| rig.asked() == 1).await;
        given_up.abort();
        rig.until("it is gone", |_| !is_running(pid)).await;
        assert_eq!(rig.count("hawsepipe_worker_kills_total", "cancelled"), 1.0);
        assert_eq!(rig.answer(&plugin, "").await.text, "fine");
    }
}

#[tokio::test]
async fn its_signal_tells_of_the_deadline_before_it_comes() {
    let plugin = module(
        "export default async (input, { signal }) => {
            await new Promise((resolve) => signal.addEventListener('abort', resolve));
            return { text: signal.reason.name, continue: true };
         }",
    )
    .link();
    let rig = Rig::with(&[&plugin]).await;
    let began = Instant::now();
    let ran = rig.run_for(&plugin, "", 2000).await;
    assert_eq!(ran.output.unwrap().text, "TimeoutError");
    assert!(began.elapsed() >= Duration::from_millis(1700), "{:?}", began.elapsed());
}

fn spawn_call(rig: &Rig, plugin: &Arc<LinkedPlugin>, content: &'static str) -> tokio::task::JoinHandle<()> {
    let (workers, plugin) = (Arc::clone(&rig.workers), Arc::clone(plugin));
    tokio::spawn(async move {
        workers.run(&plugin, &input(content), Duration::from_secs(20), &Hang).await.output.unwrap();
    })
}

/// Never answers.
struct Hang;

impl Host for Hang {
    fn progress(&self, _: PluginProgress) {}

    fn call_tool<'a>(&'a self, _: &'a str, _: Option<&'a RawValue>) -> Answering<'a> {
        Box::pin(std::future::pending())
    }
}
