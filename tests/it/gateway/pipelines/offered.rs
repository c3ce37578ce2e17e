//! The definitions of the tools of pipelines, and tools that are offered to pipelines only.

use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway, run};
use super::super::http::Http;
use super::super::invocations::Admin;
use super::super::parts::{SDKS, everything, object, plugin, tools_of, until};
use super::{call, pipeline, tools};

const NOTHING: &str = "export const execute = () => ({ output: { done: true } });";
const ECHO: &str = "export async function execute({ arguments: { prompt } }, ctx) {
  return { output: { text: (await ctx.callTool('math__echo', { message: prompt })).content[0].text } };
}";

/// The annotations of a tool that the gateway lists; null if it is not listed.
async fn annotations(gateway: &Gateway, tool: &str) -> Value {
    let session = Http::new().initialize(&gateway.url()).await;
    let listed = session.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await.json();
    let tools = listed["result"]["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().find(|listed| listed["name"] == tool).map_or(Value::Null, |tool| tool["annotations"].clone())
}

fn hints(read_only: bool, destructive: bool, idempotent: bool, open_world: bool) -> Value {
    json!({"readOnlyHint": read_only, "destructiveHint": destructive, "idempotentHint": idempotent,
        "openWorldHint": open_world})
}

#[tokio::test]
async fn annotations_of_a_pipelines_tool_are_those_of_its_tools() {
    let overrides = "tools: {overrides: [
      {name: echo, annotations: {readOnlyHint: true, destructiveHint: false, openWorldHint: false}},
      {name: get-sum, annotations: {readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: false}},
      {name: get-env, annotations: {readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true}}]}, ";
    let math = everything("math").replace("spec: {", &format!("spec: {{{overrides}"));
    let written = "tool: {name: written, description: A test., annotations: {readOnlyHint: true}},
      tools: {include: [math__get-env]}, declared: {startAgent: main, agents: [
      {name: main, type: custom, plugin: {name: none-code}}]}";
    let manifests = [
        math,
        pipeline("none", NOTHING, ""),
        pipeline("reads", NOTHING, "tools: {include: [math__echo]}"),
        pipeline("adds", NOTHING, "tools: {include: [math__echo, math__get-sum]}"),
        pipeline("worst", NOTHING, "tools: {include: [math__echo, math__get-env]}"),
        pipeline("unknown", NOTHING, "tools: {include: [math__echo, math__no-such]}"),
        pipeline("left_out", NOTHING, "tools: {include: ['math__e*', 'math__g*'], exclude: ['math__g*']}"),
        pipeline("connects", NOTHING, "").replace("type: phase", "type: phase, egress: ['example.com:443']"),
        object("ToolPipeline", "written", written),
    ];
    let folder = Folder::with(&manifests.concat());
    let gateway = Gateway::start(&folder);
    let all = ["math", "none", "reads", "adds", "worst", "unknown", "left-out", "connects", "written"];
    tools_of(&gateway, &all).await;
    let worst = hints(false, true, false, true);
    for (tool, expected) in [
        ("none", hints(true, false, true, false)),
        ("reads", hints(true, false, true, false)),
        ("adds", hints(false, false, true, false)),
        ("worst", worst.clone()),
        ("unknown", worst.clone()),
        ("left_out", hints(true, false, true, false)),
        ("connects", worst),
        ("written", hints(true, true, false, true)),
    ] {
        assert_eq!(annotations(&gateway, tool).await, expected, "{tool}");
    }
}

/// A gateway whose server offers its tools to pipelines, except for one.
async fn hidden(discovery: &str) -> (Folder, Gateway) {
    let tools_of_server = "tools: {offeredTo: Pipelines, overrides: [{name: get-sum, offeredTo: Clients}]}, ";
    let manifests = [
        object(
            "MCPGateway",
            "main",
            &format!("authentication: {{anonymous: {{}}}}, upstreams: {{toolDiscovery: {discovery}}}"),
        ),
        everything("math").replace("spec: {", &format!("spec: {{{tools_of_server}")),
        pipeline("shout", ECHO, "tools: {include: ['math__*']}"),
    ];
    let folder = Folder::with(&manifests.concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["math", "shout"]).await;
    (folder, gateway)
}

