//! The client pod, and what it counts.

use serde_json::{Value, json};

use super::commands::{MCP, apply, kubectl, try_run, until};

/// Starts the client, which calls tools until it is ended.
pub fn start() {
    kubectl(&["create", "configmap", "client", "-n", MCP, "--from-file=client.mjs=tests/e2e/client.mjs"]);
    apply("client.yaml");
}

/// The lines of its log that are about `key`.
///
/// # Errors
/// If there is no log, as before it has started.
fn lines(key: &str) -> Result<Vec<Value>, String> {
    let log = try_run("kubectl", &["logs", "-n", MCP, "client"], "")?;
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(lines.filter(|line| line.get(key).is_some()).collect())
}

/// When its first call was answered, in milliseconds since 1970.
pub fn first_answer() -> u64 {
    until("the client's first call is answered", || {
        let first = lines("first")?.first().and_then(|line| line["first"].as_u64());
        first.ok_or_else(|| format!("{:?}", lines("waiting")))
    })
}

const KINDS: [&str; 6] = ["modern", "legacy", "long", "sessions", "pipeline", "edited"];

/// How many calls of each kind were answered.
pub type Answered = [u64; KINDS.len()];

pub fn answered() -> Answered {
    let counts = lines("inFlight").ok().and_then(|mut counts| counts.pop()).unwrap_or_default();
    KINDS.map(|kind| counts[kind].as_u64().unwrap_or_default())
}

/// Waits until further calls of each kind were answered than `before`, and fails if a call failed since the start.
pub fn no_call_failed(before: Answered) {
    until("more calls of each kind are answered", || {
        let now = answered();
        let more = now.iter().zip(before).all(|(now, before)| *now > before);
        more.then_some(()).ok_or_else(|| format!("{KINDS:?}: {now:?}, {before:?} before"))
    });
    let failures = until("the client's log is read", || lines("failure"));
    println!("calls: {:?}", lines("inFlight").ok().and_then(|mut counts| counts.pop()));
    for failure in failures.iter().take(10) {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "{} calls failed", failures.len());
}

/// Makes one call in the client's pod, with the Node.js that is in it.
const CALL: &str = r"
const meta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'e2e', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};
const params = { ...JSON.parse(process.argv[1]), _meta: meta };
const response = await fetch('http://main-gateway.mcp.svc:8080/mcp', {
  method: 'POST',
  headers: {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': params.name,
  },
  body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
});
const body = await response.text();
const data = body.split('\n').filter((line) => line.startsWith('data:')).pop();
console.log(data ? data.slice(5) : body);
";

/// Calls a tool once, beside the client, and returns the result.
///
/// # Errors
/// The answer, if it has no result.
pub fn call(tool: &str, arguments: &Value) -> Result<Value, String> {
    let params = json!({"name": tool, "arguments": arguments}).to_string();
    let node = ["exec", "-n", MCP, "client", "--", "node", "--input-type=module", "--eval", CALL, "--", &params];
    let said = try_run("kubectl", &node, "")?;
    let mut answer: Value = serde_json::from_str(&said).map_err(|_| said.clone())?;
    match answer["result"].take() {
        Value::Null => Err(said),
        result => Ok(result),
    }
}
