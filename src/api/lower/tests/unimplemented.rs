//! Every field that is accepted without effect, by name: what is warned of is what the reference says.

use std::collections::BTreeSet;

use super::*;
use crate::api::crds;
use crate::api::unimplemented::UNIMPLEMENTED;

/// Gateways that set every field that is not implemented.
fn gateways() -> [Value; 1] {
    [json!({
        "authentication": {
            "anonymous": {}, "resourceMetadata": {"resource": "https://r"},
        },
        "authorization": {"rules": []},
        "admin": {"console": true},
        "models": [],
        "listeners": [{"name": "a", "port": 1,
            "tls": {"certificateSecretRef": {"name": "s"}, "clientCASecretRef": {"name": "s", "key": "k"}}}],
        "plugins": {"discovery": "Directory"},
    })]
}

/// Upstreams that set every field that is not implemented.
fn upstreams() -> Vec<Value> {
    let search = json!({"backend": "SQLite", "description": "d", "index": "i"});
    let assistant = json!({"backend": "Databricks", "description": "d", "endpoint": "e", "baseURL": "https://b",
        "credentialsSecretRef": {"name": "s", "key": "k"}});
    vec![json!({"vectorSearch": search}), json!({"knowledgeAssistant": assistant})]
}

/// Pipelines that set every field that is not implemented.
fn pipelines() -> [Value; 2] {
    let tool = json!({"description": "d"});
    let declared = json!({
        "agents": [{"name": "a", "type": "planner"}], "customizations": [], "promptProviders": [],
        "synthesizer": {},
    });
    [
        json!({"tool": tool, "declared": declared, "budgets": {"maxLLMCalls": 1}, "models": [], "conversation": {}}),
        json!({"tool": tool, "planned": {}}),
    ]
}

fn plugins() -> Value {
    json!({"source": {"inline": "x"}, "type": "qa-handler",
        "descriptor": {"version": "1", "tags": []}})
}

#[test]
fn what_is_warned_of_is_what_the_reference_says_is_not_implemented() {
    let mut problems = Vec::new();
    for spec in gateways() {
        problems.extend(gateway(&object(spec), CLUSTER).1);
    }
    for spec in upstreams() {
        for place in [CLUSTER, FILE()] {
            problems.extend(upstream(&object(spec.clone()), place).1);
        }
    }
    for spec in pipelines() {
        problems.extend(pipeline(&object(spec)).1);
    }
    problems.extend(plugin(&object(plugins()), CLUSTER).1);
    let entries = json!([{"name": "q", "canary": {"name": "r", "percent": 5}}]);
    problems.extend(chain(&object(json!({"phase": "Request", "methods": ["prompts/get"], "entries": entries}))).1);
    problems.retain(|problem| problem.reason == Reason::NotImplemented);
    let found = problems.iter().map(|problem| {
        let kind = problem.object.as_ref().unwrap().kind;
        format!("{} {}", kind.as_str(), problem.field)
    });
    let found: BTreeSet<_> = found.map(|field| field.replace("[0]", "[]").replace("[1]", "[]")).collect();
    let listed: BTreeSet<_> = UNIMPLEMENTED.iter().map(|it| format!("{} {}", it.kind.as_str(), it.field)).collect();
    assert_eq!(found, listed);
}

#[test]
fn every_such_field_says_so_where_it_is_described() {
    let notes = |crd| serde_json::to_string(&crd).unwrap().matches("Not implemented in this version").count();
    for crd in crds() {
        let kind = crd.spec.names.kind.clone();
        let listed = UNIMPLEMENTED.iter().filter(|unimplemented| unimplemented.kind.as_str() == kind).count();
        assert_eq!(notes(crd), listed, "{kind}");
    }
}
