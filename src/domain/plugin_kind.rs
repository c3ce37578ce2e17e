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
