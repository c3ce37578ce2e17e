//! Models, history, audit and telemetry of a gateway.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::KeyRef;
use crate::api::values::{HTTP_URL, Quantity};

/// A model endpoint for one role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// A free word, unique in the list.
    #[schemars(length(min = 1, max = 63))]
    pub role: String,
    /// The endpoint.
    #[serde(rename = "baseURL")]
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub base_url: String,
    /// Its name there.
    #[schemars(length(min = 1, max = 253))]
    pub model: String,
    /// Its key. Default: none.
    pub api_key_secret_ref: Option<KeyRef>,
    /// Tokens of an answer. Default: the endpoint's.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_tokens: Option<u32>,
    /// From 0 to 2. Default: the endpoint's.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
}

/// What is kept of executions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// Executions kept in memory for each plugin. Default: 1000.
    #[schemars(range(max = 100_000))]
    pub per_plugin: Option<u32>,
    /// Where the rest is kept. Default: nowhere.
    pub store: Option<HistoryStore>,
    /// Days that the store keeps them. Default: 30.
    #[schemars(range(min = 1, max = 3650))]
    pub retention_days: Option<u32>,
    /// `None`, or `Redacted`: payloads are kept only when asked for. Default: None.
    pub payloads: Option<Payloads>,
    /// Regular expressions that `Redacted` takes out besides the built-in list. Default: none.
    #[schemars(length(max = 64), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "set"))]
    pub redact: Option<Vec<String>>,
}

/// Exactly one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.embedded) ? 1 : 0) + (has(self.postgres) ? 1 : 0) == 1"
).message(
    "history.store: give exactly one of embedded, postgres"
))]
pub struct HistoryStore {
    /// A file in the pod.
    pub embedded: Option<EmbeddedStore>,
    /// A PostgreSQL database that the pods share.
    pub postgres: Option<PostgresStore>,
}

/// A file in the pod; it goes with the pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmbeddedStore {
    /// Default: 256Mi.
    pub max_size: Option<Quantity>,
}

/// A PostgreSQL database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostgresStore {
    /// Its URL, password included.
    pub url_secret_ref: KeyRef,
}

/// Whether payloads are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Payloads {
    /// They are not.
    None,
    /// Redacted.
    Redacted,
}

/// Whether each call is recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// `Off`, `BestEffort`, or `Required`: a call that cannot be recorded is refused.
    pub mode: AuditMode,
}

/// How much the record of a call matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AuditMode {
    /// None is written.
    Off,
    /// A call is served although it cannot be recorded.
    BestEffort,
    /// A call that cannot be recorded is refused.
    Required,
}

/// Logs and traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Telemetry {
    /// `Error`, `Warn`, `Info`, `Debug` or `Trace`. Default: Info.
    pub log_level: Option<LogLevel>,
    /// OpenTelemetry traces. Default: off.
    pub tracing: Option<Tracing>,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LogLevel {
    /// What failed.
    Error,
    /// And what may.
    Warn,
    /// And what changed.
    Info,
    /// And what was decided.
    Debug,
    /// And each step.
    Trace,
}

/// Where traces go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tracing {
    /// An OTLP collector.
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub endpoint: String,
    /// `GRPC` or `HTTP`. Default: GRPC.
    pub protocol: Option<TracingProtocol>,
    /// Percent of calls that are traced. Default: 10.
    #[schemars(range(max = 100))]
    pub sample_percent: Option<u32>,
}

/// OTLP's transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TracingProtocol {
    /// gRPC.
    GRPC,
    /// HTTP with protobuf.
    HTTP,
}
