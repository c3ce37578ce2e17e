//! A real Prometheus beside a gateway with pipelines: their dashboard shows what runs did, and their alerts fire.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::parts::{everything, object, plugin, tools_of, until};
use super::pipelines::{models, secret, stand_in};
use crate::prometheus::{Panel, Prometheus, SECONDS, panels_of, query_of, recorded_to};

const DASHBOARD: &str = "pipelines";
/// The alerts that fire: one pipeline fails with its model, and no operator runs here.
const FIRING: [&str; 3] = ["HawsepipeModelFailing", "HawsepipeNoLeader", "HawsepipePipelineFailing"];

/// Adds with a tool, and asks a model about the sum.
const ADD: &str = "export async function execute(state, ctx) {
  const sum = await ctx.callTool('math__get-sum', { a: 2, b: 3 });
  const { text } = await ctx.llm(ctx.config.role).complete({ messages: [{ role: 'user', content: sum.content[0].text }] });
  return { output: { text } };
}";

/// A pipeline of one step, which calls this model.
fn adding(name: &str, role: &str, models: &str) -> String {
    let agents = format!("[{{name: add, type: custom, plugin: {{name: add}}, config: {{role: {role}}}}}]");
    let tools = "tools: {include: [math__get-sum]}";
    let declared = format!("declared: {{startAgent: add, agents: {agents}}}");
    object("ToolPipeline", name, &format!("tool: {{description: A test.}}, {tools}, {declared}, {models}"))
}

async fn call(http: &Http, gateway: &Gateway, pipeline: &str) {
    let answer = http.call(&gateway.url(), pipeline, &json!({"prompt": "x"}), &json!({})).await;
    assert_eq!(answer["result"]["isError"] == true, pipeline == "down", "{answer}");
}

/// Runs both pipelines, and waits until Prometheus has seen it.
async fn load(gateway: &Gateway, prometheus: &Prometheus) {
    let http = Http::new();
    // A rate needs a series from before what it counts.
    for pipeline in ["works", "down"] {
        call(&http, gateway, pipeline).await;
    }
    let runs = "sum(hawsepipe_pipeline_run_duration_seconds_count)";
    until("the first runs are scraped", async || prometheus.value(runs).await == Some(2.0)).await;
    for _ in 0..20 {
        call(&http, gateway, "works").await;
        call(&http, gateway, "down").await;
    }
    until("all runs are scraped", async || prometheus.value(runs).await == Some(42.0)).await;
}

/// Goes on with the load, and records what panels show meanwhile.
async fn record(folder: &Path, gateway: &Gateway, prometheus: &Prometheus) {
    let (http, start) = (Http::new(), SystemTime::now());
    let mut each_second = tokio::time::interval(Duration::from_secs(1));
    for second in 0..=SECONDS {
        each_second.tick().await;
        for _ in 0..3 + second / 6 % 4 {
            call(&http, gateway, "works").await;
        }
        call(&http, gateway, "down").await;
    }
    prometheus.record(folder, DASHBOARD, start, &[]).await;
}

#[tokio::test]
async fn the_dashboard_of_pipelines_shows_their_runs_and_alerts_fire_for_failures() {
    let folder = Folder::new();
    let (_model, url) = stand_in(&folder, &json!([{"match": "\"broken\"", "status": 401, "repeat": true}]));
    let broken = models(&url, &["broken"]).replace("model: large", "model: broken");
    let manifests = [
        secret(),
        everything("math"),
        plugin("add", ADD, "type: phase"),
        adding("works", "complex", &models(&url, &["complex"])),
        adding("down", "broken", &broken),
    ];
    folder.write("manifests.yaml", &manifests.concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["math", "works", "down"]).await;
    let prometheus = Prometheus::start(&[gateway.admin()]).await;
    load(&gateway, &prometheus).await;

    let wanted = BTreeSet::from(FIRING.map(str::to_owned));
    until("the alerts fire", async || prometheus.firing().await == wanted).await;
    for Panel { title, queries, .. } in panels_of(DASHBOARD, "1m") {
        for expression in queries {
            assert!(!prometheus.query(&expression).await.is_empty(), "{title}: nothing for {expression}");
        }
    }
    let failed = prometheus.value(&query_of(DASHBOARD, "Failed")).await.unwrap();
    assert!((failed - 0.5).abs() < 0.1, "half of the runs failed: {failed}");
    let tokens = r#"sum(gen_ai_client_token_usage_sum{gen_ai_token_type="input"})"#;
    assert_eq!(prometheus.value(tokens).await, Some(11.0 * 21.0));

    if let Some(folder) = recorded_to() {
        record(&folder, &gateway, &prometheus).await;
    }
}
