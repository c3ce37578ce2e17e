//! Tests of the engine on plain structs for its ports, by topic; here are those structs.

mod bytes;
mod callbacks;
mod doubled;
mod limits;
mod names;
mod outcomes;
mod proof;
mod refusals;
mod scrape;
mod server;
mod swaps;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Notify;

use self::server::Server;
use super::{CallRequest, Caller, Endpoint, Engine, Ports, Reply};
use crate::config::compile::compile;
use crate::config::compile::tests::{add_plugin, chain, folder, know, raw};
use crate::config::input::{ChainInput, Inputs, PluginInput, SourceInput};
use crate::domain::ids::ObjectKey;
use crate::domain::plan::Runtime;
use crate::domain::plugin::{Failure, Input, Output, Phase, Ran, Role};
use crate::domain::ports::{
    Clock, Host, LinkedPlugin, PluginLoad, PluginProgress, Records, RunPlugin, Secrets, ToClient, WorkerInfo,
};
use crate::domain::reason::Reason;
use crate::domain::record::{CallRecord, PluginExecution};
use crate::domain::sandbox::SandboxState;
use crate::domain::secret::{NoSecret, SecretText};
use crate::domain::upstream::{Answer, Era, UpstreamError, UpstreamEvent};
use crate::telemetry::metrics::Metrics;

/// A plugin's code is its script: a verb and a word.
#[derive(Default)]
struct Scripts {
    /// What ran, as `name <- content`.
    ran: Mutex<Vec<String>>,
    /// Lets one `wait` go on.
    go: Notify,
    /// Whether no worker of any plugin can be started.
    down: AtomicBool,
    sandbox: Mutex<SandboxState>,
}

