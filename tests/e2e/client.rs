//! The client pod, and what it counts.

use serde_json::Value;

use super::commands::{MCP, apply, kubectl, try_run, until};

/// Starts the client, which calls tools until it is ended.
pub fn start() {
    kubectl(&["create", "configmap", "client", "-n", MCP, "--from-file=client.mjs=tests/e2e/client.mjs"]);
    apply("client.yaml");
}

/// The lines of its log that are about `key`.
fn lines(key: &str) -> Vec<Value> {
    // Before it has started there is no log.
    let log = try_run("kubectl", &["logs", "-n", MCP, "client"], "").unwrap_or_default();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line.get(key).is_some()).collect()
}

/// When its first call was answered, in milliseconds since 1970.
pub fn first_answer() -> u64 {
    until("the client's first call is answered", || {
        lines("first")
            .first()
            .and_then(|line| line["first"].as_u64())
            .ok_or_else(|| format!("{:?}", lines("waiting").last()))
    })
}

const KINDS: [&str; 4] = ["modern", "legacy", "long", "sessions"];

/// How many calls of each kind were answered.
pub type Answered = [u64; KINDS.len()];

pub fn answered() -> Answered {
    let counts = lines("inFlight").pop().unwrap_or_default();
    KINDS.map(|kind| counts[kind].as_u64().unwrap_or_default())
}

/// Waits until further calls of each kind were answered than `before`, and fails if a call failed since the start.
pub fn no_call_failed(before: Answered) {
    until("more calls of each kind are answered", || {
        let now = answered();
        let more = now.iter().zip(before).all(|(now, before)| *now > before);
        more.then_some(()).ok_or_else(|| format!("{KINDS:?}: {now:?}, {before:?} before"))
    });
    let failures = lines("failure");
    println!("calls: {}", lines("inFlight").pop().unwrap_or_default());
    for failure in failures.iter().take(10) {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "{} calls failed", failures.len());
}
