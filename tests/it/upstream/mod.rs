//! The adapter to MCP servers, against real ones and, where no real one misbehaves on demand, against fakes.

mod broken;
mod ends;
mod eras;
pub mod fake;
mod hostile;
mod idle;
mod life;
mod real;
mod shared;
pub mod tls;

use std::io::{BufRead, BufReader};
use std::ops::Deref;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hawsepipe::domain::budget::ByteBudget;
use hawsepipe::domain::ids::ObjectKey;
use hawsepipe::domain::instance::Instance;
use hawsepipe::domain::item::{Item, ItemKind};
use hawsepipe::domain::plan::{ArgumentValidation, EraSetting, HealthPlan, TransportPlan, UpstreamPlan};
use hawsepipe::domain::ports::{CallUpstream, ToClient};
use hawsepipe::domain::secret::SecretText;
use hawsepipe::domain::upstream::{
    Answer, ClientKey, InputRound, OutCall, Probed, QuestionWatch, ServerAnswer, ServerFacts, Target, UpstreamError,
    UpstreamTarget,
};
use hawsepipe::telemetry::catalog::Catalog;
use hawsepipe::transport::ServerLauncher;
use hawsepipe::upstream::{UpstreamMetrics, Upstreams};
use serde_json::value::RawValue;

use crate::fixtures;

/// Long enough for a slow machine; no test waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

fn key() -> ObjectKey {
    ObjectKey::new("default", "up")
}

fn target(transport: TransportPlan) -> UpstreamTarget {
    let health = HealthPlan { period_seconds: 30, timeout_ms: 5000, retry_backoff_ms: vec![1000], auto_recover: false };
    let plan = UpstreamPlan {
        for_pipelines: false,
        key: key(),
        labels: Default::default(),
        enabled: true,
        transport,
        era: EraSetting::Auto,
        http_transport: Default::default(),
        connect_timeout_ms: 10_000,
        call_timeout_ms: None,
        extend_on_progress: true,
        retry: Default::default(),
        pinning: None,
        idle_timeout_ms: 300_000,
        health,
        enable: None,
        argument_validation: ArgumentValidation::Off,
        concurrent_calls: None,
        max_response_size: None,
        include: vec![],
        exclude: vec![],
        overrides: vec![],
        refusing: None,
    };
    UpstreamTarget { plan, values: vec![], tls: vec![], allowed_addresses: vec![], max_response_size: 1024 * 1024 }
}

fn process(command: impl Into<String>, args: &[&str]) -> UpstreamTarget {
    let args = args.iter().map(|a| (*a).to_owned()).collect();
    let cwd = fixtures::checkout().to_owned();
    target(TransportPlan::Process { command: command.into(), args, cwd, env: vec![], per_session: false })
}

fn external(url: impl Into<String>) -> UpstreamTarget {
    target(TransportPlan::at(url))
}

/// server-everything over stdio; `marker` is an argument that it passes over and that finds its process.
fn everything(marker: &str) -> UpstreamTarget {
    let script = fixtures::node_module("@modelcontextprotocol/server-everything/dist/index.js");
    process("node", &[&script.to_string_lossy(), "stdio", marker])
}

/// The adapter with one upstream.
struct Adapter {
    upstreams: Upstreams,
    target: Mutex<Target>,
    counted: Catalog,
}

impl Deref for Adapter {
    type Target = Upstreams;
    fn deref(&self) -> &Upstreams {
        &self.upstreams
    }
}

impl Adapter {
    /// The target that there is now.
    fn target(&self) -> Target {
        Arc::clone(&self.target.lock().unwrap())
    }

    /// Puts another target in the place of the one that there is.
    fn replace(&self, target: UpstreamTarget) {
        *self.target.lock().unwrap() = Arc::new(target);
        self.prepare(&[self.target()]);
        self.retire(&[self.target()]);
    }

