//! Plugins that are programs of any language: their contract, their sandbox, and who allows them.

use std::process::Command;

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, run};
use super::http::Http;
use super::manifests::{chain, gateway, plugin, raw_server, yaml};

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
