//! Runs of pipelines that go on as tasks, in the form of each era.

use http_body_util::BodyExt;
use hyper::Method;
use hyper::Response;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::super::asked::question;
use super::super::either::{Client, clients_of, clients_with};
use super::super::harness::{Folder, Gateway, SOON};
use super::super::http::Http;
use super::super::identity::issuer::{KeyServer, SigningKey};
use super::super::invocations::Admin;
use super::super::manifests::object;
use super::super::parts::{SDKS, chain, plugin, until};
use super::super::replicas::{KEY, at};
use super::{alone, pipeline, tools};

/// Does what the JSON in the prompt says: waits, asks, fails, and answers with a text.
const WORK: &str = "export async function execute({ arguments: { prompt } }, ctx) {
  const { ms = 0, asks, fails, text } = JSON.parse(prompt);
  await new Promise((resolve) => setTimeout(resolve, ms));
  if (fails) throw new Error('it broke');
  const schema = { type: 'object', properties: { name: { type: 'string' } } };
  return { output: asks ? await ctx.ask({ message: 'Who?', schema }) : { text } };
}";
/// What the results hide.
const MAIL: &str = "ann@example.com";
/// A Guard that takes it out.
const REDACTS: &str = "export default ({ rawContent }) => ({ text: rawContent.replaceAll('ann@example.com', '[gone]'), continue: true });";
/// Longer than a client of the modern era waits for the answer of a run.
const LONG: u64 = 10_500;

