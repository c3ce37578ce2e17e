//! Servers on stdio that the operator runs: their images, and the processes that the bridge starts and ends.

use std::process::Command;

use serde_json::{Value, json};

use super::client::{self, call};
use super::commands::{MCP, apply, kubectl, until};

const UPSTREAMS: [&str; 2] = ["musl", "scratch"];

/// The processes of an upstream's server. The machine sees those of every container.
pub fn processes(upstream: &str) -> Vec<String> {
    let found = Command::new("pgrep").args(["-x", "-f", &format!("/server {upstream}")]).output().unwrap();
    String::from_utf8(found.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Waits until the processes of an upstream's server are so many.
pub fn until_processes(upstream: &str, count: usize) {
    until("no process is left of a session that ended", || {
        let there = processes(upstream);
        (there.len() == count).then_some(()).ok_or_else(|| format!("{count} expected of {upstream}: {there:?}"))
    });
}

fn described(upstream: &str) -> Value {
    until("the server answers", || {
        let result = call(&format!("{upstream}__describe"), &json!({}))?;
        match &result["structuredContent"] {
            Value::Null => Err(result.to_string()),
            content => Ok(content.clone()),
        }
    })
}

pub fn images_without_a_shell() {
    apply("stdio.yaml");
    for upstream in UPSTREAMS {
        let object = format!("mcpupstream/{upstream}");
        kubectl(&["wait", "-n", MCP, &object, "--for=condition=Programmed", "--timeout=120s"]);
    }
    let [musl, scratch] = UPSTREAMS.map(described);
    println!("musl: {musl}, scratch: {scratch}");
    assert!(musl["loader"].as_str().unwrap().starts_with("ld-musl-"), "{musl}");
    assert_eq!(scratch["loader"], "");
}

/// Servers that are killed, and those that end themselves, are started again, and nothing else is disturbed.
pub fn processes_that_end() {
    let before = client::answered();
    for upstream in UPSTREAMS {
        for process in processes(upstream) {
            Command::new("kill").args(["-KILL", &process]).status().unwrap();
        }
        described(upstream);
        let ended = call(&format!("{upstream}__exit"), &json!({"code": 3}));
        println!("{upstream}, of a call during which the server ended: {ended:?}");
        assert!(ended.as_ref().map_or(true, |result| result["isError"] == true), "{ended:?}");
        described(upstream);
    }
    client::no_call_failed(before);
}
