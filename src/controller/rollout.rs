//! What a Deployment's status says of a rollout that does not go on.

use kube::api::DynamicObject;
use serde::{Deserialize, Serialize};

/// Maximum number of characters of a condition's words that are kept.
const MAX_WORDS: usize = 1024;

/// Why the pods of a Deployment's newest template are not there, as its conditions say it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rollout {
    /// Why the API server refuses pods, such as for a quota; `None` if it does not.
    pub(super) refused: Option<String>,
    /// Why the rollout does not go on, such as because its pods were not ready in time; `None` if it goes on or is over.
    pub(super) stalled: Option<String>,
}

impl Rollout {
    /// Returns what is wrong; `None` if nothing is, or if the object is no Deployment.
    pub(super) fn of(object: &DynamicObject) -> Option<Self> {
        let refused = condition(object, "ReplicaFailure", "True");
        let stalled = condition(object, "Progressing", "False");
        (refused.is_some() || stalled.is_some()).then_some(Self { refused, stalled })
    }

    /// Returns the same, with the object's name before the words.
    pub(super) fn named(self, object: &str) -> Self {
        let named = |words: Option<String>| words.map(|words| format!("{object}: {words}"));
        Self { refused: named(self.refused), stalled: named(self.stalled) }
    }
}

/// Returns the reason and the message of a condition, if it has this status.
fn condition(object: &DynamicObject, name: &str, status: &str) -> Option<String> {
    let conditions = object.data.get("status")?.get("conditions")?.as_array()?;
    let found = conditions.iter().find(|told| told["type"] == name && told["status"] == status)?;
    let word = |name: &str| found[name].as_str().unwrap_or_default();
    Some(format!("{}: {}", word("reason"), word("message")).chars().take(MAX_WORDS).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns what is wrong with a Deployment with these conditions.
    fn rollout(conditions: &Value) -> Rollout {
        let object: DynamicObject = serde_json::from_value(json!({"apiVersion": "apps/v1",
            "kind": "Deployment", "metadata": {"name": "x"}, "status": {"conditions": conditions}}))
        .unwrap();
        Rollout::of(&object).unwrap_or_default()
    }

    fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": message})
    }

    #[test]
    fn pods_that_cannot_be_created_are_told_until_they_can() {
        let told = |status: &str, message: &str| {
            let available = condition("Available", "False", "MinimumReplicasUnavailable", "no");
            rollout(&json!([available, condition("ReplicaFailure", status, "FailedCreate", message)])).refused
        };
        let words = "pods \"x\" is forbidden: exceeded quota: q";
        assert_eq!(told("True", words).unwrap(), format!("FailedCreate: {words}"));
        assert_eq!(told("False", ""), None);
        assert_eq!(rollout(&Value::Null), Rollout::default());
        assert_eq!(told("True", &"x".repeat(5000)).unwrap().len(), MAX_WORDS);
    }

    #[test]
    fn a_rollout_that_does_not_go_on_is_told_until_it_does() {
        let told = |status: &str, reason: &str| {
            let message = "ReplicaSet \"x-1\" has timed out progressing.";
            rollout(&json!([condition("Progressing", status, reason, message)])).stalled
        };
        let words = "ProgressDeadlineExceeded: ReplicaSet \"x-1\" has timed out progressing.";
        assert_eq!(told("False", "ProgressDeadlineExceeded").as_deref(), Some(words));
        for (status, reason) in
            [("True", "NewReplicaSetAvailable"), ("True", "ReplicaSetUpdated"), ("Unknown", "DeploymentPaused")]
        {
            assert_eq!(told(status, reason), None, "{reason}");
        }
    }
}
