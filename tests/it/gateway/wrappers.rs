//! Plugins that are programs of any language: their contract, their sandbox, and who allows them.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::harness::{Folder, Gateway, run};
use super::http::Http;
use super::manifests::{chain, gateway, plugin, raw_server, yaml};
use super::parts::until;
use crate::faults::vitals::Vitals;
use crate::fixtures::{checkout, node_module, python as python_of_tests};

/// The arguments that a server gets of a call that the guard lets pass.
const PASSED: &str = r#"{"seen":"PermissionError"}"#;

/// Denies arguments that have a secret, and replaces others by what it could read.
const GUARD: &str = r#"
import json, os, sys

def outcome(attempt):
    try:
        attempt()
        return "done"
    except OSError as error:
        return type(error).__name__

def judge(line):
    text = json.loads(line)["rawContent"]
    if "secret" in text:
        return {"text": "No secrets, please.", "continue": False, "error": "a secret"}
    seen = {"seen": outcome(lambda: open("/etc/passwd").close())}
    return {"text": json.dumps(seen, separators=(",", ":")), "continue": True}
"#;

/// Reads its one line, and ends.
const ONCE: &str = "\nprint(json.dumps(judge(sys.stdin.readline())))\n";
/// Reads line after line.
const LINES: &str = "\nfor line in sys.stdin:\n    print(json.dumps(judge(line)), flush=True)\n";

fn guard(source: &Value, spec: &Value) -> Value {
    let mut guard = plugin("guard", "", &json!({"role": "Guard"}));
    guard["spec"]["source"] = source.clone();
    for (key, value) in spec.as_object().unwrap() {
        guard["spec"][key] = value.clone();
    }
    guard
}

fn python(source: &Value, more: &Value) -> Value {
    let mut spec = json!({"wrapper": {"command": "python3"}});
    super::manifests::merge(&mut spec, more);
    guard(source, &spec)
}

fn guarded(guard: &Value, allowed: &[&str]) -> String {
    yaml(&[
        gateway(&json!({"plugins": {"allowedWrappers": allowed, "poolSizePerPlugin": 1}})),
        raw_server("up", &[]),
        guard.clone(),
        chain("checks", "Request", "args", &[json!({"name": "guard"})]),
    ])
}

async fn call(gateway: &Gateway, arguments: &Value) -> Value {
    Http::new().call(&gateway.url(), "up__args", arguments, &json!({})).await["result"].clone()
}

/// Whether the guard denies what it is to deny, reads no file that is not its own, and is in the records.
async fn guards(gateway: &Gateway) {
    gateway.until_answer("up__args", &json!({}), "/result/content/0/text", &json!(PASSED)).await;
    let denied = call(gateway, &json!({"secret": 1})).await;
    assert_eq!(denied["_meta"]["hawsepipe.dev/denied"]["plugin"], "default/guard", "{denied}");
    let url = format!("http://{}/api/v1/executions?plugin=default/guard", gateway.admin());
    let records = Http::new().get(&url).await.json();
    let outcomes: Vec<_> = records["items"].as_array().unwrap().iter().map(|it| it["status"].clone()).collect();
    assert!(outcomes.contains(&json!("Success")) && outcomes.contains(&json!("Denied")), "{records}");
}

#[tokio::test]
async fn spec_wrapper_runs_python_of_every_source_by_both_protocols() {
    for (protocol, end) in [("Once", ONCE), ("Lines", LINES)] {
        let code = format!("{GUARD}{end}");
        for source in [json!({"inline": code}), json!({"path": "guard.py"})] {
            let folder = Folder::new();
            folder.write("plugins/guard.py", &code);
            folder.write("all.yaml", &guarded(&python(&source, &json!({"protocol": protocol})), &["guard"]));
            let gateway = Gateway::start(&folder);
            guards(&gateway).await;
        }
    }
}

#[tokio::test]
async fn spec_plugins_allowed_wrappers_names_each_in_its_namespace() {
    let guard = python(&json!({"inline": format!("{GUARD}{ONCE}")}), &json!({}));
    for (allowed, reason) in [(&["other/guard"][..], "WrapperNotAllowed"), (&[], "WrapperNotAllowed")] {
        let folder = Folder::with(&guarded(&guard, allowed));
        let gateway = Gateway::start(&folder);
        let failed = "/result/_meta/hawsepipe.dev~1refused/plugin";
        gateway.until_answer("up__args", &json!({}), failed, &json!("default/guard")).await;
        let validated = run(&["validate", folder.path().to_str().unwrap()]);
        let said =
            String::from_utf8_lossy(&validated.stderr).into_owned() + &String::from_utf8_lossy(&validated.stdout);
        assert!(
            said.contains(reason) && said.contains("wrapper guard is not in spec.plugins.allowedWrappers"),
            "{said}"
        );
        folder.write("manifests.yaml", &guarded(&guard, &["guard"]));
        gateway.until_answer("up__args", &json!({}), "/result/content/0/text", &json!(PASSED)).await;
        folder.write("manifests.yaml", &guarded(&guard, allowed));
        gateway.until_answer("up__args", &json!({}), failed, &json!("default/guard")).await;
    }
}

