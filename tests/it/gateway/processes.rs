//! What servers do in their own time: start slowly, change their list while it is read, speak as they end.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::invocations::Admin;
use super::killed::runs;
use super::outcomes::seen::list;
use super::parts::{modern_stdio, object, process, raw_stdio, tools_of, until};
use crate::fixtures::{fixture, python};

/// Far less than a first start may take (60 s), far more than an answer does.
const AT_ONCE: Duration = Duration::from_secs(10);

/// A server of these tools. `TOOLS` and `CALL` are JavaScript, which see `lists`, how often it was listed, and `name`.
fn server(tools: &str, call: &str) -> String {
    format!(
        r"import {{ createInterface }} from 'node:readline';
import {{ existsSync, writeFileSync }} from 'node:fs';
import {{ setTimeout as sleep }} from 'node:timers/promises';
const say = (message) => process.stdout.write(`${{JSON.stringify({{ jsonrpc: '2.0', ...message }})}}\n`);
const facts = {{ capabilities: {{ tools: {{ listChanged: true }} }}, serverInfo: {{ name: 'own', version: '1' }} }};
const tools = async (lists) => {{ {tools} }};
const call = async (name) => {{ {call} }};
let lists = 0;
for await (const line of createInterface({{ input: process.stdin }})) {{
  const {{ id, method, params }} = JSON.parse(line);
  if (method === 'initialize') say({{ id, result: {{ protocolVersion: '2025-11-25', ...facts }} }});
  else if (method === 'ping') say({{ id, result: {{}} }});
  else if (method === 'tools/list') {{
    const names = await tools((lists += 1));
    say({{ id, result: {{ tools: names.map((name) => ({{ name, inputSchema: {{ type: 'object' }} }})) }} }});
  }} else if (method === 'tools/call') {{
    say({{ id, result: {{ content: [{{ type: 'text', text: await call(params.name) }}] }} }});
  }} else if (id !== undefined) say({{ id, error: {{ code: -32601, message: 'Method not found' }} }});
}}"
    )
}

/// It as an upstream.
fn own(folder: &Folder, code: &str, args: &[&str]) -> String {
    folder.write("server.mjs", code);
    let script = folder.path().join("server.mjs");
    process("up", Path::new("node"), &[&[script.to_str().unwrap()], args].concat())
}

#[tokio::test]
async fn a_call_waits_for_the_first_start_of_its_server_and_for_nothing_else() {
    let folder = Folder::new();
    let go = folder.path().join("go");
    // As `npx` has it, which may have to fetch the server first.
    let wait = "while [ ! -e \"$0\" ]; do sleep 0.05; done; exec \"$@\"";
    let raw = fixture("servers/raw.mjs");
    let args = ["-c", wait, go.to_str().unwrap(), "node", raw.to_str().unwrap(), "--stdio"];
    folder.write(
        "manifests.yaml",
        &[
            object("MCPGateway", "main", "limits: {listTimeoutMs: 1000}, authentication: {anonymous: {}}"),
            process("up", Path::new("sh"), &args),
            raw_stdio("other", &folder.path().join("log")),
        ]
        .concat(),
    );
    let gateway = Gateway::start(&folder);
    gateway.until_answer("other__args", &json!({}), "/result/content/0/text", &json!("{}")).await;
    let (http, url, began) = (Http::new(), gateway.url(), Instant::now());
    let (caller, at) = (http.clone(), url.clone());
    let call = tokio::spawn(async move { caller.call(&at, "up__args", &json!({"m": 1}), &json!({})).await });
    // Nobody has these names, whatever the server that starts will list.
    for unknown in ["nobody__args", "other__nothing", "args"] {
        let answer = http.call(&url, unknown, &json!({}), &json!({})).await;
        assert_eq!(answer["error"]["code"], -32602, "{unknown}: {answer}");
    }
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    // A list does without the server once its deadline is over.
    let listed = list(&gateway, "tools").await;
    assert!(!listed.is_empty() && listed.iter().all(|tool| tool["upstream"] == "other"), "{listed:?}");
    assert!(began.elapsed() >= Duration::from_secs(1) && !call.is_finished());
    std::fs::write(go, "").unwrap();
    let answer = call.await.unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"m":1}"#, "{answer}");
}

