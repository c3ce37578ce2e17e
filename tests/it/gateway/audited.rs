//! The audit trail: `audit.mode`, its chain of hashes, and kills of a gateway under load.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hyper::Method;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Held;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::collector::Collector;
use super::harness::{Folder, Gateway, run};
use super::history::{Postgres, err, out, sqlite};
use super::http::{Http, call_body, call_headers};
use super::outcomes::seen::list;
use super::parts::{chain, object, plugin, raw_stdio, tools_of, until};

/// A server that logs the calls it gets, and a Guard that denies what has a word in it.
pub(super) fn audited(folder: &Folder, mode: &str) -> String {
    let guard = "export default ({ rawContent }) => rawContent.includes('swordfish')
      ? { text: 'no', continue: false, error: 'denied: swordfish' } : { text: rawContent, continue: true };";
    object("MCPGateway", "main", &format!("authentication: {{anonymous: {{}}}}, audit: {{mode: {mode}}}"))
        + &raw_stdio("raw", &folder.path().join("log"))
        + &plugin("guard", guard, "role: Guard")
        + &chain("asks", "Request", &["raw"], &["guard"])
}

pub(super) async fn started(folder: &Folder, mode: &str, store: &str) -> Gateway {
    folder.write("manifests.yaml", &audited(folder, mode));
    let gateway = Gateway::start_with(folder, &["--store", store]);
    tools_of(&gateway, &["raw"]).await;
    gateway
}

pub(super) async fn call(gateway: &Gateway, arguments: Value) -> Value {
    Http::new().call(&gateway.url(), "raw__args", &arguments, &json!({})).await["result"].take()
}

