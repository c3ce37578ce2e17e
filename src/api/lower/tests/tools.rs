//! Overrides of tools.

use super::*;

#[test]
fn overrides_of_tools_are_lowered_whole() {
    let arguments =
        json!([{"name": "a", "value": {"z": 1.0, "b": null}}, {"name": "b", "hidden": true, "description": "d"}]);
    let over = json!({"name": "t", "title": "T", "deprecated": "no", "annotations": {"readOnlyHint": false},
        "answer": "yes", "timeoutMs": 5, "arguments": arguments});
    let (input, problems) = lower_upstream(json!({"process": {"command": "x"}, "tools": {"overrides": [over]}}));
    assert_eq!(problems, [""; 0]);
    let change = &input.plan.overrides[0];
    assert_eq!((change.annotations.read_only_hint, change.annotations.open_world_hint), (Some(false), None));
    assert_eq!(
        (change.deprecated.as_deref(), change.answer.as_deref(), change.timeout_ms),
        (Some("no"), Some("yes"), Some(5))
    );
    let value = change.arguments[0].value.as_ref().unwrap();
    assert_eq!((value.to_string(), change.arguments[0].hidden), (r#"{"b":null,"z":1}"#.to_owned(), false));
    assert_eq!((change.arguments[1].hidden, change.arguments[1].description.as_deref()), (true, Some("d")));
    assert!(change.refusing.is_none());
}

#[test]
fn pinning_without_a_list_is_warned_of() {
    let lowered = |pinning: Value| {
        let (input, problems) = lower_upstream(json!({"process": {"command": "x"}, "pinning": pinning}));
        (input.plan.pinning, problems)
    };
    assert_eq!(lowered(json!({"mode": "Off", "approved": []})), (None, vec![]));
    let (pinning, problems) = lowered(json!({"mode": "Enforce"}));
    assert!(pinning.is_some_and(|pinning| pinning.enforce && pinning.approved.is_none()));
    assert_eq!(problems, ["InvalidConfig spec.pinning.approved"]);
    let digest = "a".repeat(64);
    let (pinning, problems) = lowered(json!({"mode": "Alert", "approved": [{"name": "t", "sha256": digest}]}));
    assert_eq!((pinning.unwrap().approved.unwrap()["t"].clone(), problems), (digest, vec![]));
}
