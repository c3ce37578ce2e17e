//! Upstreams that run in the cluster without the operator, and built-in retrieval tools.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::KeyRef;
use crate::api::upstream::external::HttpTransport;
use crate::api::values::{FreeObject, HTTP_URL, TOOL_NAME, URL_PATH};

/// Refers to a Service, or to an object that publishes a URL in `status.address.url`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "self.kind != 'Service' || has(self.port)"
).message(
    "serverRef: a Service needs `port`, a number or a name"
))]
pub struct ServerRef {
    /// API group of the object. Default: core.
    #[schemars(length(max = 253))]
    pub api_group: Option<String>,
    /// Kind of the object.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Name of the object, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Port number or port name; required for a Service.
    #[schemars(extend("minimum" = 1, "maximum" = 65_535, "maxLength" = 63))]
    pub port: Option<IntOrString>,
    /// Path of the MCP endpoint. Default: /mcp for a Service, otherwise the path of the published URL.
    #[schemars(length(min = 1, max = 253), regex(pattern = URL_PATH))]
    pub path: Option<String>,
    /// HTTP transport of the server: `StreamableHTTP`, `SSE` (HTTP+SSE of 2024-11-05), or `Auto`, which tries
    /// StreamableHTTP first. Default: Auto.
    pub transport: Option<HttpTransport>,
}

/// A built-in tool that searches one vector index.
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
    /// Where the index is stored: `Databricks`, `PostgreSQL` (with pgvector) or `SQLite`.
    pub backend: VectorBackend,
    /// Name of the tool. Default: vector_search_{name}, where {name} is the object's name with each - replaced by _.
    #[schemars(length(min = 1, max = 64), regex(pattern = TOOL_NAME))]
    pub tool_name: Option<String>,
    /// Description of the tool. Models read it to choose a tool.
    #[schemars(length(min = 1, max = 1024))]
    pub description: String,
    /// Name of the search endpoint; required for Databricks.
    #[schemars(length(min = 1, max = 253))]
    pub endpoint: Option<String>,
    /// Name of the index: catalog.schema.index for Databricks, otherwise schema.table.
    #[schemars(length(min = 1, max = 512))]
    pub index: String,
    /// Number of results to return. Default: 5.
    #[schemars(range(min = 1, max = 100))]
    pub num_results: Option<u32>,
    /// Columns to return. Default: all.
    #[schemars(length(max = 128), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
    pub columns: Option<Vec<String>>,
    /// Filters that apply to every search, any JSON object; callers cannot remove these filters. Default: none.
    pub filters: Option<FreeObject>,
    /// URL of the workspace; required for Databricks.
    #[serde(rename = "baseURL")]
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub base_url: Option<String>,
    /// How a question is turned into a vector; required unless the backend is Databricks.
    pub embedding: Option<Embedding>,
    /// Secret key that holds the backend's credentials. Default: none.
    pub credentials_secret_ref: Option<KeyRef>,
}

/// Where a vector index is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VectorBackend {
    /// Databricks Vector Search.
    Databricks,
    /// PostgreSQL with pgvector.
    PostgreSQL,
    /// A SQLite database.
    SQLite,
}

/// How text is turned into a vector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Embedding {
    /// Role, in the gateway's `models`, of the model that computes embeddings.
    #[schemars(length(min = 1, max = 63))]
    pub model_role: String,
    /// Column that holds the vectors. Default: embedding.
    #[schemars(length(min = 1, max = 63))]
    pub column: Option<String>,
    /// Number of dimensions of a vector. Default: the number of dimensions of the column.
    #[schemars(range(min = 1, max = 65_536))]
    pub dimensions: Option<u32>,
}

/// A built-in tool that answers questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KnowledgeAssistant {
    /// Service that answers: `OpenAI` or `Databricks`.
    pub backend: AssistantBackend,
    /// Name of the tool. Default: knowledge_assistant_{name}, where {name} is the object's name with each - replaced by
    /// _.
    #[schemars(length(min = 1, max = 64), regex(pattern = TOOL_NAME))]
    pub tool_name: Option<String>,
    /// Description of the tool. Models read it to choose a tool.
    #[schemars(length(min = 1, max = 1024))]
    pub description: String,
    /// Name of the endpoint at the service.
    #[schemars(length(min = 1, max = 253))]
    pub endpoint: String,
    /// URL of the service.
    #[serde(rename = "baseURL")]
    #[schemars(length(min = 1, max = 2048), regex(pattern = HTTP_URL))]
    pub base_url: String,
    /// Maximum number of tokens in an answer. Default: 2000.
    #[schemars(range(min = 1, max = 8000))]
    pub max_tokens: Option<u32>,
    /// Sampling temperature, from 0 to 2. Default: 0.3.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
    /// Secret key that holds the service's credentials. Default: none.
    pub credentials_secret_ref: Option<KeyRef>,
}

/// Service that answers the questions of a knowledge assistant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AssistantBackend {
    /// A service with the API of OpenAI.
    OpenAI,
    /// A Databricks workspace.
    Databricks,
}
