//! Log messages of servers with sessions that do not come in the response to a call.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::harness::{Folder, Gateway};
use super::http::{Http, Session};
use super::parts::{ECHO_MODULE, external, object, plugin, process, tools_of, until};
use super::subscribed::Stream;
use crate::fixtures::node_module;
use crate::upstream::Running;

/// A server over stdio. Its tool `says` logs something before it answers, and then says that the list changed.
fn chatty(folder: &Folder) -> (String, PathBuf) {
    let code = r"import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const log = (data, level = 'info') => say({ method: 'notifications/message', params: { level, data } });
const capabilities = { tools: { listChanged: true }, logging: {} }, serverInfo = { name: 'own', version: '1' };
const tools = [{ name: 'says', inputSchema: { type: 'object' } }];
const results = { initialize: { protocolVersion: '2025-11-25', capabilities, serverInfo }, 'tools/list': { tools } };
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (method === 'logging/setLevel') appendFileSync(process.argv[2], `${params.level}\n`);
  if (id === undefined) continue;
  if (params?.name === 'says') log('a debug text', 'debug'), log('a text');
  say({ id, result: results[method] ?? (method === 'tools/call' ? { content: [] } : {}) });
  if (params?.name === 'says') say({ method: 'notifications/tools/list_changed' });
}";
    folder.write("server.mjs", code);
    let (script, log) = (folder.path().join("server.mjs"), folder.path().join("log"));
    let manifest = process("up", Path::new("node"), &[script.to_str().unwrap(), log.to_str().unwrap()]);
    (manifest, log)
}

/// A gateway before that server: one process for all, or one for each session.
async fn started(folder: &Folder, is_own: bool, more: &str) -> (Gateway, PathBuf) {
    let (manifest, log) = chatty(folder);
    let manifest = if is_own { manifest.replace("process: {", "process: {session: PerSession, ") } else { manifest };
    folder.write("manifests.yaml", &format!("{manifest}{more}"));
    let gateway = Gateway::start(folder);
    tools_of(&gateway, &["up"]).await;
    (gateway, log)
}

/// The number of log messages that were dropped.
async fn dropped(gateway: &Gateway) -> u64 {
    let metrics = Http::new().get(&format!("http://{}/metrics", gateway.admin())).await.body;
    let series = r#"hawsepipe_upstream_lines_dropped_total{kind="message",upstream="up"} "#;
    metrics.lines().find_map(|line| line.strip_prefix(series)?.parse().ok()).unwrap_or(0)
}

