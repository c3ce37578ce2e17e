//! Follow-up questions to the answers of a pipeline (document 002).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::ObjectRef;
use crate::api::values::TOOL_NAME;

/// A second tool with which clients follow up on a pipeline's answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Conversation {
    /// Name of the follow-up tool. Default: the name of the pipeline's tool with the suffix `_follow_up`.
    #[schemars(length(min = 1, max = 64), regex(pattern = TOOL_NAME))]
    pub tool_name: Option<String>,
    /// Plugin of type intent-classifier, which determines the intent of a follow-up. Default: the built-in classifier.
    pub intent_classifier: Option<ObjectRef>,
    /// Plugin of type qa-handler, which answers questions about an answer. Default: the built-in handler.
    pub qa_handler: Option<ObjectRef>,
    /// Plugin of type update-handler, which handles requests for more research. Default: the built-in handler.
    pub update_handler: Option<ObjectRef>,
    /// Maximum number of tool calls for one update. Default: 5.
    #[schemars(range(max = 1000))]
    pub max_tool_calls: Option<u32>,
    /// Intents that the follow-up tool serves. Default: all.
    #[schemars(length(min = 1, max = 5), extend("x-kubernetes-list-type" = "set"))]
    pub intents: Option<Vec<Intent>>,
    /// Minimum confidence of the intent classifier, from 0 to 1. If its confidence is lower, the follow-up is treated
    /// as `clarification_needed`. Default: 0.5.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_confidence: Option<f64>,
    /// Seconds without a follow-up after which a conversation is forgotten. Default: 86400.
    #[schemars(range(min = 1, max = 2_592_000))]
    pub idle_seconds: Option<u32>,
}

/// The intent of a follow-up (document 002, FollowUpIntent).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// A question about the answer.
    Qa,
    /// A request for more research.
    ResearchUpdate,
    /// The intent is unclear.
    ClarificationNeeded,
    /// A request for the answer in another format.
    Export,
    /// An opinion about the answer.
    Feedback,
}
