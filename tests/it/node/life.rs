//! How workers come, how long they stay, and that they go.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hawsepipe::domain::plan::Runtime;
use hawsepipe::domain::ports::{LinkedPlugin, RunPlugin, WorkerState};
use hawsepipe::domain::reason::Reason;
use hawsepipe::node::{Lifetimes, NodeError, find_node};

use super::{Code, Rig, is_running, lines, module, once, reused, runtime};

const PID: &str = "export default (input) => new Promise((done) => setTimeout(
    () => done({ text: String(process.pid), continue: true }), Number(input.rawContent)));";

/// Ends at once where it is given nothing; else when the file that it is given is there.
pub const MEET: &str = "import { existsSync } from 'node:fs';
export default async ({ rawContent: file }) => {
  while (file && !existsSync(file)) await new Promise((done) => setTimeout(done, 10));
  return { text: String(process.pid), continue: true };
};";

/// Three calls that run at once, each in a worker of its own. A test of another name uses another file.
pub async fn meet(rig: &Rig, plugin: &Arc<LinkedPlugin>, test: &str) {
    let file = std::env::temp_dir().join(format!("hawsepipe-{test}-{}", std::process::id()));
    let call = async || rig.run_for(plugin, file.to_str().unwrap(), 30_000).await.output.unwrap().text;
    let executing = |rig: &Rig| rig.workers.workers().iter().filter(|w| w.state == WorkerState::Executing).count();
    let (first, second, third, ()) = tokio::join!(call(), call(), call(), async {
        rig.until("three are in a call", |rig| executing(rig) == 3).await;
        fs::write(&file, "").unwrap();
    });
    fs::remove_file(&file).unwrap();
    let met = [first, second, third];
    assert!(met[0] != met[1] && met[1] != met[2] && met[2] != met[0], "{met:?}");
}

#[tokio::test]
async fn a_pool_grows_with_demand_and_uses_the_last_one_first() {
    let plugin = Code { size: 3, ..module(MEET) }.link();
    let rig = Rig::new();
    rig.prepare(&[&plugin], &Runtime { queue_timeout_ms: 30_000, ..runtime() }).await;
    assert_eq!(rig.workers.workers().len(), 1);
    meet(&rig, &plugin, "met").await;
    let available = |rig: &Rig| rig.workers.workers().iter().filter(|w| w.state == WorkerState::Available).count();
    rig.until("it has grown to its size", |rig| available(rig) == 3).await;
    let last = rig.answer(&plugin, "").await.text;
    for _ in 0..5 {
        assert_eq!(rig.answer(&plugin, "").await.text, last);
    }
    let info = rig.workers.workers().into_iter().find(|worker| worker.pid.to_string() == last).unwrap();
    assert_eq!((info.plugin.as_str(), info.state, info.is_healthy), ("default/p", WorkerState::Available, true));
    assert_eq!(info.revision, plugin.plan.digest);
    assert!(info.last_used_at.unwrap() >= info.spawned_at);
}

#[tokio::test]
async fn a_pool_of_none_starts_one_for_each_call() {
    for code in [
        module(PID),
        once(
            "process.stdin.resume().on('end', () => console.log(JSON.stringify({ text: String(process.pid), continue: true })))",
        ),
        reused("console.log(JSON.stringify({ text: String(process.pid), continue: true }))"),
        lines(
            "process.stdin.on('data', () => console.log(JSON.stringify({ text: String(process.pid), continue: true })))",
        ),
    ] {
        let plugin = Code { size: 0, ..code }.link();
        let rig = Rig::with(&[&plugin]).await;
        rig.until("the one that showed that it loads is gone", |rig| rig.workers.workers().is_empty()).await;
        let (first, second) = (rig.run(&plugin, "0").await, rig.run(&plugin, "0").await);
        assert_ne!(first.worker_pid, second.worker_pid);
        assert_eq!(first.output.unwrap().text, first.worker_pid.unwrap().to_string());
        rig.until("none is left", |rig| rig.workers.workers().is_empty()).await;
    }
}

