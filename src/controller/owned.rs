//! Decides which fields of an object belong to this operator. A difference in a field that someone else set is not a
//! reason to write the object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::FIELD_MANAGER;
use super::manifest::{APPLIED, Manifest};
use super::rollout::Rollout;
use super::scale::Scale;

/// Removes from the status everything that this field manager did not apply (Kubernetes, `metadata.managedFields`).
pub(super) fn keep_own_status(object: &mut DynamicObject) {
    let fields = applied(object, Some("status"));
    let fields = fields.as_ref().and_then(|fields| fields.get("f:status"));
    match (object.data.get_mut("status"), fields) {
        (Some(status), Some(fields)) => keep(status, fields),
        (Some(status), None) => *status = Value::Null,
        (None, _) => {}
    }
}

/// The member of a reduced object that contains the set of owned fields. See [`keep_own`].
const FIELDS: &str = "fields";
/// The member of a reduced object that contains its [`Scale`], if its kind has one.
const SCALE: &str = "scale";
/// The member of a reduced object that contains its [`Rollout`]; null if nothing is wrong with it.
const ROLLOUT: &str = "rollout";
/// The member of a reduced object that names the other field manager which changed the object last.
const OTHER: &str = "other";
/// A field manager that changes Deployments, but no field that the operator applies: it adds the number of the revision.
const DEPLOYMENT_CONTROLLER: &str = "kube-controller-manager";

/// Reduces an object to its identity, its owners, the digest of what was applied, the set of fields that this field
/// manager owns, its scale, what is wrong with its rollout, and the name of the other field manager that changed the
/// object last.
pub(super) fn keep_own(object: &mut DynamicObject) {
    let fields = applied(object, None).unwrap_or_default();
    let other = newest_other(object);
    object.metadata.labels = None;
    if let Some(annotations) = &mut object.metadata.annotations {
        annotations.retain(|key, _| key == APPLIED);
    }
    object.data = json!({ FIELDS: fields, SCALE: Scale::of(object), ROLLOUT: Rollout::of(object), OTHER: other });
}

/// Returns the scale of an object that was reduced by [`keep_own`].
pub(super) fn scale(seen: &DynamicObject) -> Option<Scale> {
    Scale::deserialize(seen.data.get(SCALE)?).ok()
}

/// Returns what is wrong with the rollout of a Deployment that was reduced by [`keep_own`].
pub(super) fn rollout(seen: &DynamicObject) -> Rollout {
    seen.data.get(ROLLOUT).and_then(|rollout| Rollout::deserialize(rollout).ok()).unwrap_or_default()
}

/// Returns the name of the other field manager that changed the object last, its status apart.
fn newest_other(object: &DynamicObject) -> Option<String> {
    let is_other = |entry: &&ManagedFieldsEntry| {
        let manager = entry.manager.as_deref();
        entry.subresource.is_none() && !matches!(manager, Some(FIELD_MANAGER | DEPLOYMENT_CONTROLLER))
    };
    let others = object.metadata.managed_fields.iter().flatten().filter(is_other);
    others.max_by_key(|entry| entry.time.clone()).and_then(|entry| entry.manager.clone())
}

/// Returns the name of the other field manager that changed an object last. The object must have been reduced by
/// [`keep_own`].
pub(super) fn other_manager(seen: &DynamicObject) -> Option<&str> {
    seen.data.get(OTHER)?.as_str()
}

/// Returns the digest of what an operator applied.
pub(super) fn applied_digest(seen: &DynamicObject) -> Option<&str> {
    seen.metadata.annotations.as_ref()?.get(APPLIED).map(String::as_str)
}

/// Whether the operator's part of an object is as desired: the digest in `seen` is that of `desired`, and the operator
/// still owns exactly the fields of `desired`. Another client that changes or removes a field takes over the ownership
/// of that field (Kubernetes, server-side apply). `seen` must have been reduced by [`keep_own`].
pub(super) fn is_as_desired<K>(seen: &DynamicObject, desired: &Manifest<K>) -> bool {
    let fields = seen.data.get(FIELDS);
    applied_digest(seen) == Some(desired.digest())
        && fields.is_some_and(|fields| is_field_set_of(fields, desired.owned()))
}

/// Whether the set `fields` contains exactly the fields of `value`. The entries of the set are `f:` for a member, `k:`
/// for an item by its keys, `v:` for an item by its value, and `.` for the value itself. An empty set means the whole
/// value.
fn is_field_set_of(fields: &Value, value: &Value) -> bool {
    let Some(fields) = fields.as_object() else { return false };
    if fields.is_empty() {
        return true;
    }
    let parts = fields.keys().filter(|name| *name != ".").count();
    match value {
        Value::Object(members) => {
            let has =
                |(name, member)| fields.get(&format!("f:{name}")).is_some_and(|fields| is_field_set_of(fields, member));
            parts == members.len() && members.iter().all(has)
        }
        Value::Array(items) => {
            let has = |item| fields.iter().any(|(name, fields)| is_named(item, name) && is_field_set_of(fields, item));
            parts == items.len() && items.iter().all(has)
        }
        _ => false,
    }
}

