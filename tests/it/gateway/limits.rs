//! What a gateway turns away, and what it says then.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::either::Client;
use super::harness::{Folder, Gateway};
use super::http::{Answer, Http, Session};
use super::manifests::{gateway, merge, raw_server, yaml};
use super::outcomes::seen::{labels, list, metrics};
use super::parts::{everything, tools_of};

/// A gateway with one server that has this besides.
fn started(gateway_spec: &Value, upstream: &Value) -> (Folder, Gateway) {
    let mut up = raw_server("up", &[]);
    merge(&mut up["spec"], upstream);
    let folder = Folder::with(&yaml(&[gateway(gateway_spec), up, raw_server("other", &[])]));
    let running = Gateway::start(&folder);
    (folder, running)
}

fn spawn(gateway: &Gateway, tool: &str, arguments: &Value) -> JoinHandle<Value> {
    let (url, tool, arguments) = (gateway.url(), tool.to_owned(), arguments.clone());
    tokio::spawn(async move { Http::new().call(&url, &tool, &arguments, &json!({})).await })
}

/// Waits until `wanted` calls have arrived at their servers.
async fn in_flight(gateway: &Gateway, wanted: usize) {
    let line = format!("hawsepipe_calls_in_flight {wanted}\n");
    for _ in 0..1500 {
        if metrics(gateway).await.contains(&line) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never {line}");
}

async fn refused(gateway: &Gateway, reason: &str) -> f64 {
    let metrics = metrics(gateway).await;
    let line = metrics
        .lines()
        .find(|line| line.starts_with("hawsepipe_calls_refused_total{") && labels(line).get("reason") == Some(&reason));
    line.map_or(0.0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
}

async fn ready(gateway: &Gateway) {
    for upstream in ["up", "other"] {
        let tool = format!("{upstream}__args");
        gateway.until_answer(&tool, &json!({}), "/result/content/0/type", &json!("text")).await;
    }
}

const SLOW: u64 = 3000;

#[tokio::test]
async fn a_session_has_25_calls_in_flight_and_anonymous_clients_share_none() {
    let (_folder, gateway) = started(&json!({}), &json!({}));
    ready(&gateway).await;
    // Stateless clients without credentials are not one principal: all of them together may have more.
    let running: Vec<_> = (0..26).map(|_| spawn(&gateway, "up__slow", &json!({"ms": SLOW}))).collect();
    in_flight(&gateway, 26).await;
    let session = Http::new().initialize(&gateway.url()).await;
    let own: Vec<_> = (0..25).map(|id| spawn_in(&session, id, "up__slow", &json!({"ms": SLOW}))).collect();
    in_flight(&gateway, 51).await;
    let answer = session.call_raw(99, "up__args", "{}").await.json();
    let data = json!({"reason": "SessionConcurrentCalls", "retryAfterMs": 1000});
    assert_eq!((&answer["error"]["code"], &answer["error"]["data"]), (&json!(-32000), &data), "{answer}");
    assert_eq!(refused(&gateway, "SessionConcurrentCalls").await, 1.0);
    for call in running {
        assert_eq!(call.await.unwrap()["result"]["content"][0]["type"], "text");
    }
    for call in own {
        assert_eq!(call.await.unwrap().json()["result"]["content"][0]["type"], "text");
    }
    let answer = session.call_raw(100, "up__args", "{}").await.json();
    assert_eq!(answer["result"]["content"][0]["text"], "{}", "{answer}");
}

#[tokio::test]
async fn written_limits_hold() {
    let limits = json!({"limits": {"concurrentCalls": 4, "maxRequestSize": "64Ki",
        "perSession": {"concurrentCalls": 3, "totalCalls": 8}}});
    let (_folder, gateway) = started(&limits, &json!({"limits": {"concurrentCalls": 1, "maxResponseSize": "16Ki"}}));
    // The list shows when the servers are there; calls would count.
    while list(&gateway, "tools").await.len() < 20 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let http = Http::new();
    let call = |tool: &'static str, arguments: Value| {
        let (http, url) = (http.clone(), gateway.url());
        async move { http.call(&url, tool, &arguments, &json!({})).await }
    };
    // One upstream's limit leaves the other alone.
    let one = spawn(&gateway, "up__slow", &json!({"ms": SLOW}));
    in_flight(&gateway, 1).await;
    let answer = call("up__args", json!({})).await;
    assert_eq!(answer["error"]["data"], json!({"reason": "UpstreamConcurrentCalls", "retryAfterMs": 1000}), "{answer}");
    assert_eq!(call("other__args", json!({})).await["result"]["content"][0]["text"], "{}");
    // More than half of the gateway's four makes an address have three at most; a session is counted by itself.
    let more: Vec<_> = (0..2).map(|_| spawn(&gateway, "other__slow", &json!({"ms": SLOW}))).collect();
    in_flight(&gateway, 3).await;
    let answer = call("other__args", json!({})).await;
    assert_eq!(answer["error"]["data"], json!({"reason": "AddressConcurrentCalls", "retryAfterMs": 1000}), "{answer}");
    let session = Http::new().initialize(&gateway.url()).await;
    let fourth = spawn_in(&session, 1, "other__slow", &json!({"ms": SLOW}));
    in_flight(&gateway, 4).await;
    let answer = session.call_raw(2, "other__args", "{}").await.json();
    assert_eq!(answer["error"]["data"], json!({"reason": "ConcurrentCalls", "retryAfterMs": 1000}), "{answer}");
    for call in more.into_iter().chain([one]) {
        assert!(call.await.unwrap()["result"].is_object());
    }
    assert!(fourth.await.unwrap().json()["result"].is_object());
    // An answer that is too large is an error, and the next call goes well.
    let answer = call("up__huge", json!({"size": 100_000})).await;
    assert_eq!(answer["error"]["data"]["reason"], "TooLarge", "{answer}");
    assert_eq!(call("up__huge", json!({"size": 1000})).await["result"]["content"][0]["text"], "x".repeat(1000));
    // A request that is too large is refused before it is a call.
    let large = format!(r#"{{"m":"{}"}}"#, "x".repeat(100_000));
    let answer = http.call_raw(&gateway.url(), "up__args", &large, &json!({})).await;
    assert_eq!(answer.status, 413, "{}", answer.body);
    // The calls in all: one that was let in counts, however it ended.
    let (session, mut last) = (http.initialize(&gateway.url()).await, Value::Null);
    for id in 0..9 {
        last = session.call_raw(id, "up__args", "{}").await.json();
    }
    // Waiting does not help, so nothing says how long.
    assert_eq!(last["error"]["data"], json!({"reason": "SessionTotalCalls"}), "{last}");
}

#[tokio::test]
async fn completions_and_subscriptions_use_up_no_calls_of_a_session() {
    let folder = Folder::with(&everything("everything"));
    folder.write("gateway.yaml", &yaml(&[gateway(&json!({"limits": {"perSession": {"totalCalls": 1}}}))]));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything"]).await;
    let session = Client::Legacy(Http::new().initialize(&gateway.url()).await);
    let completed = json!({
        "ref": {"type": "ref/prompt", "name": "everything__completable-prompt"},
        "argument": {"name": "department", "value": "Eng"},
    });
    let resource = json!({"uri": "demo://resource/static/document/architecture.md"});
    for _ in 0..2 {
        let answer = session.ask("completion/complete", completed.clone()).await;
        assert_eq!(answer["result"]["completion"]["values"], json!(["Engineering"]), "{answer}");
        for method in ["resources/subscribe", "resources/unsubscribe"] {
            let answer = session.ask(method, resource.clone()).await;
            assert_eq!(answer["result"], json!({}), "{method}: {answer}");
        }
    }
    let echo = json!({"name": "everything__echo", "arguments": {"message": "x"}});
    let answer = session.ask("tools/call", echo.clone()).await;
    assert_eq!(answer["result"]["content"][0]["text"], "Echo: x", "{answer}");
    let answer = session.ask("tools/call", echo).await;
    assert_eq!(answer["error"]["data"], json!({"reason": "SessionTotalCalls"}), "{answer}");
}

#[tokio::test]
async fn a_stopped_gateway_refuses_new_calls_and_lets_running_ones_end() {
    let (folder, gateway) = started(&json!({}), &json!({}));
    ready(&gateway).await;
    let running = spawn(&gateway, "up__slow", &json!({"ms": SLOW}));
    in_flight(&gateway, 1).await;
    let edit = |spec: &Value| {
        folder.write(
            "manifests.yaml",
            &yaml(&[super::manifests::gateway(spec), raw_server("up", &[]), raw_server("other", &[])]),
        );
    };
    edit(&json!({"stopped": true}));
    gateway.until_answer("other__args", &json!({}), "/error/data", &json!({"reason": "Stopped"})).await;
    assert!(!running.is_finished(), "the running call ended before the stop was seen");
    assert_eq!(list(&gateway, "tools").await.len() % 2, 0, "lists still work");
    assert_eq!(running.await.unwrap()["result"]["content"][0]["text"], format!(r#"{{"ms":{SLOW}}}"#));
    edit(&json!({"stopped": false}));
    gateway.until_answer("other__args", &json!({}), "/result/content/0/text", &json!("{}")).await;

    // Asked to, it ends what runs.
    let running = spawn(&gateway, "up__silent", &json!({}));
    in_flight(&gateway, 1).await;
    let began = Instant::now();
    edit(&json!({"stopped": true, "stopMode": "Cancel"}));
    let answer = running.await.unwrap();
    assert_eq!(answer["error"]["data"], json!({"reason": "Stopped"}), "{answer}");
    assert!(began.elapsed() < Duration::from_secs(10));
}

/// A call in a session of the legacy era, its answer still to come.
fn spawn_in(session: &Session, id: u64, tool: &'static str, arguments: &Value) -> JoinHandle<Answer> {
    let (session, arguments) = (session.clone(), arguments.to_string());
    tokio::spawn(async move { session.call_raw(id, tool, &arguments).await })
}
