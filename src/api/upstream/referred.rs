//! Upstreams that somebody else runs, and retrieval tools of our own.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::KeyRef;
use crate::api::upstream::external::HttpTransport;
use crate::api::values::{FreeObject, HTTP_URL, TOOL_NAME, URL_PATH};

/// An object that publishes `status.address.url`, or a Service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "self.kind != 'Service' || has(self.port)"
).message(
    "serverRef: a Service needs `port`, a number or a name"
))]
pub struct ServerRef {
    /// Its API group. Default: core.
    #[schemars(length(max = 253))]
    pub api_group: Option<String>,
    /// Its kind.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Number or name; needed for a Service.
    #[schemars(extend("minimum" = 1, "maximum" = 65_535, "maxLength" = 63))]
    pub port: Option<IntOrString>,
    /// Path of its endpoint. Default: /mcp.
    #[schemars(length(min = 1, max = 253), regex(pattern = URL_PATH))]
    pub path: Option<String>,
    /// `Auto`, `StreamableHTTP` or `SSE`. Default: Auto.
    pub transport: Option<HttpTransport>,
}

/// A retrieval tool over one index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "self.backend != 'Databricks' || (has(self.endpoint) && has(self.baseURL) && has(self.credentialsSecretRef))"
).message(
    "vectorSearch on Databricks needs endpoint, baseURL and credentialsSecretRef"
))]
#[x_kube(validation = Rule::new(
    "self.backend == 'Databricks' || has(self.embedding)"
).message(
    "vectorSearch on PostgreSQL and SQLite needs `embedding`: how a question becomes a vector"
))]
pub struct VectorSearch {
    /// `Databricks`, `PostgreSQL` (pgvector) or `SQLite`.
    pub backend: VectorBackend,
    /// Default: vector_search_{name}, - as _.
    #[schemars(length(min = 1, max = 64), regex(pattern = TOOL_NAME))]
    pub tool_name: Option<String>,
    /// What the model chooses the tool by.
    #[schemars(length(min = 1, max = 1024))]
    pub description: String,
    /// With Databricks: its endpoint.
    #[schemars(length(min = 1, max = 253))]
    pub endpoint: Option<String>,
    /// catalog.schema.index, or schema.table.
    #[schemars(length(min = 1, max = 512))]
    pub index: String,
    /// Default: 5.
    #[schemars(range(min = 1, max = 100))]
    pub num_results: Option<u32>,
    /// Columns to return. Default: all.
    #[schemars(length(max = 128), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
    pub columns: Option<Vec<String>>,
    /// Any JSON object; a caller cannot take it away. Default: none.
    pub filters: Option<FreeObject>,
    /// With Databricks: the workspace.
    #[serde(rename = "baseURL")]
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub base_url: Option<String>,
    /// How a question becomes a vector; not with Databricks.
    pub embedding: Option<Embedding>,
    /// Its credentials. Default: none.
    pub credentials_secret_ref: Option<KeyRef>,
}

/// Where vectors are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VectorBackend {
    /// Databricks Vector Search.
    Databricks,
    /// PostgreSQL with pgvector.
    PostgreSQL,
    /// SQLite.
    SQLite,
}

/// How text becomes a vector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Embedding {
    /// The role of a model of the gateway.
    #[schemars(length(min = 1, max = 63))]
    pub model_role: String,
    /// The vectors' column. Default: embedding.
    #[schemars(length(min = 1, max = 63))]
    pub column: Option<String>,
    /// Default: the column's.
    #[schemars(range(min = 1, max = 65_536))]
    pub dimensions: Option<u32>,
}

/// A question-answering tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KnowledgeAssistant {
    /// `OpenAI` or `Databricks`.
    pub backend: AssistantBackend,
    /// Default: knowledge_assistant_{name}, - as _.
    #[schemars(length(min = 1, max = 64), regex(pattern = TOOL_NAME))]
    pub tool_name: Option<String>,
    /// What the model chooses the tool by.
    #[schemars(length(min = 1, max = 1024))]
    pub description: String,
    /// Its endpoint's name.
    #[schemars(length(min = 1, max = 253))]
    pub endpoint: String,
    /// The service.
    #[serde(rename = "baseURL")]
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub base_url: String,
    /// Tokens of an answer. Default: 2000.
    #[schemars(range(min = 1, max = 8000))]
    pub max_tokens: Option<u32>,
    /// From 0 to 2. Default: 0.3.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
    /// Its credentials. Default: none.
    pub credentials_secret_ref: Option<KeyRef>,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AssistantBackend {
    /// An API like OpenAI's.
    OpenAI,
    /// Databricks.
    Databricks,
}