#[tokio::test]
async fn a_program_that_is_its_own_interpreter_is_a_plugin() {
    let folder = Folder::new();
    let (source, program) = (folder.path().join("main.go"), folder.path().join("plugins/guard"));
    std::fs::write(&source, GO).unwrap();
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(&source).env("CGO_ENABLED", "0");
    assert!(build.status().unwrap().success());
    let own = guard(&json!({"path": "guard"}), &json!({"wrapper": {"command": "guard"}, "protocol": "Lines"}));
    folder.write("all.yaml", &guarded(&own, &["guard"]));
    guards(&Gateway::start(&folder)).await;
}

/// The same guard in Go.
const GO: &str = r#"
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		read, err := in.ReadString('\n')
		if err != nil {
			return
		}
		var input struct {
			RawContent string `json:"rawContent"`
		}
		json.Unmarshal([]byte(read), &input)
		answer := map[string]any{"text": `{"seen":"PermissionError"}`, "continue": true}
		if _, err := os.Open("/etc/passwd"); err == nil {
			answer["text"] = `{"seen":"done"}`
		}
		if strings.Contains(input.RawContent, "secret") {
			answer = map[string]any{"text": "No secrets, please.", "continue": false, "error": "a secret"}
		}
		line, _ := json.Marshal(answer)
		fmt.Println(string(line))
	}
}
"#;

#[tokio::test]
async fn each_fault_of_a_wrapper_fails_closed_with_its_reason() {
    let folder = Folder::with(&guarded(&python(&json!({"inline": "x"}), &json!({})), &["guard"]));
    let gateway = Gateway::start(&folder);
    for (name, code, protocol, reason) in [
        ("exits", "import sys; sys.stdin.readline(); sys.exit(3)", "Once", "ExitCode"),
        ("answers nothing", "import sys; sys.stdin.readline()", "Once", "InvalidOutput"),
        ("hangs", "import sys, time; sys.stdin.readline(); time.sleep(60)", "Once", "Timeout"),
        (
            "answers and fails",
            "import sys; sys.stdin.readline(); print('{\"text\":\"x\"}'); sys.exit(1)",
            "Once",
            "ExitCode",
        ),
        (
            "answers twice",
            "import sys\nfor line in sys.stdin: print('{\"text\":\"x\"}\\n' * 2, end='', flush=True)",
            "Lines",
            "InvalidOutput",
        ),
        ("floods", "import sys; sys.stdin.readline(); sys.stdout.write('x' * (40 << 20))", "Once", "TooLarge"),
        ("forks", "import os, sys; sys.stdin.readline(); os.fork()", "Once", "ExitCode"),
        (
            "connects",
            "import socket, sys; sys.stdin.readline(); socket.create_connection(('127.0.0.1', 9))",
            "Once",
            "ExitCode",
        ),
        ("writes", "import sys; sys.stdin.readline(); open('/tmp/x', 'w')", "Once", "ExitCode"),
    ] {
        let guard = python(&json!({"inline": code}), &json!({"protocol": protocol, "timeoutMs": 1500}));
        folder.write("manifests.yaml", &guarded(&guard, &["guard"]));
        let pointer = "/result/_meta/hawsepipe.dev~1failed/reason";
        println!("{name}");
        gateway.until_answer("up__args", &json!({}), pointer, &json!(reason)).await;
        assert!(call(&gateway, &json!({})).await["isError"] == true, "{name}");
    }
}

#[tokio::test]
async fn a_wrapper_that_does_not_start_refuses_the_calls_of_its_guard() {
    for (name, code, protocol) in [
        ("greets", "print('hello', flush=True)\nimport sys\nfor line in sys.stdin: pass", "Lines"),
        ("does not parse", "def f(:", "Once"),
        ("lacks a package", "import no_such_package", "Lines"),
    ] {
        let guard = python(&json!({"inline": code}), &json!({"protocol": protocol}));
        let folder = Folder::with(&guarded(&guard, &["guard"]));
        let gateway = Gateway::start(&folder);
        println!("{name}");
        let pointer = "/result/_meta/hawsepipe.dev~1refused/reason";
        gateway.until_answer("up__args", &json!({}), pointer, &json!("NotLoaded")).await;
    }
}

