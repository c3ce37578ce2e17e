//! Calls that go on as tasks, in the form of each era, with real servers.

use hyper::Method;
use serde_json::{Value, json};

use super::either::{Client, clients_with};
use super::harness::{Folder, Gateway};
use super::http::{Http, JSON};
use super::parts::{SDKS, announced, chain, external, object, plugin, tools_of, until};
use crate::conformance::fixture_server;
use crate::fixtures::fixture;
use crate::upstream::Running;

/// What the results hide.
const MAIL: &str = "ann@example.com";
/// A Guard that takes it out.
const REDACTS: &str = "export default ({ rawContent }) => ({ text: rawContent.replaceAll('ann@example.com', '[gone]'), continue: true });";

/// The servers of both eras whose calls go on as tasks.
struct Tasks {
    gateway: Gateway,
    folder: Folder,
    manifests: String,
    _servers: [Running; 2],
}

impl Tasks {
    async fn start(more: &str) -> Self {
        let mut legacy = std::process::Command::new("node");
        legacy.arg(fixture("servers/tasks.mjs"));
        let (legacy, url) = announced(legacy);
        let (modern, modern_url) = tokio::task::spawn_blocking(fixture_server).await.unwrap();
        let manifests = external("legacy", &url) + &external("modern", &modern_url);
        let folder = Folder::with(&format!("{manifests}{more}"));
        let gateway = Gateway::start(&folder);
        tools_of(&gateway, &["legacy", "modern"]).await;
        Self { gateway, folder, manifests, _servers: [legacy, modern] }
    }

    /// A client of each era that knows tasks.
    async fn clients(&self) -> [Client; 2] {
        clients_with(&self.gateway.url(), &knows_tasks()).await
    }

    async fn calls(&self) -> Vec<Value> {
        let url = format!("http://{}/api/v1/calls?limit=100", self.gateway.admin());
        Http::new().get(&url).await.json()["items"].as_array().unwrap().clone()
    }
}

