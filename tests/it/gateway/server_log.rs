//! Log messages of servers with sessions that do not come in the response to a call.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hyper::Method;
use serde_json::{Value, json};

use super::harness::{Folder, Gateway};
use super::http::{Http, Session};
use super::parts::{ECHO_MODULE, external, logged, object, plugin, process, tools_of, until};
use super::subscribed::Stream;
use crate::fixtures::node_module;
use crate::upstream::Running;

/// A server over stdio. Its tool `says` logs something before it answers, and `later` some time after; `both` waits until
/// it was called twice, and then logs. `work` goes on as a task, which has ended once `ends` was called; `silent` never
/// answers. What is under way is logged when `goes_on` is called, which also says that the list changed.
fn chatty(folder: &Folder) -> (String, PathBuf) {
    let code = r"import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const log = (data, level = 'info') => say({ method: 'notifications/message', params: { level, data } });
const capabilities = { tools: {}, logging: {}, tasks: { requests: { tools: { call: {} } } } }, serverInfo = { name: 'own', version: '1' };
const tools = ['says', 'later', 'both', 'work', 'silent', 'goes_on', 'ends'].map((name) => ({ name, inputSchema: { type: 'object' } }));
const results = { initialize: { protocolVersion: '2025-11-25', capabilities, serverInfo }, 'tools/list': { tools } };
const waiting = [], under_way = [];
let status = 'working';
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (method === 'logging/setLevel') appendFileSync(process.argv[2], `${params.level}\n`);
  if (id === undefined) continue;
  const answer = { id, result: results[method] ?? (method === 'tools/call' ? { content: [] } : {}) };
  if (params?.name === 'says') log('a debug text', 'debug'), log('a text');
  if (params?.name === 'later') setTimeout(() => log('a later text'), 100);
  if (['work', 'silent'].includes(params?.name)) under_way.push(params.arguments.text);
  if (params?.name === 'silent') continue;
  const task = { taskId: 't', status, createdAt: new Date().toISOString(), lastUpdatedAt: new Date().toISOString(), ttl: null };
  if (params?.name === 'work') answer.result = { task };
  if (method === 'tasks/get') answer.result = task;
  const go_on = () => under_way.forEach((text) => log(text));
  if (params?.name === 'goes_on') go_on(), setTimeout(() => (go_on(), say({ method: 'notifications/tools/list_changed' })), 100);
  if (params?.name === 'ends') status = 'completed';
  if (params?.name === 'both' && waiting.push(answer) < 2) continue;
  if (params?.name === 'both') log('a text of one of the two'), waiting.splice(0).forEach(say);
  else say(answer);
}";
    folder.write("server.mjs", code);
    let (script, log) = (folder.path().join("server.mjs"), folder.path().join("log"));
    let manifest = process("up", Path::new("node"), &[script.to_str().unwrap(), log.to_str().unwrap()]);
    (manifest, log)
}

async fn started(folder: &Folder, more: &str) -> (Gateway, PathBuf) {
    let (manifest, log) = chatty(folder);
    folder.write("manifests.yaml", &format!("{manifest}{more}"));
    let gateway = Gateway::start(folder);
    tools_of(&gateway, &["up"]).await;
    (gateway, log)
}

async fn set_level(session: &Session, level: &str) {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": level}});
    assert_eq!(session.send(body.to_string()).await.json()["result"], json!({}));
}

