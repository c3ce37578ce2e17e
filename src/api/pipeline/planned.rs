//! Pipelines whose plugins a planner orders (document 004).

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::{ObjectRef, Selector};
use crate::api::values::Quantity;

/// Stages, and who plans them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Planned {
    /// Who orders the plugins. Default: the built-in planner.
    pub planner: Option<Planner>,
    /// What each stage may run. Default: every plugin of its type in reach.
    pub stages: Option<Stages>,
    /// Whether a request may pin a stage to one plugin. Default: true.
    pub allow_pins: Option<bool>,
    /// Runs of plugins in one frame. Default: 12.
    #[schemars(range(min = 1, max = 1000))]
    pub max_attempts: Option<u32>,
    /// Child frames of a question that is taken apart, one in another. Default: 3.
    #[schemars(range(max = 16))]
    pub max_depth: Option<u32>,
    /// Documents that are offered to the pipeline. Default: none are taken.
    pub source_text: Option<SourceText>,
}

/// Who orders the plugins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.builtIn) || self.builtIn || (has(self.plugins) && self.plugins.size() > 0)"
).message(
    "planner: without the built-in one, name a plugin"
))]
pub struct Planner {
    /// Plugins of type mrp-plan-plugin, tried in turn. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub plugins: Option<Vec<ObjectRef>>,
    /// Whether the built-in one is tried last. Default: true.
    pub built_in: Option<bool>,
}

/// The stages in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stages {
    /// Plugins of type sd-plugin. Default: all in reach.
    pub seed_detection: Option<Stage>,
    /// Plugins of type kb-plugin. Default: all in reach.
    pub retrieval: Option<Stage>,
    /// Plugins of type gs-plugin. Default: all in reach.
    pub goal_solving: Option<Stage>,
    /// Plugins of type val-plugin. Default: all in reach.
    pub validation: Option<Stage>,
}

/// What a stage may run: named plugins, or those with labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!(has(self.plugins) && has(self.selector))"
).message(
    "a stage has plugins or a selector, not both"
))]
pub struct Stage {
    /// The plugins. Default: none are named.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub plugins: Option<Vec<ObjectRef>>,
    /// Labels of the plugins. Default: none.
    pub selector: Option<Selector>,
    /// The one that the planner begins with where it knows nothing better. Default: none.
    pub preferred: Option<ObjectRef>,
    /// Whether the run goes on where the stage has no plugin. Default: false.
    pub optional: Option<bool>,
}

/// Documents that are offered to a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceText {
    /// A Plugin of type sd-plugin that makes units of them. Default: the first of the stage.
    pub normalizer: Option<ObjectRef>,
    /// Whether kb-plugins are told of them. Default: true.
    pub ingest: Option<bool>,
    /// Of one document. Default: 8Mi.
    pub max_size: Option<Quantity>,
}
