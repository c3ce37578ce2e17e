//! Metrics of calls of language models, named as OpenTelemetry's conventions for generative AI name them.

use std::time::Duration;

use prometheus::HistogramVec;

use crate::domain::model::TokenUse;
use crate::domain::reason::Reason;
use crate::telemetry::catalog::Catalog;

/// Upper bounds of the buckets, those of the conventions.
const SECONDS: &[f64] = &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const TOKENS: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0];
/// The value of `gen_ai_operation_name`.
const CHAT: &str = "chat";

/// Metrics of calls of language models.
pub struct ModelMetrics {
    duration: HistogramVec,
    tokens: HistogramVec,
}

impl ModelMetrics {
    pub(super) fn new(m: &Catalog) -> prometheus::Result<Self> {
        Ok(Self {
            duration: m.histogram(
                "gen_ai_client_operation_duration_seconds",
                "Calls of language models by steps of pipelines, with their repetitions",
                &["gen_ai_operation_name", "gen_ai_request_model", "error_type"],
                SECONDS,
            )?,
            tokens: m.histogram(
                "gen_ai_client_token_usage",
                "Tokens of calls of language models",
                &["gen_ai_operation_name", "gen_ai_request_model", "gen_ai_token_type"],
                TOKENS,
            )?,
        })
    }

    /// Measures a call, with the tokens that it took, or the reason why it failed.
    pub fn called(&self, model: &str, took: Duration, outcome: Result<TokenUse, Reason>) {
        let error = outcome.err().map_or("", Reason::as_str);
        self.duration.with_label_values(&[CHAT, model, error]).observe(took.as_secs_f64());
        let Ok(TokenUse { prompt_tokens, completion_tokens }) = outcome else { return };
        for (kind, tokens) in [("input", prompt_tokens), ("output", completion_tokens)] {
            // No call has so many that a float could not count them.
            #[expect(clippy::cast_precision_loss, reason = "the number is small")]
            self.tokens.with_label_values(&[CHAT, model, kind]).observe(tokens as f64);
        }
    }
}
