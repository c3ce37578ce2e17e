//! Language models of pipelines. The model of these tests is a stand-in, which answers by a script.

use std::process::Command;

use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway, run};
use super::super::http::Http;
use super::super::parts::{announced, object, plugin, until};
use super::{call, pipeline, tools};
use crate::fixtures::checkout;
use crate::upstream::Running;

/// The stand-in, which is a part of an example.
const STAND_IN: &str = "manifests/examples/research/model-stand-in.mjs";
/// The key of the endpoint.
pub(super) const KEY: &str = "canary-key-of-a-model";
/// Asks the model, and gives what came of it.
const ASK: &str = "export async function execute({ query }, ctx) {
  const messages = [{ role: 'user', content: query }];
  const schema = { type: 'object', required: ['n'], properties: { n: { type: 'integer' } } };
  try {
    const asked = await ctx.llm('complex').complete({ messages, ...(query.includes('schema') && { schema }) });
    return { output: { ...asked, used: ctx.budgets.llmCallsUsed } };
  } catch (error) {
    return { output: { name: error.name, reason: error.reason, message: error.message, used: ctx.budgets.llmCallsUsed } };
  }
}";

/// A stand-in for a model that answers by a script, and its URL.
pub(in crate::gateway) fn stand_in(folder: &Folder, script: &Value) -> (Running, String) {
    let file = folder.path().join("stand-in.txt");
    std::fs::write(&file, script.to_string()).unwrap();
    let mut command = Command::new("node");
    command.arg(checkout().join(STAND_IN)).arg("--script").arg(file);
    announced(command)
}

/// The requests that a stand-in got.
pub(super) async fn requests(url: &str) -> Vec<Value> {
    let log = Http::new().get(&url.replace("/v1", "/log")).await.json();
    log.as_array().unwrap().clone()
}

/// `models` with this URL for these roles.
pub(in crate::gateway) fn models(url: &str, roles: &[&str]) -> String {
    let model = |role: &&str| {
        format!(
            "{{role: {role}, baseURL: {url:?}, model: large, apiKeySecretRef: {{name: llm, key: key}}, timeoutMs: 3000}}"
        )
    };
    format!("models: [{}]", roles.iter().map(model).collect::<Vec<_>>().join(", "))
}

/// The Secret with the key.
pub(in crate::gateway) fn secret() -> String {
    let secret = object("Secret", "llm", "").replace("hawsepipe.dev/v1alpha1", "v1");
    secret.replace("spec: {}", &format!("stringData: {{key: {KEY}}}"))
}

