//! Log messages of a server of 2026-07-28 that do not come in the response to a request: they belong to one, and nobody can tell
//! to which.

use std::path::Path;
use std::process::{Command, Stdio};

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::parts::{external, process, tools_of};
use super::subscribed::Stream;
use crate::upstream::{Running, free_port};

/// A fake server, since no real one says more than it may: over HTTP if there is a PORT, else over stdio. Its tool `says` logs
/// before it answers and, where everybody may hear it, afterwards; then there is another tool.
const SERVER: &str = r"import http from 'node:http';
import { createInterface } from 'node:readline';
const streams = [];
const tools = ['says'].map((name) => ({ name, inputSchema: { type: 'object' } }));
const capabilities = { tools: { listChanged: true }, logging: {} };
const results = { 'server/discover': { supportedVersions: ['2026-07-28'], capabilities }, 'tools/list': { tools } };
const log = (data) => ({ method: 'notifications/message', params: { level: 'info', data } });
// Takes a message. `say` sends another in the response, which `end` ends.
async function take({ id, method, params }, say, end) {
  if (id === undefined) return end();
  if (method === 'subscriptions/listen') {
    const _meta = { 'io.modelcontextprotocol/subscriptionId': id };
    streams.push((message) => say({ ...message, params: { ...message.params, _meta } }));
    const { notifications } = params;
    return streams.at(-1)({ method: 'notifications/subscriptions/acknowledged', params: { notifications } });
  }
  const is_call = method === 'tools/call';
  while (is_call && !streams.length) await new Promise((resolve) => setTimeout(resolve, 10));
  if (is_call) say(log('its own'));
  const known = results[method] ?? (is_call ? { content: [] } : undefined);
  say(known ? { id, result: { resultType: 'complete', ...known } } : { id, error: { code: -32601, message: 'no' } });
  end();
  if (!is_call) return;
  tools.push({ ...tools[0], name: 'said' });
  // Later, so that no request waits any more.
  await new Promise((resolve) => setTimeout(resolve, 300));
  [log('PRIVATE'), { method: 'notifications/tools/list_changed' }].forEach(streams.at(-1));
}
const text = (message) => JSON.stringify({ jsonrpc: '2.0', ...message });
if (process.env.PORT) http.createServer((request, response) => {
  let body = '';
  request.on('data', (data) => (body += data)).on('end', () => {
    if (request.method !== 'POST') return response.writeHead(405).end();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    take(JSON.parse(body), (message) => response.write(`data: ${text(message)}\n\n`), () => response.end());
  });
}).listen(process.env.PORT);
else createInterface({ input: process.stdin }).on('line', (line) =>
  take(JSON.parse(line), (message) => process.stdout.write(`${text(message)}\n`), () => {}));";

#[tokio::test(flavor = "multi_thread")]
async fn a_message_outside_of_responses_is_for_no_client() {
    for is_process in [false, true] {
        let folder = Folder::new();
        folder.write("server.mjs", SERVER);
        let (script, port) = (folder.path().join("server.mjs"), free_port());
        let mut server = Command::new("node");
        server.arg(&script).env("PORT", port.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
        let _server = (!is_process).then(|| Running(server.spawn().unwrap()));
        let manifest = match is_process {
            true => process("up", Path::new("node"), &[script.to_str().unwrap()]),
            false => external("up", &format!("http://127.0.0.1:{port}/mcp")),
        };
        folder.write("manifests.yaml", &manifest);
        let gateway = Gateway::start(&folder);
        tools_of(&gateway, &["up"]).await;
        let http = Http::new();
        let (session, other) = (http.initialize(&gateway.url()).await, http.initialize(&gateway.url()).await);
        let mut streams = [Stream::of_session(&session).await, Stream::of_session(&other).await];
        let says = session.call_raw(2, "up__says", "{}").await;
        // All that a process says comes on one stream, which clients share.
        assert!(
            says.body.contains("its own") != is_process && !says.body.contains("PRIVATE"),
            "{is_process}: {}",
            says.body
        );
        for stream in &mut streams {
            let said = stream.next().await;
            assert_eq!(said["method"], "notifications/tools/list_changed", "{is_process}: {said}");
        }
        let metrics = http.get(&format!("http://{}/metrics", gateway.admin())).await.body;
        let dropped = 1 + u32::from(is_process);
        let counted = format!(r#"hawsepipe_upstream_lines_dropped_total{{kind="message",upstream="up"}} {dropped}"#);
        assert!(metrics.lines().any(|line| line == counted), "{is_process}: {metrics}");
    }
}
