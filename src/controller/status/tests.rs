//! Conditions, as they follow from one another and from what was stored.

use std::sync::Arc;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::Set;
use super::gateway::sandbox_degraded;
use super::{Truth, of};
use crate::api::status::Condition;
use crate::controller::lowered::{Lowering, Read};
use crate::controller::pods::{Pods, Reported};
use crate::domain::ids::Kind;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::report::Report;
use crate::domain::sandbox::{SandboxLack, SandboxMode, SandboxProperty};

/// A plugin as it is read, with this status.
fn plugin(code: &str, status: &Value) -> Read {
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "hawsepipe.dev/v1alpha1", "kind": "Plugin",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "generation": 3},
        "spec": {"source": {"inline": code}}, "status": status,
    }))
    .unwrap();
    let (objects, changed) = Lowering::default().read([(Kind::Plugin, Arc::new(object))].into_iter());
    assert_eq!(changed.len(), 1);
    objects[0].clone()
}

/// Each condition as `Type Status Reason`.
fn words(conditions: &[Condition]) -> Vec<String> {
    conditions.iter().map(|c| format!("{} {:?} {}", c.r#type, c.status, c.reason)).collect()
}

#[test]
fn the_first_thing_wrong_decides_about_ready() {
    let object = plugin("x", &json!({}));
    let wrong = |reason, message: &str| Problem::error(reason, object.id.clone(), "spec.f", message);
    let mut set = Set::new(&object, "now");
    assert!(!set.accepted(&[wrong(Reason::SyntaxError, "line 1"), wrong(Reason::SyntaxError, "line 1")]));
    assert!(!set.resolved(&[wrong(Reason::ConfigMapNotFound, "none")]));
    set.bad_while_true("PartiallyInvalid", "PreviousRevision", "");
    let conditions = set.finish();
    assert_eq!(
        words(&conditions),
        [
            "Accepted False SyntaxError",
            "ResolvedRefs False ConfigMapNotFound",
            "PartiallyInvalid True PreviousRevision",
            "Ready False SyntaxError",
        ]
    );
    assert_eq!(conditions[0].message, "spec.f: line 1", "what is found twice is told once");
    assert!(conditions.iter().all(|condition| condition.observed_generation == Some(3)));
}

#[test]
fn a_condition_keeps_its_time_until_its_status_changes() {
    let stored = |status: &str, reason: &str| {
        json!({"conditions": [{"type": "Accepted", "status": status, "reason": reason, "message": "",
            "lastTransitionTime": "then"}]})
    };
    for (status, reason, expected) in [("True", "Accepted", "then"), ("True", "Other", "then"), ("False", "X", "now")] {
        let mut set = Set::new(&plugin("x", &stored(status, reason)), "now");
        assert!(set.accepted(&[]));
        assert_eq!(set.finish()[0].last_transition_time, expected, "{status} {reason}");
    }
}

#[test]
fn what_pods_say_replaces_only_what_was_good() {
    let object = plugin("x", &json!({}));
    let mut set = Set::new(&object, "now");
    set.resolved(&[]);
    set.replace("ResolvedRefs", "SecretNotFound", "none");
    assert_eq!(words(&set.finish()), ["ResolvedRefs False SecretNotFound", "Ready False SecretNotFound"]);
    let mut set = Set::new(&object, "now");
    set.resolved(&[Problem::error(Reason::KeyNotFound, object.id.clone(), "", "no key")]);
    set.replace("ResolvedRefs", "SecretNotFound", "none");
    assert_eq!(words(&set.finish()), ["ResolvedRefs False KeyNotFound", "Ready False KeyNotFound"]);
}

#[test]
fn a_plugin_that_nobody_uses_is_ready_and_says_so() {
    let object = plugin("export default () => ({});", &json!({}));
    let status = of(&Truth::default(), &object, "2026-01-01T00:00:00Z");
    let conditions: Vec<Condition> = serde_json::from_value(status["conditions"].clone()).unwrap();
    assert_eq!(
        words(&conditions),
        ["Accepted True Accepted", "ResolvedRefs True ResolvedRefs", "Programmed True NotUsed", "Ready True Ready",]
    );
    assert!(status.get("sha256").is_none(), "what is absent is left out: {status}");
    assert!(status.get("gateways").is_none(), "so is an empty list: {status}");
}

#[test]
fn a_kernel_without_the_sandbox_stops_plugins_where_it_is_required() {
    let lacks = vec![SandboxLack { property: SandboxProperty::Files, cause: "no Landlock".into() }];
    let pods = |lacks: &[SandboxLack]| {
        let report = Report { sandbox_lacks: lacks.to_vec(), ..Report::default() };
        Pods { all: 1, ready: [("pod".to_owned(), Ok(Arc::new(Reported::new(report))))].into() }
    };
    let told = |mode, lacks: &[SandboxLack]| {
        let object = plugin("x", &json!({}));
        let mut set = Set::new(&object, "now");
        sandbox_degraded(&mut set, mode, &pods(lacks));
        set.finish()
    };
    assert_eq!(words(&told(None, &[])), ["Ready True Ready"]);
    for mode in [None, Some(SandboxMode::Required)] {
        let conditions = told(mode, &lacks);
        assert_eq!(words(&conditions), ["SandboxDegraded True KernelTooOld", "Ready False KernelTooOld"]);
        assert!(conditions[0].message.contains("Files (no Landlock)"), "{}", conditions[0].message);
    }
    let conditions = told(Some(SandboxMode::BestEffort), &lacks);
    assert_eq!(words(&conditions), ["SandboxDegraded True KernelTooOld", "Ready True Ready"]);
}
