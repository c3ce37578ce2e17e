//! Models, history, audit and telemetry of a gateway.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::KeyRef;
use crate::api::values::{FreeObject, HOST_PORT, HTTP_URL, Quantity};

/// A language model that plugins and pipelines use under the name of a role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// Name of the role. Any name can be chosen, but it must be unique in the list.
    #[schemars(length(min = 1, max = 63))]
    pub role: String,
    /// Base URL of the endpoint that serves the model.
    #[serde(rename = "baseURL")]
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub base_url: String,
    /// Name of the model at the endpoint.
    #[schemars(length(min = 1, max = 253))]
    pub model: String,
    /// Secret key that holds the endpoint's API key. Default: none.
    pub api_key_secret_ref: Option<KeyRef>,
    /// Maximum number of tokens in an answer. Default: the endpoint's default.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_tokens: Option<u32>,
    /// Sampling temperature, from 0 to 2. Default: the endpoint's default.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
    /// Milliseconds that the endpoint has for one answer. Default: 60000.
    #[schemars(range(min = 1000, max = 600_000))]
    pub timeout_ms: Option<u32>,
    /// Further members of the body of each request. The gateway sets `model`, `messages`, `stream` and `tools` itself. Default:
    /// none.
    pub extra_body: Option<FreeObject>,
}

/// The history of past executions: how much of it is kept, where, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// Number of executions of each plugin that a pod keeps in memory. Default: 1000.
    #[schemars(range(max = 100_000))]
    pub per_plugin: Option<u32>,
    /// Store for calls and executions, in addition to memory. Default: none.
    pub store: Option<HistoryStore>,
    /// Days that the store keeps calls and executions. Default: 30.
    #[schemars(range(min = 1, max = 3650))]
    pub retention_days: Option<u32>,
    /// Whether the arguments and answers of calls are kept: `None` keeps none, `Redacted` keeps them after redaction.
    /// Default: None.
    pub payloads: Option<Payloads>,
    /// Regular expressions for `payloads: Redacted`: their matches are removed from payloads, in addition to the values of
    /// Secrets and the matches of built-in expressions. If an expression matches the name of a member, its value is removed
    /// too. Default: none.
    #[schemars(length(max = 64), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "set"))]
    pub redact: Option<Vec<String>>,
}

/// Store for calls and executions: exactly one of `embedded`, `postgres`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.embedded) ? 1 : 0) + (has(self.postgres) ? 1 : 0) == 1"
).message(
    "history.store: give exactly one of embedded, postgres"
))]
pub struct HistoryStore {
    /// A SQLite file in the gateway's state folder. In a cluster, the file is lost when the pod ends.
    pub embedded: Option<EmbeddedStore>,
    /// A PostgreSQL database that the pods share.
    pub postgres: Option<PostgresStore>,
}

/// A SQLite file in the gateway's state folder. In a cluster, the file is lost when the pod ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmbeddedStore {
    /// Maximum size of the file; before it is reached, the oldest rows are removed. Default: 256Mi.
    pub max_size: Option<Quantity>,
}

/// A PostgreSQL database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostgresStore {
    /// Secret key that holds the URL of the database, password included: `postgres://USER:PASSWORD@HOST/DATABASE`.
    pub url_secret_ref: KeyRef,
    /// Address of the database, as `host:port`, to which the gateway's NetworkPolicy allows its pods to connect: the operator
    /// does not read the URL. Default: none, and the database is not reached if the cluster enforces NetworkPolicies, unless
    /// another policy allows it.
    #[schemars(length(max = 260), regex(pattern = HOST_PORT))]
    pub address: Option<String>,
}

/// Whether the arguments and answers of calls are kept: `None` keeps none, `Redacted` keeps them after redaction.
/// Default: None.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Payloads {
    /// Payloads are not kept.
    None,
    /// Payloads are kept after redaction.
    Redacted,
}

/// Whether calls are recorded, and what happens to a call that cannot be recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Audit mode: `Off` writes no records. `BestEffort` records calls, but also serves a call that cannot be recorded.
    /// `Required` refuses a call that cannot be recorded.
    pub mode: AuditMode,
}

/// Audit mode: `Off` writes no records. `BestEffort` records calls, but also serves a call that cannot be recorded.
/// `Required` refuses a call that cannot be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AuditMode {
    /// No record is written.
    Off,
    /// A call is served even if it cannot be recorded.
    BestEffort,
    /// A call that cannot be recorded is refused.
    Required,
}

/// Logs and traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Telemetry {
    /// Minimum level of log messages: `Error`, `Warn`, `Info`, `Debug` or `Trace`. Default: Info.
    pub log_level: Option<LogLevel>,
    /// OpenTelemetry traces. Default: off.
    pub tracing: Option<Tracing>,
}

/// Minimum level of log messages: `Error`, `Warn`, `Info`, `Debug` or `Trace`. Default: Info.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LogLevel {
    /// Messages about failures.
    Error,
    /// Messages of level `Error`, and messages about conditions that could lead to a failure.
    Warn,
    /// Messages of level `Warn` and above, and messages about changes.
    Info,
    /// Messages of level `Info` and above, and messages about decisions.
    Debug,
    /// Messages of level `Debug` and above, and messages about each step.
    Trace,
}

/// Where traces are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!self.endpoint.matches('^https?://[^/?#]*@')"
).message(
    "tracing.endpoint: a user or a password in the URL would not be sent: take it out, and send a header with the variable \
     OTEL_EXPORTER_OTLP_HEADERS"
))]
pub struct Tracing {
    /// URL of an OTLP collector, without user and password.
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub endpoint: String,
    /// Transport of OTLP: `GRPC` or `HTTP`. Default: GRPC.
    pub protocol: Option<TracingProtocol>,
    /// Percentage of calls that are traced, among those whose client sends no trace context. If the client sends one,
    /// its sampled flag decides. Default: 10.
    #[schemars(range(max = 100))]
    pub sample_percent: Option<u32>,
}

/// Transport of OTLP: `GRPC` or `HTTP`. Default: GRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TracingProtocol {
    /// OTLP over gRPC.
    GRPC,
    /// OTLP over HTTP, encoded as protobuf.
    HTTP,
}