impl Scripts {
    async fn answer(&self, script: &str, content: &str, host: &dyn Host) -> Result<Output, Failure> {
        let (verb, word) = script.split_once(' ').unwrap_or((script, ""));
        let output = |text: &str, proceed: bool, error: Option<&str>| {
            Ok(Output { text: text.into(), proceed, metadata: Some(raw("{\"m\":1}")), error: error.map(Into::into) })
        };
        match verb {
            "same" => output(content, true, None),
            "put" => output(word, true, None),
            "metadata" => output(content, true, None).map(|output| {
                let metadata = raw(&format!("\"{}\"", "m".repeat(word.parse().unwrap())));
                Output { metadata: Some(metadata), ..output }
            }),
            "stop" => output(if word.is_empty() { content } else { word }, false, None),
            "deny" => output("not this", false, Some(word)),
            "fail" => Err(Failure::new(reason(word), "it failed")),
            "wait" => {
                self.go.notified().await;
                output(if word.is_empty() { content } else { word }, true, None)
            }
            "call" => {
                let arguments = raw(r#"{"n":1}"#);
                let (Answer::Result(answer) | Answer::Error(answer)) = host.call_tool(word, Some(&arguments)).await;
                output(&format!(r#"{{"said":{answer}}}"#), true, None)
            }
            "flood" => {
                let calls: Vec<_> = (0..10).map(|_| host.call_tool("up__other", None)).collect();
                let answers = futures_util::future::join_all(calls).await;
                let refused = answers.iter().filter(|answer| matches!(answer, Answer::Error(_))).count();
                output(&format!(r#"{{"refused":{refused}}}"#), true, None)
            }
            "progress" => {
                for progress in word.split(' ') {
                    let (progress, message) = (progress.parse().unwrap(), Some("words".to_owned()));
                    host.progress(PluginProgress { progress, total: None, message });
                }
                output(content, true, None)
            }
            _ => panic!("no script: {script}"),
        }
    }
}

fn reason(word: &str) -> Reason {
    match word {
        "Timeout" => Reason::Timeout,
        "PoolExhausted" => Reason::PoolExhausted,
        "InvalidOutput" => Reason::InvalidOutput,
        _ => Reason::Crashed,
    }
}

impl RunPlugin for Scripts {
    async fn prepare(&self, _: &[Arc<LinkedPlugin>], _: &Runtime) {}

    fn retire(&self, _: &[Arc<LinkedPlugin>]) {}

    async fn run(&self, plugin: &Arc<LinkedPlugin>, input: &Input<'_>, _: Duration, host: &dyn Host) -> Ran {
        let content = input.raw_content.unwrap_or_default();
        self.ran.lock().unwrap().push(format!("{} <- {content}", plugin.plan.key.name));
        let output = self.answer(&plugin.code, content, host).await;
        Ran { output, queued: Duration::ZERO, ran: Duration::from_millis(1), worker_pid: Some(1) }
    }

    fn availability(&self, plugin: &Arc<LinkedPlugin>) -> Result<(), Failure> {
        match plugin.code.starts_with("absent") || self.down.load(Ordering::Relaxed) {
            true => Err(Failure::new(Reason::NotLoaded, "it does not start")),
            false => Ok(()),
        }
    }

    fn workers(&self) -> Vec<WorkerInfo> {
        Vec::new()
    }

    fn sandbox(&self) -> SandboxState {
        self.sandbox.lock().unwrap().clone()
    }

    fn load(&self) -> PluginLoad {
        PluginLoad::default()
    }

    async fn shutdown(&self) {}
}

#[derive(Default)]
struct Log {
    executions: Mutex<Vec<PluginExecution>>,
    calls: Mutex<Vec<CallRecord>>,
}

impl Records for Log {
    fn execution(&self, row: PluginExecution) {
        self.executions.lock().unwrap().push(row);
    }

    fn call(&self, row: CallRecord) {
        self.calls.lock().unwrap().push(row);
    }

    fn recent_executions(&self, _: Option<&str>, _: usize) -> Vec<Arc<PluginExecution>> {
        Vec::new()
    }

    fn recent_calls(&self, _: usize) -> Vec<Arc<CallRecord>> {
        Vec::new()
    }
}

struct Time(Instant);

impl Clock for Time {
    fn unix_millis(&self) -> u64 {
        1_700_000_000_000
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
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

struct Fakes;

impl Ports for Fakes {
    type Plugins = Scripts;
    type Upstreams = Server;
    type Records = Log;
    type Clock = Time;
}

type Gateway = Arc<Engine<Fakes>>;

/// What the client was told of progress.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl ToClient for Heard {
    fn progress(&self, params: Box<RawValue>) {
        self.0.lock().unwrap().push(params.get().to_owned());
    }
}

/// A folder without chains.
fn bare() -> Inputs {
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

async fn start(inputs: &Inputs) -> Gateway {
    start_with(inputs, Server::default()).await
}

fn engine(server: Server) -> Gateway {
    Engine::new(Scripts::default(), server, Log::default(), Time(Instant::now()), Metrics::new().unwrap())
}

async fn start_with(inputs: &Inputs, server: Server) -> Gateway {
    let engine = engine(server);
    apply(&engine, inputs).await;
    let _ = engine.list_tools(Endpoint::All, None).await;
    engine
}

async fn apply(engine: &Gateway, inputs: &Inputs) {
    let previous = engine.snapshot();
    let (plan, problems) = compile(inputs, Some(previous.plan()));
    engine.apply(plan, problems, &NoSecrets).await;
}

fn caller(era: Era) -> Caller {
    Caller { era, principal: "anonymous".into(), session: String::new(), tracker: Arc::default(), by_address: false }
}

/// Calls `up__read`, and gives `result` or `error` as JSON text.
async fn call_as(engine: &Gateway, caller: &Caller, arguments: &str, meta: Option<&str>, heard: &Heard) -> String {
    let (arguments, meta) = (raw(arguments), meta.map(raw));
    let request = CallRequest {
        endpoint: Endpoint::All,
        caller,
        name: "up__read",
        arguments: Some(&arguments),
        meta: meta.as_deref(),
        wants_progress: true,
        log_level: None,
        client: heard,
        within: None,
    };
    match engine.call(request).await {
        Reply::Result(result) => format!(r#"{{"result":{}}}"#, result.get()),
        Reply::UpstreamError(error) => format!(r#"{{"error":{}}}"#, error.get()),
        Reply::Error(error) => json!({"error": error}).to_string(),
    }
}

async fn call(engine: &Gateway, arguments: &str) -> Value {
    let text = call_as(engine, &caller(Era::Legacy), arguments, None, &Heard::default()).await;
    serde_json::from_str(&text).unwrap()
}

/// The same with a trace, whose outcomes are given as words.
async fn traced(engine: &Gateway, arguments: &str) -> (Value, Vec<String>) {
    let meta = Some(r#"{"hawsepipe.dev/trace":true}"#);
    let text = call_as(engine, &caller(Era::Legacy), arguments, meta, &Heard::default()).await;
    let value: Value = serde_json::from_str(&text).unwrap();
    let entries = value["result"]["_meta"]["hawsepipe.dev/trace"].as_array().cloned().unwrap_or_default();
    let outcomes = entries.iter().map(|e| e["outcome"].as_str().unwrap().to_owned()).collect();
    (value, outcomes)
}

fn sent(engine: &Gateway) -> Vec<String> {
    engine.upstreams.sent.lock().unwrap().clone()
}

fn last_call(engine: &Gateway) -> CallRecord {
    engine.records.calls.lock().unwrap().last().cloned().unwrap()
}

/// Waits until `is` holds; a test that waits in vain fails.
async fn until(is: impl Fn() -> bool) {
    let wait = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), wait).await.expect("it came to pass");
}
