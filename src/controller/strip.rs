//! Removes the parts of an applied object that an API server does not keep.

use serde_json::Value;

/// Removes absent fields and empty lists. In server-side apply, no field manager owns an empty list, so the operator
/// would not recognise the list as its own, and would write it again and again.
pub(super) fn strip(value: &mut Value) {
    let is_empty = |member: &Value| member.is_null() || member.as_array().is_some_and(Vec::is_empty);
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !is_empty(member));
            members.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}