async fn started(folder: &Folder, manifests: &[String], tool: &str) -> Gateway {
    folder.write("manifests.yaml", &manifests.concat());
    let gateway = Gateway::start(folder);
    until("the tool is listed", async || tools(&gateway).await.contains(&tool.to_owned())).await;
    gateway
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one gateway, and all answers of its model")]
async fn ctx_llm_calls_the_model_of_a_role_and_every_failure_has_its_reason() {
    let folder = Folder::new();
    let canary = "canary-of-an-answer";
    let (_model, url) = stand_in(
        &folder,
        &json!([
            {"match": "canary-of-a-prompt", "answer": canary},
            {"match": "key refused", "status": 401, "error": canary},
            {"match": "too many", "status": 429, "retryAfter": 0}, {"match": "too many", "answer": "after all"},
            {"match": "broken", "status": 500, "retryAfter": 0, "error": canary, "repeat": true},
            {"match": "hangs", "hang": true}, {"match": "closes", "close": true, "repeat": true},
            {"match": "garbage", "garbage": true}, {"match": "repaired schema", "answer": canary},
            {"match": "repaired schema", "answer": "```json\n{\"n\": 3}\n```"},
            {"match": "never schema", "json": {canary: 1}, "repeat": true},
        ]),
    );
    let more = format!("{}, budgets: {{maxLLMCalls: 2}}", models(&url, &["complex"]));
    let gateway = started(&folder, &[secret(), pipeline("ask", ASK, &more)], "ask").await;
    let ask = async |prompt: &str| call(&gateway, "ask", &json!({"prompt": prompt})).await["structuredContent"].clone();

    let answer = call(&gateway, "ask", &json!({"prompt": "canary-of-a-prompt"})).await;
    let output = &answer["structuredContent"];
    assert_eq!((&output["text"], &output["model"], &output["used"]), (&json!(canary), &json!("stand-in"), &json!(1)));
    let facts = &answer["_meta"]["hawsepipe.dev/run"];
    assert_eq!((&facts["llmCalls"], &facts["tokens"]), (&json!(1), &json!({"in": 11, "out": 7})), "{answer}");
    let sent = &requests(&url).await[0];
    assert_eq!(sent["authorization"], format!("Bearer {KEY}"));
    assert_eq!((&sent["step"], &sent["run"], &sent["body"]["model"]), (&json!("main"), &facts["id"], &json!("large")));

    for (prompt, reason, words) in [
        ("key refused", "ModelUnavailable", "model large of role complex: the endpoint refused the key (401)"),
        ("broken", "ModelUnavailable", "the endpoint answered 500, stand_in, 3 times"),
        ("hangs", "ModelUnavailable", "the endpoint did not answer within 3000 ms"),
        ("closes", "ModelUnavailable", "the endpoint cannot be reached"),
        ("garbage", "ModelOutputInvalid", "is not a chat completion"),
        ("never schema", "ModelOutputInvalid", "does not fit"),
    ] {
        let failed = ask(prompt).await;
        let message = failed["message"].as_str().unwrap_or_default();
        assert!(failed["reason"] == reason && message.contains(words), "{prompt}: {failed}");
        assert!(failed["name"] == "CallbackError" && !message.contains(canary), "{prompt}: {failed}");
    }
    assert_eq!(ask("too many").await["text"], "after all");
    let repaired = ask("repaired schema").await;
    assert_eq!((&repaired["json"], &repaired["used"]), (&json!({"n": 3}), &json!(2)), "{repaired}");

    // Tokens and seconds are counted; nothing that was said is in a metric, a record or the log.
    let admin = format!("http://{}", gateway.admin());
    let metrics = Http::new().get(&format!("{admin}/metrics")).await.body;
    let counted = r#"gen_ai_client_token_usage_count{gen_ai_operation_name="chat",gen_ai_request_model="large",gen_ai_token_type="input"}"#;
    assert!(metrics.contains(counted), "{metrics}");
    let failed = r#"gen_ai_client_operation_duration_seconds_count{error_type="ModelUnavailable""#;
    assert!(metrics.contains(failed), "{metrics}");
    let shown = [
        metrics,
        Http::new().get(&format!("{admin}/api/v1/calls")).await.body,
        Http::new().get(&format!("{admin}/api/v1/executions")).await.body,
        Http::new().get(&format!("{admin}/api/v1/plan")).await.body,
        gateway.log().concat(),
    ];
    for shown in shown {
        assert!(!shown.contains(canary) && !shown.contains("canary-of-a-prompt") && !shown.contains(KEY), "{shown}");
    }
}

#[tokio::test]
async fn answers_of_endpoints_are_read_as_they_are_and_one_pipeline_changes_no_request_of_another() {
    let folder = Folder::new();
    let parts = json!([{"type": "thinking", "thinking": []}, {"type": "text", "text": "of parts"}]);
    let thought = "<think>{\"n\": 1}</think>\nHere:\n```json\n{\"n\": 4}\n```\nAnything else?";
    let (_model, url) = stand_in(
        &folder,
        &json!([
            {"match": "fenced schema", "answer": thought},
            {"match": "parts", "body": {"choices": [{"message": {"content": parts}}], "usage": "much"}},
            {"match": "inside", "body": {"error": {"code": 503, "message": "x"}}, "retryAfter": 0},
            {"match": "inside", "answer": "of the second try"},
            {"match": "overloaded", "status": 529, "retryAfter": 0}, {"match": "overloaded", "answer": "after all"},
            {"match": "mentions schema", "status": 400, "error": "the schema of response_format is too deep"},
            {"match": "refused schema", "status": 422, "error": "response_format is not supported"},
            {"match": "schema", "answer": "{\"n\": 5}", "repeat": true},
        ]),
    );
    let pipelines = ["ask", "other"].map(|name| pipeline(name, ASK, &models(&url, &["complex"])));
    let gateway = started(&folder, &[&[secret()], &pipelines[..]].concat(), "other").await;
    let ask = async |pipeline: &str, prompt: &str| {
        call(&gateway, pipeline, &json!({"prompt": prompt})).await["structuredContent"].clone()
    };
    assert_eq!(ask("ask", "fenced schema").await["json"], json!({"n": 4}));
    for (prompt, text) in [("parts", "of parts"), ("inside", "of the second try"), ("overloaded", "after all")] {
        assert_eq!(ask("ask", prompt).await["text"], text);
    }
    let mentions = ask("ask", "mentions schema").await;
    assert_eq!(mentions["reason"], "ModelUnavailable", "{mentions}");
    assert_eq!(ask("ask", "refused schema").await["json"], json!({"n": 5}));
    for pipeline in ["ask", "other"] {
        assert_eq!(ask(pipeline, "later schema").await["json"], json!({"n": 5}));
    }
    let sent = requests(&url).await.into_iter().map(|request| request["body"]["response_format"].is_object());
    let sent: Vec<_> = sent.collect();
    // Those of `mentions`, twice of `refused`, and `later` of either pipeline.
    assert_eq!(sent[sent.len() - 5..], [true, true, false, false, true]);
}

/// The same addresses are refused as for servers: a pipeline must not get the credentials of a machine.
#[tokio::test]
async fn spec_models_base_url_cannot_be_a_metadata_service() {
    let folder = Folder::new();
    let more = models("http://169.254.169.254/v1", &["complex"]);
    let gateway = started(&folder, &[secret(), pipeline("ask", ASK, &more)], "ask").await;
    let output = call(&gateway, "ask", &json!({"prompt": "x"})).await["structuredContent"].clone();
    let message = output["message"].as_str().unwrap_or_default();
    assert!(output["reason"] == "ModelUnavailable" && message.contains("169.254.169.254 is"), "{output}");
}

#[tokio::test]
async fn ctx_budgets_max_llm_calls_ends_calls_of_models() {
    let folder = Folder::new();
    let (_model, url) = stand_in(&folder, &json!([]));
    let code = "export async function execute(state, { llm, budgets }) {
      const ask = () => llm('complex').complete({ messages: [{ role: 'user', content: 'x' }] });
      await ask();
      const reason = await ask().catch((error) => error.reason);
      const other = await llm('other').complete({ messages: [] }).catch((error) => error.reason);
      const foreign = await llm('facts/complex').complete({ messages: [] }).catch((error) => error.reason);
      return { output: { reason, other, foreign, left: budgets.remainingLLMCalls } };
    }";
    let more = format!("{}, budgets: {{maxLLMCalls: 1}}", models(&url, &["complex", "facts/complex"]));
    let gateway = started(&folder, &[secret(), pipeline("ask", code, &more)], "ask").await;
    let answer = call(&gateway, "ask", &json!({"prompt": "x"})).await;
    let none = "ModelRoleNotFound";
    let expected = json!({"reason": "BudgetExhausted", "other": none, "foreign": none, "left": 0});
    assert_eq!(answer["structuredContent"], expected, "{answer}");
    assert_eq!(requests(&url).await.len(), 1);
}