/// Returns the fields of an object, or of its subresource, that this field manager applied.
fn applied(object: &DynamicObject, subresource: Option<&str>) -> Option<Map<String, Value>> {
    let is_ours = |entry: &&ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(FIELD_MANAGER)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref() == subresource
    };
    let ours = object.metadata.managed_fields.iter().flatten().find(is_ours)?;
    ours.fields_v1.as_ref()?.0.as_object().cloned()
}

/// Keeps only the parts of `value` that `fields` names: `f:` an object member, `k:` a list item by its keys, `v:` a
/// list item by its value. Empty `fields` keep everything.
fn keep(value: &mut Value, fields: &Value) {
    let Some(fields) = fields.as_object().filter(|fields| !fields.is_empty()) else { return };
    match value {
        Value::Object(members) => members.retain(|name, member| match fields.get(&format!("f:{name}")) {
            Some(fields) => {
                keep(member, fields);
                true
            }
            None => false,
        }),
        Value::Array(items) => items.retain_mut(|item| {
            let named = fields.iter().find(|(name, _)| is_named(item, name));
            named.is_some_and(|(_, fields)| {
                keep(item, fields);
                true
            })
        }),
        _ => {}
    }
}

/// Whether an element of a field path names this list item.
fn is_named(item: &Value, name: &str) -> bool {
    let Some((kind, json)) = name.split_once(':') else { return false };
    let Ok(wanted) = serde_json::from_str::<Value>(json) else { return false };
    match (kind, &wanted) {
        ("k", Value::Object(keys)) => keys.iter().all(|(key, value)| item.get(key) == Some(value)),
        ("v", value) => item == value,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::item::Item;

    #[test]
    fn an_entry_that_cannot_be_read_says_nothing_of_the_others() {
        let entry = |manager: &str, time: &str, fields: Value| {
            json!({"manager": manager, "operation": "Apply",
            "subresource": "status", "time": time, "fieldsV1": fields})
        };
        let never = "9999-12-31T23:59:59Z";
        for (ours, theirs) in [("2026-01-01T00:00:00Z", never), (never, never)] {
            let fields = json!({"f:status": {"f:live": {}}});
            let managed =
                json!([entry("other", theirs, json!({})), entry(FIELD_MANAGER, ours, fields), {"manager": 1}]);
            let text = json!({"apiVersion": "v1", "kind": "K", "status": {"live": "1/1", "theirs": 1},
                "metadata": {"name": "x", "managedFields": managed}});
            let Item(mut object): Item<DynamicObject> = serde_json::from_str(&text.to_string()).unwrap();
            keep_own_status(&mut object);
            assert_eq!(object.data["status"], json!({"live": "1/1"}), "what is as it should be is not written again");
        }
    }

    #[test]
    fn what_others_wrote_is_left_out() {
        let ours = json!({"f:status": {
            "f:live": {}, "f:tools": {}, "f:conditions": {".": {}, r#"k:{"type":"Ready"}"#: {".": {}, "f:type": {}, "f:status": {}}},
        }});
        let entry = |manager: &str, fields: Value| json!({"manager": manager, "operation": "Apply", "subresource": "status", "fieldsV1": fields});
        let status = json!({"live": "1/1", "failures": 3, "tools": [{"name": "t"}], "conditions": [
            {"type": "Ready", "status": "True", "note": "theirs"}, {"type": "Theirs", "status": "True"}]});
        let mut object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "K", "status": status,
            "metadata": {"managedFields": [entry("other", json!({"f:status": {"f:failures": {}}})), entry("hawsepipe", ours)]},
        }))
        .unwrap();
        keep_own_status(&mut object);
        let expected = json!({"live": "1/1", "tools": [{"name": "t"}],
            "conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(object.data["status"], expected);
        object.metadata.managed_fields = None;
        keep_own_status(&mut object);
        assert_eq!(object.data["status"], Value::Null);
    }

    /// The fields of an applied Deployment, as the API server records them.
    const APPLIED_FIELDS: &str = r#"{"f:metadata": {
        "f:annotations": {"f:hawsepipe.dev/applied": {}}, "f:labels": {"f:app": {}, "f:part": {}},
        "f:ownerReferences": {"k:{\"uid\":\"u\"}": {}}},
        "f:spec": {"f:selector": {}, "f:template": {"f:spec": {
            "f:containers": {"k:{\"name\":\"gateway\"}": {".": {}, "f:name": {}, "f:ports": {
                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}},
                "k:{\"containerPort\":81,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}}}}},
            "f:volumes": {"k:{\"name\":\"tmp\"}": {".": {}, "f:emptyDir": {}, "f:name": {}}}}}}}"#;

    fn desired(label: &str) -> Manifest<()> {
        let port = |number: u16| json!({"containerPort": number, "protocol": "TCP"});
        let labels = json!({"app": label, "part": "pods"});
        Manifest::from_json(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "x", "namespace": "ns", "labels": labels, "ownerReferences": [{"uid": "u"}]},
            "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {"spec": {
                "containers": [{"name": "gateway", "ports": [port(80), port(81)]}], "volumes": [{"name": "tmp", "emptyDir": {}}]}}},
        }))
    }

    /// Returns a Deployment after [`keep_own`]: the operator owns `fields`, the API server and others set the rest.
    fn seen(fields: &Value) -> DynamicObject {
        let entry = |subresource: Option<&str>, fields: Value| json!({"manager": FIELD_MANAGER, "operation": "Apply", "subresource": subresource, "fieldsV1": fields});
        let status = entry(Some("status"), json!({"f:status": {"f:replicas": {}}}));
        let annotations = json!({APPLIED: desired("us").digest(), "deployment.kubernetes.io/revision": "1"});
        let mut object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 3}, "status": {"replicas": 3},
            "metadata": {"name": "x", "uid": "u", "labels": {"app": "us", "team": "theirs"},
                "annotations": annotations, "managedFields": [status, entry(None, fields.clone())]},
        }))
        .unwrap();
        keep_own(&mut object);
        object
    }

    #[test]
    fn what_is_wrong_with_a_rollout_is_kept_and_nothing_else_of_a_status() {
        let rollout_of = |status: &str| {
            let condition = json!({"type": "Progressing", "status": status, "reason": "R", "message": "m",
                "lastUpdateTime": "2026-01-01T00:00:00Z"});
            let mut object: DynamicObject =
                serde_json::from_value(json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "x"}, "status": {"replicas": 1, "conditions": [condition]}}))
                .unwrap();
            keep_own(&mut object);
            assert!(!object.data.to_string().contains("2026"), "times are no news: {}", object.data);
            rollout(&object)
        };
        assert_eq!(rollout_of("False").stalled.as_deref(), Some("R: m"));
        assert_eq!(rollout_of("True"), Rollout::default());
    }

    #[test]
    fn what_others_put_into_an_object_is_no_reason_to_write_it_and_what_they_took_is() {
        let fields: Value = serde_json::from_str(APPLIED_FIELDS).unwrap();
        let as_applied = seen(&fields);
        assert!(is_as_desired(&as_applied, &desired("us")));
        assert!(!is_as_desired(&as_applied, &desired("we")), "it was not applied");
        let kept = as_applied.metadata.annotations.unwrap();
        assert_eq!(kept.keys().collect::<Vec<_>>(), [APPLIED], "what others write is no news");

        let ports = "/f:spec/f:template/f:spec/f:containers/k:{\"name\":\"gateway\"}/f:ports";
        for (place, name) in [
            ("/f:metadata", "f:annotations"),
            ("/f:metadata/f:labels", "f:app"),
            ("/f:metadata", "f:ownerReferences"),
            ("/f:spec", "f:selector"),
            (ports, r#"k:{"containerPort":80,"protocol":"TCP"}"#),
            ("/f:spec/f:template/f:spec/f:volumes/k:{\"name\":\"tmp\"}", "f:emptyDir"),
            ("", "f:spec"),
        ] {
            let mut less = fields.clone();
            let parent = less.pointer_mut(place).and_then(Value::as_object_mut);
            parent.and_then(|parent| parent.remove(name)).unwrap_or_else(|| panic!("{place} has no {name}"));
            assert!(!is_as_desired(&seen(&less), &desired("us")), "somebody else wrote {place}/{name} last");
        }
        for (place, name) in [("/f:spec", "f:replicas"), (ports, r#"k:{"containerPort":82,"protocol":"TCP"}"#)] {
            let mut more = fields.clone();
            more.pointer_mut(place).unwrap()[name] = json!({});
            assert!(!is_as_desired(&seen(&more), &desired("us")), "{name} was applied once and is not wanted any more");
        }
        let mut none_of = fields.clone();
        *none_of.pointer_mut("/f:metadata/f:labels").unwrap() = json!({".": {}});
        assert!(!is_as_desired(&seen(&none_of), &desired("us")), "somebody else has every label");
    }
}
