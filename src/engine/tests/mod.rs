//! Tests of the engine, by topic. This file contains the helpers and fakes that they share.

mod audit;
mod bytes;
mod caching;
mod callbacks;
mod checked;
mod checks;
mod clients;
mod discovery;
mod doubled;
mod doubled_plugins;
mod explained;
mod filters;
mod forms;
mod invocations;
mod items;
mod limits;
mod lists;
mod malformed;
mod names;
mod outcomes;
mod overrides;
mod pinning;
mod proof;
mod questions;
mod readiness;
mod rechecks;
mod refusals;
mod retries;
mod rounds;
mod rules;
mod scrape;
mod scripts;
mod server;
mod sessions;
mod stages;
mod subscriptions;
mod swaps;
mod unread_lists;
mod views;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

pub(super) use self::clients::{Client, request, said};
pub(super) use self::scripts::Scripts;
pub(super) use self::server::Server;
use super::{CallRequest, Caller, Endpoint, Engine, ListPage, Ports, Reply, TaskUse};
use crate::config::compile::compile;
use crate::config::compile::tests::{add_plugin, chain, folder, know, raw};
use crate::config::input::{ChainInput, Inputs, PluginInput, SourceInput};
use crate::domain::budget::{ByteBudget, Category};
use crate::domain::capabilities::ClientCapabilities;
use crate::domain::identity::Identity;
use crate::domain::ids::ObjectKey;
use crate::domain::item::ItemKind;
use crate::domain::plan::Runtime;
use crate::domain::plugin::{Failure, FailurePolicy, Input, Output, Phase, Ran, Role};
use crate::domain::ports::{
    Audit, Clock, Host, LinkedPlugin, Loading, NoAuthentication, NoHistory, NoModels, PluginLoad, PluginProgress,
    Records, RunPlugin, Secrets, ToClient, WorkerInfo,
};
use crate::domain::reason::Reason;
use crate::domain::record::{CallRecord, PluginExecution};
use crate::domain::rpc::RpcError;
use crate::domain::sandbox::SandboxState;
use crate::domain::secret::{NoSecret, SecretText};
use crate::domain::upstream::{Answer, InputRound, UpstreamError, UpstreamEvent};
use crate::domain::values::NoValues;
use crate::domain::version::Era;
use crate::telemetry::metrics::Metrics;

#[derive(Default)]
pub(super) struct Log {
    pub(super) executions: Mutex<Vec<PluginExecution>>,
    calls: Mutex<Vec<CallRecord>>,
}

impl Records for Log {
    fn execution(&self, row: PluginExecution) {
        self.executions.lock().unwrap().push(row);
    }

    fn call(&self, row: CallRecord) {
        self.calls.lock().unwrap().push(row);
    }
}

/// The time since it was made, and what a test adds to it.
pub(super) struct Time {
    began: Instant,
    ahead: Mutex<Duration>,
}

impl Time {
    pub(super) fn start() -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), ahead: Mutex::default() })
    }

    pub(super) fn pass(&self, time: Duration) {
        *self.ahead.lock().unwrap() += time;
    }
}

impl Clock for Time {
    fn unix_millis(&self) -> u64 {
        1_700_000_000_000 + u64::try_from(self.ahead.lock().unwrap().as_millis()).unwrap()
    }

    fn monotonic(&self) -> Duration {
        self.began.elapsed() + *self.ahead.lock().unwrap()
    }
}

struct NoSecrets;

impl Secrets for NoSecrets {
    fn secret(&self, _: &ObjectKey, _: &str) -> Result<SecretText, NoSecret> {
        Err(NoSecret::NotFound)
    }

    fn environment(&self, _: &str) -> Option<SecretText> {
        None
    }
}

/// An engine and the fakes behind its ports.
#[derive(Clone)]
pub(super) struct Gateway {
    engine: Arc<Engine>,
    pub(super) plugins: Arc<Scripts>,
    pub(super) server: Arc<Server>,
    pub(super) records: Arc<Log>,
    pub(super) clock: Arc<Time>,
}

impl Deref for Gateway {
    type Target = Arc<Engine>;

    fn deref(&self) -> &Arc<Engine> {
        &self.engine
    }
}

/// The progress notifications that the client received.
#[derive(Default)]
pub(super) struct Heard(Mutex<Vec<String>>);

impl ToClient for Heard {
    fn progress(&self, params: Box<RawValue>) {
        self.0.lock().unwrap().push(params.get().to_owned());
    }
}

/// Returns inputs without chains and plugins.
pub(super) fn bare() -> Inputs {
    let mut inputs = folder();
    inputs.chains.clear();
    inputs.plugins.clear();
    inputs
}

/// Adds a plugin with this script.
fn script(inputs: &mut Inputs, name: &str, role: Role, code: &str) {
    add_plugin(inputs, name, |p: &mut PluginInput| (p.role, p.source) = (role, SourceInput::Inline(code.into())));
    know(inputs, code, "index.js", &["default"]);
}