#[tokio::test]
async fn workers_are_replaced_when_they_have_served_their_time() {
    let plugin = module(PID).link();
    for lifetimes in [
        Lifetimes { max_executions: Some(3), ..Lifetimes::default() },
        Lifetimes { max_age: Duration::from_millis(1), ..Lifetimes::default() },
    ] {
        let rig = Rig::living(lifetimes);
        rig.prepare(&[&plugin], &runtime()).await;
        let mut pids = Vec::new();
        for _ in 0..6 {
            pids.push(rig.answer(&plugin, "0").await.text);
        }
        pids.dedup();
        let by_count = lifetimes.max_executions == Some(3);
        assert_eq!(pids.len(), if by_count { 2 } else { 6 }, "{pids:?}");
        let cause = if by_count { "executions" } else { "lifetime" };
        rig.until("all old ones are gone", |rig| rig.workers.workers().len() == 1).await;
        assert!(rig.count("hawsepipe_worker_recycles_total", cause) >= 2.0);
    }
}

#[tokio::test]
async fn a_worker_that_floods_standard_error_is_replaced() {
    let plugin = module(
        "export default () => {
            process.stderr.write('x'.repeat(1 << 20));
            return { text: String(process.pid), continue: true };
        }",
    )
    .link();
    let rig = Rig::with(&[&plugin]).await;
    let first = rig.answer(&plugin, "").await.text;
    let mut last = first.clone();
    // What it printed is read beside the calls, so that the first of them to see it is not always the next.
    for _ in 0..100 {
        if last != first {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        last = rig.answer(&plugin, "").await.text;
    }
    assert_ne!(last, first);
    assert!(rig.count("hawsepipe_worker_recycles_total", "stderr") >= 1.0);
}

#[tokio::test]
async fn what_dies_on_start_says_why_and_is_not_started_over_and_over() {
    for (code, cause) in [
        (module("throw new TypeError('bad ' + process.env.KEY)"), "TypeError: bad [secret]"),
        (module("import 'no-such-package'"), "Cannot find package 'no-such-package'"),
        (module("export const x = ;"), "SyntaxError"),
        (module("process.exit(7)"), "it ended while it was loaded (exit status: 7)"),
        (once("throw new TypeError('bad ' + process.env.KEY)"), "TypeError: bad [secret]"),
    ] {
        let mut code = code;
        code.env.insert("KEY", "s3cret");
        let plugin = code.link();
        let rig = Rig::with(&[&plugin]).await;
        // A script says nothing when it is loaded, so a slow one may die after it was taken for ready.
        rig.until("it failed", |rig| rig.workers.availability(&plugin).is_err()).await;
        let failure = rig.workers.availability(&plugin).unwrap_err();
        assert_eq!(failure.reason, Reason::NotLoaded);
        assert!(failure.message.contains(cause), "{}", failure.message);
        let began = Instant::now();
        for _ in 0..20 {
            assert_eq!(rig.failure(&plugin, "").await, failure);
        }
        assert!(began.elapsed() < Duration::from_millis(200));
        assert_eq!(rig.count("hawsepipe_worker_spawns_total", "demand"), 1.0);
        assert!(rig.count("hawsepipe_worker_spawns_total", "retry") <= 1.0);
    }
}

