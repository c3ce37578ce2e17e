//! The calls of sessions, the stop switch of the admin API, and the health of upstreams (document 003, ExecutionTracker and
//! ServerHealthStatus).

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, run};
use super::http::Http;
use super::invocations::{Admin, err, manifests, out, text_of};
use super::parts::{everything, object, tools_of, until};

/// The session of the admin API with this id, or the first session of a client.
async fn session(admin: &Admin, id: Option<&str>) -> Value {
    let sessions = admin.get("sessions").await;
    let wanted = |session: &&Value| id.map_or(session["client"].is_string(), |id| session["id"] == id);
    sessions["items"].as_array().unwrap().iter().find(wanted).unwrap_or_else(|| panic!("{sessions}")).clone()
}

#[tokio::test]
async fn a_session_has_its_calls_and_one_can_be_cancelled() {
    let folder = Folder::with(&manifests());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything", "second"]).await;
    let (admin, http) = (Admin::of(&gateway), Http::new());
    let client = http.initialize(&gateway.url()).await;
    client.call_raw(1, "everything__echo", r#"{"message":"hi"}"#).await;
    client.call_raw(2, "everything__echo", r#"{"message":"forbidden"}"#).await;
    let tracked = session(&admin, None).await;
    assert_eq!((&tracked["concurrentLimit"], &tracked["sessionLimit"]), (&json!(2), &json!(-1)), "{tracked}");
    assert_eq!((&tracked["totalExecuted"], &tracked["stopped"]), (&json!(2), &json!(false)), "{tracked}");
    let history = tracked["executionHistory"].as_array().unwrap();
    let short: Vec<_> =
        history.iter().map(|call| [&call["serverId"], &call["toolName"], &call["status"]].map(text_of)).collect();
    assert_eq!(short, [["everything", "echo", "error"], ["everything", "echo", "success"]], "{tracked}");
    assert!(history[0]["duration"].as_f64().unwrap() > 0.0 && history[0]["timestamp"].is_u64());

    let long = r#"{"duration":25,"steps":1}"#;
    let call = async move { client.call_raw(3, "second__trigger-long-running-operation", long).await.json() };
    let running = tokio::spawn(call);
    let active = async || session(&admin, None).await["activeExecutions"].as_array().unwrap().clone();
    until("the call is active", async || active().await.len() == 1).await;
    let call = text_of(&active().await[0]).to_owned();
    let address = gateway.admin();
    let cancelled = run(&["cancel", &call, "--admin", &address]);
    assert_eq!(out(&cancelled), format!("call {call}: cancelled\n"), "{}", err(&cancelled));
    let answer = running.await.unwrap();
    assert_eq!(answer["error"]["code"], -32800, "{answer}");
    assert!(active().await.is_empty());
    let gone = run(&["cancel", &call, "--admin", &address]);
    assert!(gone.status.code() == Some(1) && err(&gone).contains("no call"), "{}", err(&gone));
}

#[tokio::test]
async fn one_session_can_be_stopped() {
    let folder = Folder::with(&manifests());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything", "second"]).await;
    let (admin, http, address) = (Admin::of(&gateway), Http::new(), gateway.admin());
    let client = http.initialize(&gateway.url()).await;
    let id = text_of(&session(&admin, None).await["id"]).to_owned();
    let stopped = run(&["stop", &id, "--admin", &address]);
    assert!(out(&stopped).contains("is stopped"), "{}", err(&stopped));
    let refused = client.call_raw(4, "everything__echo", r#"{"message":"hi"}"#).await.json();
    assert_eq!(refused["error"]["data"]["reason"], "Stopped", "{refused}");
    let other =
        http.initialize(&gateway.url()).await.call_raw(1, "everything__echo", r#"{"message":"hi"}"#).await.json();
    assert_eq!(other["result"]["content"][0]["text"], "Echo: hi", "other sessions go on: {other}");
    assert!(run(&["resume", &id, "--admin", &address]).status.success());
    let again = client.call_raw(5, "everything__echo", r#"{"message":"hi"}"#).await.json();
    assert_eq!(again["result"]["content"][0]["text"], "Echo: hi", "{again}");
}

#[tokio::test]
async fn a_stop_by_the_admin_api_survives_a_new_plan() {
    let folder = Folder::with(&manifests());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything", "second"]).await;
    let (admin, address) = (Admin::of(&gateway), gateway.admin());
    let echo = json!({"toolName": "echo", "parameters": {"message": "hi"}});
    let long = json!({"serverId": "second", "toolName": "trigger-long-running-operation", "parameters": {"duration": 2, "steps": 1}});
    let running = admin.post("invocations", long.clone()).await.1["id"].as_str().unwrap().to_owned();
    let executes = async |id: &str| admin.get(&format!("invocations/{id}")).await["status"] == "executing";
    until("the call runs", async || executes(&running).await).await;
    let stopped = run(&["stop", "--admin", &address]);
    assert_eq!(out(&stopped), "the gateway is stopped (admin API): new calls are refused\n", "{}", err(&stopped));
    assert_eq!(admin.invoke(echo.clone()).await["error"]["data"]["reason"], "Stopped");
    let ended = admin.get(&format!("invocations/{running}?wait=20")).await;
    assert_eq!(ended["status"], "success", "a call that runs goes on to its end: {ended}");

    folder.write("manifests.yaml", &manifests().replace("concurrentCalls: 2", "concurrentCalls: 3"));
    assert!(run(&["wait", "--admin", &address]).status.success());
    let local = session(&admin, Some("local")).await;
    assert_eq!(local["concurrentLimit"], 3, "the new plan is in force: {local}");
    assert_eq!(admin.invoke(echo.clone()).await["error"]["data"]["reason"], "Stopped");
    let status = out(&run(&["status", "--admin", &address]));
    assert!(status.contains("every call is refused (admin API)"), "{status}");
    assert_eq!(out(&run(&["resume", "--admin", &address])), "the gateway takes calls\n");
    assert_eq!(admin.invoke(echo.clone()).await["status"], "success");

    let running = admin.post("invocations", long).await.1["id"].as_str().unwrap().to_owned();
    until("the call runs", async || executes(&running).await).await;
    assert!(run(&["stop", "--cancel", "--admin", &address]).status.success());
    let ended = admin.get(&format!("invocations/{running}?wait=20")).await;
    assert_eq!(
        (&ended["status"], &ended["error"]["data"]["reason"]),
        (&json!("cancelled"), &json!("Stopped")),
        "{ended}"
    );
    assert!(run(&["resume", "--admin", &address]).status.success());
    assert_eq!(admin.invoke(echo).await["status"], "success");
}

#[tokio::test]
async fn the_health_of_a_server_has_its_retries() {
    let health = "health: {retryBackoffMs: [100, 200, 600000], autoRecover: false}";
    let down = object("MCPUpstream", "down", &format!("external: {{url: 'http://127.0.0.1:9/mcp'}}, {health}"));
    let quick = health.replace("600000", "300");
    let out_of = object("MCPUpstream", "lost", &format!("external: {{url: 'http://127.0.0.1:9/mcp'}}, {quick}"));
    let folder = Folder::with(&(down + &out_of + &everything("everything")));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything"]).await;
    let admin = Admin::of(&gateway);
    let of = async |name: &str| {
        let upstreams = admin.get("upstreams").await;
        upstreams["items"].as_array().unwrap().iter().find(|upstream| upstream["name"] == name).unwrap().clone()
    };
    let retries = async |name: &str| of(name).await["retryState"].clone();
    let waits = |retry: &Value| retry["currentAttempt"] == 2 && retry["isRetrying"] == true;
    until("it waits for the last retry", async || waits(&retries("down").await)).await;
    let down = of("down").await;
    let retry = &down["retryState"];
    assert_eq!((&retry["isRetrying"], &retry["currentAttempt"]), (&json!(true), &json!(2)), "{down}");
    assert_eq!(
        (&retry["backoffIntervals"], &down["autoDisabledAt"]),
        (&json!([100, 200, 600_000]), &json!(null)),
        "{down}"
    );
    assert!(retry["nextRetryAt"].is_u64() && down["connectionState"] == "Error", "{down}");
    let has_ended = |retry: &Value| retry["currentAttempt"] == 3 && retry["nextRetryAt"].is_null();
    until("it is out of routing", async || has_ended(&retries("lost").await)).await;
    let lost = of("lost").await;
    let retry = &lost["retryState"];
    assert_eq!(
        (&retry["isRetrying"], &retry["currentAttempt"], &retry["nextRetryAt"]),
        (&json!(false), &json!(3), &json!(null)),
        "{lost}"
    );
    assert!(lost["autoDisabledAt"].is_u64(), "{lost}");
    let up = of("everything").await;
    assert_eq!((&up["retryState"]["isRetrying"], &up["consecutiveFailures"]), (&json!(false), &json!(0)), "{up}");
    assert!(up["lastPingAt"].is_u64() && up["pingLatency"].is_f64(), "{up}");
    let wide = out(&run(&["status", "-o", "wide", "--admin", &gateway.admin()]));
    assert!(wide.contains("RETRY") && wide.contains("2/3 at ") && wide.contains("DISABLED AT"), "{wide}");
}
