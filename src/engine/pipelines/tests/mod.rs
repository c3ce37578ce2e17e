//! Runs of pipelines on fake plugins, servers and models, and what makes their results.

mod results;
mod shapes;

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use crate::config::compile::tests::{add_plugin, know, pipeline, pipeline_plan, raw};
use crate::config::input::{Inputs, SourceInput};
use crate::domain::budget::Category;
use crate::domain::item::ItemKind;
use crate::domain::plan::{PipelineBudgets, PipelinePlan};
use crate::domain::plugin::PluginKind;
use crate::domain::version::Era;
use crate::engine::in_flight::run_view::{Run, RunStatus};
use crate::engine::request::CallRequest;
use crate::engine::tests::{Gateway, Heard, apply, bare, caller, request, said, start, until};

/// The inputs of a gateway with the pipeline `sum`, whose agents run these scripts one after another.
fn inputs(scripts: &[&str], change: impl FnOnce(&mut PipelinePlan)) -> Inputs {
    let mut inputs = bare();
    let names: Vec<_> = (0..scripts.len()).map(|index| format!("p{index}")).collect();
    for (name, code) in names.iter().zip(scripts) {
        add_plugin(&mut inputs, name, |plugin| {
            (plugin.kind, plugin.source) = (PluginKind::Phase, SourceInput::Inline((*code).into()));
        });
        know(&mut inputs, code, "index.js", &["execute"]);
    }
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut input = pipeline("default/sum", "sum", &names);
    let plan = pipeline_plan(&mut input.plan);
    plan.budgets = PipelineBudgets { timeout_seconds: 60, max_tool_calls: 1, max_llm_calls: 1, max_input: 1 << 10 };
    plan.max_iterations = 10;
    plan.include = vec!["up__*".into()];
    change(plan);
    inputs.pipelines.push(input);
    inputs
}

async fn gateway(scripts: &[&str], change: impl FnOnce(&mut PipelinePlan)) -> Gateway {
    let gateway = start(&inputs(scripts, change)).await;
    until(|| gateway.in_force.snapshot().routes.public(ItemKind::Tool, "sum").is_some()).await;
    gateway
}

/// Calls the tool of the pipeline.
async fn call(gateway: &Gateway, arguments: &str) -> Value {
    let (caller, heard, arguments) = (caller(Era::Legacy), Heard::default(), raw(arguments));
    let reservation = gateway.budget().reservation(Category::Answer);
    let request = request(&caller, &heard, &reservation, ItemKind::Tool, "sum");
    said(gateway.calls.call(CallRequest { input: Some(&arguments), ..request }).await)
}

/// Runs the pipeline, and returns the result of its tool.
async fn run(scripts: &[&str], change: impl FnOnce(&mut PipelinePlan)) -> Value {
    call(&gateway(scripts, change).await, "{}").await
}

/// Returns the code of the error of a run that failed.
fn code(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    result["_meta"]["hawsepipe.dev/run"]["error"]["code"].as_str().unwrap()
}

fn last_run(gateway: &Gateway) -> Run {
    gateway.gate.in_flight.runs.newest_first()[0].view()
}

