//! Workers against real Node.js, started through the built program.

mod bounds;
mod callbacks;
mod egress;
mod inspect;
mod life;
mod lines;
mod memory;
mod module;
mod once;
mod packages;
mod places;
mod pool;
mod reuse;
mod seats;
mod succession;
mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hawsepipe::domain::ids::ObjectKey;
use hawsepipe::domain::plan::{PluginLimits, PluginPlan, Runtime};
use hawsepipe::domain::plugin::{
    ContentType, Encoding, Failure, Input, Metadata, Output, Phase, PluginKind, Protocol, Ran, Role,
};
use hawsepipe::domain::ports::{Answering, Host, LinkedPlugin, Loading, PluginProgress, RunPlugin};
use hawsepipe::domain::secret::SecretText;
use hawsepipe::node::WorkerMetrics;
use hawsepipe::node::{Launcher, Lifetimes, Workers};
use hawsepipe::telemetry::catalog::Catalog;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::fixtures::program;

/// Workers with their metrics.
pub struct Rig {
    pub workers: Arc<Workers>,
    catalog: Catalog,
}

impl Rig {
    pub fn new() -> Self {
        Self::living(Lifetimes::default())
    }

    pub fn living(lifetimes: Lifetimes) -> Self {
        let (metrics, catalog) = (WorkerMetrics::new().unwrap(), Catalog::default());
        metrics.register(&catalog).unwrap();
        Self { workers: Arc::new(Workers::new(Launcher::at(program()), lifetimes, metrics).unwrap()), catalog }
    }

    /// A rig in which these plugins are warm.
    pub async fn with(plugins: &[&Arc<LinkedPlugin>]) -> Self {
        let rig = Self::new();
        rig.prepare(plugins, &runtime()).await;
        rig
    }

    pub async fn prepare(&self, plugins: &[&Arc<LinkedPlugin>], runtime: &Runtime) {
        let plugins: Vec<_> = plugins.iter().map(|plugin| Arc::clone(plugin)).collect();
        self.workers.prepare(&plugins, runtime).await;
        let loaded = async {
            let mut seen = 0;
            while plugins.iter().any(|plugin| self.workers.loading(plugin) == Loading::Underway) {
                seen = self.workers.loads(seen).await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(5), loaded).await;
    }

    pub async fn run(&self, plugin: &Arc<LinkedPlugin>, content: &str) -> Ran {
        self.run_for(plugin, content, 5000).await
    }

    pub async fn run_for(&self, plugin: &Arc<LinkedPlugin>, content: &str, timeout_ms: u64) -> Ran {
        self.workers.run(plugin, &input(content), Duration::from_millis(timeout_ms), &Alone).await
    }

    pub async fn answer(&self, plugin: &Arc<LinkedPlugin>, content: &str) -> Output {
        self.run(plugin, content).await.output.unwrap()
    }

    pub async fn failure(&self, plugin: &Arc<LinkedPlugin>, content: &str) -> Failure {
        self.run(plugin, content).await.output.unwrap_err()
    }

    /// A counter's value over all plugins, by its `cause`; of all causes where that is empty.
    pub fn count(&self, metric: &str, cause: &str) -> f64 {
        let label = if cause.is_empty() { String::new() } else { format!("cause=\"{cause}\"") };
        self.counted(metric, &label)
    }

    /// A counter's value over all lines that hold these labels.
    pub fn counted(&self, metric: &str, labels: &str) -> f64 {
        let text = self.catalog.render();
        let lines = text.lines().filter(|line| line.starts_with(metric) && line.contains(labels));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
    }

    /// Executions that workers were asked for so far.
    pub fn asked(&self) -> u64 {
        self.workers.workers().iter().map(|worker| worker.execution_count).sum()
    }

    /// Waits until `condition` holds.
    pub async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        for _ in 0..1000 {
            if condition(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never: {what}; workers: {:?}", self.workers.workers());
    }
}

/// A host that grants nothing.
pub struct Alone;

impl Host for Alone {
    fn progress(&self, _: PluginProgress) {}

    fn call_tool<'a>(&'a self, tool: &'a str, _: Option<&'a RawValue>) -> Answering<'a> {
        panic!("nobody asks for {tool} here")
    }
}

