//! A gateway for one plugin. Workers, pool and engine are real; the only tool returns the answer that the command line
//! describes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::ports::{ProgressLog, Rows, TestUpstream};
use super::subject::{ReadSubject, Subject};
use super::test_input::TestInput;
use crate::cli::clock::SystemClock;
use crate::cli::wiring::workers;
use crate::domain::budget::Category;
use crate::domain::capabilities::ClientCapabilities;
use crate::domain::identity::Identity;
use crate::domain::item::ItemKind;
use crate::domain::plan::PluginPlan;
use crate::domain::plugin::Phase;
use crate::domain::ports::{NoAuthentication, NoHistory, NoModels, ToClient};
use crate::domain::record::{CallRecord, PluginExecution};
use crate::domain::upstream::InputRound;
use crate::domain::values::NoValues;
use crate::domain::version::{Era, LEGACY_VERSIONS};
use crate::engine::{CallRequest, Caller, Endpoint, Engine, Ports, Reply, TaskUse};
use crate::node::WorkerMetrics;
use crate::source::{Folders, Located};

/// How long calls in flight can continue when the gateway ends.
const PATIENCE: Duration = Duration::from_secs(1);

pub struct TestGateway {
    engine: Arc<Engine>,
    rows: Arc<Rows>,
    upstream: TestUpstream,
    metrics: WorkerMetrics,
}

/// A loaded plugin, and the call to run it on.
pub struct TestCase {
    pub plugin: PluginPlan,
    pub phase: Phase,
    /// Problems that do not prevent the plugin from running.
    pub warnings: Vec<Located>,
    input: TestInput,
    arguments: Box<RawValue>,
    meta: Box<RawValue>,
}

pub struct TestOutcome {
    /// The record of the call, which has at most one entry.
    pub call: CallRecord,
    /// The execution, if there was one.
    pub execution: Option<PluginExecution>,
    /// The content after the plugin ran; `None` if the plugin denied the call.
    pub after: Option<String>,
    /// The text that the client received, if the plugin denied the call.
    pub client_text: Option<String>,
    /// The message of the error with which the gateway answered the call, if it did.
    pub refused: Option<String>,
    /// The progress notifications that the client received.
    pub progress: Vec<Box<RawValue>>,
}

impl TestGateway {
    /// Makes a gateway without a plugin.
    pub fn new() -> anyhow::Result<Self> {
        let (workers, metrics, own) = workers()?;
        let upstream = TestUpstream::default();
        let rows = Arc::new(Rows::default());
        let ports = Ports {
            plugins: Arc::new(workers),
            upstreams: Arc::new(upstream.clone()),
            models: Arc::new(NoModels),
            values: Arc::new(NoValues),
            records: Arc::clone(&rows) as _,
            history: Arc::new(NoHistory),
            audit: None,
            credentials: Arc::new(NoAuthentication),
            clock: Arc::new(SystemClock::new()),
        };
        Ok(Self { engine: Engine::new(ports, metrics, Arc::default()), rows, upstream, metrics: own })
    }

    /// Replaces the gateway's plugin with its current version, and waits until this version is loaded or has failed to
    /// load. Returns the call to make, or Problems if the plugin is not accepted. Also returns the folders in which
    /// changes can affect the plugin.
    ///
    /// # Errors
    /// If the plugin cannot be read or chosen, or `input` does not fit the phase.
    pub async fn load(
        &self,
        subject: &mut Subject,
        input: &TestInput,
    ) -> anyhow::Result<(Result<TestCase, Vec<Located>>, Folders)> {
        let reading = subject.read().await?;
        let ReadSubject { plan, secrets, plugin, warnings } = match reading.read {
            Ok(read) => *read,
            Err(problems) => return Ok((Err(problems), reading.folders)),
        };
        let (plan, phase) = subject.in_chain(plan, &plugin, input)?;
        self.upstream.set(&input.tool, input.answer(phase)?);
        let (arguments, meta) = (input.arguments(phase)?, input.meta());
        self.engine.applier.apply(plan, Vec::new(), &secrets).await;
        self.engine.loads.wait_for_loads().await;
        Ok((Ok(TestCase { plugin, phase, warnings, input: input.clone(), arguments, meta }), reading.folders))
    }

    /// Makes the call, and returns its record, the execution of the plugin, and what the client received.
    pub async fn run(&self, case: &TestCase) -> TestOutcome {
        let progress = ProgressLog::default();
        let reply = self.call(case, &progress).await;
        let call = self.rows.call().await;
        let execution = self.rows.executions().pop();
        let sent = self.upstream.sent();
        let (mut after, mut client_text) = (None, None);
        match case.phase {
            Phase::Response => after = case.input.content_of(&reply),
            Phase::Request if sent.is_none() => client_text = only_text(&reply),
            Phase::Request => after = sent.map(|sent| sent.get().to_owned()),
        }
        let refused = match reply {
            Reply::Error(error) => Some(error.message),
            _ => None,
        };
        TestOutcome { call, execution, after, client_text, refused, progress: progress.into_all() }
    }

    /// Makes the call, and returns the executions that were recorded since the previous call.
    pub async fn execute(&self, case: &TestCase) -> Vec<PluginExecution> {
        self.call(case, &ProgressLog::default()).await;
        self.rows.forget_calls();
        self.rows.executions()
    }

    async fn call(&self, case: &TestCase, client: &dyn ToClient) -> Reply {
        let caller = Caller {
            capabilities: ClientCapabilities::default(),
            // In the modern era, the gateway adds members to results, but the printed content must be the plugin's.
            era: Era::Legacy,
            version: LEGACY_VERSIONS[0],
            identity: Identity::anonymous(),
            token: None,
            session: String::new(),
            tracker: Arc::default(),
            by_address: false,
        };
        let request = CallRequest {
            endpoint: Endpoint::One(&case.input.server),
            caller: &caller,
            id: None,
            rpc_id: None,
            kind: ItemKind::Tool,
            name: &case.input.tool,
            input: Some(&case.arguments),
            meta: Some(&case.meta),
            round: InputRound::default(),
            wants_progress: true,
            log_level: None,
            within: None,
            client,
            reservation: &self.engine.budget().reservation(Category::Answer),
            check_mirrored: None,
            task: TaskUse::None,
        };
        Box::pin(self.engine.calls.call(request)).await
    }

    /// Returns the mean start time of the plugin's workers, from spawn until they are ready.
    pub fn start(&self, case: &TestCase) -> Option<Duration> {
        self.metrics.mean_start(&case.plugin.key.to_string())
    }

    /// Waits a short time for calls in flight, then ends all workers and waits for their last output.
    pub async fn end(&self) {
        let _ = tokio::time::timeout(PATIENCE, self.engine.gate.calls_ended()).await;
        self.engine.shutdown().await;
    }
}

impl TestInput {
    /// Returns the content of the response: the JSON of the whole result if the input was JSON, otherwise the text.
    fn content_of(&self, reply: &Reply) -> Option<String> {
        match reply {
            Reply::Result(raw) | Reply::UpstreamError(raw) if self.is_json => Some(raw.get().to_owned()),
            _ => only_text(reply),
        }
    }
}

/// Returns the text of a result's first block, or `None` for any other reply.
fn only_text(reply: &Reply) -> Option<String> {
    let Reply::Result(result) = reply else { return None };
    let result: serde_json::Value = serde_json::from_str(result.get()).ok()?;
    result.pointer("/content/0/text")?.as_str().map(str::to_owned)
}
