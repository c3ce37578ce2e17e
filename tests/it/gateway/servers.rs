//! Servers that are edited, that fail, or that behave badly: what other calls and clients notice of it.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::manifests::{chain, gateway, object, plugin, raw_server, yaml};
use super::outcomes::seen::list;
use super::parts::{raw_http, tools_of, until};
use crate::fixtures::fixture;

/// Waits until so many plans were put in force.
async fn plans(running: &Gateway, wanted: usize) {
    until("the plan is in force", async || {
        running.log().iter().filter(|line| line.contains("plan in force")).count() >= wanted
    })
    .await;
}

#[tokio::test]
async fn a_rotated_header_fails_no_call() {
    let folder = Folder::new();
    let (_server, url) = raw_http(&folder.path().join("log"));
    let slow = "export default async ({ rawContent: text }) => {
        await new Promise((done) => setTimeout(done, 1000));
        return { text, continue: true };
    };";
    let write = |key: usize| {
        let external = json!({"url": url, "headers": [{"name": "x-key", "value": key.to_string()}]});
        let limits = json!({"plugins": {"maxConcurrentExecutions": 50, "poolSizePerPlugin": 5}});
        let objects = [
            gateway(&limits),
            object("MCPUpstream", "up", &json!({"external": external})),
            plugin("slow", slow, &json!({})),
            chain("slow", "Request", "args", &[json!({"name": "slow"})]),
        ];
        folder.write("manifests.yaml", &yaml(&objects));
    };
    write(0);
    let running = Gateway::start(&folder);
    tools_of(&running, &["up"]).await;
    let call = |tool: &'static str| {
        let url = running.url();
        tokio::spawn(async move { Http::new().call(&url, tool, &json!({"ms": 1}), &json!({})).await })
    };
    let in_chains: Vec<_> = (0..5).map(|_| call("up__args")).collect();
    for edit in 1..=3 {
        write(edit);
        while running.log().iter().filter(|line| line.contains("plan in force")).count() <= edit {
            // Calls that come while the plans are exchanged.
            let answer = call("up__slow").await.unwrap();
            assert!(answer["result"].is_object(), "{answer}");
        }
    }
    for answer in in_chains {
        let answer = answer.await.unwrap();
        assert!(answer["result"].is_object(), "{answer}");
    }
}

/// Processes of this machine whose command line holds `marker`.
fn processes(marker: &str) -> usize {
    let names = std::fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().into_string().ok());
    let lines = names.filter_map(|name| std::fs::read(format!("/proc/{}/cmdline", name.parse::<u32>().ok()?)).ok());
    lines.filter(|line| memchr::memmem::find(line, marker.as_bytes()).is_some()).count()
}

/// A server that ends neither with its input nor when asked to, after what `first` starts.
fn stubborn(first: &str, marker: &str) -> Value {
    let raw = fixture("servers/raw.mjs").display().to_string();
    let script = format!("trap '' TERM HUP; {first} node \"$0\" --stdio; while :; do sleep 1; done");
    object("MCPUpstream", "up", &json!({"process": {"command": "sh", "args": ["-c", script, raw, marker]}}))
}

#[tokio::test]
async fn a_server_ends_with_a_gateway_that_is_killed() {
    let marker = format!("stubborn-{}", uuid::Uuid::new_v4().simple());
    let folder = Folder::with(&yaml(&[gateway(&json!({})), stubborn("", &marker)]));
    let running = Gateway::start(&folder);
    tools_of(&running, &["up"]).await;
    running.signal(Signal::KILL);
    assert!(!running.ended().await);
    until("the server ended", async || processes(&marker) == 0).await;
}

