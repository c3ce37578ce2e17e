//! Lowers language models.

use serde_json::{Number, Value};

use crate::api::gateway::records::Model;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::{ModelPlan, NamedValue, ValueSource};

/// The default of `timeoutMs`.
const TIMEOUT_MS: u32 = 60_000;

/// Lowers the models of an object. Their Secrets are in its namespace.
pub(super) fn models(written: Option<&Vec<Model>>, namespace: &str) -> Vec<ModelPlan> {
    written.into_iter().flatten().map(|model| lower(model, namespace)).collect()
}

fn lower(model: &Model, namespace: &str) -> ModelPlan {
    let key = model.api_key_secret_ref.as_ref().map(|key| NamedValue {
        name: format!("apiKeySecretRef of {}", model.role),
        value: ValueSource::Secret {
            secret: ObjectKey::new(namespace, &key.name),
            key: key.key.clone(),
            optional: false,
        },
    });
    ModelPlan {
        role: model.role.clone(),
        base_url: model.base_url.clone(),
        model: model.model.clone(),
        key,
        max_tokens: model.max_tokens,
        temperature: model.temperature.and_then(Number::from_f64),
        timeout_ms: model.timeout_ms.unwrap_or(TIMEOUT_MS),
        is_of_gateway: false,
        extra_body: model.extra_body.as_ref().map(|extra| Value::Object(extra.0.clone()).to_string()),
    }
}
