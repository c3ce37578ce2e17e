//! Tests of how conditions depend on each other and on what is stored.

mod errors;
mod images;
mod managed;
mod reported;
mod taken;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::Conditions;
use super::gateway::sandbox_degraded;
use super::{GatewayState, Pin, StatusInput, of};
use crate::api::status::Condition;
use crate::config::compile::plugin_code;
use crate::config::input::{Inputs, code_key};
use crate::controller::compiled;
use crate::controller::condition_type::ConditionType;
use crate::controller::dereference::Dereferenced;
use crate::controller::load_reports::LoadReports;
use crate::controller::lowered::{LoweredObject, Lowering};
use crate::controller::pods::{Pods, Reported};
use crate::controller::rollout::Rollout;
use crate::domain::digest::sha256_hex;
use crate::domain::health::ConnectionState;
use crate::domain::ids::Kind;
use crate::domain::ports::CodeFacts;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::report::{Report, ToolReport, UpstreamReport};
use crate::domain::sandbox::{SandboxLack, SandboxMode, SandboxProperty};

/// Returns a Plugin as the operator reads it, with this status.
pub(in crate::controller) fn plugin(code: &str, status: &Value) -> LoweredObject {
    read(Kind::Plugin, "p", &json!({"source": {"inline": code}}), status)
}

/// Returns an object of the namespace `ns` as the operator reads it, with this status.
pub(in crate::controller) fn read(kind: Kind, name: &str, spec: &Value, status: &Value) -> LoweredObject {
    read_in("ns", kind, name, spec, status)
}

fn read_in(namespace: &str, kind: Kind, name: &str, spec: &Value, status: &Value) -> LoweredObject {
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "hawsepipe.dev/v1alpha1", "kind": kind.as_str(),
        "metadata": {"name": name, "namespace": namespace, "uid": "u", "generation": 3},
        "spec": spec, "status": status,
    }))
    .unwrap();
    let (objects, changed) = Lowering::new("cluster.local").read([(kind, Arc::new(object))].into_iter());
    assert_eq!(changed.len(), 1);
    objects[0].clone()
}

/// Returns the compiler's inputs. All code is a module with a default export.
pub(in crate::controller) fn inspected(objects: &[LoweredObject]) -> Inputs {
    let mut inputs = compiled::inputs(objects, &Dereferenced::default());
    let exports = CodeFacts { is_module: true, exports: vec!["default".into()], ..CodeFacts::default() };
    let code = inputs.plugins.iter().filter_map(|plugin| plugin_code(&inputs, plugin));
    inputs.facts =
        code.map(|code| (code_key(&sha256_hex(code.text.as_bytes()), &code.file_name), exports.clone())).collect();
    inputs
}

/// Returns a gateway, an upstream with a field that has no effect, a chain for upstreams of this name, and the
/// chain's plugin.
fn chain_for(upstream: &str) -> Vec<LoweredObject> {
    let none = json!({});
    vec![
        read(Kind::MCPGateway, "main", &json!({"authentication": {"anonymous": {}}}), &none),
        read(
            Kind::MCPUpstream,
            "up",
            &json!({"external": {"url": "http://up/mcp"}, "pinning": {"mode": "Alert"}}),
            &none,
        ),
        read(
            Kind::PluginChain,
            "checks",
            &json!({"phase": "Request", "upstreams": {"names": [upstream]}, "entries": [{"name": "p"}]}),
            &none,
        ),
        plugin("export default 1", &none),
    ]
}

/// Returns the input for the statuses of `objects`, the first of which is the gateway. `pods` is called with the
/// current revision and returns the gateway's pods.
fn input(objects: &[LoweredObject], pods: impl FnOnce(&str) -> Pods) -> StatusInput {
    let mut inputs = inspected(objects);
    let planned = compiled::plan(&objects[0], &mut inputs, None, None, &BTreeMap::new(), &mut LoadReports::default());
    let revision = "0123456789ab";
    let state = GatewayState {
        in_force: Arc::clone(&planned.plan),
        current: Some(revision.to_owned()),
        restrictions: String::new(),
        addresses: Vec::new(),
        pin: Pin::None,
        revisions: [(revision.to_owned(), Arc::clone(&planned.digests))].into(),
        fault: None,
        lacks_route_kind: false,
        rollout: Rollout::default(),
        planned: Arc::new(planned),
    };
    let key = objects[0].id.key.clone();
    StatusInput {
        gateways: [(key.clone(), state)].into(),
        pods: [(key, pods(revision))].into(),
        ..StatusInput::default()
    }
}

