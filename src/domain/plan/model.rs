//! A language model.

use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::NamedValue;

/// A language model that steps of pipelines use under the name of a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelPlan {
    /// The name of the role, or of a plugin and a role, with a slash between them.
    pub role: String,
    /// The base URL of its endpoint.
    pub base_url: String,
    /// Its name at the endpoint.
    pub model: String,
    /// The API key, by a name that is for messages.
    pub key: Option<NamedValue>,
    /// Maximum number of tokens of an answer.
    pub max_tokens: Option<u32>,
    /// The sampling temperature.
    pub temperature: Option<Number>,
    /// Milliseconds that the endpoint has for one answer.
    pub timeout_ms: u32,
    /// Whether it is of the gateway, and not of the pipeline itself.
    #[serde(default)]
    pub is_of_gateway: bool,
    /// Further members of each request, as JSON.
    pub extra_body: Option<String>,
}