#[tokio::test]
async fn a_plugin_that_starts_again_is_available_again() {
    let folder = std::env::temp_dir().join(format!("hawsepipe-test-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("value.mjs"), "throw new Error('not yet')").unwrap();
    // A file that is read where it is: those beside the code are copied for good.
    let value = folder.join("value.mjs");
    let code = format!("import {{ value }} from {value:?}; export default () => ({{ text: value, continue: true }})");
    let plugin = Code { folder: Some(folder.clone()), ..module(&code) }.link();
    let rig = Rig::with(&[&plugin]).await;
    assert!(rig.workers.availability(&plugin).is_err());
    fs::write(folder.join("value.mjs"), "export const value = 'now'").unwrap();
    rig.until("it is retried", |rig| rig.workers.availability(&plugin).is_ok()).await;
    assert_eq!(rig.answer(&plugin, "").await.text, "now");
    fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn one_that_ends_while_it_is_idle_is_replaced_at_growing_intervals() {
    let plugin =
        module("setTimeout(() => process.exit(3), 30); export default () => ({ text: '', continue: true })").link();
    let rig = Rig::with(&[&plugin]).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    let spawned = ["demand", "retry", "replace"].map(|cause| rig.count("hawsepipe_worker_spawns_total", cause));
    assert!((2.0..=3.0).contains(&spawned.iter().sum()), "{spawned:?}");
}

#[tokio::test]
async fn its_environment_is_what_the_plan_lists() {
    let code = "export default () => ({ text: JSON.stringify(process.env), continue: true })";
    let mut code = module(code);
    code.env.insert("KEY", "värde");
    // What would steer how Node.js starts does not come through.
    code.env.insert("LD_BIND_NOW", "1");
    code.env.insert("NODE_OPTIONS", "--no-such-option");
    let plugin = code.link();
    let rig = Rig::with(&[&plugin]).await;
    assert_eq!(rig.answer(&plugin, "").await.text, r#"{"KEY":"värde"}"#);
}

#[tokio::test]
async fn code_runs_as_it_was_accepted_beside_the_files_of_its_folder() {
    let folder = std::env::temp_dir().join(format!("hawsepipe-test-siblings-{}", std::process::id()));
    fs::create_dir_all(folder.join("node_modules/dep")).unwrap();
    fs::write(folder.join("util.mjs"), "export const util = 'util'").unwrap();
    fs::write(folder.join("node_modules/dep/package.json"), r#"{"main":"i.cjs"}"#).unwrap();
    fs::write(folder.join("node_modules/dep/i.cjs"), "module.exports = 'dep'").unwrap();
    fs::write(folder.join("plugin.mjs"), "this is broken").unwrap();
    let code = "import { util } from './util.mjs'; import dep from 'dep';
        export default () => ({ text: util + dep, continue: true })";
    let plugin = Code { folder: Some(folder.clone()), ..module(code) }.link();
    let rig = Rig::with(&[&plugin]).await;
    assert_eq!(rig.answer(&plugin, "").await.text, "utildep");
    // Packages of the nearest folder above that has some count too.
    let below = folder.join("below/plugin");
    fs::create_dir_all(&below).unwrap();
    fs::write(below.join("util.mjs"), "export { util } from '../../util.mjs'").unwrap();
    let plugin = Code { folder: Some(below.clone()), ..module(&format!("{code}//")) }.link();
    let rig = Rig::with(&[&plugin]).await;
    let failure = rig.workers.availability(&plugin).unwrap_err();
    assert!(failure.message.contains("util.mjs"), "what lies above is another plugin's: {}", failure.message);
    fs::write(below.join("util.mjs"), "export const util = 'below'").unwrap();
    let rig = Rig::with(&[&plugin]).await;
    assert_eq!(rig.answer(&plugin, "").await.text, "belowdep");
    // So runs each later worker, whatever becomes of the files.
    fs::write(below.join("util.mjs"), "this is broken").unwrap();
    let failed = rig.run_for(&plugin, "kill", 1).await;
    assert!(failed.output.is_err() || failed.worker_pid.is_some());
    assert_eq!(rig.answer(&plugin, "").await.text, "belowdep");
    fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn code_that_is_not_what_its_digest_names_is_not_run() {
    let mut plugin = (*module("export default () => ({ text: '', continue: true })").link()).clone();
    plugin.code = "export default () => ({ text: 'other', continue: true })".into();
    let plugin = std::sync::Arc::new(plugin);
    let rig = Rig::with(&[&plugin]).await;
    let failure = rig.failure(&plugin, "").await;
    assert_eq!(failure.reason, Reason::NotLoaded);
    assert!(failure.message.contains("is not what its digest"), "{}", failure.message);
}

#[tokio::test]
async fn retired_pools_let_calls_end_and_keep_no_process() {
    let plugin = module(PID).link();
    let kept = module(&format!("{PID} // kept")).link();
    let rig = Rig::with(&[&plugin, &kept]).await;
    let (answer, ()) = tokio::join!(rig.answer(&plugin, "200"), async {
        rig.until("it is busy", |rig| rig.workers.workers().iter().any(|w| w.execution_count == 1)).await;
        rig.workers.retire(std::slice::from_ref(&kept));
    });
    let pid: u32 = answer.text.parse().unwrap();
    rig.until("it is gone", |rig| !is_running(pid) && rig.workers.workers().len() == 1).await;
    // A call that still holds the old plan is served, and leaves nothing behind.
    let late: u32 = rig.answer(&plugin, "0").await.text.parse().unwrap();
    rig.until("it is gone too", |rig| !is_running(late) && rig.workers.workers().len() == 1).await;
    assert_eq!(rig.workers.workers()[0].revision, kept.plan.digest);
}

#[tokio::test]
async fn shutdown_leaves_no_process_and_no_file() {
    let module = Code { size: 2, ..module(PID) }.link();
    let once = Code { size: 2, ..once("process.stdin.resume()") }.link();
    let rig = Rig::with(&[&module, &once]).await;
    let (call, ()) = tokio::join!(rig.run(&module, "60000"), async {
        rig.until("it is busy", |rig| rig.workers.workers().iter().any(|w| w.execution_count == 1)).await;
        let pids: Vec<u32> = rig.workers.workers().iter().map(|worker| worker.pid).collect();
        assert!(pids.len() >= 2 && pids.iter().all(|pid| is_running(*pid)));
        rig.workers.shutdown().await;
        assert!(pids.iter().all(|pid| !is_running(*pid)), "{pids:?}");
        assert!(rig.workers.workers().is_empty());
    });
    assert_eq!(call.output.unwrap_err().reason, Reason::Crashed);
    assert_eq!(rig.failure(&module, "0").await.reason, Reason::NotLoaded);
}

#[tokio::test]
async fn nothing_runs_without_a_node_that_is_new_enough() {
    let plugin = module(PID).link();
    let rig = Rig::new();
    assert_eq!(rig.failure(&plugin, "0").await.reason, Reason::PoolExhausted);
    rig.prepare(&[&plugin], &Runtime { node_executable: "no-such-node".into(), ..runtime() }).await;
    let failure = rig.workers.availability(&plugin).unwrap_err();
    assert!(failure.message.starts_with("cannot be started: Node.js was not found"), "{}", failure.message);
    rig.prepare(&[&plugin], &runtime()).await;
    rig.until("it is retried", |rig| rig.workers.availability(&plugin).is_ok()).await;
    rig.answer(&plugin, "0").await;
}

#[tokio::test]
async fn an_old_or_broken_node_is_refused_in_words() {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("hawsepipe-test-node-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let fake = folder.join("node");
    let mut answers = Vec::new();
    for script in ["#!/bin/sh\necho v18.20.1\n", "#!/bin/sh\necho hello\n"] {
        fs::write(&fake, script).unwrap();
        fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
        answers.push(find_node(&fake).await.unwrap_err().to_string());
    }
    assert!(answers[0].contains("Node.js 18.20.1") && answers[0].contains("20 or newer"), "{}", answers[0]);
    assert!(answers[1].contains("does not print a version"), "{}", answers[1]);
    assert!(matches!(find_node(&folder.join("none")).await, Err(NodeError::NotFound(_))));
    assert!(find_node("node".as_ref()).await.unwrap().program.is_absolute());
    fs::remove_dir_all(folder).unwrap();
}