/// Returns one ready pod for each of `reports`. The pod reports that revision; for `None`, it does not report.
fn pods(reports: &[Option<&str>]) -> Pods {
    let report = |revision: &str| Report { revision: revision.to_owned(), ..Report::default() };
    let ready = reports.iter().enumerate().map(|(number, revision)| {
        let silent = || "it does not answer".to_owned();
        let reported = revision.map(|revision| Arc::new(Reported::new(report(revision))));
        (format!("pod-{number}"), reported.ok_or_else(silent))
    });
    Pods { all: u32::try_from(reports.len()).unwrap(), ready: ready.collect(), ..Pods::default() }
}

fn conditions(input: &StatusInput, object: &LoweredObject) -> Vec<Condition> {
    serde_json::from_value(of(input, object, "now")["conditions"].clone()).unwrap()
}

/// Returns the status and reason of one condition, and its message.
fn condition(input: &StatusInput, object: &LoweredObject, name: &str) -> (String, String) {
    let conditions = conditions(input, object);
    let found = conditions.iter().find(|c| c.r#type == name).unwrap_or_else(|| panic!("{conditions:?}"));
    (format!("{:?} {}", found.status, found.reason), found.message.clone())
}

#[test]
fn a_chain_that_selects_no_upstream_is_not_ready() {
    let objects = chain_for("up");
    let input_of = |objects: &[LoweredObject]| input(objects, |revision| pods(&[Some(revision)]));
    assert_eq!(condition(&input_of(&objects), &objects[2], "Ready").0, "True Ready");
    let objects = chain_for("upp");
    let (is, message) = condition(&input_of(&objects), &objects[2], "Programmed");
    assert_eq!(is, "False NoUpstreams");
    assert!(message.contains("ns/main"), "{message}");
    assert_eq!(condition(&input_of(&objects), &objects[2], "Ready").0, "False NoUpstreams");
}

#[test]
fn a_field_without_effect_is_told_beside_accepted() {
    let objects = chain_for("up");
    let input = input(&objects, |revision| pods(&[Some(revision)]));
    let (is, message) = condition(&input, &objects[1], "Accepted");
    assert_eq!(is, "True Accepted");
    assert!(message.starts_with("spec.pinning.approved: ") && message.ends_with("(InvalidConfig)"), "{message}");
    assert_eq!(super::warnings(&input, &objects[1]).len(), 1);
}

#[test]
fn tools_that_are_not_approved_are_told_and_the_upstream_is_not_ready() {
    let objects = chain_for("up");
    let told = |tool_count: Option<u32>, changed: bool| {
        let id = &objects[1].id;
        let problem = Problem::warning(Reason::DefinitionChanged, id.clone(), "spec.pinning.approved", "read changed");
        let tool = ToolReport { name: "read".into(), r#as: None, sha256: "a".repeat(64), approved: Some(!changed) };
        let upstream = UpstreamReport {
            upstream: id.key.to_string(),
            connection_state: ConnectionState::Connected,
            tool_count,
            tools: vec![tool],
            ..UpstreamReport::default()
        };
        let input = input(&objects, |revision| {
            let problems = changed.then(|| problem.clone()).into_iter().collect();
            let report =
                Report { revision: revision.into(), upstreams: vec![upstream.clone()], problems, ..Report::default() };
            let ready = [("pod-0".to_owned(), Ok(Arc::new(Reported::new(report))))];
            Pods { all: 1, ready: ready.into_iter().collect(), ..Pods::default() }
        });
        let status = of(&input, &objects[1], "now");
        let of = |name: &str| condition(&input, &objects[1], name).0;
        (of("ToolsApproved"), of("Ready"), status["tools"][0]["approved"].clone())
    };
    assert_eq!(told(Some(1), false).0, "True ToolsApproved");
    let (is, ready, approved) = told(Some(1), true);
    assert_eq!((&*is, &*ready, approved), ("False DefinitionChanged", "False DefinitionChanged", json!(false)));
    assert_eq!(told(None, false).0, "Unknown Pending");
}

#[test]
fn a_route_whose_kind_is_not_installed_is_a_reference_that_is_not_resolved() {
    let objects = chain_for("up");
    let mut input = input(&objects, |revision| pods(&[Some(revision)]));
    assert_eq!(condition(&input, &objects[0], "ResolvedRefs").0, "True ResolvedRefs");
    input.gateways.values_mut().for_each(|state| state.lacks_route_kind = true);
    let (is, message) = condition(&input, &objects[0], "ResolvedRefs");
    assert_eq!(is, "False GatewayAPINotInstalled");
    assert!(message.starts_with("spec.route: "), "{message}");
    assert_eq!(condition(&input, &objects[0], "Ready").0, "False GatewayAPINotInstalled");
    for works in ["Accepted", "Programmed"] {
        assert_eq!(condition(&input, &objects[0], works).0, format!("True {works}"));
    }
}

#[test]
fn pods_that_the_api_server_refuses_are_told_even_if_others_are_ready() {
    let objects = chain_for("up");
    for ready in [&[][..], &[Some("0123456789ab")]] {
        let mut input = input(&objects, |_| pods(ready));
        let words = "Deployment main-gateway: FailedCreate: exceeded quota";
        input.gateways.values_mut().for_each(|state| state.rollout.refused = Some(words.to_owned()));
        let told = condition(&input, &objects[0], "Programmed");
        assert_eq!(told, ("False PodsRefused".to_owned(), words.to_owned()));
    }
}

#[test]
fn pods_that_do_not_start_are_told_in_their_own_words_and_ready_ends_when_kubernetes_gives_up() {
    let objects = chain_for("up");
    let failing = "pod main-gateway-2: container gateway: ImagePullBackOff: no such image";
    let stalled = "Deployment main-gateway: ProgressDeadlineExceeded: timed out";
    let told = |ready: &[Option<&str>], is_failing: bool, is_stalled: bool| {
        let failing = is_failing.then(|| failing.to_owned());
        let mut input = input(&objects, |_| Pods { all: 2, failing, ..pods(ready) });
        let stalled = is_stalled.then(|| stalled.to_owned());
        input.gateways.values_mut().for_each(|state| state.rollout.stalled.clone_from(&stalled));
        input
    };
    let current = [Some("0123456789ab")];
    let problems = |input: &StatusInput| of(input, &objects[0], "now")["problems"].clone();
    let fine = told(&current, false, false);
    assert!(conditions(&fine, &objects[0]).iter().all(|condition| condition.r#type != "PartiallyInvalid"));
    assert_eq!(problems(&fine), 0);
    for (is_failing, is_stalled, ready, words) in [
        (true, false, "True Ready", failing.to_owned()),
        (false, true, "False WorkloadNotReady", stalled.to_owned()),
        (true, true, "False WorkloadNotReady", format!("{failing}; {stalled}")),
    ] {
        let input = told(&current, is_failing, is_stalled);
        let (is, message) = condition(&input, &objects[0], "PartiallyInvalid");
        let expected = format!("the pods that are ready serve on, and others do not start: {words}");
        assert_eq!((&*is, &message), ("True WorkloadNotReady", &expected));
        assert_eq!(condition(&input, &objects[0], "Ready").0, ready);
        assert_eq!(condition(&input, &objects[0], "Programmed").0, "True Programmed");
        assert_eq!(problems(&input), 1);
        let (is, message) = condition(&told(&[], is_failing, is_stalled), &objects[0], "Ready");
        assert_eq!(is, "False NoReadyPods");
        assert_eq!(message, format!("none of its 2 pods (hawsepipe.dev/gateway=main) is ready: {words}"));
    }
}

#[test]
fn what_a_silent_pod_runs_is_not_known_and_what_another_lags_behind_is() {
    let objects = chain_for("up");
    for (reports, expected) in [
        (&[Some("0123456789ab"), None][..], "Unknown Pending"),
        (&[None], "Unknown Pending"),
        (&[Some("an older one"), None], "False Pending"),
        (&[Some("0123456789ab")], "True Programmed"),
    ] {
        let input = input(&objects, |_| pods(reports));
        for object in &objects {
            assert_eq!(condition(&input, object, "Programmed").0, expected, "{reports:?} {}", object.id);
        }
    }
}

#[test]
fn a_pin_that_is_not_kept_is_told() {
    let objects = chain_for("up");
    let mut input = input(&objects, |revision| pods(&[Some(revision)]));
    input.gateways.values_mut().for_each(|state| state.pin = Pin::Lost("f00".into()));
    let (is, message) = condition(&input, &objects[0], "Programmed");
    assert_eq!(is, "False RevisionNotFound");
    assert!(message.contains("f00") && message.contains("0123456789ab"), "{message}");
}

#[test]
fn a_pod_that_does_not_obey_what_counts_at_once_is_told() {
    let objects = chain_for("up");
    let mut input = input(&objects, |revision| pods(&[Some(revision)]));
    input.gateways.values_mut().for_each(|state| state.restrictions = "1-abc".into());
    assert_eq!(condition(&input, &objects[0], "Programmed").0, "False Pending");
}

#[test]
fn a_pod_that_reads_what_counts_at_once_in_another_format_is_told() {
    let objects = chain_for("up");
    let mut input = input(&objects, |revision| {
        let report = Report { revision: revision.into(), restrictions: "2-abc".into(), ..Report::default() };
        Pods { all: 1, ready: [("pod-0".into(), Ok(Arc::new(Reported::new(report))))].into(), ..Pods::default() }
    });
    input.gateways.values_mut().for_each(|state| state.restrictions = "1-abc".into());
    let (is, message) = condition(&input, &objects[0], "Programmed");
    assert_eq!(is, "False Pending");
    assert!(message.contains("in format 2, and the operator writes 1"), "{message}");
}

/// Returns each condition as `Type Status Reason`.
fn words(conditions: &[Condition]) -> Vec<String> {
    conditions.iter().map(|c| format!("{} {:?} {}", c.r#type, c.status, c.reason)).collect()
}

#[test]
fn the_first_thing_wrong_decides_about_ready() {
    let object = plugin("x", &json!({}));
    let wrong = |reason, message: &str| Problem::error(reason, object.id.clone(), "spec.f", message);
    let mut set = Conditions::new(&object, "now");
    assert!(!set.accepted(&[wrong(Reason::SyntaxError, "line 1"), wrong(Reason::SyntaxError, "line 1")]));
    assert!(!set.resolved(&[wrong(Reason::ConfigMapNotFound, "none")]));
    set.bad_while_true(ConditionType::PartiallyInvalid, "PreviousRevision", "");
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
        let mut set = Conditions::new(&plugin("x", &stored(status, reason)), "now");
        assert!(set.accepted(&[]));
        assert_eq!(set.finish()[0].last_transition_time, expected, "{status} {reason}");
    }
}

#[test]
fn what_pods_say_replaces_only_what_was_good() {
    let object = plugin("x", &json!({}));
    let mut set = Conditions::new(&object, "now");
    set.resolved(&[]);
    set.replace(ConditionType::ResolvedRefs, "SecretNotFound", "none");
    assert_eq!(words(&set.finish()), ["ResolvedRefs False SecretNotFound", "Ready False SecretNotFound"]);
    let mut set = Conditions::new(&object, "now");
    set.resolved(&[Problem::error(Reason::KeyNotFound, object.id.clone(), "", "no key")]);
    set.replace(ConditionType::ResolvedRefs, "SecretNotFound", "none");
    assert_eq!(words(&set.finish()), ["ResolvedRefs False KeyNotFound", "Ready False KeyNotFound"]);
}

#[test]
fn a_plugin_that_nobody_uses_is_ready_and_says_so() {
    let object = plugin("export default () => ({});", &json!({}));
    let status = of(&StatusInput::default(), &object, "2026-01-01T00:00:00Z");
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
        Pods { all: 1, ready: [("pod".to_owned(), Ok(Arc::new(Reported::new(report))))].into(), ..Pods::default() }
    };
    let told = |mode, lacks: &[SandboxLack]| {
        let object = plugin("x", &json!({}));
        let mut set = Conditions::new(&object, "now");
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
