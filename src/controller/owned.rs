//! Decides which fields of an object belong to this operator. A difference in a field that someone else set is no
//! reason for a write.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::DynamicObject;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::FIELD_MANAGER;

/// Removes everything from the status that this field manager did not apply (Kubernetes, `metadata.managedFields`).
pub(super) fn keep_own_status(object: &mut DynamicObject) {
    let fields = applied(object, Some("status"));
    let fields = fields.as_ref().and_then(|fields| fields.get("f:status"));
    match (object.data.get_mut("status"), fields) {
        (Some(status), Some(fields)) => keep(status, fields),
        (Some(status), None) => *status = Value::Null,
        (None, _) => {}
    }
}

/// Removes everything from the object that this field manager did not apply, except the object's identity and owners.
/// Also removes the whole status.
pub(super) fn keep_own(object: &mut DynamicObject) {
    let fields = applied(object, None).unwrap_or_default();
    let metadata = fields.get("f:metadata");
    for (name, values) in
        [("f:labels", &mut object.metadata.labels), ("f:annotations", &mut object.metadata.annotations)]
    {
        let own = metadata.and_then(|metadata| metadata.get(name));
        if let Some(values) = values {
            values.retain(|key, _| own.is_some_and(|own| own.get(format!("f:{key}")).is_some()));
        }
    }
    let Value::Object(members) = &mut object.data else { return };
    members.retain(|name, member| match fields.get(&format!("f:{name}")) {
        Some(fields) if name != "status" => {
            keep(member, fields);
            true
        }
        _ => false,
    });
}

/// Whether the operator's part of an object is as desired. `seen` must have gone through [`keep_own`].
pub(super) fn is_as_desired(seen: &DynamicObject, desired: &impl Serialize) -> bool {
    let Ok(Value::Object(mut desired)) = serde_json::to_value(desired) else { return false };
    for identity in ["apiVersion", "kind"] {
        desired.remove(identity);
    }
    let metadata = desired.remove("metadata").unwrap_or_default();
    let has = |name: &str| metadata.get(name).cloned().unwrap_or_else(|| json!({}));
    let seen_members = seen.data.as_object().cloned().unwrap_or_default();
    has("labels") == json!(seen.metadata.labels.clone().unwrap_or_default())
        && has("annotations") == json!(seen.metadata.annotations.clone().unwrap_or_default())
        && desired == seen_members
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

/// Keeps only what `fields` names: `f:` an object member, `k:` a list item by its keys, `v:` a list item by its value.
/// Empty `fields` keep everything.
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

    /// Returns a Role after [`keep_own`]: the operator applied the fields in `ours`, the API server and others set
    /// the rest.
    fn role(ours: Value) -> DynamicObject {
        let entry = json!({"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": ours});
        let status = json!({"manager": FIELD_MANAGER, "operation": "Apply", "subresource": "status",
            "fieldsV1": {"f:aggregated": {}}});
        let mut object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Role", "rules": [{"verbs": ["get"]}], "aggregated": 1, "status": {"a": 1},
            "metadata": {"name": "x", "uid": "u", "labels": {"app": "us", "team": "theirs"},
                "annotations": {"theirs": "1"}, "managedFields": [status, entry]},
        }))
        .unwrap();
        keep_own(&mut object);
        object
    }

    #[test]
    fn what_others_put_into_an_object_is_no_reason_to_write_it_and_what_they_took_is() {
        let metadata = json!({"f:labels": {"f:app": {}}});
        let desired = |label: &str, verb: &str| {
            json!({"apiVersion": "v1", "kind": "Role", "rules": [{"verbs": [verb]}],
                "metadata": {"name": "x", "labels": {"app": label}}})
        };
        let seen = role(json!({"f:metadata": metadata, "f:rules": {}}));
        assert!(is_as_desired(&seen, &desired("us", "get")));
        assert!(!is_as_desired(&seen, &desired("us", "list")));
        assert!(!is_as_desired(&seen, &desired("we", "get")));
        let more = role(json!({"f:metadata": metadata, "f:rules": {}, "f:aggregated": {}}));
        assert!(!is_as_desired(&more, &desired("us", "get")), "what we applied once and do not want any more");
        for taken in [json!({"f:metadata": metadata}), json!({"f:rules": {}}), json!({})] {
            assert!(!is_as_desired(&role(taken), &desired("us", "get")), "somebody else wrote it last");
        }
    }
}