/// The rows of the audit trail.
pub(super) fn rows(store: &str) -> Vec<Value> {
    let output = run(&["audit", "export", "--store", store]);
    assert!(output.status.success(), "{}", err(&output));
    out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether the trail is whole, and what `hawsepipe audit verify` says of it.
pub(super) fn verified(store: &str, more: &[&str]) -> (bool, String) {
    let output = run(&[&["audit", "verify", "--store", store], more].concat());
    (output.status.success(), out(&output) + &err(&output))
}

pub(super) fn of_kind(rows: &[Value], kind: &str) -> BTreeSet<String> {
    let of_kind = rows.iter().map(|row| &row["row"]).filter(|row| row["kind"] == kind);
    of_kind.map(|row| row["requestId"].as_str().unwrap().to_owned()).collect()
}

/// The calls in the log of the server.
pub(super) fn reached(folder: &Folder) -> usize {
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    log.lines().filter(|line| line.contains("\"tools/call\"")).count()
}

/// `spec.audit.mode`, on both databases.
async fn spec_audit_mode(store: &str) {
    for mode in ["Required", "BestEffort"] {
        let folder = Folder::new();
        let gateway = started(&folder, mode, store).await;
        let before = rows(store).len();
        assert_eq!(call(&gateway, json!({"a": 1})).await["isError"], Value::Null);
        assert_eq!(call(&gateway, json!({"a": "swordfish"})).await["isError"], true);
        call_of_unknown_tool(&gateway).await;
        // Without a begin: what was denied or unknown was not sent.
        until("four rows", async || rows(store).len() == before + 4).await;
        let rows = rows(store).split_off(before);
        let rows: Vec<_> = rows.iter().map(|row| &row["row"]).collect();
        let kinds: Vec<_> = rows.iter().map(|row| (row["kind"].as_str(), row["outcome"].as_str())).collect();
        let end = |outcome| (Some("end"), Some(outcome));
        assert_eq!(kinds, [(Some("begin"), None), end("ok"), end("denied"), end("rpc_error")], "{rows:?}");
        let began = rows[0];
        assert_eq!(
            (&began["upstream"], &began["tool"], &began["principal"]),
            (&json!("raw"), &json!("args"), &json!("anonymous"))
        );
        assert_eq!(began["requestId"], rows[1]["requestId"]);
        assert_outcomes_apart(&rows[1..]);
        assert_eq!(rows[1]["entries"][0]["plugin"], "default/guard");
        assert_eq!(rows[1]["entries"][0]["outcome"], "ran");
        assert!(!json!(rows).to_string().contains("swordfish"), "{rows:?}");
        gateway.end();
        let (whole, said) = verified(store, &[]);
        assert!(whole && said.contains("verified:"), "{said}");
    }
    let folder = Folder::new();
    let gateway = started(&folder, "Off", store).await;
    let before = rows(store).len();
    call(&gateway, json!({"a": 1})).await;
    gateway.end();
    assert_eq!(rows(store).len(), before);
}

/// Transport, JSON-RPC and tool outcome of the end rows of an allowed, a denied and an unknown call.
fn assert_outcomes_apart(ends: &[&Value]) {
    let outcomes: Vec<_> = ends.iter().map(|row| json!([row["transport"], row["rpc"], row["isError"]])).collect();
    assert_eq!(
        outcomes,
        [json!(["answered", "result", false]), json!(["not_sent", "result", true]), json!(["not_sent", "error", null])]
    );
}

async fn call_of_unknown_tool(gateway: &Gateway) {
    let answer = Http::new().call(&gateway.url(), "raw__none", &json!({}), &json!({})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[tokio::test]
async fn spec_audit_mode_with_sqlite() {
    let folder = Folder::new();
    spec_audit_mode(folder.path().join("audit.db").to_str().unwrap()).await;
}

#[tokio::test]
async fn spec_audit_mode_with_postgres() {
    let postgres = Postgres::start();
    spec_audit_mode(&postgres.url).await;
}

/// A real collector takes the rows, and passes them on.
#[tokio::test]
async fn audit_export_sends_rows_to_a_collector_as_otlp_logs() {
    let folder = Folder::new();
    let store = folder.path().join("audit.db");
    let store = store.to_str().unwrap();
    let gateway = started(&folder, "Required", store).await;
    call(&gateway, json!({"text": "\u{1f980} \"quoted\""})).await;
    assert!(gateway.end().1);
    let collector = Collector::start().await;
    let sends = |url: &str| run(&["audit", "export", "--store", store, "--otlp", url]);
    let sent = sends(&format!("{}/v1/logs", collector.http));
    assert!(sent.status.success() && out(&sent).contains("sent 2 rows to"), "{}", out(&sent) + &err(&sent));
    until("the rows arrive", async || collector.receiver.logs().len() == 2).await;
    let expected: Vec<_> = rows(store).iter().map(|row| row["row"].clone()).collect();
    let bodies = collector.receiver.logs().into_iter().filter_map(|log| match log.body?.value? {
        Held::StringValue(text) => serde_json::from_str(&text).ok(),
        _ => None,
    });
    assert_eq!(bodies.collect::<Vec<Value>>(), expected);
    let refused = sends(&format!("{}/none?key=hunter2", collector.http));
    let said = out(&refused) + &err(&refused);
    assert!(!refused.status.success() && said.contains("the answer is 404") && !said.contains("hunter2"), "{said}");
}

#[tokio::test]
async fn what_is_changed_removed_or_added_is_found() {
    let folder = Folder::new();
    let store = folder.path().join("audit.db");
    let store = store.to_str().unwrap();
    let gateway = started(&folder, "Required", store).await;
    for n in 0..5 {
        call(&gateway, json!({"n": n})).await;
    }
    gateway.end();
    let chain = rows(store)[0]["chain"].as_str().unwrap().to_owned();
    let head = rows(store)[9]["hash"].as_str().unwrap().to_owned();
    let head = format!("{chain}:10:{head}");
    assert!(verified(store, &["--head", &head]).0);
    let copy = format!("{store}.copy");
    for (statement, said) in [
        (
            "UPDATE audit SET document = replace(document, 'raw', 'row') WHERE sequence = 3",
            "row 3 or its hash was changed",
        ),
        (
            "UPDATE audit SET document = replace(document, '\"at\":1', '\"at\":2') WHERE sequence = 10",
            "row 10 or its hash",
        ),
        ("UPDATE audit SET hash = lower(hex(randomblob(32))) WHERE sequence = 4", "row 4 or its hash was changed"),
        ("UPDATE audit SET chain = 'x' WHERE sequence = 10", "row 10 or its hash was changed"),
        ("UPDATE audit SET stored_at = 5 WHERE sequence = 3", "row 3 or its hash was changed"),
        ("DELETE FROM audit WHERE sequence = 5", "row 6 does not follow on row 4"),
        ("DELETE FROM audit WHERE sequence > 8", "row 10 with the hash of --head is not in the store"),
        (
            "INSERT INTO audit SELECT chain, 11, stored_at, hash, hash, document FROM audit WHERE sequence = 10",
            "row 11 or its hash was changed",
        ),
    ] {
        let _ = std::fs::remove_file(&copy);
        std::fs::copy(store, &copy).unwrap();
        sqlite(&copy, &[statement, "SELECT 1"]);
        let (whole, words) = verified(&copy, &["--head", &head]);
        assert!(!whole && words.contains(said), "{statement}: {words}");
    }
    let (whole, words) = verified(&format!("{store}.none"), &[]);
    assert!(!whole && words.contains("none"), "{words}");
}

/// While the store takes no rows, Required refuses before anything is sent, and BestEffort serves.
#[tokio::test]
async fn a_database_that_is_down_and_back() {
    let mut postgres = Postgres::start();
    for (mode, served) in [("Required", false), ("BestEffort", true)] {
        let folder = Folder::new();
        let gateway = started(&folder, mode, &postgres.url).await;
        assert_eq!(call(&gateway, json!({"a": 1})).await["isError"], Value::Null);
        postgres.does("stop");
        let (result, sent) = (call(&gateway, json!({"a": 2})).await, reached(&folder));
        if served {
            assert_eq!((&result["isError"], sent), (&Value::Null, 2), "{result}");
        } else {
            assert_eq!((&result["isError"], sent), (&json!(true), 1), "{result}");
            assert_eq!(result["_meta"]["hawsepipe.dev/refused"]["reason"], "AuditUnavailable", "{result}");
            assert!(!result.to_string().contains("swordfish"), "{result}");
        }
        let reason = if served { "StoreUnavailable" } else { "AuditUnavailable" };
        let status = || out(&run(&["status", "--admin", &gateway.admin().to_string()]));
        until("the status says so", async || status().contains(reason)).await;
        postgres.does("start");
        until("calls are served again", async || call(&gateway, json!({"a": 3})).await["isError"].is_null()).await;
        until("the last call is recorded", async || {
            let ended = of_kind(&rows(&postgres.url), "end");
            list(&gateway, "calls").await[0]["requestId"].as_str().is_some_and(|id| ended.contains(id))
        })
        .await;
        gateway.end();
        assert!(verified(&postgres.url, &[]).0);
    }
}

#[tokio::test]
async fn required_without_a_store_refuses_every_call() {
    let folder = Folder::new();
    folder.write("manifests.yaml", &audited(&folder, "Required"));
    let manifests = folder.path().join("manifests.yaml");
    let validated = run(&["validate", "--no-load", manifests.to_str().unwrap()]);
    assert!((out(&validated) + &err(&validated)).contains("spec.audit.mode: Required needs a store"), "{validated:?}");
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["raw"]).await;
    let result = call(&gateway, json!({})).await;
    assert_eq!(result["_meta"]["hawsepipe.dev/refused"]["reason"], "AuditUnavailable", "{result}");
    assert!(result["content"][0]["text"].as_str().unwrap().contains("history.store"), "{result}");
    let waited = run(&["wait", "--admin", &gateway.admin().to_string()]);
    assert_eq!(waited.status.code(), Some(1));
    assert!(err(&waited).contains("every call is refused until the row of its beginning is stored"), "{waited:?}");
    assert_eq!(reached(&folder), 0);
}

/// Kills a gateway while clients call, as often as said: each call that the server got has a row of its beginning, each
/// answer that a client got one of its end.
async fn kills(times: usize) {
    let folder = Folder::new();
    let store = folder.path().join("audit.db");
    let store = store.to_str().unwrap();
    let answers = Arc::new(AtomicUsize::new(0));
    for kill in 0..times {
        let gateway = started(&folder, "Required", store).await;
        let over = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..8)
            .map(|client| {
                let (url, answers, over) = (gateway.url(), Arc::clone(&answers), Arc::clone(&over));
                tokio::spawn(async move { calls(&url, client, &answers, &over).await })
            })
            .collect();
        let before = answers.load(Ordering::Relaxed);
        until("a call is answered", async || answers.load(Ordering::Relaxed) > before).await;
        tokio::time::sleep(Duration::from_millis(50 + 37 * (kill as u64 % 9))).await;
        gateway.signal(Signal::KILL);
        assert!(!gateway.ended().await);
        over.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.unwrap();
        }
    }
    let rows = rows(store);
    let (begun, ended) = (of_kind(&rows, "begin").len(), of_kind(&rows, "end").len());
    let (sent, answers) = (reached(&folder), answers.load(Ordering::Relaxed));
    assert!(sent > times && answers > times, "{sent} calls, {answers} answers");
    assert!(begun >= sent, "{begun} rows of {sent} calls");
    assert!(ended >= answers && ended <= begun, "{ended} rows of {answers} answers, {begun} of beginnings");
    let (whole, said) = verified(store, &[]);
    assert!(whole && said.contains(&format!("{times} chains")), "{said}");
    let unfinished = run(&["audit", "unfinished", "--store", store, "-o", "json"]);
    let listed: Value = serde_json::from_slice(&unfinished.stdout).unwrap();
    let listed = listed["items"].as_array().unwrap().iter().map(|call| call["requestId"].as_str().unwrap().to_owned());
    let is_open: BTreeSet<_> = of_kind(&rows, "begin").difference(&of_kind(&rows, "end")).cloned().collect();
    assert_eq!(listed.collect::<BTreeSet<_>>(), is_open);
}

async fn calls(url: &str, client: usize, answers: &AtomicUsize, over: &AtomicBool) {
    let http = Http::new();
    for n in 0.. {
        let body = call_body("raw__args", &json!({"client": client, "n": n}).to_string(), &json!({}));
        let headers = call_headers("raw__args");
        let sending = http.try_send(Method::POST, url, &headers, body);
        match tokio::time::timeout(Duration::from_secs(5), sending).await {
            Ok(Ok(answer)) if answer.json()["result"]["content"].is_array() => {
                answers.fetch_add(1, Ordering::Relaxed);
            }
            _ => return,
        }
        if over.load(Ordering::Relaxed) {
            return;
        }
    }
}

#[tokio::test]
async fn five_kills_lose_no_row_that_is_required() {
    kills(5).await;
}

#[tokio::test]
#[ignore = "long: make test-long"]
async fn two_hundred_kills_lose_no_row_that_is_required() {
    kills(200).await;
}
