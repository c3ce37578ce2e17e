//! What a step gets besides its state.

use serde_json::{Value, json};

use super::super::super::harness::{Folder, Gateway};
use super::super::super::http::Http;
use super::super::super::parts::{object, plugin, tools_of};
use super::super::{call, pipeline};

const CONTEXT: &str = "export const execute = (state, { context }) => ({ output: { ...context } });";
const REGISTRIES: &str = "export const execute = async (state, { sources, evidence }) => {
  const source = { url: 'https://example.com/a', title: 'A' };
  const ids = [await sources.add(source), await sources.add({ url: 'https://example.com/b' }), await sources.add(source)];
  await evidence.add({ claim: 'a' });
  return { output: { ids: ids.map(({ id }) => id), has: await sources.has(source.url), no: await sources.has('https://c'),
    urls: (await sources.list()).map(({ url }) => url), evidence: await evidence.list() } };
};";
const WRITE: &str = "export const execute = () => ({ state: { pluginData: { n: 7 } } });";
const READ: &str = "export const execute = ({ pluginData }) => ({ output: { n: pluginData.n } });";
const MANY: &str = "export const execute = async (state, { callTool, budgets }) => {
  const reasons = [];
  for (let i = 0; i < 21; i += 1) await callTool('none', {}).catch((error) => reasons.push(error.data?.reason));
  return { output: { most: budgets.maxToolCalls, last: reasons.slice(-2), used: budgets.toolCallsUsed } };
};";
const TYPES: &str = "export const execute = async ({ arguments: { prompt } }, { sources }) => {
  const added = await sources.add({ title: 'A', sourceType: prompt, sourceMetadata: { n: 1 } }).catch(({ name }) => name);
  return { output: { added } };
};";

#[tokio::test]
async fn rows_about_the_context() {
    let agents = "[{name: write, type: custom, plugin: {name: write}, nextOnSuccess: read}, {name: read, type: custom, plugin: {name: read}}]";
    let shared =
        format!("tool: {{name: shared, description: A test.}}, declared: {{startAgent: write, agents: {agents}}}");
    let manifests = [
        pipeline("context", CONTEXT, ""),
        pipeline("registries", REGISTRIES, ""),
        plugin("write", WRITE, "type: phase"),
        plugin("read", READ, "type: phase"),
        object("ToolPipeline", "shared", &shared),
        pipeline("many", MANY, "tools: {include: [none]}"),
        pipeline("types", TYPES, ""),
    ];
    let folder = Folder::with(&manifests.concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["context", "registries", "shared", "many", "types"]).await;
    research_context_chat_id_user_id_and_research_session_id(&gateway).await;
    research_context_research_type(&gateway).await;
    research_context_url_registry_and_evidence_registry(&gateway).await;
    research_context_plugin_data(&gateway).await;
    research_context_tool_call_count_and_max_tool_calls(&gateway).await;
    source_type(&gateway).await;
    source(&gateway).await;
    rule_3_source_types_are_valid(&gateway).await;
}

async fn output(gateway: &Gateway, tool: &str, arguments: Value) -> Value {
    call(gateway, tool, &arguments).await["structuredContent"].clone()
}

async fn research_context_chat_id_user_id_and_research_session_id(gateway: &Gateway) {
    let session = Http::new().initialize(&gateway.url()).await;
    let mut meta = json!({});
    for id in [7, 8] {
        let params = json!({"name": "context", "arguments": {"prompt": "x"}, "_meta": meta});
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string();
        let answer: Value = serde_json::from_str(&session.send(message).await.result()).unwrap();
        let (context, run) = (&answer["structuredContent"], &answer["_meta"]["hawsepipe.dev/run"]);
        assert_eq!(context["userId"], "anonymous", "{answer}");
        assert_eq!(context["researchSessionId"], run["id"], "{answer}");
        assert!(context["chatId"].is_string() && context["chatId"] == run["conversation"], "{answer}");
        if let Some(conversation) = meta["hawsepipe.dev/run"].get("conversation") {
            assert_eq!(&run["conversation"], conversation, "the client goes on with it");
        }
        meta = json!({"hawsepipe.dev/run": {"conversation": run["conversation"]}});
    }
}

async fn research_context_research_type(gateway: &Gateway) {
    for (depth, expected) in [("light", "light"), ("extended", "extended"), ("medium", "medium"), ("deep", "medium")] {
        let context = output(gateway, "context", json!({"prompt": "x", "depth": depth})).await;
        assert_eq!(context["researchType"], expected, "{context}");
    }
    assert_eq!(output(gateway, "context", json!({"prompt": "x"})).await["researchType"], "medium");
}

async fn research_context_url_registry_and_evidence_registry(gateway: &Gateway) {
    let found = output(gateway, "registries", json!({"prompt": "x"})).await;
    assert_eq!(found["ids"], json!(["1", "2", "1"]), "a URL keeps its first id: {found}");
    assert_eq!((&found["has"], &found["no"]), (&json!(true), &json!(false)), "{found}");
    assert_eq!(found["urls"], json!(["https://example.com/a", "https://example.com/b"]), "{found}");
    assert_eq!(found["evidence"], json!([{"claim": "a"}]), "{found}");
}

async fn research_context_plugin_data(gateway: &Gateway) {
    assert_eq!(output(gateway, "shared", json!({"prompt": "x"})).await, json!({"n": 7}));
}

async fn research_context_tool_call_count_and_max_tool_calls(gateway: &Gateway) {
    let counted = output(gateway, "many", json!({"prompt": "x"})).await;
    assert_eq!((&counted["most"], &counted["used"]), (&json!(20), &json!(20)), "{counted}");
    assert_eq!(counted["last"][1], "BudgetExhausted", "the 21st call is refused: {counted}");
    assert_ne!(counted["last"][0], "BudgetExhausted", "{counted}");
}

async fn source_type(gateway: &Gateway) {
    for kind in ["web", "vector_search", "knowledge_assistant", "custom"] {
        let answer = call(gateway, "types", &json!({"prompt": kind})).await;
        let source = &answer["_meta"]["hawsepipe.dev/sources"][0];
        assert_eq!((&source["sourceType"], &source["sourceMetadata"]), (&json!(kind), &json!({"n": 1})), "{answer}");
    }
}

async fn source(gateway: &Gateway) {
    for (tool, keys) in [
        ("registries", "domain fetchedAt id sourceType title url"),
        ("types", "fetchedAt id sourceMetadata sourceType title"),
    ] {
        let answer = call(gateway, tool, &json!({"prompt": "custom"})).await;
        let source = answer["_meta"]["hawsepipe.dev/sources"][0].as_object().unwrap();
        let mut found: Vec<_> = source.keys().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found.join(" "), keys, "{answer}");
        assert!(source["fetchedAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{answer}");
    }
}

async fn rule_3_source_types_are_valid(gateway: &Gateway) {
    let answer = call(gateway, "types", &json!({"prompt": "blog"})).await;
    assert_eq!(answer["structuredContent"]["added"], "CallbackError", "{answer}");
    assert_eq!(answer["_meta"]["hawsepipe.dev/sources"], json!([]), "{answer}");
}
