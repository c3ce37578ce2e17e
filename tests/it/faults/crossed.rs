//! Many clients whose ids collide, and workers that are killed under them: each call gets its own answer, once, and
//! each execution leaves one row.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use hyper::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::vitals::parent;
use crate::gateway::harness::{Folder, Gateway, HEAVY};
use crate::gateway::http::{Answer, Http, Session, call_body, call_headers};
use crate::gateway::manifests::{chain, gateway, merge, plugin, raw_server, yaml};
use crate::gateway::outcomes::seen::list;

const CLIENTS: usize = 200;
/// How often a worker is killed.
const EVERY: Duration = Duration::from_secs(1);
const TOOL: &str = "up__args";

/// Adds its word, and says in its metadata which call it was asked about.
const NOTE: &str = "export default ({ rawContent, metadata }, { config }) => {
  const { nonce, by } = JSON.parse(rawContent);
  const text = JSON.stringify({ nonce, by: `${by}+${config.word}` });
  return { text, continue: true, metadata: { nonce, request: metadata.requestId } };
};";

/// What became of the two executions of one call.
#[derive(Debug, Default)]
struct Became {
    /// The first one's plugin failed, so the content went on as it was.
    first_failed: usize,
    /// The second one's failed, and the call with it.
    second_failed: usize,
    /// The ids that plugins were given, each by one call.
    requests: BTreeSet<String>,
}

