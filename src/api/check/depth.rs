//! Limits how deeply a document can nest.

use serde_json::Value;

use super::walk::Finding;

/// Maximum number of nested levels of objects and lists in a document; the document itself is the first level. Plans
/// and messages to workers embed parts of a document at deeper levels, and JSON parsers stop at 128.
pub const MAX_DEPTH: usize = 100;
/// Maximum number of path steps that a Problem quotes. The first steps identify the field; more steps would only repeat
/// the nesting.
const MAX_STEPS: usize = 8;

/// Returns a finding for the first value that nests deeper than [`MAX_DEPTH`].
pub(super) fn too_deep(document: &Value) -> Option<Finding> {
    let mut path = Vec::new();
    descend(document, MAX_DEPTH, &mut path).then(|| {
        let steps = path.iter().take(MAX_STEPS).map(String::as_str).collect::<String>();
        let field = steps.trim_start_matches('.').to_owned();
        (
            field,
            format!(
                "nests too deep: an object may have at most {MAX_DEPTH} levels of objects and lists; make it flatter"
            ),
        )
    })
}

/// Whether `value` nests more than `left` levels deep. If it does, appends the steps to the first value that is too
/// deep to `path`.
fn descend(value: &Value, left: usize, path: &mut Vec<String>) -> bool {
    let mut step = |name: String, child: &Value| {
        path.push(name);
        let found = descend(child, left.saturating_sub(1), path);
        if !found {
            path.pop();
        }
        found
    };
    match value {
        Value::Object(_) | Value::Array(_) if left == 0 => true,
        Value::Object(members) => members.iter().any(|(name, child)| step(format!(".{name}"), child)),
        Value::Array(items) => items.iter().enumerate().any(|(at, child)| step(format!("[{at}]"), child)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_value_that_is_too_deep_is_named_by_a_path_of_some_steps() {
        let nested = |levels: usize| (0..levels).fold(json!("x"), |inner, _| json!({"a": inner}));
        let document = |levels| json!({"spec": {"first": [{"a": 1}], "config": nested(levels)}});
        assert_eq!(too_deep(&document(MAX_DEPTH - 2)), None);
        let (field, message) = too_deep(&document(MAX_DEPTH - 1)).unwrap();
        assert_eq!(field, "spec.config.a.a.a.a.a.a");
        assert!(message.contains("at most 100 levels"), "{message}");
    }
}