fn knows_tasks() -> Value {
    json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// Calls the tool. A client of the legacy era wants a task.
async fn begin(client: &Client, work: Value) -> Value {
    let mut params = json!({"name": "alone", "arguments": {"prompt": work.to_string()}});
    if matches!(client, Client::Legacy(_)) {
        params["task"] = json!({"ttl": 60000});
    }
    client.ask("tools/call", params).await["result"].clone()
}

/// The id of a task that began.
fn id_of(client: &Client, begun: &Value) -> Value {
    let (task, ttl) = match client {
        Client::Legacy(_) => (&begun["task"], "ttl"),
        Client::Modern(..) => (begun, "ttlMs"),
    };
    assert!(task["status"] == "working" && task[ttl].as_u64().is_some_and(|ttl| ttl > 3_600_000), "{begun}");
    assert!(matches!(client, Client::Legacy(_)) || begun["resultType"] == "task", "{begun}");
    json!({"taskId": task["taskId"]})
}

/// Waits until a task has this status, and returns its state.
async fn until_status(client: &Client, id: &Value, status: &str) -> Value {
    let mut state = Value::Null;
    until(status, async || {
        state = client.ask("tasks/get", id.clone()).await["result"].clone();
        assert_eq!(state["taskId"], id["taskId"], "{state}");
        state["status"] == status
    })
    .await;
    state
}

/// The result of a task that has ended.
async fn result_of(client: &Client, id: &Value, state: &Value) -> Value {
    match client {
        Client::Legacy(_) => client.ask("tasks/result", id.clone()).await["result"].clone(),
        Client::Modern(..) => state["result"].clone(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_as_a_task_of_either_era_and_passes_its_guards() {
    let guard = plugin("redacts", REDACTS, "protocol: Module, role: Guard")
        + &chain("redacted", "Response", &["alone"], &["redacts"]);
    let folder = Folder::with(&(pipeline("alone", WORK, "") + &guard));
    let gateway = Gateway::start(&folder);
    until("the tool is listed", async || tools(&gateway).await.contains(&"alone".to_owned())).await;
    let [legacy, modern] = clients_with(&gateway.url(), &knows_tasks()).await;
    let of_era = async |client: &Client, ms: u64| {
        let id = id_of(client, &begin(client, json!({"ms": ms, "text": MAIL})).await);
        let state = client.ask("tasks/get", id.clone()).await["result"].clone();
        assert_eq!(state["status"], "working", "{state}");
        let state = until_status(client, &id, "completed").await;
        assert!(state["createdAt"].as_str() < state["lastUpdatedAt"].as_str(), "{state}");
        let result = result_of(client, &id, &state).await;
        let said = result.to_string();
        assert!(said.contains("[gone]") && !said.contains(MAIL) && !state.to_string().contains(MAIL), "{state} {said}");
        // It can be fetched more than once.
        assert_eq!(result_of(client, &id, &client.ask("tasks/get", id.clone()).await["result"]).await, result);
        (id, result)
    };
    // One that does not declare the extension waits.
    let plain = Client::Modern(Http::new(), gateway.url(), json!({}));
    let waits = async { begin(&plain, json!({"ms": LONG, "text": "x"})).await };
    let ((id, result), _, answer) = tokio::join!(of_era(&legacy, 500), of_era(&modern, LONG), waits);
    assert_eq!(answer["structuredContent"]["text"], "x", "{answer}");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"], id, "{result}");
    assert_eq!(legacy.ask("tasks/cancel", id).await["error"]["code"], -32602, "it has ended");

    // A run that fails, and one that is fast.
    let id = id_of(&legacy, &begin(&legacy, json!({"fails": true})).await);
    let state = until_status(&legacy, &id, "failed").await;
    assert_eq!(result_of(&legacy, &id, &state).await["isError"], true);
    assert_eq!(begin(&modern, json!({"text": "x"})).await["structuredContent"]["text"], "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_run_of_a_task_that_is_cancelled_ends() {
    let (_folder, gateway) = alone(WORK, "").await;
    let [legacy, modern] = clients_with(&gateway.url(), &knows_tasks()).await;
    let begun = tokio::join!(begin(&legacy, json!({"ms": 100_000})), begin(&modern, json!({"ms": 100_000})));
    for (client, begun) in [(&legacy, begun.0), (&modern, begun.1)] {
        let id = id_of(client, &begun);
        let cancelled = client.ask("tasks/cancel", id.clone()).await["result"].clone();
        match client {
            Client::Legacy(_) => {
                assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
                assert_eq!(client.ask("tasks/result", id.clone()).await["error"]["code"], -32800);
            }
            Client::Modern(..) => assert_eq!(cancelled, json!({"resultType": "complete"})),
        }
        let state = until_status(client, &id, "cancelled").await;
        assert_eq!((&state["result"], &state["error"]), (&Value::Null, &Value::Null), "{state}");
    }
    let admin = Admin::of(&gateway);
    until("both runs are cancelled", async || {
        admin.get("runs?status=cancelled").await["items"].as_array().is_some_and(|runs| runs.len() == 2)
    })
    .await;
}

/// Waits for the result of a task of a session, and answers what that asks.
async fn answered(client: &Client, id: &Value) -> Value {
    let Client::Legacy(session) = client else { panic!("it has no session") };
    let request = json!({"jsonrpc": "2.0", "id": 9, "method": "tasks/result", "params": id}).to_string();
    let mut stream: Response<Incoming> =
        session.http.open(Method::POST, &session.url, &session.headers(), request).await;
    let asked = question(&mut stream).await;
    assert_eq!(asked["params"]["message"], "Who?", "{asked}");
    assert_eq!(asked["params"]["_meta"]["io.modelcontextprotocol/related-task"], *id, "{asked}");
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    let answer = session.send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}).to_string()).await;
    assert_eq!(answer.status, 202);
    let read = tokio::time::timeout(SOON, stream.into_body().collect()).await.expect("it waits on").unwrap();
    let text = String::from_utf8(read.to_bytes().to_vec()).unwrap();
    let last = text.lines().rfind(|line| line.starts_with("data: {")).unwrap_or_else(|| panic!("{text}"));
    serde_json::from_str::<Value>(&last["data: ".len()..]).unwrap()["result"]["structuredContent"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_asks_its_client() {
    let (_folder, gateway) = alone(WORK, "").await;
    let [legacy, modern] = clients_with(&gateway.url(), &knows_tasks()).await;
    let ada = json!({"action": "accept", "content": {"name": "Ada"}});
    let in_session = async {
        let id = id_of(&legacy, &begin(&legacy, json!({"asks": true})).await);
        until_status(&legacy, &id, "input_required").await;
        assert_eq!(answered(&legacy, &id).await, ada);
        until_status(&legacy, &id, "completed").await;
    };
    let without = async {
        let id = id_of(&modern, &begin(&modern, json!({"asks": true, "ms": LONG})).await);
        let state = until_status(&modern, &id, "input_required").await;
        let (key, asked) = state["inputRequests"].as_object().unwrap().iter().next().unwrap();
        assert_eq!((&asked["method"], &asked["params"]["message"]), (&json!("elicitation/create"), &json!("Who?")));
        let update = json!({"taskId": id["taskId"], "inputResponses": {key: ada}});
        assert_eq!(modern.ask("tasks/update", update).await["result"], json!({"resultType": "complete"}));
        let state = until_status(&modern, &id, "completed").await;
        assert_eq!(state["result"]["structuredContent"], ada, "{state}");
    };
    let before = async {
        // What is asked earlier is the result of the call, and the call that brings the answer can become a task.
        let params = json!({"name": "alone", "arguments": {"prompt": r#"{"asks":true}"#}});
        let asks = modern.ask("tools/call", params.clone()).await["result"].clone();
        assert_eq!((&asks["resultType"], &asks["taskId"]), (&json!("input_required"), &Value::Null), "{asks}");
        let mut params = params;
        params["requestState"] = asks["requestState"].clone();
        params["inputResponses"] = json!({"input-1": ada});
        assert_eq!(modern.ask("tools/call", params).await["result"]["structuredContent"], ada);
    };
    let by_sdk = async {
        let (url, answers) = (gateway.url(), json!({"elicitation": ada}).to_string());
        let run =
            move || SDKS[3].run(&url, &["task", "alone", r#"{"prompt":"{\"asks\":true}"}"#, "--answers", &answers], "");
        let lines = tokio::task::spawn_blocking(run).await.unwrap();
        let (first, last) = (&lines[0], lines.last().unwrap());
        assert_eq!((&first["type"], &last["type"]), (&json!("taskCreated"), &json!("result")), "{lines:?}");
        assert_eq!(last["result"]["structuredContent"], ada, "{lines:?}");
    };
    tokio::join!(in_session, without, before, by_sdk);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_task_of_a_run_belongs_to_its_client_and_is_offered_in_each_era() {
    let (folder, gateway) = alone(WORK, "").await;
    let [legacy, modern] = clients_with(&gateway.url(), &knows_tasks()).await;
    let [other, _] = clients_with(&gateway.url(), &knows_tasks()).await;
    let [_, elsewhere] = clients_with(&gateway.url_of("alone"), &knows_tasks()).await;
    let begun = tokio::join!(begin(&legacy, json!({"text": "x"})), begin(&modern, json!({"ms": 10_200, "text": "x"})));
    let (id, modern_id) = (id_of(&legacy, &begun.0), id_of(&modern, &begun.1));
    for (client, id) in [(&other, &id), (&modern, &id), (&legacy, &modern_id), (&elsewhere, &modern_id)] {
        for method in ["tasks/get", "tasks/cancel"] {
            assert_eq!(client.ask(method, id.clone()).await["error"]["code"], -32602, "{method}");
        }
    }
    let plain = Client::Modern(Http::new(), gateway.url(), json!({}));
    assert_eq!(plain.ask("tasks/get", modern_id.clone()).await["error"]["code"], -32021);
    until_status(&modern, &modern_id, "completed").await;

    let listed = legacy.ask("tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"][0]["execution"], json!({"taskSupport": "optional"}), "{listed}");
    let said = modern.ask("server/discover", json!({})).await["result"]["capabilities"].clone();
    assert!(said["extensions"]["io.modelcontextprotocol/tasks"].is_object() && said["tasks"].is_null(), "{said}");

    // Without the pipeline, nobody can fetch what it has answered, but whoever has begun a run can end it.
    let long = id_of(&legacy, &begin(&legacy, json!({"ms": 100_000})).await);
    std::fs::remove_file(folder.path().join("manifests.yaml")).unwrap();
    for (client, id) in [(&legacy, &id), (&modern, &modern_id)] {
        until("the task is gone", async || {
            client.ask("tasks/get", id.clone()).await["error"]["data"]["reason"] == "TaskGone"
        })
        .await;
    }
    assert_eq!(legacy.ask("tasks/cancel", long).await["result"]["status"], "cancelled");
}

/// The pipeline, at a gateway whose tools are for the staff.
fn for_staff(issuer: &KeyServer) -> String {
    let rules = json!({"rules": [{"name": "staff", "effect": "Allow", "when": r#""staff" in identity.groups"#}]});
    let spec = json!({"authentication": issuer.authentication(), "authorization": rules});
    pipeline("alone", WORK, "") + "\n---\n" + &object("MCPGateway", "main", &spec).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_replica_leads_to_the_task_of_a_run() {
    // The replica that has the task knows only by the other one that the client is of the staff.
    let key = SigningKey::new("one");
    let issuer = KeyServer::start(&[&key]);
    let (folder, keys) = (Folder::with(&for_staff(&issuer)), Folder::new());
    keys.write("key", KEY);
    let file = keys.path().join("key");
    let start = || Gateway::start_with(&folder, &["--seal-key-file", file.to_str().unwrap()]);
    let replicas = [start(), start()];
    let of = |groups: Value| Http::bearing(&key.token(&json!({ "groups": groups })));
    let staff = of(json!(["staff"]));
    for replica in &replicas {
        let client = Client::Modern(staff.clone(), replica.url(), knows_tasks());
        until("the tool is listed", async || client.ask("tools/list", json!({})).await.to_string().contains("alone"))
            .await;
    }
    let [legacy, modern] = clients_of(staff.clone(), &replicas[0].url(), &knows_tasks()).await;
    let Client::Legacy(session) = &legacy else { panic!("it has no session") };
    let there = Client::Legacy(at(session, &replicas[1]));
    let other = Client::Modern(staff.clone(), replicas[1].url(), knows_tasks());
    let guest = Client::Modern(of(json!([])), replicas[1].url(), knows_tasks());
    let in_session = async {
        let id = id_of(&legacy, &begin(&legacy, json!({"asks": true})).await);
        until_status(&there, &id, "input_required").await;
        assert_eq!(answered(&there, &id).await["content"]["name"], "Ada");
    };
    let without = async {
        let id = id_of(&modern, &begin(&modern, json!({"ms": LONG, "text": "x"})).await);
        let state = until_status(&other, &id, "completed").await;
        assert_eq!(state["result"]["structuredContent"]["text"], "x", "{state}");
        let gone = guest.ask("tasks/get", id.clone()).await;
        assert_eq!(gone["error"]["data"]["reason"], "TaskGone", "the same subject, who has lost the right: {gone}");
        id
    };
    let ((), id) = tokio::join!(in_session, without);
    let [first, _second] = replicas;
    first.end();
    let gone = other.ask("tasks/get", id).await;
    let found = (&gone["error"]["code"], &gone["error"]["data"]["reason"]);
    assert_eq!(found, (&json!(-32602), &json!("TaskGone")), "{gone}");
}