#[tokio::test]
async fn the_output_of_the_last_step_is_that_of_the_run() {
    let result = run(&[r#"put {"result":1}"#, r#"put {"output":{"n":2}}"#], |_| {}).await;
    assert_eq!(result["structuredContent"], json!({"n": 2}));
    let steps = &result["_meta"]["hawsepipe.dev/run"]["steps"];
    assert_eq!(*steps, json!([{"name": "a0", "status": "success"}, {"name": "a1", "status": "success"}]));
}

#[tokio::test]
async fn a_run_without_room_for_its_state_ends_with_no_room() {
    let large = format!(r#"put {{"result":"{}"}}"#, "x".repeat(400 << 10));
    let gateway = gateway(&[&large, r#"put {"output":{}}"#], |_| {}).await;
    let held = gateway.budget().reservation(Category::Run);
    held.resize(127 << 20).unwrap();
    assert_eq!(code(&call(&gateway, "{}").await), "NoRoom");
    assert_eq!((last_run(&gateway).status, gateway.budget().refused(Category::Run)), (RunStatus::Failed, 1));
    drop(held);
    assert_eq!(call(&gateway, "{}").await["structuredContent"], json!({}));
    assert_eq!(gateway.budget().held(Category::Run), 0, "a run that has ended holds nothing");
}

#[tokio::test]
async fn a_step_sees_the_results_of_those_before_it() {
    let gateway = gateway(&[r#"put {"result":7}"#, r#"put {"output":{}}"#], |_| {}).await;
    call(&gateway, r#"{"prompt":"why"}"#).await;
    let ran = gateway.plugins.ran.lock().unwrap().clone();
    assert!(ran[0].starts_with("p0 <- [{") && ran[0].contains(r#""query":"why""#), "{ran:?}");
    assert!(ran[1].contains(r#""a0":{"result":7,"status":"success"}"#), "{ran:?}");
}

#[tokio::test]
async fn a_step_that_fails_fails_the_run_and_is_named() {
    let result = run(&["fail Crashed", r#"put {"output":{}}"#], |_| {}).await;
    assert_eq!(code(&result), "Crashed");
    assert_eq!(result["_meta"]["hawsepipe.dev/run"]["error"]["step"], "a0");
}

#[tokio::test]
async fn another_agent_can_follow_a_failure_and_reads_its_reason() {
    let gateway = gateway(&["fail Timeout", r#"put {"output":{"n":1}}"#], |plan| {
        (plan.agents[0].next_on_failure, plan.agents[0].next_on_success) = (Some("a1".into()), None);
    })
    .await;
    assert_eq!(call(&gateway, "{}").await["structuredContent"], json!({"n": 1}));
    let ran = gateway.plugins.ran.lock().unwrap().clone();
    assert!(ran[1].contains(r#""reason":"Timeout""#) && ran[1].contains(r#""status":"failed""#), "{ran:?}");
}

#[tokio::test]
async fn what_a_step_returns_has_a_shape() {
    for (script, expected) in [
        ("put 7", "InvalidOutput"),
        ("put {", "InvalidOutput"),
        (r#"put {"outputs":{}}"#, "InvalidOutput"),
        (r#"put {"state":{"query":"x"}}"#, "InvalidOutput"),
        (r#"put {"sources":[{"url":"javascript:1"}]}"#, "InvalidSource"),
        ("put null", "NoOutput"),
    ] {
        assert_eq!(code(&run(&[script], |_| {}).await), expected, "{script}");
    }
}

#[tokio::test]
async fn arguments_beyond_the_limit_run_no_step() {
    let gateway = gateway(&[r#"put {"output":{}}"#], |plan| plan.budgets.max_input = 10).await;
    assert_eq!(code(&call(&gateway, r#"{"prompt":"too long"}"#).await), "TooLarge");
    assert!(gateway.plugins.ran.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_output_that_does_not_fit_its_schema_is_noted_or_fails_the_run() {
    let schema = r#"{"type":"object","required":["n"],"properties":{"n":{"type":"number"},"sources":{}}}"#;
    for is_strict in [true, false] {
        let result = run(&[r#"put {"output":{"n":"x"}}"#], |plan| {
            (plan.output_schema, plan.synthesizer.is_strict) = (Some(schema.into()), is_strict);
        })
        .await;
        if is_strict {
            assert_eq!(code(&result), "OutputInvalid");
        } else {
            assert_eq!(result["_meta"]["hawsepipe.dev/run"]["validation"]["valid"], false, "{result}");
        }
    }
}

#[tokio::test]
async fn an_output_has_the_sources_of_the_run_and_not_its_own() {
    let script = r#"put {"output":{"sources":["mine"]},"sources":[{"url":"https://e.example/","title":"E"}]}"#;
    let sources = run(&[script], |_| {}).await["structuredContent"]["sources"].clone();
    assert_eq!((&sources[0]["url"], sources.as_array().unwrap().len()), (&json!("https://e.example/"), 1));
}

#[tokio::test]
async fn a_loop_ends_at_the_limit_of_iterations_and_the_run_says_so() {
    let gateway = gateway(&[r#"put {"output":{"n":1}}"#], |plan| {
        plan.agents[0].repeat = Some(("true".into(), "a0".into()));
        plan.max_iterations = 3;
    })
    .await;
    assert_eq!(call(&gateway, "{}").await["_meta"]["hawsepipe.dev/run"]["limited"], true);
    assert_eq!(gateway.plugins.ran.lock().unwrap().len(), 3);
    assert!(last_run(&gateway).limited);
}

#[tokio::test]
async fn a_loop_goes_on_while_its_condition_holds() {
    let gateway = gateway(&[r#"put {"output":{"n":1}}"#], |plan| {
        plan.agents[0].repeat = Some(("agentIteration < 2".into(), "a0".into()));
    })
    .await;
    assert_eq!(call(&gateway, "{}").await["_meta"]["hawsepipe.dev/run"]["limited"], false);
    assert_eq!(gateway.plugins.ran.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_step_calls_the_tools_that_its_pipeline_includes() {
    let said = run(&["step up__read"], |_| {}).await["structuredContent"]["said"].clone();
    assert!(said["content"].is_array(), "{said}");
    let said = run(&["step up__read"], |plan| plan.include = vec!["other__*".into()]).await;
    assert_eq!(said["structuredContent"]["said"]["data"]["reason"], "ToolNotAllowed", "{said}");
}

#[tokio::test]
async fn the_budget_of_tool_calls_is_that_of_all_steps() {
    let gateway = gateway(&["step up__read", "step up__read"], |_| {}).await;
    let result = call(&gateway, "{}").await;
    assert_eq!(result["structuredContent"]["said"]["data"]["reason"], "BudgetExhausted", "{result}");
    assert_eq!((gateway.server.sent.lock().unwrap().len(), last_run(&gateway).tool_calls), (1, 1));
}

#[tokio::test]
async fn each_step_is_recorded_as_an_execution_of_the_pipeline() {
    let gateway = gateway(&[r#"put {"output":{}}"#], |_| {}).await;
    call(&gateway, "{}").await;
    let rows = gateway.records.executions.lock().unwrap();
    assert_eq!((rows[0].chain_id.as_str(), rows[0].plugin.as_str()), ("pipeline:default/sum", "default/p0"));
}

#[tokio::test]
async fn a_run_whose_client_leaves_is_cancelled() {
    let gateway = gateway(&["wait"], |_| {}).await;
    let leaves = tokio::time::timeout(Duration::from_millis(50), call(&gateway, "{}")).await;
    assert!(leaves.is_err());
    let run = last_run(&gateway);
    assert_eq!((run.status, run.ended_at.is_some()), (RunStatus::Cancelled, true));
    assert_eq!(gateway.gate.calls.in_flight(), 0);
}

/// Begins a run whose first step waits, changes the inputs meanwhile, and returns the result of the run.
async fn changed_meanwhile(change: impl FnOnce(&mut Inputs)) -> (Gateway, Value) {
    let scripts = [r#"wait {"result":1}"#, r#"put {"output":{}}"#];
    let (gateway, mut inputs) = (gateway(&scripts, |_| {}).await, inputs(&scripts, |_| {}));
    change(&mut inputs);
    let meanwhile = async {
        until(|| gateway.plugins.ran.lock().unwrap().len() == 1).await;
        apply(&gateway, &inputs).await;
        gateway.plugins.go.notify_one();
    };
    let (result, ()) = tokio::join!(call(&gateway, "{}"), meanwhile);
    (gateway, result)
}

#[tokio::test]
async fn a_pipeline_that_is_deleted_takes_no_further_step() {
    let (gateway, result) = changed_meanwhile(|inputs| inputs.pipelines.clear()).await;
    assert_eq!(code(&result), "Withdrawn");
    assert_eq!(gateway.plugins.ran.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_gateway_that_is_stopped_takes_no_further_step() {
    let scripts = [r#"wait {"result":1}"#, r#"put {"output":{}}"#];
    let gateway = gateway(&scripts, |_| {}).await;
    let meanwhile = async {
        until(|| gateway.plugins.ran.lock().unwrap().len() == 1).await;
        gateway.gate.stop(false);
        gateway.plugins.go.notify_one();
    };
    let (result, ()) = tokio::join!(call(&gateway, "{}"), meanwhile);
    assert_eq!(code(&result), "Stopped");
    assert!(gateway.gate.stopped.load(Ordering::Relaxed) && gateway.plugins.ran.lock().unwrap().len() == 1);
}

#[tokio::test]
async fn an_edit_of_the_pipeline_counts_for_the_next_run() {
    let (gateway, result) = changed_meanwhile(|inputs| {
        pipeline_plan(&mut inputs.pipelines[0].plan).max_iterations = 1;
    })
    .await;
    assert_eq!(result["structuredContent"], json!({}), "the run ends as it began");
    gateway.plugins.go.notify_one();
    assert_eq!(code(&call(&gateway, "{}").await), "NoOutput");
}