fn manifests() -> String {
    let note = |name: &str, more: &Value| {
        let mut spec = json!({"config": {"word": name}});
        merge(&mut spec, more);
        plugin(name, NOTE, &spec)
    };
    // What is tried is whose answer it is, not how long it takes.
    let patient = json!({
        "plugins": {"queueTimeoutMs": 120_000, "maxQueuedExecutions": 10_000, "poolSizePerPlugin": 4},
        "limits": {"perSession": {"concurrentCalls": -1}},
        "history": {"perPlugin": 100_000},
    });
    yaml(&[
        gateway(&patient),
        raw_server("up", &[]),
        note("first", &json!({"role": "Transform"})),
        // Its calls share workers, and die together.
        note("second", &json!({"role": "Guard", "protocol": "Module", "pool": {"concurrency": 3}})),
        chain("requests", "Request", "args", &[json!({"name": "first"})]),
        chain("responses", "Response", "args", &[json!({"name": "second"})]),
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_is_anothers_while_workers_are_killed() {
    answered_while_workers_are_killed(10_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: make test-long"]
async fn none_of_a_hundred_thousand_answers_is_anothers() {
    answered_while_workers_are_killed(100_000).await;
}

async fn answered_while_workers_are_killed(calls: usize) {
    let _alone = HEAVY.lock().await;
    let folder = Folder::with(&manifests());
    let gateway = Arc::new(Gateway::start(&folder));
    gateway.until_answer(TOOL, &json!({"nonce": "", "by": ""}), "/result/content/0/type", &json!("text")).await;
    let ids = async |plugin| rows(&gateway, plugin).await.iter().map(|row| row["id"].to_string()).collect();
    let before: [BTreeSet<String>; 2] = [ids("first").await, ids("second").await];

    let (over, began) = (Arc::new(AtomicBool::new(false)), Instant::now());
    let killing = tokio::spawn(kill_workers(Arc::clone(&gateway), Arc::clone(&over)));
    let clients = (0..CLIENTS).map(|client| tokio::spawn(run_client(gateway.url(), client, calls / CLIENTS)));
    let ended: Vec<_> = join_all(clients).await.into_iter().map(Result::unwrap).collect();
    let took = began.elapsed();
    over.store(true, Ordering::Relaxed);
    let killed = killing.await.unwrap();

    let sum = |of: fn(&Became) -> usize| ended.iter().map(of).sum::<usize>();
    let failed = [sum(|became| became.first_failed), sum(|became| became.second_failed)];
    println!("{calls} calls in {took:?}, {killed} workers killed, {failed:?} executions failed of it");
    assert!(killed as u64 >= took.as_secs() / 2, "{killed} workers were killed in {took:?}");
    let said: BTreeSet<_> = ended.iter().flat_map(|became| &became.requests).collect();
    assert_eq!(said.len(), sum(|became| became.requests.len()), "two calls were given one id");
    for (plugin, before, failed) in [("first", &before[0], failed[0]), ("second", &before[1], failed[1])] {
        // A history that is full has let go of those before.
        let mut rows = rows(&gateway, plugin).await;
        rows.retain(|row| !before.contains(&row["id"].to_string()));
        let distinct = |field: &str| rows.iter().map(|row| row[field].to_string()).collect::<BTreeSet<_>>().len();
        assert_eq!((rows.len(), distinct("requestId"), distinct("id")), (calls, calls, calls), "rows of {plugin}");
        let unwell = rows.iter().filter(|row| row["status"] != "Success").count();
        assert_eq!(unwell, failed, "rows of {plugin} that say that it failed");
    }
}

/// One client's calls, each under an id that every other client uses too. Half of the clients have a session.
async fn run_client(url: String, client: usize, calls: usize) -> Became {
    let (http, mut became) = (Http::new(), Became::default());
    let session = match client.is_multiple_of(2) {
        true => Some(http.initialize(&url).await),
        false => None,
    };
    for call in 0..calls {
        let nonce = format!("{client}-{call}-{}", uuid::Uuid::new_v4());
        let answer = ask(&http, &url, session.as_ref(), call, &nonce).await;
        judge(&mut became, &nonce, &answer);
    }
    became
}

/// The only answer to one call: what it holds under `result`.
async fn ask(http: &Http, url: &str, session: Option<&Session>, call: usize, nonce: &str) -> Value {
    let arguments = json!({"nonce": nonce, "by": "client"}).to_string();
    let meta = json!({"hawsepipe.dev/trace": true});
    let (id, answer) = match session {
        None => (7, http.send(Method::POST, url, &call_headers(TOOL), call_body(TOOL, &arguments, &meta)).await),
        Some(session) => {
            let params = format!(r#"{{"name":"{TOOL}","arguments":{arguments},"_meta":{meta}}}"#);
            let body = format!(r#"{{"jsonrpc":"2.0","id":{call},"method":"tools/call","params":{params}}}"#);
            (call, session.send(body).await)
        }
    };
    let messages = messages(&answer);
    let [message] = &messages[..] else { panic!("{nonce}: not one answer: {}", answer.body) };
    assert_eq!(message["id"], id, "{nonce}: {message}");
    message["result"].clone()
}

/// Every answer in a body, be it JSON or an event stream.
fn messages(answer: &Answer) -> Vec<Value> {
    let lines = answer.body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
    lines.filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter(|it| it.get("id").is_some()).collect()
}

/// What the plugins made of one call; an answer that may not be is a panic.
fn judge(became: &mut Became, nonce: &str, result: &Value) {
    let entries = result["_meta"]["hawsepipe.dev/trace"].as_array().unwrap_or_else(|| panic!("{nonce}: {result}"));
    let mut went_well = Vec::new();
    for entry in entries {
        match entry["outcome"].as_str().unwrap() {
            "ran" => {
                assert_eq!(entry["metadata"]["nonce"], nonce, "{result}");
                became.requests.insert(entry["metadata"]["request"].as_str().unwrap().to_owned());
                went_well.push(true);
            }
            "failed(Crashed)" | "failed(NotLoaded)" => went_well.push(false),
            other => panic!("{nonce}: {other}: {result}"),
        }
    }
    let [first, second] = went_well[..] else { panic!("{nonce}: not two entries: {result}") };
    became.first_failed += usize::from(!first);
    became.second_failed += usize::from(!second);
    if !second {
        assert_eq!(result["_meta"]["hawsepipe.dev/failed"]["plugin"], "default/second", "{result}");
        return;
    }
    let by = if first { "client+first+second" } else { "client+second" };
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, json!({"nonce": nonce, "by": by}), "{result}");
}

/// Kills a worker every second, one that executes where there is one. How many in all.
async fn kill_workers(gateway: Arc<Gateway>, over: Arc<AtomicBool>) -> usize {
    let mut killed = 0;
    while !over.load(Ordering::Relaxed) {
        tokio::time::sleep(EVERY).await;
        let mut workers = list(&gateway, "workers").await;
        workers.sort_by_key(|worker| worker["state"] != "Executing");
        let Some(worker) = workers.first() else { continue };
        let pid = u32::try_from(worker["pid"].as_u64().unwrap()).unwrap();
        // One that has just ended may have left its number to a stranger.
        if parent(pid) == Some(gateway.pid()) {
            let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            killed += usize::from(kill_process(pid, Signal::KILL).is_ok());
        }
    }
    killed
}

/// All rows of a plugin, the newest first.
async fn rows(gateway: &Gateway, plugin: &str) -> Vec<Value> {
    let (http, mut rows, mut cursor) = (Http::new(), Vec::new(), String::new());
    loop {
        let url = format!("http://{}/api/v1/executions?limit=1000&plugin={plugin}{cursor}", gateway.admin());
        let page = http.get(&url).await.json();
        rows.extend(page["items"].as_array().unwrap_or_else(|| panic!("{page}")).iter().cloned());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return rows,
        }
    }
}
