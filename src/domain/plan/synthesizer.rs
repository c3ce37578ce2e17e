//! How a pipeline writes its output.

use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::PhasePluginPlan;

/// A plugin of type output-type, as a pipeline uses it (document 002, `OutputTypeProvider`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputTypePlan {
    /// The plugin.
    pub plugin: PhasePluginPlan,
    /// What the manifest says, which precedes what the plugin says.
    pub written: SynthesizerConfig,
}

/// How a synthesizer writes the output, as far as it is said (document 002, `SynthesizerConfig`). The names of document 002
/// count too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SynthesizerConfig {
    /// The role of the model.
    #[serde(alias = "model_tier")]
    pub model_tier: Option<String>,
    /// Maximum number of tokens of the answer.
    #[serde(alias = "max_tokens")]
    pub max_tokens: Option<u32>,
    /// The sampling temperature.
    pub temperature: Option<Number>,
    /// What is appended to the system prompt.
    #[serde(alias = "system_prompt_addition")]
    pub system_prompt_addition: Option<String>,
    /// The format that the model writes.
    #[serde(alias = "output_format")]
    pub output_format: Option<OutputFormat>,
    /// Whether the run fails if the output does not fit its schema.
    #[serde(alias = "validation_strict")]
    pub validation_strict: Option<bool>,
}

/// The format that a model writes an output in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputFormat {
    /// JSON of the schema of the output.
    Json,
    /// Markdown.
    Markdown,
}

impl SynthesizerConfig {
    /// Returns this, with what `other` says where this says nothing.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            model_tier: self.model_tier.or(other.model_tier),
            max_tokens: self.max_tokens.or(other.max_tokens),
            temperature: self.temperature.or(other.temperature),
            system_prompt_addition: self.system_prompt_addition.or(other.system_prompt_addition),
            output_format: self.output_format.or(other.output_format),
            validation_strict: self.validation_strict.or(other.validation_strict),
        }
    }

    /// Whether its numbers are within the bounds of manifests.
    pub fn is_in_bounds(&self) -> bool {
        let temperature = self.temperature.as_ref().and_then(Number::as_f64);
        self.max_tokens.is_none_or(|tokens| (1..=1_000_000).contains(&tokens))
            && temperature.is_none_or(|temperature| (0.0..=2.0).contains(&temperature))
    }

    /// Fills in the defaults.
    pub fn plan(self) -> SynthesizerPlan {
        let default = SynthesizerPlan::default();
        SynthesizerPlan {
            max_tokens: self.max_tokens.unwrap_or(default.max_tokens),
            temperature: self.temperature.unwrap_or(default.temperature),
            prompt: None,
            prompt_addition: self.system_prompt_addition,
            is_markdown: self.output_format == Some(OutputFormat::Markdown),
            is_strict: self.validation_strict.unwrap_or(default.is_strict),
        }
    }
}

/// How a synthesizer writes the output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SynthesizerPlan {
    /// Maximum number of tokens of the answer.
    pub max_tokens: u32,
    /// The sampling temperature.
    pub temperature: Number,
    /// The system prompt with its placeholders, in the place of the gateway's.
    #[serde(default)]
    pub prompt: Option<String>,
    /// What is appended to the system prompt.
    pub prompt_addition: Option<String>,
    /// Whether the model writes Markdown and no JSON.
    pub is_markdown: bool,
    /// Whether the run fails if the output does not fit its schema.
    pub is_strict: bool,
}

impl Default for SynthesizerPlan {
    fn default() -> Self {
        let temperature = Number::from_f64(0.7).unwrap_or_else(|| Number::from(1));
        Self { max_tokens: 8000, temperature, prompt: None, prompt_addition: None, is_markdown: false, is_strict: true }
    }
}
