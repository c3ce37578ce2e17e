//! Agents, their order, and what they write.

use hyper::Method;
use serde_json::{Value, json};

use super::super::super::harness::{Folder, Gateway};
use super::super::super::http::{Http, call_body, call_headers};
use super::super::super::invocations::Admin;
use super::super::super::parts::{object, plugin, tools_of};
use super::super::call;
use super::super::models::{models, requests, secret, stand_in};

/// Fails if the prompt names its step, else notes its step and its configuration.
const NOTE: &str = "export async function* execute({ query, pluginData: { notes = [] } }, { config, run }) {
  yield `at ${run.step}`;
  if (query === run.step) throw new Error('it was named');
  const all = [...notes, `${run.step}${config?.mark ?? ''}`];
  return { state: { pluginData: { notes: all } }, output: { all }, result: { n: all.length } };
}";
const FLOW: &str = "tool: {name: flow, description: A test.}, declared: {startAgent: one, agents: [
  {name: one, type: custom, plugin: {name: note}, nextOnSuccess: two, nextOnFailure: rescue},
  {name: two, type: custom, plugin: {name: note}, config: {mark: '!'}, nextOnSuccess: idle,
   loopCondition: result.n < 5, loopBackTo: one},
  {name: idle, type: custom, plugin: {name: note}, enabled: false, nextOnSuccess: rescue},
  {name: rescue, type: custom, plugin: {name: note}, modelTier: complex}],
  insertPhases: [{name: before, plugin: {name: note}, before: two}, {name: after, plugin: {name: note}, after: two}],
  customizations: [{name: light, when: 'call.arguments.depth == \"light\"', disabledAgents: [two],
    agentOverrides: [{agent: rescue, config: {mark: '?'}}],
    insertPhases: [{name: extra, plugin: {name: note}, after: one}]}]}";
const REPORT: &str = "tool: {name: report, description: A test.}, declared: {startAgent: write,
  agents: [{name: write, type: synthesizer}]}";
const PLAIN: &str =
    "tool: {name: plain, description: A test.}, declared: {agents: [{name: coordinator, type: coordinator}]}";

#[tokio::test]
async fn rows_about_declared_pipelines() {
    let folder = Folder::new();
    let (_model, url) = stand_in(&folder, &json!([]));
    let models = models(&url, &["analytical", "complex"]);
    let with_models = |spec: &str| format!("{spec}, {models}");
    let manifests = [
        secret(),
        plugin("note", NOTE, "type: phase"),
        object("ToolPipeline", "flow", &with_models(FLOW)),
        object("ToolPipeline", "report", &with_models(REPORT)),
        object("ToolPipeline", "plain", &with_models(PLAIN)),
    ];
    folder.write("manifests.yaml", &manifests.concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["flow", "report", "plain"]).await;
    agent_config(&gateway).await;
    pipeline_config(&gateway).await;
    execution_flow(&gateway).await;
    pipeline_customization(&gateway).await;
    custom_phase_execute(&gateway).await;
    synthesis_report(&gateway).await;
    synthesizer_config(&url).await;
}

/// The steps of a run of the pipeline `flow`, each with its status.
async fn steps(gateway: &Gateway, arguments: &Value) -> String {
    let answer = call(gateway, "flow", arguments).await;
    let steps = answer["_meta"]["hawsepipe.dev/run"]["steps"].as_array().unwrap().clone();
    let named = steps.iter().map(|step| match step["status"] == "success" {
        true => step["name"].as_str().unwrap().to_owned(),
        false => format!("({})", step["name"].as_str().unwrap()),
    });
    named.collect::<Vec<_>>().join(" ")
}

async fn agent_config(gateway: &Gateway) {
    let pipeline = Admin::of(gateway).get("pipelines/flow").await;
    let step = |name: &str| pipeline["steps"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
    let (one, two, rescue) = (step("one"), step("two"), step("rescue"));
    assert_eq!((&one["type"], &one["nextOnFailure"]), (&json!("custom"), &json!("rescue")), "{one}");
    assert_eq!((&two["loopCondition"], &two["loopBackTo"]), (&json!("result.n < 5"), &json!("one")), "{two}");
    assert_eq!((&step("idle")["enabled"], &rescue["modelRole"]), (&json!(false), &json!("complex")), "{rescue}");
    let plain = Admin::of(gateway).get("pipelines/plain").await;
    assert_eq!(plain["steps"][0]["modelRole"], "analytical", "the default: {plain}");
}

async fn pipeline_config(gateway: &Gateway) {
    let plain = Admin::of(gateway).get("pipelines/plain").await;
    assert_eq!((&plain["tool"], &plain["startAgent"]), (&json!("plain"), &json!("coordinator")), "{plain}");
    let budgets = &plain["budgets"];
    assert_eq!((&budgets["maxIterations"], &budgets["timeoutSeconds"]), (&json!(15), &json!(300)), "{plain}");
}

async fn execution_flow(gateway: &Gateway) {
    // The loop goes on while fewer than five notes are there, and the agent that is disabled is passed over.
    let whole = "one before two after one before two after rescue";
    assert_eq!(steps(gateway, &json!({"prompt": "x"})).await, whole);
    assert_eq!(steps(gateway, &json!({"prompt": "one"})).await, "(one) rescue");
    assert_eq!(steps(gateway, &json!({"prompt": "two"})).await, "one before (two)", "no agent follows its failure");
    let failed = "one (before) two after one (before) two after rescue";
    assert_eq!(steps(gateway, &json!({"prompt": "before"})).await, failed, "a phase that fails ends nothing");
}

async fn pipeline_customization(gateway: &Gateway) {
    let answer = call(gateway, "flow", &json!({"prompt": "x", "depth": "light"})).await;
    assert_eq!(answer["structuredContent"]["all"], json!(["one", "extra", "rescue?"]), "{answer}");
}

async fn custom_phase_execute(gateway: &Gateway) {
    let body = call_body("flow", r#"{"prompt": "one"}"#, &json!({"progressToken": "p"}));
    let answer = Http::new().send(Method::POST, &gateway.url(), &call_headers("flow"), body).await;
    let events = answer.body.lines().filter_map(|line| line.strip_prefix("data:"));
    let events: Vec<Value> = events.map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown: Vec<_> = events.iter().filter_map(|event| event["params"]["message"].as_str()).collect();
    assert_eq!(shown, ["one", "at one", "rescue", "at rescue"], "{}", answer.body);
}

async fn synthesis_report(gateway: &Gateway) {
    let answer = call(gateway, "report", &json!({"prompt": "x"})).await;
    let report = json!({"title": "[stand-in] title", "executive_summary": "[stand-in] executive_summary", "sections": [],
        "key_findings": [], "sources": [], "metadata": {}});
    assert_eq!(answer["structuredContent"], report, "{answer}");
}

/// The request of the report has the defaults.
async fn synthesizer_config(url: &str) {
    let sent = requests(url).await;
    let body = &sent.iter().find(|sent| sent["step"] == "write").unwrap()["body"];
    assert_eq!((&body["max_tokens"], &body["temperature"]), (&json!(8000), &json!(0.7)), "{body}");
    assert_eq!(body["response_format"]["type"], "json_schema", "{body}");
}