#[tokio::test]
async fn what_a_server_started_ends_with_a_gateway_that_ends() {
    let marker = format!("stubborn-{}", uuid::Uuid::new_v4().simple());
    for way in ["", "setsid"] {
        let background = format!("{way} sh -c 'while :; do sleep 1; done' \"$1\" &");
        let folder = Folder::with(&yaml(&[gateway(&json!({})), stubborn(&background, &marker)]));
        let running = Gateway::start(&folder);
        tools_of(&running, &["up"]).await;
        assert!(processes(&marker) >= 2);
        assert!(running.end().1);
        until("all of it ended", async || processes(&marker) == 0).await;
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_started_is_said_to_be_down() {
    let nocmd = object("MCPUpstream", "nocmd", &json!({"process": {"command": "no-such-command"}}));
    let folder = Folder::with(&yaml(&[gateway(&json!({})), nocmd, raw_server("up", &[])]));
    let running = Gateway::start(&folder);
    let answer = Http::new().call(&running.url(), "nocmd__t", &json!({}), &json!({})).await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("upstream nocmd is down") && message.contains("no-such-command"), "{answer}");
    assert_eq!(answer["error"]["data"], json!({"reason": "UpstreamDown", "upstream": "nocmd", "retryAfterMs": 1000}));
}

/// A server of these definitions that first prints a line of its own.
fn server(definitions: &Value) -> String {
    format!(
        r"import {{ createInterface }} from 'node:readline';
const say = (message) => process.stdout.write(`${{JSON.stringify({{ jsonrpc: '2.0', ...message }})}}\n`);
console.log('Server ready, token', process.env.TOKEN);
console.log('and running');
const capabilities = {{ tools: {{}} }}, serverInfo = {{ name: 'own', version: '1' }};
for await (const line of createInterface({{ input: process.stdin }})) {{
  const {{ id, method }} = JSON.parse(line);
  if (method === 'initialize') say({{ id, result: {{ protocolVersion: '2025-11-25', capabilities, serverInfo }} }});
  else if (method === 'tools/list') say({{ id, result: {{ tools: {definitions} }} }});
  else if (id !== undefined) say({{ id, error: {{ code: -32601, message: 'Method not found' }} }});
}}"
    )
}

#[tokio::test]
async fn a_tool_that_clients_cannot_read_is_left_out_and_a_stray_line_is_told_once() {
    let folder = Folder::new();
    let tools = json!([
        {"name": "good", "inputSchema": {"type": "object"}},
        {"name": "bare"},
        {"name": "odd", "inputSchema": {"type": "objekt"}},
        {"name": "task", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
    ]);
    folder.write("server.mjs", &server(&tools));
    let process = json!({"command": "node", "args": [folder.path().join("server.mjs")],
        "env": [{"name": "TOKEN", "value": "swordfish"}]});
    folder.write(
        "manifests.yaml",
        &yaml(&[gateway(&json!({})), object("MCPUpstream", "up", &json!({"process": process}))]),
    );
    let running = Gateway::start(&folder);
    tools_of(&running, &["up"]).await;
    let names: Vec<_> = list(&running, "tools").await.iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["up__good", "up__task"]);
    let plan = Http::new().get(&format!("http://{}/api/v1/plan", running.admin())).await.json();
    let said: Vec<_> = plan["problems"].as_array().unwrap().iter().map(|p| p["message"].as_str().unwrap()).collect();
    let words = ["\"bare\" is left out: its inputSchema is missing", "\"odd\""];
    assert!(words.iter().all(|words| said.iter().any(|said| said.contains(words))), "{said:?}");
    let stray: Vec<_> = running.log().into_iter().filter(|line| line.contains("is not an MCP message")).collect();
    assert!(stray.len() == 1 && stray[0].contains("Server ready, token [secret]"), "{stray:?}");
}

#[tokio::test]
async fn an_upstream_that_is_the_gateway_itself_is_refused() {
    let folder = Folder::with(&yaml(&[gateway(&json!({})), raw_server("up", &[])]));
    let running = Gateway::start(&folder);
    let itself = object("MCPUpstream", "itself", &json!({"external": {"url": running.url()}}));
    folder.write("itself.yaml", &yaml(&[itself]));
    plans(&running, 2).await;
    running.logged(|line| line["message"].as_str().is_some_and(|said| said.contains("leads back to this gateway")));
    let tools = list(&running, "tools").await;
    assert!(!tools.is_empty() && tools.iter().all(|tool| tool["upstream"] == "up"), "{tools:?}");
}