    /// Lines of this kind that were dropped.
    fn dropped(&self, kind: &str) -> u64 {
        let labels = format!(r#"{{kind="{kind}",upstream="up"}} "#);
        let text = self.counted.render();
        text.lines().find_map(|line| line.split_once(&labels)).map_or(0, |(_, count)| count.parse().unwrap())
    }

    async fn found(&self, limit: Duration) -> Result<Probed, UpstreamError> {
        self.upstreams.probe(&self.target(), limit).await
    }

    async fn probe(&self, limit: Duration) -> Result<ServerFacts, UpstreamError> {
        match self.found(limit).await? {
            Probed::Up(facts) => Ok(facts),
            other => panic!("{other:?}"),
        }
    }

    async fn list_tools(&self, limit: Duration) -> Result<Vec<Item>, UpstreamError> {
        Ok(self.upstreams.list(&self.target(), ItemKind::Tool, limit).await?.items)
    }
}

fn started(target: UpstreamTarget) -> Adapter {
    started_within(target, &Arc::default())
}

/// The same with this budget of bytes.
fn started_within(target: UpstreamTarget, budget: &Arc<ByteBudget>) -> Adapter {
    let metrics = UpstreamMetrics::new().unwrap();
    let counted = Catalog::default();
    metrics.register(&counted).unwrap();
    let upstreams = Upstreams::new(ServerLauncher::at(fixtures::program()), metrics, budget, Instance::new("test"));
    let adapter = Adapter { upstreams, target: Mutex::new(Arc::new(target)), counted };
    adapter.prepare(&[adapter.target()]);
    adapter
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.into()).unwrap()
}

fn out(tool: &str, arguments: &str) -> OutCall {
    OutCall {
        kind: ItemKind::Tool,
        name: tool.into(),
        members: vec![("arguments".into(), raw(arguments))],
        meta: vec![],
        wants_progress: false,
        log_level: None,
        timeout: PATIENCE,
        extend_on_progress: true,
        client: ClientKey::default(),
        watch: QuestionWatch::None,
        account: None,
        token: None,
        round: InputRound::default(),
        asked_log_level: None,
        task: None,
        task_wish: None,
    }
}

/// A client that keeps the progress and the log messages that it hears of.
#[derive(Default)]
struct Listener(Mutex<Vec<String>>);

impl ToClient for Listener {
    fn progress(&self, params: Box<RawValue>) {
        self.0.lock().unwrap().push(params.get().to_owned());
    }

    fn message(&self, params: Box<RawValue>) {
        self.0.lock().unwrap().push(params.get().to_owned());
    }
}

async fn call_heard(upstreams: &Adapter, call: OutCall, client: &Listener) -> Result<Answer, UpstreamError> {
    upstreams.call(&upstreams.target(), &call, client).await.map(|answered| answered.answer)
}

async fn call(upstreams: &Adapter, call: OutCall) -> Result<Answer, UpstreamError> {
    call_heard(upstreams, call, &Listener::default()).await
}

/// The text of a result.
async fn result_of(upstreams: &Adapter, out: OutCall) -> String {
    match call(upstreams, out).await.unwrap() {
        Answer::Result(result) => result.get().to_owned(),
        Answer::Error(error) => panic!("an error: {error}"),
    }
}

/// A server that is killed at the end of its test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// server-everything over Streamable HTTP at a port of the caller's choice.
pub fn everything_http(port: u16) -> Running {
    let script = fixtures::node_module("@modelcontextprotocol/server-everything/dist/index.js");
    let mut command = Command::new("node");
    command.arg(script).arg("streamableHttp").env("PORT", port.to_string());
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut running = Running(child);
    let stderr = running.0.stderr.take().unwrap();
    let (heard, hear) = std::sync::mpsc::channel();
    std::thread::spawn(move || BufReader::new(stderr).lines().map_while(Result::ok).for_each(|l| drop(heard.send(l))));
    let deadline = Instant::now() + PATIENCE;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        let said: Vec<_> = hear.try_iter().collect();
        assert!(Instant::now() < deadline && running.0.try_wait().unwrap().is_none(), "no server: {said:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    running
}

/// A port that nothing uses.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The Python SDK's server over HTTP, and its URL.
fn python_http(more: &[&str]) -> (Running, String) {
    let mut command = Command::new(fixtures::python());
    command.arg(fixtures::fixture("servers/modern.py")).args(more).stdout(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: serde_json::Value = serde_json::from_str(&line).unwrap();
    (running, said["url"].as_str().unwrap().to_owned())
}

fn secret(name: &str, value: &str) -> (String, SecretText) {
    (name.to_owned(), SecretText::new(value))
}

/// Waits until `done` says so.
async fn until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "still not: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
