//! A gateway with fake adapters and one upstream, and functions that send requests to the routers.

use async_trait::async_trait;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::service::Service;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::server::Server;
use crate::config::compile::{compile, implicit};
use crate::config::input::Inputs;
use crate::domain::audit::{AuditError, AuditRow, AuditTotals};
use crate::domain::history::{HistoryPage, HistoryQuery, HistoryRecord, RecordKind};
use crate::domain::ids::ObjectKey;
use crate::domain::instance::Instance;
use crate::domain::plan::{
    ArgumentValidation, EraSetting, HealthPlan, ListenerPlan, Plan, RetryPlan, Runtime, TransportPlan, UpstreamPlan,
};
use crate::domain::plugin::{Failure, Input, Ran};
use crate::domain::ports::{
    Audit, Clock, History, Host, LinkedPlugin, Loading, NoAuthentication, NoModels, PluginLoad, Records, RunPlugin,
    Secrets, WorkerInfo,
};
use crate::domain::reason::Reason;
use crate::domain::record::{CallRecord, PluginExecution};
use crate::domain::sandbox::SandboxState;
use crate::domain::secret::{NoSecret, SecretText};
use crate::domain::values::NoValues;
use crate::engine::{Engine, Ports};
use crate::telemetry::metrics::Metrics;
use crate::transport::Peer;
use crate::web::listener_context::ListenerContext;
use crate::web::mcp::{McpService, new_gate};
use crate::web::{ServedListener, admin_router};

pub(super) struct NoPlugins;

#[async_trait]
impl RunPlugin for NoPlugins {
    async fn prepare(&self, _: &[Arc<LinkedPlugin>], _: &Runtime) {}
    fn loading(&self, _: &Arc<LinkedPlugin>) -> Loading {
        Loading::Underway
    }
    async fn loads(&self, _: u64) -> u64 {
        std::future::pending().await
    }
    fn retire(&self, _: &[Arc<LinkedPlugin>]) {}
    async fn run(&self, _: &Arc<LinkedPlugin>, _: &Input<'_>, _: Duration, _: &dyn Host) -> Ran {
        let output = Err(Failure::new(Reason::NotLoaded, "there are no plugins"));
        Ran { output, queued: Duration::ZERO, ran: Duration::ZERO, worker_pid: None }
    }
    fn availability(&self, _: &Arc<LinkedPlugin>) -> Result<(), Failure> {
        Ok(())
    }
    fn workers(&self) -> Vec<WorkerInfo> {
        Vec::new()
    }
    fn sandbox(&self) -> SandboxState {
        SandboxState::default()
    }
    fn load(&self) -> PluginLoad {
        PluginLoad::default()
    }
    async fn shutdown(&self) {}
}

/// Keeps the records of calls, and discards those of executions.
#[derive(Default)]
pub(super) struct Calls(std::sync::Mutex<Vec<Arc<CallRecord>>>);

impl Records for Calls {
    fn execution(&self, _: PluginExecution) {}
    fn call(&self, row: CallRecord) {
        self.0.lock().unwrap().insert(0, Arc::new(row));
    }
}

impl Calls {
    /// Returns the calls so far, the newest first.
    pub(in crate::web) fn all(&self) -> Vec<Arc<CallRecord>> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait]
impl History for Calls {
    async fn list(&self, kind: RecordKind, query: &HistoryQuery) -> HistoryPage {
        if kind == RecordKind::Executions {
            return HistoryPage::default();
        }
        let calls = self.all().into_iter().map(|call| (call.position(), call));
        let found = calls.filter(|(position, call)| query.admits(position, &call.columns()));
        HistoryPage::merge(
            found.map(|(position, call)| (position, to_raw_value(&*call).unwrap())).collect(),
            query.limit,
        )
    }
}

/// Keeps the rows of the audit trail, as JSON.
#[derive(Default)]
pub(super) struct Rows(pub(super) std::sync::Mutex<Vec<Value>>);

impl Audit for Rows {
    fn is_open(&self) -> bool {
        true
    }