/// Adds a chain of plugins with these roles and scripts, named `{chain}0`, `{chain}1` and so on.
fn scripts<'a>(inputs: &'a mut Inputs, name: &str, phase: Phase, entries: &[(Role, &str)]) -> &'a mut ChainInput {
    let plugins: Vec<_> = (0..entries.len()).map(|index| format!("{name}{index}")).collect();
    for (plugin, (role, code)) in plugins.iter().zip(entries) {
        script(inputs, plugin, *role, code);
    }
    let plugins: Vec<_> = plugins.iter().map(String::as_str).collect();
    inputs.chains.push(ChainInput { phase, ..chain(name, &plugins) });
    inputs.chains.last_mut().unwrap()
}

pub(super) async fn start(inputs: &Inputs) -> Gateway {
    start_with(inputs, Server::default()).await
}

pub(super) fn engine(server: Server) -> Gateway {
    engine_within(server, Arc::default())
}

/// Creates a gateway with this budget of bytes.
fn engine_within(server: Server, budget: Arc<ByteBudget>) -> Gateway {
    engine_with(server, budget, None)
}

/// The same with this audit trail.
fn engine_with(server: Server, budget: Arc<ByteBudget>, audit: Option<Arc<dyn Audit>>) -> Gateway {
    let (plugins, server, records) = (Arc::new(Scripts::default()), Arc::new(server), Arc::new(Log::default()));
    let clock = Time::start();
    let ports = Ports {
        plugins: Arc::clone(&plugins) as _,
        upstreams: Arc::clone(&server) as _,
        models: Arc::new(NoModels),
        values: Arc::new(NoValues),
        records: Arc::clone(&records) as _,
        history: Arc::new(NoHistory),
        audit,
        credentials: Arc::new(NoAuthentication),
        clock: Arc::clone(&clock) as _,
    };
    Gateway { engine: Engine::new(ports, Metrics::new().unwrap(), budget), plugins, server, records, clock }
}

pub(super) async fn start_with(inputs: &Inputs, server: Server) -> Gateway {
    let engine = engine(server);
    apply(&engine, inputs).await;
    let _ = engine.list(Endpoint::All, ItemKind::Tool, None, None).await;
    engine
}

pub(super) async fn apply(engine: &Gateway, inputs: &Inputs) {
    let previous = engine.in_force.snapshot();
    let (plan, problems) = compile(inputs, Some(previous.plan()));
    engine.applier.apply(plan, problems, &NoSecrets).await;
}

impl Engine {
    /// The list of an anonymous client.
    async fn list(
        &self,
        endpoint: Endpoint<'_>,
        kind: ItemKind,
        cursor: Option<&str>,
        meta: Option<&RawValue>,
    ) -> Result<ListPage, RpcError> {
        self.lists.list_for(&caller(Era::Modern), endpoint, kind, cursor, meta).await
    }
}

pub(super) fn caller(era: Era) -> Caller {
    Caller {
        capabilities: ClientCapabilities::default(),
        era,
        version: "",
        identity: Identity::anonymous(),
        token: None,
        session: String::new(),
        tracker: Arc::default(),
        by_address: false,
    }
}

/// Calls `up__read`. Returns the `result` or `error` as JSON text.
async fn call_as(engine: &Gateway, caller: &Caller, arguments: &str, meta: Option<&str>, heard: &Heard) -> String {
    let (arguments, meta) = (raw(arguments), meta.map(raw));
    let reservation = engine.budget().reservation(Category::Answer);
    let request = request(caller, heard, &reservation, ItemKind::Tool, "up__read");
    let request = CallRequest { input: Some(&arguments), meta: meta.as_deref(), wants_progress: true, ..request };
    match engine.calls.call(request).await {
        Reply::Result(result) => format!(r#"{{"result":{}}}"#, result.get()),
        Reply::UpstreamError(error) => format!(r#"{{"error":{}}}"#, error.get()),
        Reply::Error(error) => json!({"error": error}).to_string(),
    }
}

async fn call(engine: &Gateway, arguments: &str) -> Value {
    let text = call_as(engine, &caller(Era::Legacy), arguments, None, &Heard::default()).await;
    serde_json::from_str(&text).unwrap()
}

/// Calls `up__read` and asks for the trace. Returns the reply and the outcomes of the entries.
async fn traced(engine: &Gateway, arguments: &str) -> (Value, Vec<String>) {
    let meta = Some(r#"{"hawsepipe.dev/trace":true}"#);
    let text = call_as(engine, &caller(Era::Legacy), arguments, meta, &Heard::default()).await;
    let value: Value = serde_json::from_str(&text).unwrap();
    let entries = value["result"]["_meta"]["hawsepipe.dev/trace"].as_array().cloned().unwrap_or_default();
    let outcomes = entries.iter().map(|e| e["outcome"].as_str().unwrap().to_owned()).collect();
    (value, outcomes)
}

fn sent(engine: &Gateway) -> Vec<String> {
    engine.server.sent.lock().unwrap().clone()
}

fn last_call(engine: &Gateway) -> CallRecord {
    engine.records.calls.lock().unwrap().last().cloned().unwrap()
}

/// Waits until `is` returns true. Panics after five seconds.
pub(super) async fn until(is: impl Fn() -> bool) {
    let wait = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.expect("it came to pass");
}
