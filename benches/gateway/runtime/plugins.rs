//! Plugins that return their input unchanged, one for each protocol, and the gateway's pool that runs them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use hawsepipe::domain::digest::sha256_hex;
use hawsepipe::domain::ids::ObjectKey;
use hawsepipe::domain::plan::{InterpreterPlan, PluginLimits, PluginPlan, Runtime, WrapperPlan};
use hawsepipe::domain::plugin::{ContentType, Encoding, Failure, Input, Metadata, Phase, PluginKind, Protocol, Role};
use hawsepipe::domain::ports::{
    Answering, Host, LinkedPlugin, Loading, PluginProgress, RunPlugin, WorkerInfo, WorkerState,
};
use hawsepipe::domain::upstream::Answer;
use hawsepipe::node::{Launcher, Lifetimes, WorkerMetrics, Workers};
use serde_json::value::RawValue;

use crate::gateway::BINARY;

/// The deadline of everything that is expected to succeed.
const SOON: Duration = Duration::from_secs(30);

/// The label of a Module in the report.
pub const MODULE_LABEL: &str = "Module";
/// The label of a Lines script in JavaScript.
pub const LINES_LABEL: &str = "Lines";
/// The code of a Module.
pub const MODULE: &str = "export default ({ rawContent }) => ({ text: rawContent, continue: true });";
/// The code of a script that serves one call.
pub const ONCE: &str = "const input = JSON.parse(require('node:fs').readFileSync(0, 'utf8'));
process.stdout.write(JSON.stringify({ text: input.rawContent, continue: true }));";
/// The code of a script that answers line by line.
const LINES: &str = "require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  process.stdout.write(`${JSON.stringify({ text: JSON.parse(line).rawContent, continue: true })}\\n`);
});";
/// The same in Python.
const PYTHON: &str = "import json, sys
for line in sys.stdin:
    print(json.dumps({'text': json.loads(line)['rawContent'], 'continue': True}), flush=True)
";
/// The code of a script that answers message by message, in MessagePack.
const PACKED: &str = concat!(
    include_str!("../../../tests/it/node/msgpack.mjs"),
    "await serve(({ rawContent }) => encode({ text: rawContent, continue: true }));"
);
/// The code of a Module that never answers.
pub const FOREVER: &str = "export default () => { for (;;); };";

/// A plugin with one protocol and its options.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The label in the report.
    pub label: &'static str,
    protocol: Protocol,
    reuse: bool,
    encoding: Encoding,
    /// Whether Python runs the code.
    pub is_python: bool,
    /// The extension distinguishes ESM from CommonJS.
    file_name: &'static str,
    code: &'static str,
}

const fn kind(label: &'static str, protocol: Protocol, file_name: &'static str, code: &'static str) -> Kind {
    Kind { label, protocol, reuse: false, encoding: Encoding::Json, is_python: false, file_name, code }
}

/// The kinds that are measured call by call.
pub const KINDS: [Kind; 6] = [
    Kind::module(MODULE),
    kind(LINES_LABEL, Protocol::Lines, "plugin.cjs", LINES),
    Kind { is_python: true, ..kind("Lines, Python", Protocol::Lines, "plugin", PYTHON) },
    Kind { encoding: Encoding::MessagePack, ..kind("Lines, MessagePack", Protocol::Lines, "plugin.mjs", PACKED) },
    Kind { reuse: true, ..kind("Once, reuse", Protocol::Once, "plugin.cjs", ONCE) },
    Kind::once(),
];

impl Kind {
    /// A Module with this code.
    pub const fn module(code: &'static str) -> Self {
        kind(MODULE_LABEL, Protocol::Module, "plugin.mjs", code)
    }

    /// A script that serves one call.
    pub const fn once() -> Self {
        kind("Once", Protocol::Once, "plugin.cjs", ONCE)
    }

    /// Whether this is a Module.
    pub fn is_module(self) -> bool {
        self.protocol == Protocol::Module
    }

    /// Whether each call needs a new worker.
    pub fn starts_anew(self) -> bool {
        self.protocol == Protocol::Once && !self.reuse
    }