#[tokio::test]
async fn a_list_that_changes_while_it_is_read_is_read_again() {
    let folder = Folder::new();
    let tools = "if (lists > 1) return ['new'];
  say({ method: 'notifications/tools/list_changed' });
  // What it answers with is old by the time that it arrives.
  await sleep(200);
  return ['old'];";
    folder.write("manifests.yaml", &own(&folder, &server(tools, "return name;"), &[]));
    let gateway = Gateway::start(&folder);
    until("the new tool is listed", async || {
        let tools = list(&gateway, "tools").await;
        tools.iter().map(|tool| tool["name"].as_str().unwrap()).eq(["up__new"])
    })
    .await;
}

#[tokio::test]
async fn what_a_server_says_as_it_ends_is_for_the_log_alone() {
    let folder = Folder::new();
    let died = folder.path().join("died");
    // It dies of its first call, and does not start again.
    let tools = "return ['print'];";
    let call = "writeFileSync(process.argv[2], '');
  process.stderr.write('out of ink\\n');
  process.exit(3);";
    let start = "if (existsSync(process.argv[2])) {
  process.stderr.write('no paper\\n');
  process.exit(4);
}";
    let code = server(tools, call).replace("let lists", &format!("{start}\nlet lists"));
    folder.write("manifests.yaml", &own(&folder, &code, &[died.to_str().unwrap()]));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let http = Http::new();
    for (said, words) in [("out of ink", "(exit status: 3)"), ("no paper", "(exit status: 4)")] {
        let answer = http.call_raw(&gateway.url(), "up__print", "{}", &json!({"hawsepipe.dev/trace": true})).await;
        let error = &answer.json()["error"];
        assert_eq!(error["data"]["reason"], "ConnectFailed", "{}", answer.body);
        assert!(error["message"].as_str().unwrap().contains(words), "{}", answer.body);
        assert!(!answer.body.contains("ink") && !answer.body.contains("paper"), "{}", answer.body);
        let warned = |line: &Value| line["level"] == "WARN" && line["message"].as_str().unwrap().contains(said);
        gateway.logged(warned);
    }
}

#[tokio::test]
async fn a_call_whose_server_died_is_sent_again_where_its_owner_says_that_this_is_safe() {
    let folder = Folder::new();
    let calls = folder.path().join("calls");
    // It dies of the first two calls of each tool.
    let call = "const file = `${process.argv[2]}-${name}`;
  const before = existsSync(file) ? readFileSync(file, 'utf8') : '';
  writeFileSync(file, `${before}x`);
  if (before.length < 2) process.exit(3);
  return before;";
    let code =
        server("return ['safe', 'other', 'invoked'];", call).replace("{ existsSync,", "{ existsSync, readFileSync,");
    let safe =
        ["safe", "invoked"].map(|name| format!("{{name: {name}, annotations: {{idempotentHint: true}}}}")).join(", ");
    let tools = format!("tools: {{overrides: [{safe}]}}, retry: {{backoffMs: 1100}}");
    let manifest = own(&folder, &code, &[calls.to_str().unwrap()]);
    folder.write("manifests.yaml", &manifest.replace("process:", &format!("{tools}, process:")));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let http = Http::new();
    let safe = http.call(&gateway.url(), "up__safe", &json!({}), &json!({})).await;
    assert_eq!(safe["result"]["content"][0]["text"], "xx", "{safe}");
    let other = http.call(&gateway.url(), "up__other", &json!({}), &json!({})).await;
    assert_eq!(other["error"]["data"]["reason"], "ConnectFailed", "{other}");
    let calls = http.get(&format!("http://{}/api/v1/calls", gateway.admin())).await.json();
    let retries: Vec<_> = calls["items"].as_array().unwrap().iter().map(|call| &call["retries"]).collect();
    assert_eq!(retries, [&Value::Null, &json!(2)], "the newest comes first: {calls}");
    let done = Admin::of(&gateway).invoke(json!({"toolName": "invoked"})).await;
    assert_eq!(
        (&done["status"], &done["retryAttempt"], &done["maxRetries"]),
        (&json!("success"), &json!(2), &json!(2))
    );
}

