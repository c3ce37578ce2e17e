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
    /// Plugins that each stage can run. Default: every plugin of the stage's type that the pipeline can use.
    pub stages: Option<Stages>,
    /// Whether a request can pin a stage to one plugin. Default: true.
    pub allow_pins: Option<bool>,
    /// Maximum number of plugin runs in one frame. A frame answers the request or, as a child frame, a part of the
    /// request. Default: 12.
    #[schemars(range(min = 1, max = 1000))]
    pub max_attempts: Option<u32>,
    /// Maximum depth to which frames nest: a child frame answers a part of the question that its parent frame answers.
    /// Default: 3.
    #[schemars(range(max = 16))]
    pub max_depth: Option<u32>,
    /// How documents that a client supplies are processed. Default: no documents are accepted.
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
    /// Plugins of type mrp-plan-plugin, tried in the order of this list. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub plugins: Option<Vec<ObjectRef>>,
    /// Whether the built-in planner is tried after all `plugins`. Default: true.
    pub built_in: Option<bool>,
}

/// Plugins of each stage. The stages run in the order `seedDetection`, `retrieval`, `goalSolving`, `validation`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stages {
    /// Plugins of type sd-plugin, which run in the seed detection stage. Default: all that the pipeline can use.
    pub seed_detection: Option<Stage>,
    /// Plugins of type kb-plugin, which run in the retrieval stage. Default: all that the pipeline can use.
    pub retrieval: Option<Stage>,
    /// Plugins of type gs-plugin, which run in the goal solving stage. Default: all that the pipeline can use.
    pub goal_solving: Option<Stage>,
    /// Plugins of type val-plugin, which run in the validation stage. Default: all that the pipeline can use.
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
    /// Whether plugins of type kb-plugin receive the documents too. Default: true.
    pub ingest: Option<bool>,
    /// Maximum size of one document. Default: 8Mi.
    pub max_size: Option<Quantity>,
}