fn knows_tasks() -> Value {
    json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// A Guard on both servers. For one of them its condition needs the arguments, which nobody knows when the result of a task
/// is fetched.
fn guard() -> String {
    let when = r#"call.arguments.text == "never""#;
    let entries = format!("entries: [{{name: redacts, when: {when:?}}}]");
    plugin("redacts", REDACTS, "protocol: Module, role: Guard")
        + &chain("redacted", "Response", &["modern"], &["redacts"])
        + &object("PluginChain", "sometimes", &format!("phase: Response, upstreams: {{names: [legacy]}}, {entries}"))
}

/// Begins a task of which `MAIL` is the result. Returns what came back, and the task in it.
async fn begin(client: &Client) -> (Value, Value) {
    let (params, member) = match client {
        Client::Legacy(_) => {
            let arguments = json!({"text": MAIL});
            (json!({"name": "legacy__work", "arguments": arguments, "task": {"ttl": 60000}}), "task")
        }
        Client::Modern(..) => {
            (json!({"name": "modern__slow_compute", "arguments": {"seconds": 0.05, "label": MAIL}}), "")
        }
    };
    let result = client.ask("tools/call", params).await["result"].clone();
    let task = if member.is_empty() { result.clone() } else { result[member].clone() };
    assert!(task["taskId"].as_str().is_some_and(|id| id.len() > 100), "{result}");
    (result, task)
}

/// Waits for the end of a task. Returns its last state, and its result.
async fn finish(client: &Client, id: &Value) -> (Value, Value) {
    let mut state = Value::Null;
    until("the task has ended", async || {
        state = client.ask("tasks/get", json!({"taskId": id})).await;
        assert_eq!(state["result"]["taskId"], *id, "{state}");
        !matches!(state["result"]["status"].as_str().unwrap(), "working" | "input_required")
    })
    .await;
    let state = state["result"].clone();
    let result = match client {
        Client::Legacy(_) => client.ask("tasks/result", json!({"taskId": id})).await["result"].clone(),
        Client::Modern(..) => state["result"].clone(),
    };
    (state, result)
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_each_era_go_through() {
    let tasks = Tasks::start("").await;
    for client in tasks.clients().await {
        let (_, task) = begin(&client).await;
        let (state, result) = finish(&client, &task["taskId"]).await;
        assert_eq!(state["status"], "completed", "{state}");
        assert!(result["content"][0]["text"].as_str().unwrap().contains(MAIL), "{result}");
        if matches!(client, Client::Legacy(_)) {
            let related = &result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
            assert_eq!(*related, task["taskId"], "{result}");
            // A task that has ended cannot be cancelled in this era: the server's own error.
            let cancelled = client.ask("tasks/cancel", json!({"taskId": task["taskId"]})).await;
            assert_eq!(cancelled["error"]["code"], -32602, "{cancelled}");
        }
    }
    let calls = tasks.calls().await;
    for (method, tool) in [("tasks/get", "work"), ("tasks/result", "work"), ("tasks/get", "slow_compute")] {
        assert!(
            calls.iter().any(|call| call["method"] == method && call["tool"] == tool),
            "{method} {tool}: {calls:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sdk_gets_the_result_of_a_task_and_answers_what_it_asks() {
    let tasks = Tasks::start("").await;
    let answers = r#"{"elicitation": {"action": "accept", "content": {"name": "Ada"}}}"#;
    let run = |tool: &str, arguments: &str| {
        SDKS[3].run(&tasks.gateway.url(), &["task", tool, arguments, "--answers", answers], "")
    };
    for (tool, arguments, said) in [
        ("legacy__work", r#"{"text": "done"}"#, "done"),
        ("legacy__asks", "{}", r#"{"action":"accept","content":{"name":"Ada"}}"#),
    ] {
        let lines = run(tool, arguments);
        assert_eq!(lines[0]["type"], "taskCreated", "{lines:?}");
        let last = lines.last().unwrap();
        assert_eq!(
            (&last["type"], &last["result"]["content"][0]["text"]),
            (&json!("result"), &json!(said)),
            "{lines:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_covers_results_that_are_fetched_later() {
    let tasks = Tasks::start(&guard()).await;
    for client in tasks.clients().await {
        let (begun, task) = begin(&client).await;
        // Text beside the result is withheld: no Guard sees it.
        assert_eq!((&task["statusMessage"], &begun["_meta"]), (&Value::Null, &Value::Null), "{begun}");
        let (state, result) = finish(&client, &task["taskId"]).await;
        assert_eq!(state["statusMessage"], Value::Null, "{state}");
        let said = result["content"][0]["text"].as_str().unwrap();
        assert!(said.contains("[gone]") && !state.to_string().contains(MAIL), "{state} {result}");
        let question = match client {
            Client::Legacy(_) => continue,
            Client::Modern(..) => {
                client.ask("tools/call", json!({"name": "modern__confirm_delete", "arguments": {}})).await
            }
        };
        // What a task asks would pass the Guard.
        let id = json!({"taskId": question["result"]["taskId"]});
        until("the task asks", async || client.ask("tasks/get", id.clone()).await["error"].is_object()).await;
        let refused = client.ask("tasks/get", id.clone()).await;
        assert_eq!(refused["error"]["data"]["hawsepipe.dev/refused"]["reason"], "GuardedInput", "{refused}");
        let update = json!({"taskId": id["taskId"], "inputResponses": {}});
        assert!(client.ask("tasks/update", update).await["error"].is_object());
        assert_eq!(client.ask("tasks/cancel", id).await["result"], json!({"resultType": "complete"}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_that_comes_after_the_call_covers_its_task() {
    let tasks = Tasks::start("").await;
    let clients = tasks.clients().await;
    let mut begun = Vec::new();
    for client in &clients {
        begun.push(begin(client).await.1["taskId"].clone());
    }
    tasks.folder.write("manifests.yaml", &format!("{}{}", tasks.manifests, guard()));
    let probe = &clients[1];
    until("the Guard is in force", async || {
        let answer = probe.ask("tools/call", json!({"name": "modern__greet", "arguments": {"name": MAIL}})).await;
        answer["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains("[gone]"))
    })
    .await;
    for (client, id) in clients.iter().zip(&begun) {
        let (_, result) = finish(client, id).await;
        let said = result["content"][0]["text"].as_str().unwrap();
        assert!(said.contains("[gone]") && !said.contains(MAIL), "{result}");
    }
    // The server is taken away.
    std::fs::remove_file(tasks.folder.path().join("manifests.yaml")).unwrap();
    until("the task is gone", async || {
        let answer = clients[1].ask("tasks/get", json!({"taskId": begun[1]})).await;
        answer["error"]["data"] == json!({"reason": "TaskGone", "upstream": "modern"})
            && answer["error"]["code"] == -32602
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_id_of_a_task_is_worth_nothing_elsewhere() {
    let tasks = Tasks::start("").await;
    let [legacy, modern] = tasks.clients().await;
    let (id, other) = (begin(&modern).await.1["taskId"].clone(), begin(&legacy).await.1["taskId"].clone());
    let [alone_legacy, alone] = clients_with(&tasks.gateway.url_of("modern"), &knows_tasks()).await;
    let text = id.as_str().unwrap();
    let forged = [format!("{text}A"), text[1..].to_owned(), "A".repeat(5000), String::new(), "task-1".to_owned()];
    for method in ["tasks/get", "tasks/cancel"] {
        for forged in &forged {
            let answer = modern.ask(method, json!({"taskId": forged})).await;
            assert!(matches!(answer["error"]["code"].as_i64(), Some(-32602 | -32020)), "{method} {forged}: {answer}");
        }
        for (client, id) in [(&legacy, &id), (&modern, &other), (&alone, &id)] {
            assert_eq!(client.ask(method, json!({"taskId": id})).await["error"]["code"], -32602, "{method}");
        }
        // There, no server has tasks of this era.
        assert_eq!(alone_legacy.ask(method, json!({"taskId": other})).await["error"]["code"], -32601);
    }
    assert_eq!(modern.ask("tasks/get", json!({"taskId": id})).await["result"]["taskId"], id);
    // Who does not declare the extension is told so, and has no tasks.
    let plain = Client::Modern(Http::new(), tasks.gateway.url(), json!({}));
    let refused = plain.ask("tasks/get", json!({"taskId": id})).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    let wanted = &refused["error"]["data"]["requiredCapabilities"]["extensions"];
    assert!(wanted["io.modelcontextprotocol/tasks"].is_object(), "{refused}");
    let needs = plain.ask("tools/call", json!({"name": "modern__failing_job", "arguments": {}})).await;
    assert_eq!(needs["error"]["code"], -32021, "{needs}");
    for (client, method) in
        [(&modern, "tasks/list"), (&modern, "tasks/result"), (&legacy, "tasks/list"), (&legacy, "tasks/update")]
    {
        assert_eq!(client.ask(method, json!({"taskId": id})).await["error"]["code"], -32601, "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_offered_to_clients_of_the_era_that_has_them() {
    let tasks = Tasks::start("").await;
    let http = Http::new();
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let offered = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
    for (url, expected) in [
        (tasks.gateway.url(), offered.clone()),
        (tasks.gateway.url_of("legacy"), offered),
        (tasks.gateway.url_of("modern"), Value::Null),
    ] {
        let legacy = http.send(Method::POST, &url, &JSON, body.to_string()).await.json();
        let capabilities = &legacy["result"]["capabilities"];
        assert_eq!((&capabilities["tasks"], &capabilities["extensions"]), (&expected, &Value::Null), "{url}");
        for version in ["2025-06-18", "2025-03-26", "2024-11-05"] {
            let older =
                http.send(Method::POST, &url, &JSON, body.to_string().replace("2025-11-25", version)).await.json();
            assert_eq!(older["result"]["protocolVersion"], version);
            assert_eq!(older["result"]["capabilities"]["tasks"], Value::Null, "{version}");
        }
        let modern = Client::Modern(http.clone(), url.clone(), json!({})).ask("server/discover", json!({})).await;
        let capabilities = &modern["result"]["capabilities"];
        let has_tasks = capabilities["extensions"]["io.modelcontextprotocol/tasks"].is_object();
        assert_eq!((has_tasks, &capabilities["tasks"]), (!url.ends_with("/legacy/mcp"), &Value::Null), "{url}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_replica_finds_the_server_of_a_task() {
    let (_server, url) = tokio::task::spawn_blocking(fixture_server).await.unwrap();
    let (folder, keys) = (Folder::with(&external("modern", &url)), Folder::new());
    keys.write("key", "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=");
    let file = keys.path().join("key");
    let start = || Gateway::start_with(&folder, &["--seal-key-file", file.to_str().unwrap()]);
    let (one, two, stranger) = (start(), start(), Gateway::start(&folder));
    let client = |gateway: &Gateway| Client::Modern(Http::new(), gateway.url(), knows_tasks());
    for gateway in [&one, &two, &stranger] {
        tools_of(gateway, &["modern"]).await;
    }
    let id = begin(&client(&one)).await.1["taskId"].clone();
    let (state, _) = finish(&client(&two), &id).await;
    assert_eq!(state["status"], "completed", "{state}");
    let answer = client(&stranger).ask("tasks/get", json!({"taskId": id})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}