/// What a stream says when the tool `later` logs.
async fn heard_later(session: &Session, stream: &mut Stream) -> Value {
    session.call_raw(2, "up__later", "{}").await;
    let message = stream.next().await;
    assert_eq!(message["method"], "notifications/message", "{message}");
    message["params"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_during_a_call_is_heard_by_its_client_and_others_by_sessions() {
    let folder = Folder::new();
    let (gateway, _log) = started(&folder, "").await;
    let http = Http::new();
    let (session, other) = (http.initialize(&gateway.url()).await, http.initialize(&gateway.url()).await);
    set_level(&other, "error").await;
    let says = session.call_raw(2, "up__says", "{}").await;
    assert!(says.body.contains("a debug text") && says.body.contains("\"a text\""), "{}", says.body);
    let says = other.call_raw(2, "up__says", "{}").await;
    assert!(!says.body.contains("text\""), "it wants errors only: {}", says.body);
    let meta = json!({"io.modelcontextprotocol/logLevel": "info"});
    let says = http.call_raw(&gateway.url(), "up__says", "{}", &meta).await;
    assert!(says.body.contains("\"a text\"") && !says.body.contains("a debug text"), "{}", says.body);
    let says = http.call_raw(&gateway.url(), "up__says", "{}", &json!({})).await;
    assert!(!says.body.contains("a text"), "{}", says.body);

    let mut stream = Stream::of_session(&session).await;
    let later = heard_later(&session, &mut stream).await;
    assert_eq!(later, json!({"level": "info", "data": "a later text"}));

    // Nobody can tell which of two clients a message during the calls of both is for.
    let (one, two) = tokio::join!(session.call_raw(3, "up__both", "{}"), other.call_raw(3, "up__both", "{}"));
    assert!(!one.body.contains("a text of") && !two.body.contains("a text of"), "{} {}", one.body, two.body);
    assert_eq!(heard_later(&session, &mut stream).await["data"], "a later text", "nothing was said before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_told_the_lowest_level_that_a_client_wants() {
    let folder = Folder::new();
    let (gateway, log) = started(&folder, "").await;
    let http = Http::new();
    let (session, other) = (http.initialize(&gateway.url()).await, http.initialize(&gateway.url()).await);
    for (client, level, told) in
        [(&session, "warning", "warning"), (&other, "notice", "notice"), (&session, "info", "info")]
    {
        set_level(client, level).await;
        until("the server is told", async || logged(&log, told) == 1).await;
    }
    session.http.send(Method::DELETE, &session.url, &session.headers(), "").await;
    set_level(&other, "error").await;
    until("nobody else wants more", async || logged(&log, "error") == 1).await;
    let meta = json!({"io.modelcontextprotocol/logLevel": "debug"});
    let says = http.call_raw(&gateway.url(), "up__says", "{}", &meta).await;
    assert!(says.body.contains("a debug text") && logged(&log, "debug") == 1, "{}", says.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_passes_a_guard_on_a_response_of_the_server() {
    for (notifications, is_heard) in [("", false), (", notifications: Pass", true)] {
        let folder = Folder::new();
        let guard = plugin("guard", ECHO_MODULE, "role: Guard");
        // The guard is on another tool: whose a message is cannot be told.
        let chain = format!("phase: Response, tools: {{include: [both]}}, entries: [{{name: guard}}]{notifications}");
        let (gateway, _log) = started(&folder, &format!("{guard}{}", object("PluginChain", "guards", &chain))).await;
        let session = Http::new().initialize(&gateway.url()).await;
        let mut stream = Stream::of_session(&session).await;
        let says = session.call_raw(2, "up__says", "{}").await;
        assert_eq!(says.body.contains("a text"), is_heard, "{}", says.body);
        session.call_raw(2, "up__later", "{}").await;
        if is_heard {
            assert_eq!(stream.next().await["params"]["data"], "a later text");
            continue;
        }
        // The next thing that the stream says is something else.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        folder.write("more.yaml", &super::parts::notes_stdio("more"));
        assert_eq!(stream.next().await["method"], "notifications/tools/list_changed");
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
    let toggled = session.call_raw(2, "up__toggle-simulated-logging", "{}").await;
    // The server announces its lists too.
    while !toggled.body.contains("-level message") && stream.next().await["method"] != "notifications/message" {}
    folder.write("more.yaml", &super::parts::notes_stdio("more"));
    let mut said = json!(null);
    while said["method"] != "notifications/tools/list_changed" {
        said = of_other.next().await;
        assert_ne!(said["method"], "notifications/message", "{said}");
    }
}

/// Has the server log what it works on, during a call of this client and after it. Returns what the stream says of it.
async fn heard_of_work(caller: &Session, stream: &mut Stream) -> Vec<Value> {
    let goes_on = caller.call_raw(9, "up__goes_on", "{}").await;
    assert!(!goes_on.body.contains("PRIVATE"), "{}", goes_on.body);
    let mut heard = Vec::new();
    loop {
        let message = stream.next().await;
        if message["method"] == "notifications/tools/list_changed" {
            return heard;
        }
        heard.push(message["params"]["data"].clone());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_says_of_a_task_is_for_no_other_client() {
    let folder = Folder::new();
    let (gateway, _log) = started(&folder, "").await;
    let http = Http::new();
    let (session, other) = (http.initialize(&gateway.url()).await, http.initialize(&gateway.url()).await);
    let mut stream = Stream::of_session(&other).await;
    let ask = async |method: &str, params: Value| {
        let message = json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params});
        session.send(message.to_string()).await.json()["result"].clone()
    };
    let work = json!({"name": "up__work", "arguments": {"text": "PRIVATE"}, "task": {}});
    let task = ask("tools/call", work).await["task"]["taskId"].clone();
    assert_eq!(heard_of_work(&other, &mut stream).await, Vec::<Value>::new());
    assert_eq!(ask("tasks/get", json!({"taskId": task})).await["status"], "working");
    assert_eq!(heard_of_work(&other, &mut stream).await, Vec::<Value>::new());
    session.call_raw(4, "up__ends", "{}").await;
    assert_eq!(ask("tasks/get", json!({"taskId": task})).await["status"], "completed");
    assert_eq!(heard_later(&other, &mut stream).await["data"], "a later text", "the server works for nobody");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_says_of_a_call_that_was_given_up_is_for_no_other_client() {
    let folder = Folder::new();
    let (manifest, _log) = chatty(&folder);
    folder.write("manifests.yaml", &manifest.replace("spec: {", "spec: {timeouts: {callMs: 200}, "));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let http = Http::new();
    let (session, other) = (http.initialize(&gateway.url()).await, http.initialize(&gateway.url()).await);
    let mut stream = Stream::of_session(&other).await;
    let silent = session.call_raw(2, "up__silent", r#"{"text": "PRIVATE"}"#).await;
    assert!(silent.body.contains("no answer within"), "{}", silent.body);
    // However long that is ago.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    assert_eq!(heard_of_work(&other, &mut stream).await, Vec::<Value>::new());
}
