//! Tools that plugins make, and the names of tools.

use serde_json::{Value, json};

use super::super::super::harness::{Folder, Gateway, run};
use super::super::super::http::Http;
use super::super::super::invocations::{Admin, out};
use super::super::super::parts::{object, plugin, tools_of, until};
use super::super::{call, pipeline, tools};

const KIT: &str = "
const started = Date.now();
const parameters = { type: 'object', required: ['a', 'b'], properties: { a: { type: 'number' }, b: {} } };
export const initialize = ({ config }) => { if (config.broken) throw new Error('no database'); };
export const getTools = () => [{ name: 'sum', description: 'Adds.', parameters },
  ...(Date.now() - started > 1000 ? [{ name: 'late', description: 'Comes later.', parameters: { type: 'object' } }] : [])];
export const validateArguments = (name, { a, b }) => [[a > 0, 'a must be positive'], [typeof b === 'number', 'b must be a number']]
  .filter(([fits]) => !fits).map(([, why]) => why);
export const execute = (name, { a, b }) => {
  if (!(a > 0)) throw new Error('it was called');
  if (a === 13) return { content: '', success: false, error: 'unlucky' };
  return { content: String(a + b), data: { sum: a + b, of: [a, b] }, sources: [
    { url: 'https://example.com/1', title: 'One' }, { title: 'Two', sourceType: 'custom', sourceMetadata: { page: 2 } }] };
};";
/// Calls the tool and passes on what it answered.
const USES: &str = "export const execute = async (state, ctx) => {
  const { content } = await ctx.callTool('kit__sum', { a: 1, b: 2 });
  return { output: { text: content[0].text } };
};";

fn provider(name: &str, config: &str) -> String {
    plugin(&format!("{name}-code"), KIT, &format!("type: tool-provider, config: {config}"))
        + &object("MCPUpstream", name, &format!("plugin: {{name: {name}-code}}, health: {{periodSeconds: 5}}"))
}

#[tokio::test]
async fn rows_about_tools() {
    let clash = pipeline("clash", USES, "").replace("name: clash, description", "name: kit__sum, description");
    let manifests = [
        provider("kit", "{}"),
        provider("twin", "{}"),
        provider("broken", "{broken: true}"),
        pipeline("uses", USES, "tools: {include: [kit__sum]}"),
        clash,
    ];
    let folder = Folder::with(&manifests.concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["kit", "twin", "uses"]).await;
    research_tool_definition(&gateway).await;
    research_tool_execute(&gateway).await;
    research_tool_validate_arguments(&gateway).await;
    tool_result_content_success_and_error(&gateway).await;
    tool_result_sources(&gateway).await;
    tool_result_data(&gateway).await;
    tool_registry_register(&gateway).await;
    tool_registry_register_with_prefix(&gateway).await;
    tool_registry_get_list_tools_and_get_tool_names(&gateway).await;
    tool_registry_get_openai_tools(&gateway).await;
    plugin_manager_get_tools(&gateway).await;
    rule_1_names_of_tools_are_unique(&gateway).await;
    rule_6_a_plugin_that_fails_to_start_stops_nothing_else(&gateway).await;
    tool_provider_get_tools(&gateway).await;
}

async fn sum(gateway: &Gateway, a: i64, b: Value) -> Value {
    call(gateway, "kit__sum", &json!({"a": a, "b": b})).await
}

/// What a command about a gateway prints.
fn said(gateway: &Gateway, command: &[&str]) -> String {
    let admin = gateway.admin();
    out(&run(&[command, &["--admin", admin.as_str()]].concat()))
}

