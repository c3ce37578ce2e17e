//! Tests of the check. The objects in `tests/golden/api/refused.yaml` each break a rule.

use serde_json::{Value, json};

use super::*;
use crate::domain::ids::{Kind, ObjectKey};

fn kind(word: &str) -> Kind {
    serde_json::from_value(word.into()).unwrap()
}

fn found(document: &Value, previous: Option<&Value>) -> Vec<(String, String)> {
    let kind = kind(document["kind"].as_str().unwrap());
    let id = ObjectId::new(kind, ObjectKey::new("default", "x"));
    let problems = check(&id, document, previous);
    assert!(problems.iter().all(|p| p.is_error() && p.reason == Reason::InvalidObject));
    problems.into_iter().map(|p| (p.field, p.message)).collect()
}

const CHANGED_TYPE: (&str, &str) =
    ("Plugin", "type is immutable: what names this plugin expects its methods; make a new Plugin");
const CHANGED_PHASE: (&str, &str) =
    ("PluginChain", "phase is immutable: a chain turned round would leave its calls unguarded; make a new PluginChain");

#[test]
fn changes_are_checked_where_the_old_form_is_known() {
    let object = |kind: &str, spec: Value| json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": kind, "metadata": {"name": "x"}, "spec": spec});
    let plugin = |spec: Value| object("Plugin", spec);
    let old = plugin(json!({"source": {"inline": "x"}}));
    let new = plugin(json!({"source": {"inline": "x"}, "type": "phase"}));
    assert_eq!(found(&new, None), []);
    assert_eq!(found(&new, Some(&old)), [("spec".to_owned(), CHANGED_TYPE.1.to_owned())]);
    assert_eq!(found(&plugin(json!({"source": {"inline": "y"}, "type": "middleware"})), Some(&old)), []);
    let chain = |phase: &str| object("PluginChain", json!({"phase": phase, "entries": [{"name": "a"}]}));
    assert_eq!(found(&chain("Request"), Some(&chain("Request"))), []);
    assert_eq!(found(&chain("Response"), Some(&chain("Request"))), [("spec".to_owned(), CHANGED_PHASE.1.to_owned())]);
}

#[test]
fn whole_numbers_may_have_a_fraction_of_zero() {
    let chain = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "PluginChain", "metadata": {"name": "x"},
        "spec": {"phase": "Request", "order": 5.0, "entries": [{"name": "a"}]}});
    assert_eq!(found(&chain, None), []);
}

#[test]
fn empty_fields_count_as_absent_and_are_told() {
    let chain = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "PluginChain",
        "metadata": {"name": "x", "creationTimestamp": null},
        "spec": {"phase": "Request", "order": null, "entries": [{"name": "a", "canary": null, "enabled": false}]}});
    let id = ObjectId::new(Kind::PluginChain, ObjectKey::new("default", "x"));
    let problems = check(&id, &chain, None);
    // A null `canary` does not break the rule that a disabled entry has no canary.
    assert!(!problems.iter().any(Problem::is_error), "{problems:?}");
    let fields: Vec<_> = problems.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(fields, ["spec.entries[0].canary", "spec.order"]);
}

#[test]
fn rules_are_asked_of_what_is_only_out_of_range() {
    let range = |range: Value| {
        json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "SectionBinding", "metadata": {"name": "x"},
            "spec": {"document": {"glob": "a.md"}, "upstream": {"name": "a"}, "range": range}})
    };
    let rule =
        |found: &[(String, String)]| found.iter().any(|(_, message)| message.contains("must be less than endLine"));
    let both = found(&range(json!({"startLine": 0, "endLine": 0})), None);
    assert!(both.iter().any(|(field, _)| field == "spec.range.startLine") && rule(&both), "{both:?}");
    let one = found(&range(json!({"startLine": "2", "endLine": 1})), None);
    assert_eq!(one.len(), 1, "{one:?}");
}

#[test]
fn a_rule_that_cannot_be_evaluated_is_told_in_its_own_words() {
    let declared = json!({"agents": [{"name": "coordinator", "type": "coordinator"}],
        "insertPhases": [{"name": "a", "plugin": {"name": "a"}}]});
    let pipeline = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "ToolPipeline", "metadata": {"name": "x"},
        "spec": {"tool": {"description": "d"}, "declared": declared}});
    let found = found(&pipeline, None);
    let messages: Vec<_> = found.iter().map(|(_, message)| message.as_str()).collect();
    assert!(messages.contains(&"insertPhases: before and after must name one of agents"), "{found:?}");
}

