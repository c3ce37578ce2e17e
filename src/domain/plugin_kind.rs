//! The types of plugins, and calls of those that are not middleware.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The type of a plugin, which determines the functions that the gateway calls (document 002).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginKind {
    /// Runs in chains, on the content of calls.
    #[default]
    Middleware,
    /// A step of a pipeline.
    Phase,
    /// Changes the prompts of agents of a pipeline.
    PromptProvider,
    /// Makes the tools of an upstream.
    ToolProvider,
    /// Changes a pipeline for one run.
    PipelineCustomizer,
    /// Defines the form of the output of a pipeline.
    OutputType,
    /// Finds tasks and facts in a request, for the seed detection stage of a planned pipeline (document 004).
    SdPlugin,
    /// Finds context, for the retrieval stage.
    KbPlugin,
    /// Answers, for the goal solving stage.
    GsPlugin,
    /// Judges answers, for the validation stage.
    ValPlugin,
    /// Orders the plugins of the stages.
    MrpPlanPlugin,
}

impl PluginKind {
    /// Returns the name of the type, as manifests have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Middleware => "middleware",
            Self::Phase => "phase",
            Self::PromptProvider => "prompt-provider",
            Self::ToolProvider => "tool-provider",
            Self::PipelineCustomizer => "pipeline-customizer",
            Self::OutputType => "output-type",
            Self::SdPlugin => "sd-plugin",
            Self::KbPlugin => "kb-plugin",
            Self::GsPlugin => "gs-plugin",
            Self::ValPlugin => "val-plugin",
            Self::MrpPlanPlugin => "mrp-plan-plugin",
        }
    }

    /// The names of all types, also of those that this version does not implement.
    pub const NAMES: [&str; 14] = [
        "middleware",
        "sd-plugin",
        "kb-plugin",
        "gs-plugin",
        "val-plugin",
        "mrp-plan-plugin",
        "tool-provider",
        "prompt-provider",
        "phase",
        "pipeline-customizer",
        "output-type",
        "intent-classifier",
        "qa-handler",
        "update-handler",
    ];

    /// All types that this version implements.
    const ALL: [Self; 11] = [
        Self::Middleware,
        Self::Phase,
        Self::PromptProvider,
        Self::ToolProvider,
        Self::PipelineCustomizer,
        Self::OutputType,
        Self::SdPlugin,
        Self::KbPlugin,
        Self::GsPlugin,
        Self::ValPlugin,
        Self::MrpPlanPlugin,
    ];

    /// Returns the type with this name; `None` if this version does not implement it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Returns the name of the type with the article before it.
    pub fn with_article(self) -> String {
        let name = self.as_str();
        let article = if name.starts_with(['o', 's']) || name.starts_with("mrp") { "an" } else { "a" };
        format!("{article} {name}")
    }

    /// Whether plugins of this type run in a stage of planned pipelines (document 004).
    pub fn is_stage(self) -> bool {
        !self.provides().is_empty()
    }

    /// Whether a program of another language can be a plugin of this type: it answers one message, and needs no callbacks.
    pub fn can_be_wrapper(self) -> bool {
        self == Self::Middleware || (self.is_stage() && self != Self::MrpPlanPlugin)
    }

    /// Returns the capabilities of plugins of this type, if it is one of a stage.
    pub fn provides(self) -> &'static [&'static str] {
        match self {
            Self::SdPlugin => &["detect-seeds"],
            Self::KbPlugin => &["retrieve-context"],
            Self::GsPlugin => &["solve"],
            Self::ValPlugin => &["validate"],
            Self::MrpPlanPlugin => &["plan"],
            _ => &[],
        }
    }

    /// Returns the functions that the code of a plugin of this type must export: one of each list. Middleware has rules of
    /// its own.
    pub fn required_exports(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Middleware => &[],
            Self::Phase => &[&["execute"]],
            Self::PromptProvider => &[&["getPromptOverrides"]],
            Self::ToolProvider => &[&["getTools"], &["execute"]],
            Self::PipelineCustomizer => &[&["getPipelineConfig", "getPipelineCustomizations", "getPhases"]],
            Self::OutputType => &[&["getOutputSchema"]],
            Self::SdPlugin => &[&["detectSeeds"]],
            Self::KbPlugin => &[&["retrieve"]],
            Self::GsPlugin => &[&["solve"]],
            Self::ValPlugin => &[&["validate"]],
            Self::MrpPlanPlugin => &[&["buildPlan"]],
        }
    }

    /// Whether this is the default.
    pub fn is_middleware(&self) -> bool {
        *self == Self::Middleware
    }
}

/// A call of a function of a plugin that is not middleware (document 002).
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TypedCall<'a> {
    /// The name of the function.
    pub method: &'a str,
    /// Further members of the plugin's `ctx`, a JSON object.
    pub context: &'a RawValue,
}
