//! Servers, clients and manifests that several tests put together.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::harness::{Gateway, SOON};
use super::http::Http;
use crate::fixtures::{fixture, node_module, python};
use crate::upstream::Running;

/// An object of the gateway's API, `spec` in YAML's flow style.
pub fn object(kind: &str, name: &str, spec: &str) -> String {
    format!("---\napiVersion: hawsepipe.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n")
}

/// An upstream at a URL.
pub fn external(name: &str, url: &str) -> String {
    object("MCPUpstream", name, &format!("external: {{url: {url:?}}}"))
}

/// An upstream that is a process.
pub fn process(name: &str, command: &Path, args: &[&str]) -> String {
    object("MCPUpstream", name, &format!("process: {{command: {command:?}, args: {args:?}}}"))
}

/// server-everything over stdio.
pub fn everything(name: &str) -> String {
    let script = node_module("@modelcontextprotocol/server-everything/dist/index.js");
    process(name, Path::new("node"), &[script.to_str().unwrap(), "stdio"])
}

/// The server of exact bytes over stdio, with its log.
pub fn raw_stdio(name: &str, log: &Path) -> String {
    let script = fixture("servers/raw.mjs");
    process(name, Path::new("node"), &[script.to_str().unwrap(), "--stdio", "--log", log.to_str().unwrap()])
}

/// The same over HTTP, and its URL.
pub fn raw_http(log: &Path) -> (Running, String) {
    let mut command = Command::new("node");
    command.arg(fixture("servers/raw.mjs")).arg("--log").arg(log);
    announced(command)
}

/// The Python SDK's server over HTTP, and its URL.
pub fn modern_http(log: &Path) -> (Running, String) {
    let mut command = Command::new(python());
    command.arg(fixture("servers/modern.py")).arg("--log").arg(log);
    announced(command)
}

/// The Python SDK's server whose tool asks for input in its results, and its URL.
pub fn interview_http() -> (Running, String) {
    let mut command = Command::new(python());
    command.arg(fixture("servers/interview.py"));
    announced(command)
}

/// The Python SDK's server whose resources change, and its URL.
pub fn notes_http() -> (Running, String) {
    notes_at(0)
}

/// The same at a port, 0 for any.
pub fn notes_at(port: u16) -> (Running, String) {
    let mut command = Command::new(python());
    command.arg(fixture("servers/notes.py")).arg(port.to_string());
    announced(command)
}

/// The same over stdio.
pub fn notes_stdio(name: &str) -> String {
    process(name, &python(), &[fixture("servers/notes.py").to_str().unwrap(), "--stdio"])
}

/// The TypeScript SDK's server whose tools ask the client, and its URL.
pub fn asking_http(log: &Path) -> (Running, String) {
    asking_with(log, &[])
}

/// The same with more arguments.
pub fn asking_with(log: &Path, more: &[&str]) -> (Running, String) {
    let mut command = Command::new("node");
    command.arg(fixture("servers/asking.mjs")).arg("--log").arg(log).args(more);
    announced(command)
}

/// The same over HTTP+SSE, and its URL.
pub fn asking_sse(log: &Path) -> (Running, String) {
    let mut command = Command::new("node");
    command.arg(fixture("servers/asking.mjs")).arg("--sse").arg("--log").arg(log);
    announced(command)
}

/// The Python SDK's server over HTTP+SSE at a port, 0 for any, and its URL.
pub fn modern_sse(port: u16) -> (Running, String) {
    let mut command = Command::new(python());
    command.arg(fixture("servers/modern.py")).args(["--sse", "--port", &port.to_string()]);
    announced(command)
}

/// The server whose tools ask the client over stdio, a process for each session.
pub fn asking_processes(name: &str, log: &Path) -> String {
    let script = fixture("servers/asking.mjs");
    let args = [script.to_str().unwrap(), "--stdio", "--log", log.to_str().unwrap()];
    object("MCPUpstream", name, &format!("process: {{command: node, args: {args:?}, session: PerSession}}"))
}