/// Returns the rules that a gateway breaks which has this listener and this collector of traces.
fn broken(listener: &Value, collector: &str) -> Vec<String> {
    let mut written = json!({"name": "a", "port": 8080});
    written.as_object_mut().unwrap().extend(listener.as_object().unwrap().clone());
    let spec = json!({"authentication": {"anonymous": {}}, "listeners": [written],
        "telemetry": {"tracing": {"endpoint": collector}}});
    let gateway = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "MCPGateway", "metadata": {"name": "x"},
        "spec": spec});
    found(&gateway, None).into_iter().map(|(field, message)| format!("{field}: {message}")).collect()
}

#[test]
fn hosts_that_no_request_can_have_are_refused() {
    let broken = |host: &str| broken(&json!({ "hosts": [host] }), "http://c:4317").len();
    let fine = ["mcp.example.com", "MCP.example.com:8443", "mcp", "a_b.example", "mcp.example.", "*.example.com"];
    for host in fine.into_iter().chain(["10.0.0.1", "[::1]", "[fd00::1]:8080", "xn--bcher-kva.example"]) {
        assert_eq!(broken(host), 0, "{host}");
    }
    let wrong =
        ["http://x", "bad host", "*.*.x", "*", "*x", "x/mcp", "fd00::1", "x:", "x:http", "a..b", "büch.example"];
    for host in wrong {
        assert_eq!(broken(host), 1, "{host}");
    }
}

#[test]
fn origins_that_no_browser_sends_are_refused() {
    let broken = |origin: &str| broken(&json!({ "allowedOrigins": [origin] }), "http://c:4317").len();
    let web = ["https://app.example.com", "http://localhost:3000", "http://10.0.0.1:8080", "http://[::1]:8080", "null"];
    let apps = ["chrome-extension://abcdef", "safari-web-extension://0A1B2C3D-AB", "capacitor://localhost", "file://"];
    for origin in web.into_iter().chain(apps) {
        assert_eq!(broken(origin), 0, "{origin}");
    }
    let wrong = ["x", "*", "https://*.example.com", "https://x/", "https://x/app", "https://App.example", "HTTPS://x"];
    let other = ["https://x:443", "http://x:80", "https://u@x", "https://", "https:x", "app://x y", "app://x/"];
    for origin in wrong.into_iter().chain(other) {
        assert_eq!(broken(origin), 1, "{origin}");
    }
    assert_eq!(broken("https://x:80"), 0, "it is not the default port");
}

#[test]
fn a_collector_that_could_not_be_reached_as_it_is_written_is_refused() {
    for endpoint in ["http://c:4317", "https://c/a@b", "http://c?a@b", "http://[::1]:4317/v1"] {
        assert_eq!(broken(&json!({}), endpoint), [""; 0], "{endpoint}");
    }
    for endpoint in ["http://user:hunter2@c", "https://user@c:4317", "http://c:99999", "http://[::1", "c:4317"] {
        let told = broken(&json!({}), endpoint);
        assert!(told.len() == 1 && told[0].starts_with("spec.telemetry.tracing"), "{endpoint}: {told:?}");
        assert!(!told[0].contains("hunter2"), "{told:?}");
    }
}

#[test]
fn metadata_is_checked_as_an_api_server_does() {
    let chain = |metadata: Value| {
        json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "PluginChain", "metadata": metadata,
            "spec": {"phase": "Request", "entries": [{"name": "a"}]}})
    };
    let fields =
        |metadata: Value| found(&chain(metadata), None).into_iter().map(|(field, _)| field).collect::<Vec<_>>();
    assert!(fields(json!({"name": "x", "labels": {"a.b/c": "on", "d": ""}, "resourceVersion": "1"})).is_empty());
    assert_eq!(fields(json!({"name": "x", "labels": {"mcp": true}})), ["metadata.labels.mcp"]);
    assert_eq!(fields(json!({"name": "x", "labels": {"mcp": "a b"}})), ["metadata.labels.mcp"]);
    assert_eq!(fields(json!({"name": "x", "label": {}})), ["metadata.label"]);
}

#[test]
fn no_more_problems_are_told_than_are_read() {
    let entries: Vec<_> = (0..32).map(|i| json!({"name": format!("e{i}"), "a": 1, "b": 2, "c": 3, "d": 4})).collect();
    let chain = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "PluginChain", "metadata": {"name": "x"},
        "spec": {"phase": "Request", "entries": entries}});
    assert_eq!(found(&chain, None).len(), MAX_PROBLEMS);
}
