//! Log messages of a server with sessions over Streamable HTTP, which come on another stream than the answers: one that is read
//! after the answer of its call is for no other client.

use std::pin::pin;
use std::process::{Command, Stdio};

use super::harness::{Folder, Gateway};
use super::http::{Http, Session};
use super::parts::{external, tools_of, until};
use super::subscribed::Stream;
use crate::upstream::Running;

/// A server that logs on its stream right before it answers: `says` once, `chats` very often, and then has another tool.
/// `waits` answers once `goes` is called; `breaks` answers with HTTP 500.
const SERVER: &str = r"import http from 'node:http';
let stream = null, waiting = [];
const say = (message) => stream?.write(`data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`);
const log = (data) => say({ method: 'notifications/message', params: { level: 'info', data } });
const capabilities = { tools: { listChanged: true }, logging: {} }, serverInfo = { name: 'own', version: '1' };
const tools = ['says', 'chats', 'waits', 'goes', 'breaks'].map((name) => ({ name, inputSchema: { type: 'object' } }));
const results = { initialize: { protocolVersion: '2025-06-18', capabilities, serverInfo }, 'tools/list': { tools } };
http.createServer((request, response) => {
  let body = '';
  request.on('data', (data) => (body += data)).on('end', () => {
    if (request.method === 'GET') {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(':\n\n');
      stream = response;
      return;
    }
    const { id, method, params } = body ? JSON.parse(body) : {};
    if (id === undefined || !method) return response.writeHead(202).end();
    const result = results[method] ?? (method === 'tools/call' ? { content: [] } : {});
    const answer = () => {
      response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
    };
    const { name, arguments: given } = params ?? {};
    if (name === 'waits') return waiting.push(answer);
    if (name === 'breaks') return response.writeHead(500).end();
    if (name === 'goes') waiting.splice(0).forEach((go) => go());
    if (name === 'says') log(given.text);
    if (name === 'chats') {
      for (let n = 0; n < 10000; n++) log(given.text);
      tools.push({ ...tools[0], name: 'chatted' }), say({ method: 'notifications/tools/list_changed' });
    }
    answer();
  });
}).listen(process.env.PORT);";

/// The server, the gateway before it, and two clients that share its connection.
async fn started(folder: &Folder) -> (Running, Gateway, [Session; 2]) {
    folder.write("server.mjs", SERVER);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = Command::new("node");
    server.arg(folder.path().join("server.mjs")).env("PORT", port.to_string());
    let server = Running(server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    folder.write("manifests.yaml", &external("up", &format!("http://127.0.0.1:{port}/mcp")));
    let gateway = Gateway::start(folder);
    tools_of(&gateway, &["up"]).await;
    let http = Http::new();
    let sessions = [http.initialize(&gateway.url()).await, http.initialize(&gateway.url()).await];
    (server, gateway, sessions)
}

async fn says(session: &Session, text: &str) -> String {
    session.call_raw(2, "up__says", &format!(r#"{{"text":"{text}"}}"#)).await.body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_an_answered_call_is_not_given_to_an_open_call_of_another_client() {
    let folder = Folder::new();
    let (_server, _gateway, [session, other]) = started(&folder).await;
    let mut waits = pin!(other.call_raw(3, "up__waits", "{}"));
    for _ in 0..50 {
        tokio::select! {
            biased;
            answer = &mut waits => panic!("it does not wait: {}", answer.body),
            _ = says(&session, "PRIVATE") => {}
        }
    }
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut waits => break answer,
            _ = session.call_raw(4, "up__goes", "{}") => {}
        }
    };
    assert!(answer.body.contains("content") && !answer.body.contains("PRIVATE"), "{}", answer.body);
    until("the client hears what is its own", async || says(&other, "its own").await.contains("its own")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_read_long_after_the_answer_of_their_call_are_for_no_other_client() {
    let folder = Folder::new();
    let (_server, _gateway, [session, other]) = started(&folder).await;
    let mut stream = Stream::of_session(&other).await;
    session.call_raw(3, "up__chats", r#"{"text":"PRIVATE"}"#).await;
    loop {
        let said = stream.next().await;
        assert_eq!(said["method"], "notifications/tools/list_changed", "{said}");
        let tools = session.send(r#"{"jsonrpc":"2.0","id":4,"method":"tools/list"}"#.to_owned()).await;
        if tools.body.contains("up__chatted") {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_servers_http_ends_its_work_for_the_client() {
    let folder = Folder::new();
    let (_server, _gateway, [session, other]) = started(&folder).await;
    let broken = session.call_raw(3, "up__breaks", "{}").await;
    assert!(broken.json()["error"].is_object() && broken.body.contains("HTTP 500"), "{}", broken.body);
    until("another client hears of its calls again", async || says(&other, "its own").await.contains("its own")).await;
}