async fn research_tool_definition(gateway: &Gateway) {
    let session = Http::new().initialize(&gateway.url()).await;
    let listed = session.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await.json();
    let tools = listed["result"]["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "kit__sum").unwrap();
    assert_eq!((&tool["description"], &tool["inputSchema"]["required"]), (&json!("Adds."), &json!(["a", "b"])));
}

async fn research_tool_execute(gateway: &Gateway) {
    assert_eq!(sum(gateway, 1, json!(2)).await["content"][0]["text"], "3");
}

async fn research_tool_validate_arguments(gateway: &Gateway) {
    let answer = sum(gateway, -1, json!("x")).await;
    let lines = "a must be positive\nb must be a number";
    assert_eq!((&answer["isError"], &answer["content"][0]["text"]), (&json!(true), &json!(lines)), "{answer}");
}

async fn tool_result_content_success_and_error(gateway: &Gateway) {
    let answer = sum(gateway, 13, json!(2)).await;
    assert_eq!((&answer["isError"], &answer["content"][0]["text"]), (&json!(true), &json!("unlucky")), "{answer}");
    assert_eq!(sum(gateway, 2, json!(2)).await["isError"], false);
}

async fn tool_result_sources(gateway: &Gateway) {
    let answer = sum(gateway, 1, json!(2)).await;
    assert_eq!(answer["_meta"]["hawsepipe.dev/sources"][0]["title"], "One", "{answer}");
    assert_eq!(answer["content"][1]["uri"], "https://example.com/1", "{answer}");
    let answer = call(gateway, "uses", &json!({"prompt": "x"})).await;
    let found = &answer["structuredContent"]["sources"];
    assert_eq!((&found[0]["url"], &found[0]["title"]), (&json!("https://example.com/1"), &json!("One")), "{answer}");
    assert_eq!((&found[1]["sourceType"], &found[1]["sourceMetadata"]), (&json!("custom"), &json!({"page": 2})));
    assert_eq!(found.as_array().map(Vec::len), Some(2), "{answer}");
}

async fn tool_result_data(gateway: &Gateway) {
    assert_eq!(sum(gateway, 1, json!(2)).await["structuredContent"], json!({"sum": 3, "of": [1, 2]}));
}

async fn tool_provider_get_tools(gateway: &Gateway) {
    until("the next probe finds the new tool", async || tools(gateway).await.contains(&"kit__late".to_owned())).await;
}

async fn tool_registry_register(gateway: &Gateway) {
    let plan = Admin::of(gateway).get("plan").await;
    let problems = plan["problems"].as_array().unwrap();
    let conflict = problems.iter().find(|problem| problem["reason"] == "ToolNameConflict").unwrap();
    let message = conflict["message"].as_str().unwrap();
    assert!(message.contains("kit__sum") && conflict.to_string().contains("clash"), "{conflict}");
    assert_eq!(sum(gateway, 1, json!(2)).await["content"][0]["text"], "3", "the first one keeps the name");
}

async fn tool_registry_register_with_prefix(gateway: &Gateway) {
    for tool in ["kit__sum", "twin__sum"] {
        assert_eq!(call(gateway, tool, &json!({"a": 1, "b": 2})).await["content"][0]["text"], "3", "{tool}");
    }
}

async fn tool_registry_get_list_tools_and_get_tool_names(gateway: &Gateway) {
    let listed = said(gateway, &["tools"]);
    assert!(["kit__sum", "twin__sum", "uses"].iter().all(|tool| listed.contains(tool)), "{listed}");
    let tools = Admin::of(gateway).get("tools").await;
    let tool = tools["items"].as_array().unwrap().iter().find(|tool| tool["name"] == "uses").unwrap();
    assert_eq!(tool["upstream"], "uses", "{tool}");
}

async fn tool_registry_get_openai_tools(gateway: &Gateway) {
    let listed: Value =
        serde_json::from_str(&said(gateway, &["tools", "--section", "a.md:1", "--format", "openai"])).unwrap();
    let tool = listed.as_array().unwrap().iter().find(|tool| tool["function"]["name"] == "kit__sum").unwrap();
    assert_eq!(tool["function"]["parameters"]["required"], json!(["a", "b"]), "{tool}");
}

async fn plugin_manager_get_tools(gateway: &Gateway) {
    let listed = tools(gateway).await;
    assert!(["kit__sum", "twin__sum", "uses"].iter().all(|tool| listed.iter().any(|it| it == tool)), "{listed:?}");
}

async fn rule_1_names_of_tools_are_unique(gateway: &Gateway) {
    let mut listed = tools(gateway).await;
    let count = listed.len();
    listed.sort();
    listed.dedup();
    assert_eq!(listed.len(), count, "{listed:?}");
}

async fn rule_6_a_plugin_that_fails_to_start_stops_nothing_else(gateway: &Gateway) {
    let upstreams = Admin::of(gateway).get("upstreams").await;
    let broken = upstreams["items"].as_array().unwrap().iter().find(|it| it["name"] == "broken").unwrap();
    assert!(broken.to_string().contains("no database"), "{broken}");
    assert_eq!(sum(gateway, 1, json!(2)).await["content"][0]["text"], "3");
}