#[tokio::test]
async fn the_example_in_python_replaces_card_numbers() {
    let folder = Folder::new();
    let from = checkout().join("manifests/examples/python-guard").join(".");
    assert!(Command::new("cp").arg("-r").args([&from, folder.path()]).status().unwrap().success());
    std::os::unix::fs::symlink(node_module(""), folder.path().join("node_modules")).unwrap();
    let packages = python_of_tests().parent().unwrap().display().to_string();
    let path = format!("{packages}:{}", std::env::var("PATH").unwrap());
    let gateway = Gateway::start_in(&folder, &[], &[("PATH", &path)]);
    let message = json!({"message": "Pay with 4111 1111 1111 1111, \u{1f4b3} not with 4111 1111 1111 1112."});
    let text = "Echo: Pay with <CARD>, \u{1f4b3} not with 4111 1111 1111 1112.";
    gateway.until_answer("everything__echo", &message, "/result/content/0/text", &json!(text)).await;
    // Without the chain over arguments, the server gets the number, and the chain over answers replaces it.
    let manifest = std::fs::read_to_string(folder.path().join("gateway.yaml")).unwrap();
    let documents = manifest.split("---\n").filter(|document| !document.contains("cards-in-arguments"));
    folder.write("gateway.yaml", &documents.collect::<Vec<_>>().join("---\n"));
    let chains = "/result/_meta/hawsepipe.dev~1trace";
    loop {
        let answer =
            Http::new().call(&gateway.url(), "everything__echo", &message, &json!({"hawsepipe.dev/trace": true})).await;
        assert_eq!(answer["result"]["content"][0]["text"], text, "{answer}");
        if answer.pointer(chains).and_then(Value::as_array).is_some_and(|entries| entries.len() == 1) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// A guard that takes a moment, so that it can be killed meanwhile.
const SLOW: &str = r#"
import json, random, sys, time
for line in sys.stdin:
    text = json.loads(line)["rawContent"]
    time.sleep(random.random() / 50)
    print(json.dumps({"text": text.replace("canary", "<removed>"), "continue": True}), flush=True)
"#;

/// The process ids of the workers that have a call. One that is killed before its first call counts as one that does not start.
async fn busy_workers(gateway: &Gateway) -> Vec<i32> {
    let workers = Http::new().get(&format!("http://{}/api/v1/workers", gateway.admin())).await.json();
    let busy = workers["items"].as_array().unwrap().iter().filter(|worker| worker["state"] == "Executing");
    busy.filter_map(|worker| i32::try_from(worker["pid"].as_i64()?).ok()).collect()
}

/// Kills wrappers at random moments. Each call is answered by the guard or fails, and nothing remains.
async fn kills(count: usize) {
    let guard = python(&json!({"inline": SLOW}), &json!({"protocol": "Lines"}));
    let folder = Folder::with(&guarded(&guard, &["guard"]));
    let gateway = Gateway::start(&folder);
    let passed = json!("{\"word\":\"<removed>\"}");
    let arguments = json!({"word": "canary"});
    gateway.until_answer("up__args", &arguments, "/result/content/0/text", &passed).await;
    let done = AtomicBool::new(false);
    let calling = async || {
        let (mut good, mut failed) = (0, 0);
        while !done.load(Ordering::Relaxed) {
            let answer = call(&gateway, &arguments).await;
            let text = answer["content"][0]["text"].to_string();
            assert!(!text.contains("canary"), "{answer}");
            match answer["isError"] == true {
                true => failed += 1,
                false => good += usize::from(answer["content"][0]["text"] == passed),
            }
        }
        (good, failed)
    };
    let killing = async {
        let mut killed = 0;
        while killed < count {
            for pid in busy_workers(&gateway).await {
                let sent = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
                killed += usize::from(sent.is_ok());
            }
            tokio::time::sleep(std::time::Duration::from_millis(killed as u64 * 7 % 23)).await;
        }
        done.store(true, Ordering::Relaxed);
    };
    let ((good, failed), others, ()) = tokio::join!(calling(), calling(), killing);
    assert!(failed + others.1 > 0, "no call was under way when its worker was killed");
    println!("{count} kills: {} answered, {} failed", good + others.0, failed + others.1);
    gateway.until_answer("up__args", &arguments, "/result/content/0/text", &passed).await;
    until("no zombie is left", async || Vitals::of(&gateway, &BTreeSet::new()).zombies == 0).await;
}

#[tokio::test]
async fn a_wrapper_that_is_killed_during_a_call_fails_it_and_serves_the_next() {
    kills(20).await;
}

#[tokio::test]
#[ignore = "a minute"]
async fn a_thousand_kills_let_nothing_past_the_guard() {
    kills(1000).await;
}
