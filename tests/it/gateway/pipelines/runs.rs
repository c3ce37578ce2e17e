//! Pipelines and their runs, as the admin API and the commands show them.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway, run};
use super::super::http::Http;
use super::super::invocations::Admin;
use super::super::parts::{everything, object, plugin, until};
use super::{alone, call, pipeline, tools};

/// Runs a command about a gateway, and returns its exit code and what it prints.
pub(super) fn said(gateway: &Gateway, command: &[&str]) -> (i32, String) {
    let admin = gateway.admin();
    let output = run(&[command, &["--admin", admin.as_str()]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or(-1), text)
}

/// Waits until there is a run of this status, and returns its id.
pub(super) async fn run_of(gateway: &Gateway, status: &str) -> String {
    let admin = Admin::of(gateway);
    let mut id = None;
    until("there is such a run", async || {
        let runs = admin.get(&format!("runs?status={status}")).await;
        id = runs["items"][0]["id"].as_str().map(str::to_owned);
        id.is_some()
    })
    .await;
    id.unwrap()
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one gateway answers all of it")]
async fn runs_show_steps_and_counts_and_no_text() {
    let code = "export async function execute({ arguments: { prompt } }, ctx) {
      const echo = await ctx.callTool('math__echo', { message: 'canary ' + prompt });
      await ctx.sources.add({ url: 'https://example.com/a', title: 'A canary' });
      if (prompt === 'fail') throw new Error('a canary broke');
      return { output: { text: echo.content[0].text } };
    }";
    let manifests = everything("math") + &pipeline("work", code, "tools: {include: [math__echo, math__nothing]}");
    let folder = Folder::with(&manifests);
    let gateway = Gateway::start(&folder);
    until("the tools are listed", async || {
        let listed = tools(&gateway).await;
        ["work", "math__echo"].iter().all(|tool| listed.iter().any(|listed| listed == tool))
    })
    .await;
    let answer = call(&gateway, "work", &json!({"prompt": "x"})).await;
    assert_eq!(answer["structuredContent"]["text"], "Echo: canary x", "{answer}");
    let failed = call(&gateway, "work", &json!({"prompt": "fail"})).await;
    assert_eq!(failed["isError"], true, "{failed}");

    let admin = Admin::of(&gateway);
    let runs = admin.get("runs?pipeline=work").await;
    assert!(!runs.to_string().contains("canary"), "{runs}");
    let (last, first) = (&runs["items"][0], &runs["items"][1]);
    assert_eq!((&last["status"], &last["reason"]), (&json!("failed"), &json!("PluginError")), "{runs}");
    assert_eq!((&first["status"], &first["toolCalls"], &first["sources"]), (&json!("completed"), &json!(1), &json!(1)));
    assert_eq!((&first["steps"][0]["name"], &first["steps"][0]["reason"]), (&json!("main"), &Value::Null), "{runs}");
    assert_eq!(last["steps"][0]["reason"], "PluginError", "{runs}");
    assert_eq!(first["id"], answer["_meta"]["hawsepipe.dev/run"]["id"]);
    assert_eq!(admin.get("runs?status=completed").await["items"].as_array().unwrap().len(), 1);
    assert_eq!(admin.get("runs?pipeline=other").await["items"], json!([]));
    assert_eq!(admin.get("runs/no-such").await["error"]["reason"], "RunNotFound");

    let id = first["id"].as_str().unwrap();
    let (code, shown) = said(&gateway, &["runs", "show", id]);
    assert!(code == 0 && shown.contains("default/work: completed") && shown.contains("1 tool calls"), "{shown}");
    let (code, shown) = said(&gateway, &["runs", "show", last["id"].as_str().unwrap(), "-o", "json"]);
    assert!(code == 1 && shown.contains("\"reason\": \"PluginError\""), "{shown}");
    let (code, shown) = said(&gateway, &["runs", "list", "--pipeline", "wrok"]);
    assert!(code == 1 && shown.contains("did you mean work?"), "{shown}");
    let (code, shown) = said(&gateway, &["runs", "list", "-o", "wide"]);
    assert!(code == 0 && shown.contains(id) && shown.contains("anonymous"), "{shown}");

    let (code, shown) = said(&gateway, &["pipelines", "list"]);
    assert!(code == 0 && shown.contains("default/work") && shown.contains("ready"), "{shown}");
    let (code, shown) = said(&gateway, &["pipelines", "explain", "work"]);
    let wanted = ["tools: math__echo\n", "matches no tool now: math__nothing", "default/work-code", "20 tool calls"];
    assert!(code == 0 && wanted.iter().all(|wanted| shown.contains(wanted)), "{shown}");
    let (code, shown) = said(&gateway, &["pipelines", "explain", "default/work", "-o", "yaml"]);
    assert!(code == 0 && shown.contains("startAgent: main"), "{shown}");
    let (code, shown) = said(&gateway, &["pipelines", "explain", "wrok"]);
    assert!(code == 1 && shown.contains("did you mean work?"), "{shown}");
}

#[tokio::test]
async fn pipelines_explain_shows_the_steps_of_a_call_and_runs_nothing() {
    let spec = "tool: {name: work, description: A test.}, declared: {startAgent: first, agents: [
      {name: first, type: custom, plugin: {name: p}, nextOnSuccess: check},
      {name: check, type: custom, plugin: {name: p}, nextOnSuccess: last, loopCondition: 'true', loopBackTo: first},
      {name: last, type: custom, plugin: {name: p}}],
      insertPhases: [{name: facts, plugin: {name: p}, after: last}],
      customizations: [{name: light, when: 'call.arguments.depth == \"light\"', disabledAgents: [check],
        insertPhases: [{name: notes, plugin: {name: p}, before: last}]}]}";
    let folder = Folder::with(
        &(plugin("p", "export const execute = () => {};", "type: phase") + &object("ToolPipeline", "work", spec)),
    );
    let gateway = Gateway::start(&folder);
    let explained = |arguments: &[&str]| {
        let (code, text) = said(&gateway, &[&["pipelines", "explain", "work", "-o", "json"], arguments].concat());
        let view: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{code} {text}"));
        let steps = view["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap().to_owned());
        (steps.collect::<Vec<_>>().join(" "), view["customizations"][0]["applies"].clone())
    };
    assert_eq!(explained(&[]), ("first check last facts".to_owned(), Value::Null));
    assert_eq!(explained(&["{}"]), ("first check last facts".to_owned(), json!(false)));
    assert_eq!(explained(&[r#"{"depth": "light"}"#]), ("first notes last facts".to_owned(), json!(true)));
    let (code, shown) = said(&gateway, &["pipelines", "explain", "work", r#"{"depth": "light"}"#]);
    assert!(code == 0 && shown.contains("customization light (applies): when call.arguments.depth"), "{shown}");
    let (code, shown) = said(&gateway, &["pipelines", "explain", "work", "[1]"]);
    assert!(code == 1 && shown.contains("arguments must be a JSON object"), "{shown}");
    assert_eq!(Admin::of(&gateway).get("runs").await["items"], json!([]));
}

#[tokio::test]
async fn runs_cancel_ends_a_run_and_follow_shows_its_end() {
    let code = "export async function execute() { await new Promise(() => {}); }";
    let (_folder, gateway) = alone(code, "").await;
    let calling = async { call(&gateway, "alone", &json!({"prompt": "x"})).await };
    let ending = async {
        let id = run_of(&gateway, "working").await;
        let (admin, follow) = (gateway.admin(), id.clone());
        let following =
            tokio::task::spawn_blocking(move || run(&["runs", "show", &follow, "--follow", "--admin", &admin]));
        tokio::time::sleep(Duration::from_millis(300)).await;
        let (status, cancelled) = Admin::of(&gateway).post(&format!("runs/{id}/cancel"), json!({})).await;
        assert_eq!((status, &cancelled["status"]), (200, &json!("cancelled")), "{cancelled}");
        let followed = following.await.unwrap();
        let shown = String::from_utf8_lossy(&followed.stdout).into_owned();
        assert!(followed.status.code() == Some(1) && shown.contains("default/alone: cancelled"), "{shown}");
        let (code, shown) = said(&gateway, &["runs", "cancel", &id]);
        assert!(code == 0 && shown.contains("cancelled"), "what has ended stays as it is: {shown}");
    };
    tokio::join!(calling, ending);
}

#[tokio::test]
async fn runs_answer_answers_a_question_in_the_place_of_the_user() {
    let code = "export async function execute(state, ctx) {
      const schema = { type: 'object', properties: { name: { type: 'string' } } };
      return { output: await ctx.ask({ message: 'Who?', schema }) };
    }";
    let (_folder, gateway) = alone(code, "").await;
    // This client gets the question and never answers it.
    let session = Http::new().initialize_with(&gateway.url(), &json!({"elicitation": {}})).await;
    let calling = session.call_raw(7, "alone", r#"{"prompt": "x"}"#);
    let answering = async {
        let id = run_of(&gateway, "input_required").await;
        let (_, shown) = said(&gateway, &["runs", "show", &id]);
        assert!(shown.contains("asks: Who?"), "{shown}");
        assert!(!Admin::of(&gateway).get("runs").await.to_string().contains("Who?"), "lists have no questions");
        for (answer, words) in [(r#"{"name": 1}"#, "content/name"), (r#"{"nmae": "Ada"}"#, "the schema has name")] {
            let (code, shown) = said(&gateway, &["runs", "answer", &id, answer]);
            assert!(code == 1 && shown.contains("does not fit the question") && shown.contains(words), "{shown}");
        }
        let (code, shown) = said(&gateway, &["runs", "answer", &id, r#"{"name": "Ada"}"#]);
        assert!(code == 0, "{shown}");
        id
    };
    let (answer, id) = tokio::join!(calling, answering);
    let result = answer.result();
    assert!(
        result.contains("\"structuredContent\":{\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}}"),
        "{result}"
    );
    let ended = Admin::of(&gateway).get(&format!("runs/{id}")).await;
    assert_eq!((&ended["status"], &ended["question"]), (&json!("completed"), &Value::Null), "{ended}");
    let (code, shown) = said(&gateway, &["runs", "answer", &id, "--decline"]);
    assert!(code == 1 && shown.contains("waits for no answer"), "{shown}");
}

#[tokio::test]
async fn runs_that_wait_for_their_users_leave_room_for_others() {
    let code = "export async function execute(state, ctx) {
      const schema = { type: 'object', properties: { name: { type: 'string' } } };
      return { output: await ctx.ask({ message: 'Who?', schema }) };
    }";
    let (_folder, gateway) = alone(code, "").await;
    let calling = join_all((0..12).map(async |id| {
        let session = Http::new().initialize_with(&gateway.url(), &json!({"elicitation": {}})).await;
        session.call_raw(id, "alone", r#"{"prompt": "x"}"#).await.result()
    }));
    let answering = async {
        let admin = Admin::of(&gateway);
        let mut waiting = Vec::new();
        until("all runs wait", async || {
            let runs = admin.get("runs?status=input_required").await;
            waiting = runs["items"].as_array().cloned().unwrap_or_default();
            waiting.len() == 12
        })
        .await;
        for run in waiting {
            let id = run["id"].as_str().unwrap();
            let (code, shown) = said(&gateway, &["runs", "answer", id, r#"{"name": "Ada"}"#]);
            assert!(code == 0, "{shown}");
        }
    };
    let (results, ()) = tokio::join!(calling, answering);
    assert!(results.iter().all(|result| result.contains("Ada")), "{results:?}");
}
