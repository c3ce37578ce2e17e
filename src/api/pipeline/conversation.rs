//! Follow-ups to what a pipeline answered (document 002).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::ObjectRef;
use crate::api::values::TOOL_NAME;

/// The companion tool of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Conversation {
    /// Its name. Default: the pipeline's tool with `_follow_up`.
    #[schemars(length(min = 1, max = 64), regex(pattern = TOOL_NAME))]
    pub tool_name: Option<String>,
    /// A Plugin of type intent-classifier. Default: the built-in one.
    pub intent_classifier: Option<ObjectRef>,
    /// A Plugin of type qa-handler. Default: the built-in one.
    pub qa_handler: Option<ObjectRef>,
    /// A Plugin of type update-handler. Default: the built-in one.
    pub update_handler: Option<ObjectRef>,
    /// Calls of tools that an update may make. Default: 5.
    #[schemars(range(max = 1000))]
    pub max_tool_calls: Option<u32>,
    /// Intents that are served. Default: all.
    #[schemars(length(min = 1, max = 5), extend("x-kubernetes-list-type" = "set"))]
    pub intents: Option<Vec<Intent>>,
    /// Below it, a follow-up counts as `clarification_needed`. Default: 0.5.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_confidence: Option<f64>,
    /// Seconds without a follow-up until a conversation is forgotten. Default: 86400.
    #[schemars(range(min = 1, max = 2_592_000))]
    pub idle_seconds: Option<u32>,
}

/// What a follow-up is about (document 002, FollowUpIntent).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// A question about the answer.
    Qa,
    /// More research.
    ResearchUpdate,
    /// It is not clear.
    ClarificationNeeded,
    /// The answer in another form.
    Export,
    /// An opinion.
    Feedback,
}