#[tokio::test]
async fn a_call_that_a_server_answers_in_its_own_way_says_so_in_the_log() {
    // Over several lines; under an id that it was not sent.
    let pretty = "process.stdout.write(`${JSON.stringify({ name }, null, 2)}\n`);";
    let own_id = "say({ id: [name], result: {} });";
    for (call, lines) in [(pretty, 3), (own_id, 1)] {
        let folder = Folder::new();
        let up = own(&folder, &server("return ['own'];", &format!("{call} await new Promise(() => {{}});")), &[]);
        let main = object("MCPGateway", "main", "limits: {callTimeoutMs: 1000}, authentication: {anonymous: {}}");
        folder.write("manifests.yaml", &[main, up].concat());
        let gateway = Gateway::start(&folder);
        tools_of(&gateway, &["up"]).await;
        let answer = Http::new().call_raw(&gateway.url(), "up__own", "{}", &json!({})).await;
        assert_eq!(answer.json()["error"]["data"]["reason"], "Timeout", "{}", answer.body);
        gateway.logged(|line| line["lines"] == lines && line["upstream"] == "default/up");
    }
}

/// A server that answers only after so many seconds. Each start adds its process id to `starts`. `first` is a command of the
/// shell that comes before it.
fn slow(name: &str, starts: &Path, first: &str, seconds: &str, more: &str) -> String {
    let script = format!("echo $$ >> \"$0\"; {first} exec \"$@\"");
    let servers = fixture("awkward/servers.py");
    let (python, servers) = (python(), servers.to_str().unwrap());
    let args =
        ["-c", &script, starts.to_str().unwrap(), python.to_str().unwrap(), servers, "--stdio", "unannounced", seconds];
    process(name, Path::new("sh"), &args).replace("process:", &format!("{more}, process:"))
}

/// What `hawsepipe status` shows of an upstream.
async fn status(gateway: &Gateway, upstream: &str) -> Value {
    let answer = Http::new().get(&format!("http://{}/api/v1/upstreams", gateway.admin())).await.json();
    answer["items"].as_array().unwrap().iter().find(|item| item["name"] == upstream).unwrap().clone()
}

#[tokio::test]
async fn a_process_starts_for_as_long_as_it_needs_unless_connect_ms_is_written() {
    let folder = Folder::new();
    let pids = |name: &str| -> Vec<u64> {
        let written = std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        written.lines().map(|pid| pid.parse().unwrap()).collect()
    };
    let (patient, limited) = (folder.path().join("patient"), folder.path().join("limited"));
    // The first try fails, which starts it twice: later tries have the time limit of a probe, not of a first one.
    let fails = "[ $(wc -l < \"$0\") -gt 2 ] || exit 1;";
    let manifests = slow("patient", &patient, fails, "7", "health: {timeoutMs: 500}")
        + &slow("limited", &limited, "", "60", "timeouts: {connectMs: 1000}");
    folder.write("manifests.yaml", &manifests);
    let gateway = Gateway::start(&folder);

    until("the limit is named", async || {
        let error = status(&gateway, "limited").await["error"].to_string();
        error.contains("no handshake within 1s (spec.timeouts.connectMs is 1000)")
    })
    .await;
    until("it was ended", async || !pids("limited").first().is_some_and(runs)).await;
    until("the other one is said to start", async || {
        status(&gateway, "patient").await["error"].as_str().is_some_and(|error| error.starts_with("starting for "))
    })
    .await;
    tools_of(&gateway, &["patient"]).await;
    assert_eq!(pids("patient").len(), 3, "it was not started again while it started");
    let answer = Http::new().call(&gateway.url(), "patient__t", &json!({"a": 1}), &json!({})).await;
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"a": 1}"#, "{answer}");
}

#[tokio::test]
async fn a_process_ends_for_lack_of_use_only_at_a_written_limit_and_the_log_says_so() {
    let rests =
        modern_stdio("rests").replace("process:", "timeouts: {idleMs: 500}, health: {periodSeconds: 5}, process:");
    let folder = Folder::with(&(rests + &modern_stdio("stays")));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["rests", "stays"]).await;
    let line = gateway.logged(|line| {
        line["message"].as_str().is_some_and(|said| said.starts_with("its process ends after 500ms without a call"))
    });
    assert_eq!((&line["upstream"], &line["level"]), (&json!("default/rests"), &json!("INFO")));
    until("it rests", async || status(&gateway, "rests").await["restingSince"].is_u64()).await;
    let stays = status(&gateway, "stays").await;
    assert_eq!((&stays["connectionState"], &stays["restingSince"]), (&json!("Connected"), &Value::Null), "{stays}");
    assert!(!gateway.log().iter().any(|line| line.contains("without a call") && line.contains("default/stays")));
    tools_of(&gateway, &["rests"]).await;
    let answer = Http::new().call(&gateway.url(), "rests__echo", &json!({"message": "x"}), &json!({})).await;
    assert!(answer["result"]["content"][0]["text"].is_string(), "{answer}");
}
