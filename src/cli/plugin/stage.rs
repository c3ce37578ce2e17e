//! A gateway that runs one plugin: real workers, pool and engine; one tool that answers what it is told.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::case::Case;
use super::ports::{Heard, Rows, Upstream};
use super::subject::{Read, Subject};
use crate::cli::clock::SystemClock;
use crate::cli::wiring::workers;
use crate::domain::budget::Category;
use crate::domain::plan::PluginPlan;
use crate::domain::plugin::Phase;
use crate::domain::ports::ToClient;
use crate::domain::record::{CallRecord, PluginExecution};
use crate::domain::upstream::Era;
use crate::engine::{CallRequest, Caller, Endpoint, Engine, Ports, Reply};
use crate::node::WorkerMetrics;
use crate::source::{Folders, Located};

/// How long calls in flight may go on at the end.
const PATIENCE: Duration = Duration::from_secs(1);

/// The gateway.
pub struct Stage {
    engine: Arc<Engine>,
    rows: Arc<Rows>,
    upstream: Upstream,
    metrics: WorkerMetrics,
}

/// A plugin on the stage, with what it is run on.
pub struct Scene {
    /// The plugin.
    pub plugin: PluginPlan,
    /// When in the call it runs.
    pub phase: Phase,
    /// What is wrong with it, short of not running.
    pub warnings: Vec<Located>,
    case: Case,
    arguments: Box<RawValue>,
    meta: Box<RawValue>,
}

/// What came of one call.
pub struct Tried {
    /// The call, with what its only entry did.
    pub call: CallRecord,
    /// The execution, where there was one.
    pub execution: Option<PluginExecution>,
    /// The content after the plugin; none where there is none, because it denied the call.
    pub after: Option<String>,
    /// What the client was told, where the call was denied.
    pub told: Option<String>,
    /// Why the call was refused, or its answer withheld, before the plugin was asked.
    pub refused: Option<String>,
    /// What the client was told of progress.
    pub progress: Vec<Box<RawValue>>,
}

impl Stage {
    /// Nothing is on it.
    pub fn new() -> anyhow::Result<Self> {
        let (workers, metrics, own) = workers()?;
        let upstream = Upstream::default();
        let rows = Arc::new(Rows::default());
        let ports = Ports {
            plugins: Arc::new(workers),
            upstreams: Arc::new(upstream.clone()),
            records: Arc::clone(&rows) as _,
            clock: Arc::new(SystemClock::new()),
        };
        Ok(Self { engine: Engine::new(ports, metrics, Arc::default()), rows, upstream, metrics: own })
    }

    /// Puts the plugin as it is now on the stage, in the place of what was there, and waits until it is warm. Also the
    /// folders where a change may mean another plugin.
    ///
    /// # Errors
    /// What does not suit the command line.
    pub async fn put(
        &self,
        subject: &mut Subject,
        case: &Case,
    ) -> anyhow::Result<(Result<Scene, Vec<Located>>, Folders)> {
        let reading = subject.read(case).await?;
        let Read { plan, secrets, plugin, phase, warnings } = match reading.read {
            Ok(read) => *read,
            Err(problems) => return Ok((Err(problems), reading.folders)),
        };
        self.upstream.give(&case.tool, case.answer(phase)?);
        let (arguments, meta) = (case.arguments(phase)?, case.meta());
        self.engine.apply(plan, Vec::new(), &secrets).await;
        self.engine.wait_for_loads().await;
        Ok((Ok(Scene { plugin, phase, warnings, case: case.clone(), arguments, meta }), reading.folders))
    }

    /// Makes the call.
    pub async fn play(&self, scene: &Scene) -> Tried {
        let heard = Heard::default();
        let reply = self.call(scene, &heard).await;
        let call = self.rows.call().await;
        let execution = self.rows.executions().pop();
        let sent = self.upstream.sent();
        let (mut after, mut told) = (None, None);
        match scene.phase {
            Phase::Response => after = scene.case.content_of(&reply),
            Phase::Request if sent.is_none() => told = only_text(&reply),
            Phase::Request => after = sent.map(|sent| sent.get().to_owned()),
        }
        let refused = match reply {
            Reply::Error(error) => Some(error.message),
            _ => None,
        };
        Tried { call, execution, after, told, refused, progress: heard.into_all() }
    }

    /// Makes the call and gives only what was written down of executions by then.
    pub async fn execute(&self, scene: &Scene) -> Vec<PluginExecution> {
        self.call(scene, &Heard::default()).await;
        self.rows.forget_calls();
        self.rows.executions()
    }

    async fn call(&self, scene: &Scene, client: &dyn ToClient) -> Reply {
        let caller = Caller {
            // The modern era marks results; those are to stay as they are.
            era: Era::Legacy,
            principal: "anonymous".to_owned(),
            session: String::new(),
            tracker: Arc::default(),
            by_address: false,
        };
        let request = CallRequest {
            endpoint: Endpoint::One(&scene.case.server),
            caller: &caller,
            name: &scene.case.tool,
            arguments: Some(&scene.arguments),
            meta: Some(&scene.meta),
            wants_progress: true,
            log_level: None,
            within: None,
            client,
            reservation: &self.engine.budget().reservation(Category::Answer),
            check_mirrored: None,
        };
        Box::pin(self.engine.call(request)).await
    }

    /// How long starts of a worker of the plugin took, from spawn to readiness, on average.
    pub fn start(&self, scene: &Scene) -> Option<Duration> {
        self.metrics.mean_start(&scene.plugin.key.to_string())
    }

    /// Ends every worker, and waits for what they print last.
    pub async fn end(&self) {
        self.engine.shutdown(PATIENCE).await;
    }
}

impl Case {
    /// The content of a response that came back.
    fn content_of(&self, reply: &Reply) -> Option<String> {
        match reply {
            Reply::Result(raw) | Reply::UpstreamError(raw) if self.is_json => Some(raw.get().to_owned()),
            _ => only_text(reply),
        }
    }
}

/// The text of a result's only block.
fn only_text(reply: &Reply) -> Option<String> {
    let Reply::Result(result) = reply else { return None };
    let result: serde_json::Value = serde_json::from_str(result.get()).ok()?;
    result.pointer("/content/0/text")?.as_str().map(str::to_owned)
}