/// The Python SDK's server with extensions, one of them of this colour, and its URL.
pub fn apps_http(name: &str, colour: &str) -> (Running, String) {
    let mut command = Command::new(python());
    command.arg(fixture("servers/apps.py")).args(["--name", name, "--colour", colour]);
    announced(command)
}

/// The Python SDK's server over stdio.
pub fn modern_stdio(name: &str) -> String {
    process(name, &python(), &[fixture("servers/modern.py").to_str().unwrap(), "--stdio"])
}

/// A plugin with its code inline and more of its spec.
pub fn plugin(name: &str, code: &str, more: &str) -> String {
    object("Plugin", name, &format!("source: {{inline: {}}}, {more}", Value::from(code)))
}

/// A chain of these plugins on these upstreams.
pub fn chain(name: &str, phase: &str, upstreams: &[&str], plugins: &[&str]) -> String {
    let entries: Vec<_> = plugins.iter().map(|plugin| format!("{{name: {plugin}}}")).collect();
    let spec = format!("phase: {phase}, upstreams: {{names: {upstreams:?}}}, entries: [{}]", entries.join(", "));
    object("PluginChain", name, &spec)
}

/// A module that gives back what it gets.
pub const ECHO_MODULE: &str = "export default ({ rawContent }) => ({ text: rawContent, continue: true });";
/// The same as a script of contract 1.0.
pub const ECHO_ONCE: &str = "const input = JSON.parse(require('fs').readFileSync(0, 'utf8'));
console.log(JSON.stringify({ text: input.rawContent, continue: true }));";

/// Starts a server that prints its URL first.
pub fn announced(mut command: Command) -> (Running, String) {
    let mut running = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
    (running, said["url"].as_str().unwrap().to_owned())
}

/// A client of the fixtures.
#[derive(Clone, Copy, Debug)]
pub struct Sdk {
    pub python: bool,
    mode: &'static str,
    /// Which version of the protocol it ends up with.
    pub version: &'static str,
}

/// The SDKs in both eras.
pub const SDKS: [Sdk; 4] = [
    Sdk { python: true, mode: "modern", version: "2026-07-28" },
    Sdk { python: true, mode: "legacy", version: "2025-11-25" },
    Sdk { python: false, mode: "modern", version: "2026-07-28" },
    Sdk { python: false, mode: "legacy", version: "2025-11-25" },
];

impl Sdk {
    /// Runs the client to its end and gives the lines that it prints after the first, which tells the connection.
    pub fn run(&self, url: &str, command: &[&str], input: &str) -> Vec<Value> {
        self.run_in(url, command, input, &[])
    }

    /// The same with more environment.
    pub fn run_in(&self, url: &str, command: &[&str], input: &str, environment: &[(&str, &str)]) -> Vec<Value> {
        let (program, script) = if self.python {
            (python(), fixture("clients/py_client.py"))
        } else {
            ("node".into(), fixture("clients/ts_client.mjs"))
        };
        let mut client = Command::new(program);
        client.arg(script).args(["--url", url, "--mode", self.mode]).args(command);
        client.envs(environment.iter().copied());
        let mut child = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let first = lines.next().unwrap();
        assert_eq!((&first["connected"], &first["protocolVersion"]), (&true.into(), &self.version.into()), "{first}");
        lines.collect()
    }
}

/// The lines of a server's log that hold `wanted`.
pub fn logged(log: &Path, wanted: &str) -> usize {
    std::fs::read_to_string(log).unwrap_or_default().lines().filter(|line| line.contains(wanted)).count()
}

/// Waits until the gateway has the tools of these upstreams: a call that comes earlier may time out on a busy machine.
pub async fn tools_of(gateway: &Gateway, upstreams: &[&str]) {
    let (http, url) = (Http::new(), format!("http://{}/api/v1/tools?limit=1000", gateway.admin()));
    until("the tools are listed", async || {
        let listed = http.get(&url).await.json();
        let tools = listed["items"].as_array().unwrap();
        upstreams.iter().all(|upstream| tools.iter().any(|tool| tool["upstream"] == *upstream))
    })
    .await;
}

/// Waits until `done` says so.
pub async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !done().await {
        assert!(Instant::now() < deadline, "still not: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