#[tokio::test]
async fn tools_offered_to_pipelines_are_unknown_to_clients_of_both_eras() {
    let (_folder, gateway) = hidden("All").await;
    let mut listed = tools(&gateway).await;
    listed.sort();
    assert_eq!(listed, ["math__get-sum", "shout"]);
    let arguments = r#"{"message": "x"}"#;
    for sdk in SDKS {
        let answer = sdk.run(&gateway.url(), &["call", "math__echo", arguments], "")[0].to_string();
        assert!(!answer.contains("Echo: x"), "{sdk:?}: {answer}");
        let own = gateway.url_of("math");
        let listed = sdk.run(&own, &["list"], "");
        assert!(!listed.is_empty() && !json!(listed).to_string().contains("echo"), "{sdk:?}: {listed:?}");
        let answer = sdk.run(&own, &["call", "echo", arguments], "")[0].to_string();
        assert!(!answer.contains("Echo: x"), "{sdk:?}: {answer}");
        let answer = sdk.run(&gateway.url(), &["call", "shout", r#"{"prompt": "x"}"#], "")[0].to_string();
        assert!(answer.contains("Echo: x"), "the pipeline may call it: {sdk:?}: {answer}");
    }
    let unknown = Http::new().call(&gateway.url(), "math__echo", &json!({"message": "x"}), &json!({})).await;
    let other = Http::new().call(&gateway.url(), "math__ecko", &json!({"message": "x"}), &json!({})).await;
    assert_eq!(
        unknown["error"].to_string().replace("math__echo", ""),
        other["error"].to_string().replace("math__ecko", ""),
        "the answer is that of a tool that does not exist"
    );
    let invoked = Admin::of(&gateway).invoke(json!({"toolName": "echo", "parameters": {"message": "x"}})).await;
    assert_eq!(invoked["status"], "error", "{invoked}");
    let section = Admin::of(&gateway).get("tools?section=a.md%3A1").await;
    let section = section.to_string();
    assert!(section.contains("\"get-sum\"") && !section.contains("\"echo\""), "{section}");
    let admin = gateway.admin();
    let explained = run(&["explain", "math__echo", "--admin", &admin]);
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("spec.tools.offeredTo"), "{explained}");
}

#[tokio::test]
async fn tools_offered_to_pipelines_are_neither_found_nor_called_by_a_search() {
    let (_folder, gateway) = hidden("Search").await;
    let http = Http::new();
    let search =
        async |query: &str| http.call(&gateway.url(), "search_tools", &json!({"query": query}), &json!({})).await;
    until("a tool is found", async || search("sum of two numbers").await.to_string().contains("math__get-sum")).await;
    let found = search("echo a message").await.to_string();
    assert!(!found.contains("math__echo"), "{found}");
    let named = |tool: &str, arguments: Value| json!({"name": tool, "arguments": arguments});
    let answer =
        http.call(&gateway.url(), "call_tool", &named("math__echo", json!({"message": "x"})), &json!({})).await;
    assert!(!answer.to_string().contains("Echo: x"), "{answer}");
    let answer = http.call(&gateway.url(), "call_tool", &named("shout", json!({"prompt": "x"})), &json!({})).await;
    assert!(answer.to_string().contains("Echo: x"), "{answer}");
}

#[tokio::test]
async fn plugins_of_chains_call_no_tools_that_are_offered_to_pipelines() {
    let code = "export async function onRequest({ rawContent }, ctx) {
      const said = await ctx.callTool('math__echo', { message: 'x' }).then((r) => r.content[0].text, (e) => e.message);
      return { text: JSON.stringify({ ...JSON.parse(rawContent), prompt: said }), continue: true };
    }";
    let echo = "export const execute = ({ arguments: { prompt } }) => ({ output: { prompt } });";
    let manifests = [
        everything("math").replace("spec: {", "spec: {tools: {offeredTo: Pipelines}, "),
        plugin("calls", code, "role: Transform"),
        super::super::parts::chain("c", "Request", &["say"], &["calls"]),
        pipeline("say", echo, ""),
    ];
    let folder = Folder::with(&manifests.concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["math", "say"]).await;
    until("the tool is listed", async || tools(&gateway).await == ["say"]).await;
    let answer = call(&gateway, "say", &json!({"prompt": "y"})).await;
    let said = answer["structuredContent"]["prompt"].as_str().unwrap_or_default();
    assert!(!said.is_empty() && said != "y" && !said.contains("Echo"), "{answer}");
}

#[tokio::test]
async fn a_step_reaches_no_excluded_tool_by_the_gateways_own_ones() {
    let code = "export async function execute(state, ctx) {
      const reason = ({ message, data }) => data?.reason ?? message;
      const named = { name: 'math__echo', arguments: { message: 'x' } };
      return { output: {
        named: await ctx.callTool('call_tool', named).then(JSON.stringify, reason),
        found: await ctx.callTool('search_tools', { query: 'echo' }).then(JSON.stringify, reason),
      } };
    }";
    let search = "authentication: {anonymous: {}}, upstreams: {toolDiscovery: Search}";
    let manifests = [
        object("MCPGateway", "main", search),
        everything("math"),
        pipeline("sneaks", code, "tools: {include: ['*'], exclude: [math__echo]}"),
    ];
    let folder = Folder::with(&manifests.concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["math", "sneaks"]).await;
    let answer = call(&gateway, "sneaks", &json!({"prompt": "x"})).await;
    let refused = json!({"named": "ToolNotAllowed", "found": "ToolNotAllowed"});
    assert_eq!(answer["structuredContent"], refused, "{answer}");
}
