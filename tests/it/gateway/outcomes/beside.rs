//! What runs beside a call: it changes nothing, denies nothing, and nobody waits for it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway, SOON};
use super::super::http::Http;
use super::super::manifests::{chain, raw_server, yaml};
use super::acts::plugins;
use super::seen::list;

/// Longer than any call may take, so that one that waited would be seen on a busy machine, too.
const SLEEP_MS: u64 = 4000;

#[tokio::test]
async fn a_call_does_not_wait_for_shadows_and_observers() {
    let slow = json!({"act": "sleep", "ms": SLEEP_MS});
    let shadow = json!({"name": "guard", "mode": "Shadow", "config": slow});
    let observer = json!({"name": "observe", "config": slow});
    let mut objects = vec![raw_server("up", &[])];
    objects.extend(plugins());
    for phase in ["Request", "Response"] {
        let entries = [shadow.clone(), json!({"name": "one"}), observer.clone()];
        objects.push(chain(&phase.to_lowercase(), phase, "args", &entries));
    }
    let folder = Folder::with(&yaml(&objects));
    let gateway = Gateway::start(&folder);

    // The first call waits for the server's start.
    let http = Http::new();
    http.call(&gateway.url(), "up__exact", &json!({}), &json!({})).await;
    let began = Instant::now();
    let answer = http.call(&gateway.url(), "up__args", &json!({"m": "a"}), &json!({})).await;
    let took = began.elapsed();
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"m":"a+one+one"}"#, "{answer}");
    assert!(took < Duration::from_millis(SLEEP_MS / 2), "took {took:?}");

    // The record of the call waits for them instead.
    let record = recorded(&gateway, "args").await;
    assert_eq!(record["outcome"], "ok");
    assert!(record["durationMs"].as_f64().unwrap() < SLEEP_MS as f64 / 2.0, "{record}");
    let entries = record["entries"].as_array().unwrap().iter();
    let told: Vec<_> = entries.map(|e| json!([e["plugin"], e["outcome"], e["changed"]])).collect();
    let each = [
        json!(["default/guard", "ran", true]),
        json!(["default/one", "ran", true]),
        json!(["default/observe", "ran", false]),
    ];
    assert_eq!(told, [each.clone(), each].concat());
}

/// The record of a call to this tool, as soon as it is there.
async fn recorded(gateway: &Gateway, tool: &str) -> Value {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(call) = list(gateway, "calls").await.iter().find(|call| call["tool"] == tool) {
            return call.clone();
        }
        assert!(Instant::now() < deadline, "no record of a call to {tool}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