    /// Makes the linked plugin, with up to `size` workers.
    pub fn link(self, size: u32) -> Arc<LinkedPlugin> {
        let plan = PluginPlan {
            wrapper: self.is_python.then(|| WrapperPlan { interpreter: Some(python()), args: Vec::new() }),
            kind: PluginKind::Middleware,
            version: None,
            descriptor: Default::default(),
            path: None,
            image: None,
            sha256: None,
            wanted_protocol: None,
            wanted_phases: None,
            key: ObjectKey::new("bench", "echo"),
            id: String::new(),
            digest: sha256_hex(self.code.as_bytes()),
            file_name: self.file_name.into(),
            folder: None,
            siblings: String::new(),
            role: Role::Transform,
            phases: vec![Phase::Response],
            protocol: self.protocol,
            reuse: self.reuse,
            encoding: self.encoding,
            enabled: true,
            order: 0,
            filter_upstreams: Vec::new(),
            filter_tools: Vec::new(),
            timeout_ms: None,
            config: None,
            env: Vec::new(),
            egress: Vec::new(),
            concurrency: 1,
            pool_size: None,
            max_executions: Some(1_000_000),
            max_lifetime_seconds: None,
            limits: PluginLimits::default(),
        };
        let identity = format!("{self:?}/{size}");
        Arc::new(LinkedPlugin { plan, code: self.code.into(), env: Vec::new(), identity, pool_size: size })
    }
}

/// The Python of PATH.
fn python() -> InterpreterPlan {
    InterpreterPlan { name: "python3".into(), path: "python3".into(), read_paths: Vec::new() }
}

/// A plugin and the workers that run it.
pub struct Rig {
    pub workers: Arc<Workers>,
    pub plugin: Arc<LinkedPlugin>,
}

impl Rig {
    /// Starts the pool, and waits until the plugin is loaded or has failed to load. Fails if there is no sandbox.
    pub async fn start(plugin: Arc<LinkedPlugin>) -> Result<Self> {
        let workers = Workers::new(Launcher::at(BINARY), Lifetimes::default(), WorkerMetrics::new()?)?;
        let runtime = Runtime { queue_timeout_ms: 30_000, ..Runtime::default() };
        workers.prepare(&[Arc::clone(&plugin)], &runtime).await;
        ensure!(workers.sandbox().refusal().is_none(), "{:?}", workers.sandbox());
        let mut seen = 0;
        while workers.loading(&plugin) == Loading::Underway {
            seen = workers.loads(seen).await;
        }
        Ok(Self { workers: Arc::new(workers), plugin })
    }

    /// Waits until `count` workers are ready for a call.
    pub async fn ready(&self, count: usize) -> Result<()> {
        let until = Instant::now() + SOON;
        while self.available().count() < count {
            ensure!(Instant::now() < until, "no worker became ready: {:?}", self.workers.workers());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Returns the workers that are ready for a call.
    pub fn available(&self) -> impl Iterator<Item = WorkerInfo> {
        self.workers.workers().into_iter().filter(|worker| worker.state == WorkerState::Available)
    }

    /// Makes one call and checks that the content comes back unchanged. Returns its time in microseconds.
    pub async fn call(&self, text: &str) -> Result<f64> {
        let began = Instant::now();
        let ran = self.workers.run(&self.plugin, &input(text), SOON, &Alone).await;
        let took = began.elapsed().as_secs_f64() * 1e6;
        let output = ran.output.map_err(|failure| anyhow!("{failure}"))?;
        ensure!(output.text == text, "the plugin gave something else back");
        Ok(took)
    }

    /// Ends all workers.
    pub async fn end(&self) {
        self.workers.shutdown().await;
    }

    /// Makes one call that must fail, and returns the failure.
    pub async fn failure(&self, timeout: Duration) -> Result<Failure> {
        let ran = self.workers.run(&self.plugin, &input(""), timeout, &Alone).await;
        ran.output.err().ok_or_else(|| anyhow!("it did not fail"))
    }
}

/// Makes the input of a plugin for this content.
pub fn input(content: &str) -> Input<'_> {
    Input {
        typed: None,
        tool_name: "up__read",
        raw_content: Some(content),
        max_tokens: None,
        metadata: Metadata {
            request_id: "0190-1",
            timestamp: "2026-01-02T03:04:05.678Z",
            server_name: "up",
            phase: Phase::Response.wire(),
            method: "tools/call",
            user_query: None,
            content_type: ContentType::Text,
            config: None,
            chain: "bench/echo",
            attempt: 1,
        },
    }
}

/// A host that grants nothing.
struct Alone;

impl Host for Alone {
    fn progress(&self, _: PluginProgress) {}

    fn call_tool<'a>(&'a self, _: &'a str, _: Option<&'a RawValue>) -> Answering<'a> {
        Box::pin(async { Answer::Error(RawValue::NULL.to_owned()) })
    }
}
