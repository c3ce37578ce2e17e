//! Pipelines whose plugins are put in order by a planner (document 004).

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::{ObjectRef, Selector};
use crate::api::values::Quantity;

/// The stages of a pipeline and their planner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Planned {
    /// Planner that puts the plugins in order. Default: the built-in planner.
    pub planner: Option<Planner>,
    /// Plugins that each stage can run. Default: every plugin of the stage's type within reach.
    pub stages: Option<Stages>,
    /// Whether a request can pin a stage to one plugin. Default: true.
    pub allow_pins: Option<bool>,
    /// Maximum number of plugin runs in one frame. Default: 12.
    #[schemars(range(min = 1, max = 1000))]
    pub max_attempts: Option<u32>,
    /// Maximum nesting of child frames, which answer parts of a question. Default: 3.
    #[schemars(range(max = 16))]
    pub max_depth: Option<u32>,
    /// How documents that a client supplies are processed. Default: none are accepted.
    pub source_text: Option<SourceText>,
}

/// Planner that puts the plugins in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.builtIn) || self.builtIn || (has(self.plugins) && self.plugins.size() > 0)"
).message(
    "planner: without the built-in one, name a plugin"
))]
pub struct Planner {
    /// Plugins of type mrp-plan-plugin, tried in this order. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub plugins: Option<Vec<ObjectRef>>,
    /// Whether the built-in planner is tried last. Default: true.
    pub built_in: Option<bool>,
}

/// Stages in the order in which they run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stages {
    /// Plugins of type sd-plugin. Default: all within reach.
    pub seed_detection: Option<Stage>,
    /// Plugins of type kb-plugin. Default: all within reach.
    pub retrieval: Option<Stage>,
    /// Plugins of type gs-plugin. Default: all within reach.
    pub goal_solving: Option<Stage>,
    /// Plugins of type val-plugin. Default: all within reach.
    pub validation: Option<Stage>,
}

/// Plugins that a stage can run: listed by name, or selected by labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!(has(self.plugins) && has(self.selector))"
).message(
    "a stage has plugins or a selector, not both"
))]
pub struct Stage {
    /// Plugins listed by name. Default: none.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub plugins: Option<Vec<ObjectRef>>,
    /// Selects plugins by their labels. Default: none.
    pub selector: Option<Selector>,
    /// Plugin that the planner starts with if it has no reason to choose another. Default: none.
    pub preferred: Option<ObjectRef>,
    /// Whether a run continues if the stage has no plugin. Default: false.
    pub optional: Option<bool>,
}

/// How documents that a client supplies are processed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceText {
    /// Plugin of type sd-plugin that splits documents into units. Default: the first plugin of the seed detection
    /// stage.
    pub normalizer: Option<ObjectRef>,
    /// Whether plugins of type kb-plugin are informed of the documents. Default: true.
    pub ingest: Option<bool>,
    /// Maximum size of one document. Default: 8Mi.
    pub max_size: Option<Quantity>,
}