    fn is_ready(&self) -> bool {
        true
    }
    fn record(&self, row: AuditRow) {
        self.0.lock().unwrap().push(serde_json::to_value(row).unwrap());
    }
    fn store(&self, row: AuditRow) -> BoxFuture<'static, Result<(), AuditError>> {
        self.record(row);
        Box::pin(std::future::ready(Ok(())))
    }
    fn totals(&self) -> AuditTotals {
        AuditTotals::default()
    }
}

/// A clock that goes on only when a test makes it, until it is broken.
#[derive(Clone, Default)]
pub(super) struct Fixed(Arc<AtomicU64>);

impl Fixed {
    /// Makes the clock panic whenever it is read.
    pub(super) fn break_it(&self) {
        self.0.store(u64::MAX, Ordering::Relaxed);
    }

    pub(super) fn pass(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for Fixed {
    fn unix_millis(&self) -> u64 {
        let passed = self.0.load(Ordering::Relaxed);
        assert!(passed != u64::MAX, "the clock was to panic");
        1 + passed
    }
    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

pub(super) struct NoSecrets;

impl Secrets for NoSecrets {
    fn secret(&self, _: &ObjectKey, _: &str) -> Result<SecretText, NoSecret> {
        Err(NoSecret::NotFound)
    }
    fn environment(&self, _: &str) -> Option<SecretText> {
        None
    }
}

fn upstream(name: &str) -> UpstreamPlan {
    UpstreamPlan {
        key: ObjectKey::new("default", name),
        labels: Default::default(),
        enabled: true,
        transport: TransportPlan::at("http://up.example/mcp"),
        era: EraSetting::Auto,
        http_transport: Default::default(),
        connect_timeout_ms: 1000,
        call_timeout_ms: None,
        extend_on_progress: true,
        retry: RetryPlan::default(),
        pinning: None,
        idle_timeout_ms: 1000,
        health: HealthPlan { period_seconds: 30, timeout_ms: 1000, retry_backoff_ms: vec![1000], auto_recover: true },
        enable: None,
        argument_validation: ArgumentValidation::Enforce,
        concurrent_calls: None,
        max_response_size: None,
        include: Vec::new(),
        exclude: Vec::new(),
        overrides: Vec::new(),
        for_pipelines: false,
        refusing: None,
    }
}

/// Returns a plan with one upstream, `up`, and a listener `web` that allows pages of `https://page.example`.
pub(super) fn plan() -> Plan {
    let (mut plan, _) = compile(&Inputs::default(), None);
    plan.gateway = implicit(&Inputs::default());
    plan.gateway.limits.max_request_size = 64 * 1024;
    plan.gateway.listeners = vec![listener()];
    plan.upstreams = vec![upstream("up")];
    plan
}

pub(super) fn listener() -> ListenerPlan {
    ListenerPlan {
        name: "web".into(),
        port: 8080,
        path: "/mcp".into(),
        hosts: vec!["mcp.example".into()],
        default_hosts: Vec::new(),
        allowed_origins: vec!["https://page.example".into()],
        tls: None,
        refusing: None,
    }
}

pub(in crate::web) struct Gateway {
    pub(in crate::web) engine: Arc<Engine>,
    pub(super) server: Arc<Server>,
    pub(super) calls: Arc<Calls>,
    pub(super) audit: Arc<Rows>,
    pub(super) clock: Fixed,
    pub(super) gate: Arc<ListenerContext>,
    pub(super) mcp: McpService,
    pub(super) admin: Router,
    pub(super) shutdown: CancellationToken,
}

/// A response that was read to its end.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Answered {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    /// Returns the code of a JSON-RPC error, or 0 if the answer is not an error.
    pub(super) fn code(&self) -> i64 {
        serde_json::from_str::<Value>(&self.text).map_or(0, |v| v["error"]["code"].as_i64().unwrap_or(0))
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Gateway {
    /// Creates a gateway without a plan.
    pub(in crate::web) fn idle() -> Self {
        let server = Arc::new(Server::default());
        let calls = Arc::new(Calls::default());
        let audit = Arc::new(Rows::default());
        let (metrics, clock) = (Metrics::new().unwrap(), Fixed::default());
        let ports = Ports {
            plugins: Arc::new(NoPlugins),
            upstreams: Arc::clone(&server) as _,
            models: Arc::new(NoModels),
            values: Arc::new(NoValues),
            records: Arc::clone(&calls) as _,
            history: Arc::clone(&calls) as _,
            audit: Some(Arc::clone(&audit) as _),
            credentials: Arc::new(NoAuthentication),
            clock: Arc::new(clock.clone()),
        };
        let engine = Engine::new(ports, metrics, Arc::default());
        let shutdown = CancellationToken::new();
        let bound = "127.0.0.1:8080".parse().unwrap();
        let default = ListenerPlan { hosts: Vec::new(), ..listener() };
        let (name, advertised, instance) = (Arc::default(), Some(bound), Instance::new("this"));
        let listener = ServedListener { port: None, name, default, bound, advertised, instance };
        let gate = new_gate(Arc::clone(&engine), listener, shutdown.clone());
        let (mcp, admin) = (McpService::of(Arc::clone(&gate)), admin_router(Arc::clone(&engine), None));
        Self { engine, server, calls, audit, clock, gate, mcp, admin, shutdown }
    }

    pub(super) async fn start() -> Self {
        let gateway = Self::idle();
        gateway.apply(plan()).await;
        gateway
    }

    pub(super) async fn apply(&self, plan: Plan) {
        self.engine.applier.apply(plan, Vec::new(), &NoSecrets).await;
    }

    /// Begins a legacy session, and returns its id.
    pub(super) async fn session(&self) -> String {
        let answer = self.post(&[], &initialize("2025-11-25")).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        answer.header("mcp-session-id").to_owned()
    }

    /// Sends a POST to `/mcp`. `headers` replace the default headers.
    pub(super) async fn post(&self, headers: &[(&str, &str)], body: &str) -> Answered {
        read(self.send(post_to("/mcp", headers, body)).await).await
    }

    pub(super) async fn send(&self, request: Request<Body>) -> hyper::Response<Body> {
        self.mcp.call(request).await.unwrap()
    }
}

pub(super) fn post_to(path: &str, headers: &[(&str, &str)], body: &str) -> Request<Body> {
    request("POST", path, headers, body)
}

/// Builds a request. A header with an empty value removes the default one.
pub(super) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path).body(Body::from(body.to_owned())).unwrap();
    request.extensions_mut().insert(peer([127, 0, 0, 1], [127, 0, 0, 1]));
    let defaults = [
        ("host", "localhost:8080"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    for (name, value) in defaults.iter().chain(headers) {
        let name: hyper::header::HeaderName = name.parse().unwrap();
        request.headers_mut().remove(&name);
        if !value.is_empty() {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
    }
    request
}

/// Returns the two ends of a connection between these addresses.
pub(super) fn peer(remote: impl Into<IpAddr>, local: impl Into<IpAddr>) -> Peer {
    Peer { remote: SocketAddr::new(remote.into(), 5000), local: SocketAddr::new(local.into(), 8080) }
}

pub(super) async fn read(response: hyper::Response<Body>) -> Answered {
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answered { status: head.status, headers: head.headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
}

/// Waits for the next piece of a streamed answer.
pub(super) async fn next(response: &mut hyper::Response<Body>) -> String {
    let frame = tokio::time::timeout(Duration::from_secs(5), response.body_mut().frame()).await;
    let data = frame.expect("the stream is silent").expect("the stream ended").unwrap().into_data().unwrap();
    String::from_utf8(data.to_vec()).unwrap()
}

pub(super) fn initialize(version: &str) -> String {
    let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string()
}

/// Returns a `tools/call` request for `tool` with this `_meta`.
pub(super) fn call(tool: &str, meta: Value) -> String {
    let params = json!({"name": tool, "arguments": {}, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string()
}