async fn set_level(session: &Session, level: &str) {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": level}});
    assert_eq!(session.send(body.to_string()).await.json()["result"], json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_process_that_clients_share_are_dropped_and_counted() {
    let folder = Folder::new();
    let (gateway, _log) = started(&folder, false, "").await;
    let http = Http::new();
    let session = http.initialize(&gateway.url()).await;
    let mut stream = Stream::of_session(&session).await;
    set_level(&session, "debug").await;
    let says = session.call_raw(2, "up__says", "{}").await;
    assert!(says.body.contains("content") && !says.body.contains("text\""), "{}", says.body);
    let said = stream.next().await;
    assert_eq!(said["method"], "notifications/tools/list_changed", "{said}");
    let meta = json!({"io.modelcontextprotocol/logLevel": "debug"});
    let says = http.call_raw(&gateway.url(), "up__says", "{}", &meta).await;
    assert!(!says.body.contains("text\""), "{}", says.body);
    assert_eq!(dropped(&gateway).await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_process_of_one_session_come_on_its_stream_from_its_level_on() {
    let folder = Folder::new();
    let (gateway, _log) = started(&folder, true, "").await;
    let http = Http::new();
    let (session, other) = (http.initialize(&gateway.url()).await, http.initialize(&gateway.url()).await);
    let (mut stream, mut of_other) = (Stream::of_session(&session).await, Stream::of_session(&other).await);
    set_level(&session, "info").await;
    let says = session.call_raw(2, "up__says", "{}").await;
    assert!(!says.body.contains("text\""), "{}", says.body);
    let mut heard = async || loop {
        let said = stream.next().await;
        if said["method"] == "notifications/message" {
            return said["params"].clone();
        }
    };
    assert_eq!(heard().await, json!({"level": "info", "data": "a text"}));
    set_level(&session, "debug").await;
    session.call_raw(3, "up__says", "{}").await;
    assert_eq!(heard().await["data"], "a debug text");
    assert_eq!(heard().await["data"], "a text");
    folder.write("more.yaml", &super::parts::notes_stdio("more"));
    let mut said = json!(null);
    until("the other session hears of the new tools", async || {
        said = of_other.next().await;
        assert_ne!(said["method"], "notifications/message", "{said}");
        let tools = other.send(r#"{"jsonrpc":"2.0","id":4,"method":"tools/list"}"#.to_owned()).await;
        tools.body.contains("more__")
    })
    .await;
    // A client without a session uses the process that is for all.
    let meta = json!({"io.modelcontextprotocol/logLevel": "debug"});
    let says = http.call_raw(&gateway.url(), "up__says", "{}", &meta).await;
    assert!(!says.body.contains("text\""), "{}", says.body);
    assert_eq!(dropped(&gateway).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_one_session_gets_the_level_of_its_client_before_a_call() {
    let folder = Folder::new();
    let (gateway, log) = started(&folder, true, "").await;
    let http = Http::new();
    let session = http.initialize(&gateway.url()).await;
    for level in ["warning", "error", "error", "info"] {
        set_level(&session, level).await;
        session.call_raw(2, "up__says", "{}").await;
    }
    // Messages of the process that is for all would be dropped.
    let meta = json!({"io.modelcontextprotocol/logLevel": "debug"});
    http.call_raw(&gateway.url(), "up__says", "{}", &meta).await;
    session.call_raw(3, "up__says", "{}").await;
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "warning\nerror\ninfo\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_passes_a_guard_on_a_response_of_the_server() {
    for (notifications, is_heard) in [("", false), (", notifications: Pass", true)] {
        let folder = Folder::new();
        let guard = plugin("guard", ECHO_MODULE, "role: Guard");
        // The guard is on another tool: a message outside of responses belongs to no call.
        let chain = format!("phase: Response, tools: {{include: [other]}}, entries: [{{name: guard}}]{notifications}");
        let more = format!("{guard}{}", object("PluginChain", "guards", &chain));
        let (gateway, _log) = started(&folder, true, &more).await;
        let session = Http::new().initialize(&gateway.url()).await;
        let mut stream = Stream::of_session(&session).await;
        session.call_raw(2, "up__says", "{}").await;
        if is_heard {
            while stream.next().await["params"]["data"] != "a text" {}
            continue;
        }
        // What the stream says until the next change of the plan is something else.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        folder.write("more.yaml", &super::parts::notes_stdio("more"));
        until("the new tools are there", async || {
            assert_eq!(stream.next().await["method"], "notifications/tools/list_changed");
            let tools = session.send(r#"{"jsonrpc":"2.0","id":4,"method":"tools/list"}"#.to_owned()).await;
            tools.body.contains("more__")
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_of_one_client_is_heard_by_that_client() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let script = node_module("@modelcontextprotocol/server-everything/dist/index.js");
    let mut server = Command::new("node");
    server.arg(script).arg("streamableHttp").env("PORT", port.to_string());
    let _server = Running(server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let folder = Folder::with(&external("up", &format!("http://127.0.0.1:{port}/mcp")));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let http = Http::new();
    // A client that answers questions has a connection of its own.
    let session = http.initialize_with(&gateway.url(), &json!({"sampling": {}})).await;
    let other = http.initialize(&gateway.url()).await;
    let (mut stream, mut of_other) = (Stream::of_session(&session).await, Stream::of_session(&other).await);
    session.call_raw(2, "up__toggle-simulated-logging", "{}").await;
    // The server announces its lists too.
    while stream.next().await["method"] != "notifications/message" {}
    folder.write("more.yaml", &super::parts::notes_stdio("more"));
    let mut said = json!(null);
    while said["method"] != "notifications/tools/list_changed" {
        said = of_other.next().await;
        assert_ne!(said["method"], "notifications/message", "{said}");
    }
}
