//! What changes of manifests mean for runs that are in progress.

use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway};
use super::super::http::Http;
use super::super::invocations::Admin;
use super::super::parts::{ECHO_MODULE, chain, object, plugin, until};
use super::runs::{run_of, said};
use super::{alone, pipeline, tools};

/// Asks, shows in the question what the calls before were refused for, and calls a tool.
const ASKS: &str = "export async function execute({ pluginData }, ctx) {
  const schema = { type: 'object', properties: { name: { type: 'string' } } };
  await ctx.ask({ message: JSON.stringify(pluginData), schema });
  const reason = await ctx.callTool('none', {}).then(() => 'called', (error) => error.data?.reason ?? error.message);
  const noted = { ...pluginData, [ctx.run.step]: reason };
  return { state: { pluginData: noted }, output: noted };
}";

/// The pipeline, whose steps may call this tool.
fn asks(tool: &str) -> String {
    let agents = "[{name: a, type: custom, plugin: {name: asks}, nextOnSuccess: b},
      {name: b, type: custom, plugin: {name: asks}, nextOnSuccess: c}, {name: c, type: custom, plugin: {name: asks}}]";
    let spec = format!(
        "tool: {{name: asks, description: May call {tool}.}}, tools: {{include: [{tool}]}},
         declared: {{startAgent: a, agents: {agents}}}"
    );
    object("ToolPipeline", "asks", &spec)
}

/// Waits until the run asks this, and then runs `change` before it answers.
async fn answer_after(gateway: &Gateway, asked: &str, change: impl AsyncFnOnce()) {
    let id = run_of(gateway, "input_required").await;
    until("the run asks", async || Admin::of(gateway).get(&format!("runs/{id}")).await["question"]["message"] == asked)
        .await;
    change().await;
    let (code, shown) = said(gateway, &["runs", "answer", &id, "{}"]);
    assert!(code == 0, "{shown}");
}

#[tokio::test]
async fn a_run_loses_what_is_taken_out_of_its_manifest() {
    let code = plugin("asks", ASKS, "type: phase");
    let folder = Folder::with(&(code.clone() + &asks("none")));
    let gateway = Gateway::start(&folder);
    until("the tool is listed", async || tools(&gateway).await == ["asks"]).await;
    let session = Http::new().initialize_with(&gateway.url(), &json!({"elicitation": {}})).await;
    let calling = session.call_raw(7, "asks", r#"{"prompt": "x"}"#);
    let changing = async {
        answer_after(&gateway, "{}", async || {
            folder.write("manifests.yaml", &(code.clone() + &asks("other")));
            until("the change is in force", async || {
                let listed = session.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
                listed.body.contains("May call other")
            })
            .await;
        })
        .await;
        answer_after(&gateway, r#"{"a":"Withdrawn"}"#, async || {
            folder.write("manifests.yaml", &code);
            until("the pipeline is gone", async || tools(&gateway).await.is_empty()).await;
        })
        .await;
    };
    let (answer, ()) = tokio::join!(calling, changing);
    let result: Value = serde_json::from_str(&answer.result()).unwrap();
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    let expected = "Withdrawn: step c: ToolPipeline default/asks was deleted or disabled";
    assert!(result["isError"] == true && text.starts_with(expected), "{result}");
    let error = &result["_meta"]["hawsepipe.dev/run"]["error"];
    assert_eq!((&error["code"], &error["step"]), (&json!("Withdrawn"), &json!("c")), "{result}");
}

#[tokio::test]
async fn a_guard_that_comes_into_force_during_a_run_lets_nothing_of_it_pass() {
    let code = "export async function execute(state, ctx) {
      const schema = { type: 'object', properties: { name: { type: 'string' } } };
      await ctx.ask({ message: 'Go on?', schema }).catch((error) => console.log(`reason ${error.reason}`));
      return { output: { secret: 'canary' } };
    }";
    let (folder, gateway) = alone(code, "").await;
    let session = Http::new().initialize_with(&gateway.url(), &json!({"elicitation": {}})).await;
    let calling = session.call_raw(7, "alone", r#"{"prompt": "x"}"#);
    let guarding = answer_after(&gateway, "Go on?", async || {
        let guard = plugin("passes", ECHO_MODULE, "protocol: Module, role: Guard")
            + &chain("late", "Response", &["alone"], &["passes"]);
        folder.write("manifests.yaml", &(pipeline("alone", code, "") + &guard));
        until("the Guard is in force", async || {
            Admin::of(&gateway).get("chains").await.to_string().contains("default/late")
        })
        .await;
    });
    let (answer, ()) = tokio::join!(calling, guarding);
    let result: Value = serde_json::from_str(&answer.result()).unwrap();
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    assert!(result["isError"] == true && text.contains("A Guard came into force during the run"), "{result}");
    assert!(!result.to_string().contains("canary"), "{result}");
    let refused = &result["_meta"]["hawsepipe.dev/refused"];
    assert_eq!((&refused["reason"], &refused["chain"]), (&json!("FailsClosed"), &json!("default/late")), "{result}");
    // The next call is guarded as any other.
    let next = Http::new().initialize(&gateway.url()).await.call_raw(8, "alone", r#"{"prompt": "x"}"#).await;
    assert!(next.result().contains("canary"), "{}", next.body);
}
