//! The pipelines in `manifests/examples`, as people run them.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway, run};
use super::super::http::Http;
use super::super::parts::{tools_of, until};
use super::call;
use super::models::{KEY, requests, stand_in};
use crate::fixtures::{checkout, node_module, program};
use crate::upstream::free_port;

/// Copies an example into a folder of its own. `npx` takes packages from there, and fetches none.
fn copied(example: &str) -> Folder {
    let folder = Folder::new();
    let from = checkout().join("manifests/examples").join(example).join(".");
    assert!(Command::new("cp").arg("-r").args([&from, folder.path()]).status().unwrap().success());
    std::os::unix::fs::symlink(node_module(""), folder.path().join("node_modules")).unwrap();
    folder
}

#[test]
fn the_examples_of_pipelines_have_no_fault() {
    for example in ["composite", "research"] {
        let done = run(&["validate", copied(example).path().to_str().unwrap()]);
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success() && said.contains("0 errors, 0 warnings"), "{example}: {said}");
    }
}

#[tokio::test]
async fn the_composite_tool_calls_two_servers_and_a_guard_keeps_a_key_from_one() {
    let folder = copied("composite");
    let graph = folder.path().join("memory.jsonl");
    let manifest = std::fs::read_to_string(folder.path().join("composite.yaml")).unwrap();
    let environment = format!("server-memory\"], env: [{{name: MEMORY_FILE_PATH, value: {graph:?}}}],");
    assert!(manifest.contains("server-memory\"],"), "{manifest}");
    folder.write("composite.yaml", &manifest.replace("server-memory\"],", &environment));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["files", "memory", "note-tasks"]).await;

    let noted = call(&gateway, "note_tasks", &json!({"path": "release.md"})).await;
    let tasks = json!(["Write the change log", "Tell the shop team which orders are affected"]);
    assert_eq!(noted["structuredContent"]["noted"], tasks, "{noted}");
    let denied = call(&gateway, "note_tasks", &json!({"path": "handover.md"})).await;
    let expected = json!({"noted": [], "denied": "[BLOCKED] A key is not remembered."});
    assert_eq!(denied["structuredContent"], expected, "{denied}");
    let stored = std::fs::read_to_string(graph).unwrap();
    assert!(stored.contains("Write the change log") && !stored.contains("sk-ant"), "{stored}");

    let run = &denied["_meta"]["hawsepipe.dev/run"]["id"];
    let mut within = Vec::new();
    until("the calls of the run are recorded", async || {
        let rows = Http::new().get(&format!("http://{}/api/v1/calls", gateway.admin())).await.json();
        let rows = rows["items"].as_array().unwrap().iter().filter(|row| row["within"] == *run);
        within = rows.map(|row| (row["upstream"].clone(), row["outcome"].clone())).collect::<Vec<(Value, Value)>>();
        within.len() == 2
    })
    .await;
    assert!(within.contains(&(json!("memory"), json!("denied"))), "{within:?}");
    let none = call(&gateway, "note_tasks", &json!({"path": "none.md"})).await;
    assert_eq!(none["isError"], true, "{none}");
}

/// `run.sh` of the research example, which ends with its value.
struct Research(Child);

impl Drop for Research {
    fn drop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        let _ = kill_process(pid, Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Runs it with more environment, and returns it with what it prints until the gateway serves, and the gateway's address.
fn research(environment: &[(&str, &str)]) -> (Research, String, String) {
    let [listen, admin] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let script = checkout().join("manifests/examples/research/run.sh");
    let mut command = Command::new(script);
    command.arg(program()).arg("What is elicitation?").env("HAWSEPIPE_LISTEN", &listen).env("HAWSEPIPE_ADMIN", &admin);
    ["MODEL_URL", "MODEL_NAME", "MODEL_KEY"].iter().for_each(|name| {
        command.env_remove(name);
    });
    let mut running = Research(command.envs(environment.iter().copied()).stdout(Stdio::piped()).spawn().unwrap());
    let mut said = String::new();
    for line in BufReader::new(running.0.stdout.take().unwrap()).lines().map_while(Result::ok) {
        said.push_str(&line);
        said.push('\n');
        if line.contains("Ctrl-C ends the gateway") {
            break;
        }
    }
    (running, said, listen)
}

#[tokio::test]
async fn make_run_research_prints_a_report_with_the_sources_that_were_found() {
    let (running, said, listen) = research(&[]);
    for words in [
        "The model is a stand-in, which understands nothing",
        "# [stand-in] title",
        "] Elicitation https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation",
        "completed",
        "Try next",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    drop(running);
    assert!(TcpStream::connect(listen).is_err(), "the gateway ends with the script");
}

#[tokio::test]
async fn make_run_research_takes_another_model() {
    let folder = Folder::new();
    let report =
        json!({"title": "On elicitation", "executive_summary": "It asks [1].", "sections": [], "key_findings": []});
    let (_model, url) = stand_in(&folder, &json!([{"agent": "synthesizer", "json": report}]));
    let (_running, said, _) =
        research(&[("MODEL_URL", url.as_str()), ("MODEL_NAME", "large/2:free"), ("MODEL_KEY", KEY)]);
    assert!(said.contains("# On elicitation") && said.contains("It asks [1]."), "{said}");
    assert!(!said.contains("stand-in") && !said.contains(KEY), "{said}");
    let sent = requests(&url).await;
    assert_eq!(
        (&sent[0]["body"]["model"], &sent[0]["authorization"]),
        (&json!("large/2:free"), &json!(format!("Bearer {KEY}")))
    );
}