#[tokio::test]
async fn a_role_that_no_model_serves_is_found_before_calls_and_the_models_of_a_gateway_serve_too() {
    let agents = "[{name: main, type: custom, modelTier: complex, plugin: {name: code}}]";
    let asked = object(
        "ToolPipeline",
        "ask",
        &format!("tool: {{name: ask, description: A test.}}, declared: {{startAgent: main, agents: {agents}}}"),
    );
    let folder = Folder::new();
    let (_model, url) = stand_in(&folder, &json!([]));
    let gateway = |models: &str| {
        object("MCPGateway", "main", &format!("authentication: {{anonymous: {{}}}}, upstreams: {{}}, {models}"))
    };
    let manifests =
        |models: &str| [secret(), gateway(models), plugin("code", ASK, "type: phase"), asked.clone()].concat();
    folder.write("manifests.yaml", &manifests("models: []"));
    let done = run(&["validate", folder.path().to_str().unwrap()]);
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    let words =
        "spec.declared.agents[0].modelTier: no model of role complex in spec.models of the pipeline or of the gateway";
    assert!(!done.status.success() && said.contains("ModelRoleNotFound") && said.contains(words), "{said}");

    folder.write("manifests.yaml", &manifests(&models(&url, &["complex"])));
    let gateway = Gateway::start(&folder);
    until("the tool is listed", async || tools(&gateway).await == ["ask"]).await;
    let answer = call(&gateway, "ask", &json!({"prompt": "x"})).await;
    assert_eq!(answer["structuredContent"]["text"], "[stand-in] an answer", "{answer}");
    assert_eq!(requests(&url).await[0]["authorization"], format!("Bearer {KEY}"));
}

#[tokio::test]
async fn calls_of_a_step_at_the_same_time_wait_for_each_other() {
    let folder = Folder::new();
    let (_model, url) = stand_in(&folder, &json!([]));
    let one = "export const execute = async ({ query }) => {
      await new Promise((resolve) => setTimeout(resolve, 100));
      return { output: { query } };
    };";
    let all = "export const execute = async (state, ctx) => {
      const each = (what) => Promise.all(Array.from({ length: 20 }, (_, n) => what(String(n))));
      const tools = await each(async (prompt) => (await ctx.callTool('one', { prompt })).structuredContent.query);
      const messages = [{ role: 'user', content: 'x' }];
      const models = await each(async () => (await ctx.llm('complex').complete({ messages })).text);
      return { output: { tools, models: models.length } };
    };";
    let more = format!("tools: {{include: [one]}}, {}", models(&url, &["complex"]));
    let gateway = started(&folder, &[secret(), pipeline("one", one, ""), pipeline("all", all, &more)], "all").await;
    let answer = call(&gateway, "all", &json!({"prompt": "x"})).await;
    let expected: Vec<_> = (0..20).map(|n| n.to_string()).collect();
    assert_eq!(answer["structuredContent"], json!({"tools": expected, "models": 20}), "{answer}");
}
