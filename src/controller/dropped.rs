//! Finds fields that a client wrote and the API server dropped, because their names are misspelt. The annotation in which
//! kubectl stores what it applied last is the only place that still has them. It can be as large as the object, so the
//! cache keeps the names of these fields alone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::api::check;
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// kubectl's annotation, with the object as it was applied last (client-side apply).
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The annotation that cached objects have instead. No object in the cluster has it.
const DROPPED: &str = "hawsepipe.dev/dropped-fields";
/// Maximum number of bytes of a field's path that is reported, because names of fields may have any length.
const MAX_PATH: usize = 512;

/// Notes the dropped fields of a watched object. [`LAST_APPLIED`] is removed later, from watched objects of every kind.
pub(super) fn keep(kind: Kind, object: &mut DynamicObject) {
    let Some(annotations) = &mut object.metadata.annotations else { return };
    annotations.remove(DROPPED);
    let Some(applied) = annotations.get(LAST_APPLIED) else { return };
    let Ok(applied) = serde_json::from_str::<Value>(applied) else { return };
    let mut dropped = check::dropped(kind, &applied, &object.data);
    dropped.retain(|(field, _)| field.len() <= MAX_PATH);
    if !dropped.is_empty() {
        annotations.insert(DROPPED.to_owned(), serde_json::json!(dropped).to_string());
    }
}

/// Returns what [`keep`] noted, as JSON.
pub(super) fn of(metadata: &ObjectMeta) -> Option<&String> {
    metadata.annotations.as_ref()?.get(DROPPED)
}

/// Returns a warning for each field that was dropped.
pub(super) fn problems(id: &ObjectId, metadata: &ObjectMeta) -> Vec<Problem> {
    let dropped = of(metadata).and_then(|json| serde_json::from_str::<Vec<(String, String)>>(json).ok());
    let warning = |(field, message): (String, String)| {
        let message = format!("kubectl applied the field, and the API server dropped it: {message}");
        Problem::warning(Reason::InvalidObject, id.clone(), field, message)
    };
    dropped.unwrap_or_default().into_iter().map(warning).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::ids::ObjectKey;

    /// The warnings for a chain with this entry, which was applied as `applied`.
    fn warnings(entry: &Value, applied: &str) -> Vec<String> {
        let annotations = json!({LAST_APPLIED: applied, DROPPED: "[[\"x\",\"y\"]]"});
        let mut object: DynamicObject = serde_json::from_value(json!({
            "metadata": {"name": "c", "annotations": annotations}, "spec": {"phase": "Response", "entries": [entry]},
        }))
        .unwrap();
        keep(Kind::PluginChain, &mut object);
        let id = ObjectId::new(Kind::PluginChain, ObjectKey::new("ns", "c"));
        problems(&id, &object.metadata)
            .iter()
            .map(|problem| format!("{}: {}", problem.field, problem.message))
            .collect()
    }

    #[test]
    fn a_field_that_was_applied_and_is_not_stored_is_a_warning_with_the_nearest_name() {
        let applied = |entry: Value| json!({"spec": {"phase": "Response", "entries": [entry]}}).to_string();
        let stored = json!({"name": "a"});
        let found = warnings(&stored, &applied(json!({"name": "a", "failurePolcy": "Fail"})));
        let said =
            "kubectl applied the field, and the API server dropped it: unknown field; did you mean failurePolicy?";
        assert_eq!(found, [format!("spec.entries[0].failurePolcy: {said}")]);
        let kept = json!({"name": "a", "later": 1});
        assert!(warnings(&kept, &applied(kept.clone())).is_empty(), "a newer definition has the field");
        let edited = applied(json!({"name": "a", "order": 1}));
        assert!(warnings(&stored, &edited).is_empty(), "another client removed a known field");
        assert!(warnings(&stored, &applied(json!({"name": "a", "x".repeat(1 << 20): 1}))).is_empty());
        assert!(warnings(&stored, "no JSON").is_empty());
    }
}
