//! Decides who sets the number of pods of a Deployment that has, had or will have an autoscaler. Pure functions.
//!
//! With server-side apply, a field that its only owner no longer applies is removed, and `spec.replicas` becomes 1. So
//! the operator applies the number that it finds until another client owns the field, and only then stops applying it.

use kube::api::DynamicObject;
use serde::{Deserialize, Serialize};

use super::FIELD_MANAGER;
use super::manifest::Manifest;

/// The number of pods of a Deployment, and who set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Scale {
    /// `spec.replicas`.
    pub(super) replicas: u32,
    /// Whether a client other than this operator owns the field, such as an autoscaler.
    pub(super) has_other_owner: bool,
}

impl Scale {
    /// Returns the scale of an object as the API server sends it; `None` if the kind has no `spec.replicas`.
    pub(super) fn of(object: &DynamicObject) -> Option<Self> {
        let replicas = object.data.pointer("/spec/replicas")?.as_u64()?.try_into().ok()?;
        let has_other_owner = object.metadata.managed_fields.iter().flatten().any(|entry| {
            let is_ours =
                entry.manager.as_deref() == Some(FIELD_MANAGER) && entry.operation.as_deref() == Some("Apply");
            let fields = entry.fields_v1.as_ref();
            !is_ours && fields.is_some_and(|fields| fields.0.pointer("/f:spec/f:replicas").is_some())
        });
        Some(Self { replicas, has_other_owner })
    }
}

/// Returns the Deployment `desired` with the number of pods to apply while `live` is that of the stored one.
/// `wants_autoscaler` is false while an autoscaler that is not desired any more still exists.
///
/// A stored number of 0 gives way to the desired number, because autoscalers never change it.
pub(super) fn with_live_count<K: Clone>(
    desired: &Manifest<K>,
    live: Option<Scale>,
    wants_autoscaler: bool,
) -> Manifest<K> {
    match live {
        Some(Scale { has_other_owner: true, .. }) if wants_autoscaler => desired.with_replicas(None),
        Some(Scale { replicas, .. }) if replicas > 0 => desired.with_replicas(Some(replicas)),
        _ => desired.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the scale of a Deployment with 5 pods, whose field managers are these, each with the subresource that it
    /// wrote to.
    fn scale(managers: &[(&str, &str, Option<&str>)]) -> Option<Scale> {
        let entry = |(manager, operation, subresource): &(&str, &str, Option<&str>)| {
            json!({"manager": manager, "operation": operation, "subresource": subresource,
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}})
        };
        let template = json!({"manager": "kubectl-edit", "operation": "Update",
            "fieldsV1": {"f:spec": {"f:template": {}}}});
        let managed: Vec<_> = managers.iter().map(entry).chain([template]).collect();
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 5},
            "metadata": {"name": "x", "managedFields": managed}});
        Scale::of(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn the_owner_of_the_number_of_pods_is_read_from_the_managed_fields() {
        let ours = (FIELD_MANAGER, "Apply", None);
        let autoscaler = ("kube-controller-manager", "Update", Some("scale"));
        let has_other_owner = |managers: &[_]| scale(managers).unwrap().has_other_owner;
        assert!(!has_other_owner(&[]) && !has_other_owner(&[ours]));
        assert!(has_other_owner(&[autoscaler]) && has_other_owner(&[ours, autoscaler]));
        assert!(has_other_owner(&[(FIELD_MANAGER, "Update", None)]), "an update is not an apply");
        assert_eq!(scale(&[ours]).unwrap().replicas, 5);
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {}});
        assert_eq!(Scale::of(&serde_json::from_value(service).unwrap()), None);
    }

    #[test]
    fn the_live_number_is_applied_until_another_client_owns_it_and_taken_back_before_the_specs() {
        let desired = Manifest::<()>::from_json(json!({"metadata": {"name": "x"}, "spec": {"replicas": 2}}));
        let applied = |live: Option<(u32, bool)>, wants_autoscaler: bool| {
            let live = live.map(|(replicas, has_other_owner)| Scale { replicas, has_other_owner });
            with_live_count(&desired, live, wants_autoscaler).body()["spec"]["replicas"].clone()
        };
        for (live, wants_autoscaler, expected) in [
            (None, true, json!(2)),
            (Some((5, false)), true, json!(5)),
            (Some((0, false)), true, json!(2)),
            (Some((5, true)), true, Value::Null),
            (Some((0, true)), true, Value::Null),
            (None, false, json!(2)),
            (Some((5, true)), false, json!(5)),
            (Some((5, false)), false, json!(5)),
            (Some((0, true)), false, json!(2)),
        ] {
            assert_eq!(applied(live, wants_autoscaler), expected, "{live:?} {wants_autoscaler}");
        }
    }
}
