//! Which part of a status is ours: what others have put into it is theirs, and no reason to write.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::DynamicObject;
use serde_json::Value;

use super::FIELD_MANAGER;

/// Takes out of the status what this field manager did not apply (Kubernetes, `metadata.managedFields`).
pub(super) fn keep_own_status(object: &mut DynamicObject) {
    let managed = object.metadata.managed_fields.as_deref().unwrap_or_default();
    let ours = managed.iter().find(|entry| is_ours(entry)).and_then(|entry| entry.fields_v1.as_ref());
    let fields = ours.and_then(|fields| fields.0.get("f:status"));
    match (object.data.get_mut("status"), fields) {
        (Some(status), Some(fields)) => keep(status, fields),
        (Some(status), None) => *status = Value::Null,
        (None, _) => {}
    }
}

fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(FIELD_MANAGER)
        && entry.operation.as_deref() == Some("Apply")
        && entry.subresource.as_deref() == Some("status")
}

/// Keeps what `fields` names: `f:` a member, `k:` an item by its keys, `v:` an item by its value; nothing named is all.
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

/// Whether a path element means this item.
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
}
