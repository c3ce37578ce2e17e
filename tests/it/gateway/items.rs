//! Prompts and resources of real servers of both eras, for clients of both eras.

use std::path::Path;

use serde_json::{Value, json};

use super::either::clients;
use super::harness::{Folder, Gateway, run};
use super::http::Http;
use super::parts::{
    ECHO_MODULE, everything, external, modern_http, modern_stdio, object, plugin, process, tools_of, until,
};

#[tokio::test(flavor = "multi_thread")]
async fn prompts_and_resources_of_both_eras_reach_clients_of_both() {
    let log = Folder::new();
    let (_modern, url) = modern_http(&log.path().join("log"));
    let folder = Folder::with(&[everything("everything"), external("modern", &url), modern_stdio("stdio")].concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything", "modern", "stdio"]).await;
    for client in clients(&gateway.url()).await {
        let prompts = client.names("prompts/list", "prompts", "name").await;
        for prompt in ["everything__simple-prompt", "modern__greet", "stdio__greet"] {
            assert!(prompts.iter().any(|listed| listed == prompt), "{prompt}: {prompts:?}");
        }
        let resources = client.names("resources/list", "resources", "uri").await;
        assert_eq!(resources.iter().filter(|uri| *uri == "text://note").count(), 1, "{resources:?}");
        let templates = client.names("resources/templates/list", "resourceTemplates", "uriTemplate").await;
        assert!(templates.iter().any(|template| template == "text://rows/{table}"), "{templates:?}");

        for name in ["modern__greet", "stdio__greet"] {
            let answer = client.ask("prompts/get", json!({"name": name, "arguments": {"name": "Ann"}})).await;
            assert_eq!(answer["result"]["messages"][0]["content"]["text"], "Greet Ann.", "{answer}");
        }
        let answer = client.ask("prompts/get", json!({"name": "everything__simple-prompt"})).await;
        assert!(answer["result"]["messages"][0]["content"]["text"].is_string(), "{answer}");
        for (uri, text) in [("text://note", "call ann@example.com"), ("text://rows/users", "rows of users")] {
            let answer = client.ask("resources/read", json!({"uri": uri})).await;
            assert_eq!(answer["result"]["contents"][0]["text"], text, "{answer}");
        }
        let unknown = client.ask("resources/read", json!({"uri": "nothing://at/all"})).await;
        assert!(matches!(unknown["error"]["code"].as_i64(), Some(-32002 | -32602)), "{unknown}");
    }
    for client in clients(&gateway.url_of("stdio")).await {
        assert_eq!(client.names("prompts/list", "prompts", "name").await, ["greet"]);
        let answer = client.ask("resources/read", json!({"uri": "text://note"})).await;
        assert_eq!(answer["result"]["contents"][0]["uri"], "text://note", "{answer}");
    }
}

/// A gateway before a server that answers `resources/list` with this, and fails to list prompts. It knows no second pages and
/// no templates.
async fn listing(resources: &str) -> (Folder, Gateway) {
    let folder = Folder::new();
    let code = r"import { createInterface } from 'node:readline';
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const capabilities = { tools: {}, prompts: {}, resources: {} }, serverInfo = { name: 'own', version: '1' };
const results = {
  initialize: { protocolVersion: '2025-11-25', capabilities, serverInfo },
  ping: {},
  'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
  'resources/list': RESOURCES,
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  if (results[method] && !params?.cursor) say({ id, result: results[method] });
  else if (method === 'prompts/list') say({ id, error: { code: -32000, message: 'the prompts are broken' } });
  else say({ id, error: { code: -32601, message: 'Method not found' } });
}";
    folder.write("server.mjs", &code.replace("RESOURCES", resources));
    let script = folder.path().join("server.mjs");
    folder.write("manifests.yaml", &process("up", Path::new("node"), &[script.to_str().unwrap()]));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    (folder, gateway)
}

/// Waits until the plan has this Problem, which comes when the list was tried, and looks that it has none about templates.
async fn has_problem(gateway: &Gateway, problem: &str) {
    let (http, url) = (Http::new(), format!("http://{}/api/v1/plan", gateway.admin()));
    until(problem, async || {
        let problems = http.get(&url).await.body;
        assert!(!problems.contains("templates"), "{problems}");
        problems.contains(problem)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_cannot_be_read_take_nothing_else_away() {
    let (_folder, gateway) = listing("{ resources: [{ uri: 'text:a', name: 'a' }] }").await;
    for client in clients(&gateway.url()).await {
        assert_eq!(client.names("tools/list", "tools", "name").await, ["up__echo"]);
        assert_eq!(client.names("resources/list", "resources", "uri").await, ["text:a"]);
        assert!(client.names("resources/templates/list", "resourceTemplates", "uriTemplate").await.is_empty());
        assert!(client.names("prompts/list", "prompts", "name").await.is_empty());
    }
    has_problem(&gateway, "prompts/list is not read anew").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_not_empty_because_its_second_page_is_an_unknown_method() {
    let (_folder, gateway) = listing("{ resources: [{ uri: 'text:a', name: 'a' }], nextCursor: 'b' }").await;
    let [client, ..] = &clients(&gateway.url()).await[..] else { panic!("there are clients") };
    assert!(client.names("resources/list", "resources", "uri").await.is_empty());
    has_problem(&gateway, "resources/list is not read anew").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_covers_the_methods_that_its_chain_names() {
    let deny = "export const onRequest = ({ rawContent }) => JSON.parse(rawContent).uri === 'text://rows/salaries'
        ? { text: 'not this table', continue: false, error: 'Forbidden' } : { text: rawContent, continue: true };
    export const onResponse = ({ rawContent }) => ({ text: rawContent.replaceAll('ann@', '***@'), continue: true });";
    let chain = |phase: &str| {
        let spec = format!("phase: {phase}, methods: [resources/read], entries: [{{name: guard}}]");
        object("PluginChain", &phase.to_lowercase(), &spec)
    };
    let guard = plugin("guard", deny, "role: Guard");
    let folder = Folder::with(&[modern_stdio("up"), guard, chain("Request"), chain("Response")].concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    for client in clients(&gateway.url()).await {
        let note = client.ask("resources/read", json!({"uri": "text://note"})).await;
        assert_eq!(note["result"]["contents"][0]["text"], "call ***@example.com", "{note}");
        let denied = client.ask("resources/read", json!({"uri": "text://rows/salaries"})).await;
        assert_eq!(denied["error"]["message"], "not this table", "{denied}");
        assert_eq!(denied["error"]["data"]["hawsepipe.dev/denied"]["plugin"], "default/guard", "{denied}");
        let rows = client.ask("resources/read", json!({"uri": "text://rows/users"})).await;
        assert_eq!(rows["result"]["contents"][0]["text"], "rows of users", "{rows}");
        let prompt = client.ask("prompts/get", json!({"name": "up__greet", "arguments": {"name": "ann@x"}})).await;
        assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "Greet ann@x.", "{prompt}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_tell_prompts_and_resources_from_tools() {
    let chain = object("PluginChain", "c", "phase: Response, methods: [resources/read], entries: [{name: echo}]");
    let folder = Folder::with(&[modern_stdio("up"), plugin("echo", ECHO_MODULE, ""), chain].concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let [legacy, modern] = clients(&gateway.url()).await;
    legacy.ask("prompts/get", json!({"name": "up__greet", "arguments": {"name": "Ann"}})).await;
    modern.ask("resources/read", json!({"uri": "text://rows/users?key=1"})).await;
    modern.ask("tools/call", json!({"name": "up__structured", "arguments": {"city": "Oslo"}})).await;
    let admin = gateway.admin();
    let run = |arguments: &[&str]| {
        let output = run(&[arguments, &["--admin", &admin]].concat());
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (output.status.code(), text)
    };
    let listed = |arguments: &[&str]| {
        let (_, text) = run(&[&["calls", "-o", "json"], arguments].concat());
        let items: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        let items = items["items"].as_array().unwrap().iter().map(|call| call["tool"].as_str().unwrap().to_owned());
        items.collect::<Vec<_>>()
    };
    assert_eq!(listed(&["--method", "prompts/get"]), ["greet"]);
    assert_eq!(listed(&["--method", "resources/read"]), ["text://rows/users"]);
    assert_eq!(listed(&["--tool", "text://rows/users?key=1"]), ["text://rows/users"]);
    assert_eq!(listed(&["--tool", "structured"]), ["structured"]);
    assert!(listed(&["--tool", "text://none"]).is_empty());
    let (_, table) = run(&["calls"]);
    assert!(table.starts_with("STARTED") && table.contains("resources/read") && table.contains("NAME"), "{table}");
    let (_, explained) = run(&["explain", "--method", "resources/read", "text://rows/users"]);
    assert!(explained.starts_with("text://rows/users (upstream up)") && explained.contains("runs"), "{explained}");
    let (_, explained) = run(&["explain", "--method", "prompts/get", "up/greet"]);
    assert!(explained.contains("covers resources/read only (spec.methods)"), "{explained}");
    let (code, unknown) = run(&["explain", "--method", "prompts/get", "up__structured"]);
    assert!(code != Some(0) && unknown.contains("there is no prompt \"up__structured\""), "{unknown}");
    let (code, bad) = run(&["explain", "--method", "ping", "up__structured"]);
    assert!(code != Some(0) && bad.contains("resources/read"), "{bad}");
    let (_, status) = run(&["status"]);
    assert!(status.contains("PROMPTS") && status.contains("RESOURCES"), "{status}");
}
