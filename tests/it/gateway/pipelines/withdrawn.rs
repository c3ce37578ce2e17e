//! What changes of manifests mean for runs that are in progress.

use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway};
use super::super::http::Http;
use super::super::invocations::Admin;
use super::super::parts::{chain, object, plugin, until};
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

/// Takes a word out of what it sees.
const REDACTS: &str =
    "export default ({ rawContent }) => ({ text: rawContent.replaceAll('canary', '[redacted]'), continue: true });";

#[tokio::test]
async fn a_guard_that_comes_into_force_during_a_run_sees_its_answer_or_denies_it() {
    let code = "export async function execute(state, ctx) {
      const schema = { type: 'object', properties: { name: { type: 'string' } } };
      await ctx.ask({ message: 'Go on?', schema });
      return { output: { secret: 'canary' } };
    }";
    for phase in ["Response", "Request"] {
        let (folder, gateway) = alone(code, "").await;
        let session = Http::new().initialize_with(&gateway.url(), &json!({"elicitation": {}})).await;
        let calling = session.call_raw(7, "alone", r#"{"prompt": "x"}"#);
        let guarding = answer_after(&gateway, "Go on?", async || {
            let guard = plugin("redacts", REDACTS, "protocol: Module, role: Guard")
                + &chain("late", phase, &["alone"], &["redacts"]);
            folder.write("manifests.yaml", &(pipeline("alone", code, "") + &guard));
            until("the Guard is in force", async || {
                Admin::of(&gateway).get("chains").await.to_string().contains("default/late")
            })
            .await;
        });
        let (answer, ()) = tokio::join!(calling, guarding);
        let result: Value = serde_json::from_str(&answer.result()).unwrap();
        assert!(!result.to_string().contains("canary"), "{result}");
        if phase == "Response" {
            assert_eq!(result["structuredContent"]["secret"], "[redacted]", "{result}");
            continue;
        }
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        assert!(result["isError"] == true && text.contains("A Guard came into force during the call"), "{result}");
        let failed = &result["_meta"]["hawsepipe.dev/failed"];
        assert_eq!((&failed["reason"], &failed["chain"]), (&json!("FailsClosed"), &json!("default/late")), "{result}");
    }
}

#[tokio::test]
async fn a_run_ends_once_the_gateway_is_stopped_or_the_key_of_its_caller_is_removed() {
    let (secrets, folder) = (Folder::new(), Folder::new());
    std::fs::create_dir_all(secrets.path().join("keys")).unwrap();
    secrets.write("keys/ann", "ann-key-0123456789");
    let authentication = "authentication: {anonymous: {}, apiKeys: {secretRefs: [{name: keys}]}}";
    let manifests = object("MCPGateway", "main", authentication) + &plugin("asks", ASKS, "type: phase") + &asks("none");
    folder.write("manifests.yaml", &manifests);
    let gateway = Gateway::start_with(&folder, &["--secrets-dir", secrets.path().to_str().unwrap()]);
    until("the tool is listed", async || tools(&gateway).await == ["asks"]).await;
    let ann = Http::bearing("ann-key-0123456789");
    let call = async |change: &dyn Fn()| {
        let session = ann.initialize_with(&gateway.url(), &json!({"elicitation": {}})).await;
        let calling = session.call_raw(7, "asks", r#"{"prompt": "x"}"#);
        let changing = answer_after(&gateway, "{}", async || {
            change();
            until("the change is in force", async || {
                let tried = ann.call_raw(&gateway.url(), "asks", "{}", &json!({})).await;
                tried.status == 401 || tried.body.contains("Stopped")
            })
            .await;
        });
        let (answer, ()) = tokio::join!(calling, changing);
        serde_json::from_str::<Value>(&answer.result()).unwrap()
    };
    let stopped = call(&|| assert_eq!(said(&gateway, &["stop"]).0, 0)).await;
    let error = &stopped["_meta"]["hawsepipe.dev/run"]["error"];
    assert!(stopped["isError"] == true && error["code"] == "Stopped", "{stopped}");
    assert_eq!(said(&gateway, &["resume"]).0, 0);
    let removed = call(&|| std::fs::remove_file(secrets.path().join("keys/ann")).unwrap()).await;
    assert_eq!(removed["_meta"]["hawsepipe.dev/refused"]["reason"], "NotAuthorized", "{removed}");
}