pub fn runtime() -> Runtime {
    Runtime {
        plugin_dir: ".".into(),
        node_executable: "node".into(),
        max_concurrent_executions: 10,
        pool_size_per_plugin: 2,
        default_timeout_ms: 5000,
        max_queued_executions: 100,
        queue_timeout_ms: 3000,
        max_bytes_in_flight: 64 << 20,
        ..Runtime::default()
    }
}

pub fn input(content: &str) -> Input<'_> {
    Input {
        typed: None,
        tool_name: "files/read",
        raw_content: Some(content),
        max_tokens: Some(7),
        metadata: Metadata {
            request_id: "0190-1",
            timestamp: "2026-01-02T03:04:05.678Z",
            server_name: "files",
            phase: Phase::Response.wire(),
            method: "tools/call",
            user_query: None,
            content_type: ContentType::Text,
            config: None,
            chain: "default/c",
            attempt: 1,
        },
    }
}

/// A plugin of this code.
pub struct Code {
    pub kind: PluginKind,
    pub protocol: Protocol,
    pub reuse: bool,
    pub encoding: Encoding,
    pub file_name: &'static str,
    pub text: String,
    pub size: u32,
    pub concurrency: u32,
    pub max_executions: Option<u32>,
    pub max_lifetime_seconds: Option<u32>,
    pub env: BTreeMap<&'static str, &'static str>,
    pub folder: Option<PathBuf>,
    pub limits: PluginLimits,
    pub egress: Vec<String>,
}

pub fn module(text: &str) -> Code {
    Code::new(Protocol::Module, "plugin.mjs", text)
}

pub fn once(text: &str) -> Code {
    Code::new(Protocol::Once, "plugin.mjs", text)
}

/// A script that stays.
pub fn lines(text: &str) -> Code {
    Code::new(Protocol::Lines, "plugin.mjs", text)
}

/// A script that is run again and again in one process.
pub fn reused(text: &str) -> Code {
    Code { reuse: true, ..Code::new(Protocol::Once, "plugin.cjs", text) }
}

impl Code {
    fn new(protocol: Protocol, file_name: &'static str, text: &str) -> Self {
        let limits = PluginLimits { max_input: 10 << 20, max_output: 10 << 20, ..PluginLimits::default() };
        Self {
            kind: PluginKind::Middleware,
            protocol,
            reuse: false,
            encoding: Encoding::Json,
            file_name,
            text: text.into(),
            size: 1,
            concurrency: 1,
            max_executions: None,
            max_lifetime_seconds: None,
            env: BTreeMap::new(),
            folder: None,
            limits,
            egress: Vec::new(),
        }
    }

    pub fn link(self) -> Arc<LinkedPlugin> {
        let digest: String = Sha256::digest(self.text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let plan = PluginPlan {
            kind: self.kind,
            version: None,
            descriptor: Default::default(),
            path: None,
            image: None,
            sha256: None,
            wanted_protocol: None,
            wanted_phases: None,
            key: ObjectKey::new("default", "p"),
            id: "0a1b2c3d".into(),
            digest: digest.clone(),
            file_name: self.file_name.into(),
            folder: self.folder,
            siblings: String::new(),
            role: Role::Transform,
            phases: vec![Phase::Request, Phase::Response],
            protocol: self.protocol,
            wrapper: None,
            reuse: self.reuse,
            encoding: self.encoding,
            enabled: true,
            order: 0,
            filter_upstreams: Vec::new(),
            filter_tools: Vec::new(),
            timeout_ms: None,
            config: None::<Box<RawValue>>,
            env: Vec::new(),
            egress: self.egress,
            concurrency: self.concurrency,
            pool_size: None,
            max_executions: self.max_executions,
            max_lifetime_seconds: self.max_lifetime_seconds,
            limits: self.limits,
        };
        let env = self.env.iter().map(|(name, value)| ((*name).to_owned(), SecretText::new(*value))).collect();
        let identity = format!("{digest}/{:?}/{:?}", self.env, plan.egress);
        Arc::new(LinkedPlugin { plan, code: self.text.into(), env, identity, pool_size: self.size })
    }
}

/// Whether a process of this id is there.
pub fn is_running(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}
