//! Processes that are each for one session (`process.session: PerSession`).

use std::collections::BTreeSet;
use std::path::Path;

use hyper::Method;
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::harness::{Folder, Gateway};
use super::http::{Http, Session};
use super::parts::{ECHO_MODULE, SDKS, asking_processes, chain, object, plugin, tools_of, until};
use super::subscribed::Stream;

const ANSWERS: &str = r#"{
    "sampling": {"role": "assistant", "content": {"type": "text", "text": "forty-two"}, "model": "m"},
    "elicitation": {"action": "accept", "content": {"name": "Ada"}},
    "roots": {"roots": [{"uri": "file:///work", "name": "work"}]}
}"#;

async fn started(manifests: &str) -> (Gateway, Folder) {
    let folder = Folder::new();
    let server = asking_processes("asking", &folder.path().join("capabilities.log"));
    folder.write("manifests.yaml", &(server + manifests));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["asking"]).await;
    (gateway, folder)
}

fn text(answer: &Value) -> String {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

async fn pid(session: &Session) -> String {
    text(&session.call_raw(1, "asking__pid", "{}").await.json())
}

fn runs(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

#[tokio::test]
async fn each_session_has_its_process_which_ends_with_it() {
    let (gateway, _folder) = started("").await;
    let http = Http::new();
    let (first, second) = (http.initialize(&gateway.url()).await, http.initialize(&gateway.url()).await);
    let shared = text(&http.call(&gateway.url(), "asking__pid", &json!({}), &json!({})).await);
    let pids = [pid(&first).await, pid(&second).await, shared.clone()];
    assert_eq!(pids.iter().collect::<BTreeSet<_>>().len(), 3, "{pids:?}");
    assert_eq!([pid(&first).await, pid(&second).await], pids[..2], "a session keeps its process");
    http.send(Method::DELETE, &first.url, &first.headers(), Bytes::new()).await;
    until("the process has ended", async || !runs(&pids[0])).await;
    assert!(runs(&pids[1]) && runs(&shared));
    // One that ends by itself is started again.
    std::process::Command::new("kill").arg(&pids[1]).status().unwrap();
    until("the process has ended", async || !runs(&pids[1])).await;
    assert_ne!(pid(&second).await, pids[1]);
}

#[tokio::test]
async fn a_process_of_a_session_asks_its_client() {
    let (gateway, folder) = started("").await;
    let answers: Value = serde_json::from_str(ANSWERS).unwrap();
    for (tool, capability) in [("sample", "sampling"), ("elicit", "elicitation"), ("roots", "roots")] {
        let tool = format!("asking__{tool}");
        let lines = SDKS[3].run(&gateway.url(), &["call", &tool, "{}", "--answers", ANSWERS], "");
        let said: Value = serde_json::from_str(&text(&lines[0])).unwrap_or_else(|e| panic!("{e}: {lines:?}"));
        assert_eq!(said, answers[capability], "{tool}");
    }
    // A client that answers nothing has a process that knows that, and so has the gateway.
    let lines = SDKS[3].run(&gateway.url(), &["call", "asking__sample", "{}"], "");
    assert!(lines[0]["result"]["isError"] == true, "{lines:?}");
    let log = std::fs::read_to_string(folder.path().join("capabilities.log")).unwrap();
    let known: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (nothing, all) = (json!({}), json!({"elicitation": {"form": {}}, "roots": {}, "sampling": {}}));
    assert!(known.contains(&nothing) && known.contains(&all), "{known:?}");
    assert!(known.iter().all(|can| *can == nothing || *can == all), "{known:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_logs_comes_on_the_stream_of_its_session() {
    let (gateway, _folder) = started("").await;
    let session = Http::new().initialize(&gateway.url()).await;
    let mut stream = Stream::of_session(&session).await;
    let answer = session.call_raw(1, "asking__logs", r#"{"count":20}"#).await;
    assert!(answer.body.contains("20 lines") && !answer.body.contains("line 1"), "{}", answer.body);
    for line in 1..=20 {
        assert_eq!(stream.next().await["params"]["data"], format!("line {line}"));
    }
}

#[tokio::test]
async fn a_process_asks_nothing_past_a_guard() {
    let passes = plugin("passes", ECHO_MODULE, "protocol: Module, role: Guard");
    let guarded = chain("guarded", "Request", &["asking"], &["passes"]);
    let (gateway, _folder) = started(&(passes + &guarded)).await;
    let lines = SDKS[3].run(&gateway.url(), &["call", "asking__sample", "{}", "--answers", ANSWERS], "");
    let said = text(&lines[0]);
    assert!(lines[0]["result"]["isError"] == true && said.contains("Guard"), "{said}");
}

/// A server that starts at once and takes little memory. Its tool says the id of the process.
const SMALL: &str = r#"while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"notifications/'*) continue;;
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"small","version":"1"}}';;
    *'"tools/list"'*) result='{"tools":[{"name":"pid","inputSchema":{"type":"object"}}]}';;
    *) result="{\"content\":[{\"type\":\"text\",\"text\":\"$$\"}]}";;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

#[tokio::test]
async fn one_address_has_a_share_of_the_processes_and_hears_which_limit_it_reached() {
    let folder = Folder::new();
    folder.write("small.sh", SMALL);
    let script = folder.path().join("small.sh");
    let process =
        format!("process: {{command: sh, args: [{script:?}], session: PerSession}}, protocol: {{era: Legacy}}");
    folder.write("manifests.yaml", &object("MCPUpstream", "small", &process));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["small"]).await;
    let http = Http::new();
    let mut sessions = Vec::new();
    for _ in 0..32 {
        let session = http.initialize(&gateway.url()).await;
        let said = text(&session.call_raw(1, "small__pid", "{}").await.json());
        sessions.push((session, said));
    }
    assert_eq!(sessions.iter().map(|(_, pid)| pid).collect::<BTreeSet<_>>().len(), 32);
    let more = http.initialize(&gateway.url()).await;
    let refused = more.call_raw(1, "small__pid", "{}").await.json();
    let data = json!({"reason": "OwnProcesses", "upstream": "small", "retryAfterMs": 1000});
    assert_eq!((&refused["error"]["code"], &refused["error"]["data"]), (&json!(-32000), &data), "{refused}");
    let message = refused["error"]["message"].as_str().unwrap();
    for word in ["upstream small", "your address", "PerSession", "End sessions"] {
        assert!(message.contains(word), "{word}: {message}");
    }
    gateway.logged(|line| line["reason"] == "OwnProcesses" && line["upstream"] == "small");
    let metrics = http.get(&format!("http://{}/metrics", gateway.admin())).await.body;
    assert!(metrics.contains(r#"hawsepipe_calls_refused_total{reason="OwnProcesses"} 1"#), "{metrics}");
    let elsewhere = Http::at([127, 0, 0, 2].into()).initialize(&gateway.url()).await;
    let said = text(&elsewhere.call_raw(1, "small__pid", "{}").await.json());
    assert!(sessions.iter().all(|(_, pid)| *pid != said), "another address has its own share");
    http.send(Method::DELETE, &elsewhere.url, &elsewhere.headers(), Bytes::new()).await;
    // A session that ends makes room for another one, once the address is below half of all again.
    let (first, _) = sessions.remove(0);
    http.send(Method::DELETE, &first.url, &first.headers(), Bytes::new()).await;
    let said = text(&more.call_raw(2, "small__pid", "{}").await.json());
    assert!(sessions.iter().all(|(_, pid)| *pid != said));
}
