//! No object with an error is ready, whoever has found the error.

use super::taken::{Namespace, external, gateway, specs};
use super::*;
use crate::domain::ids::ObjectId;

/// Returns what [`specs`] has, a pipeline with this spec, and a binding of a section.
fn all_kinds(pipeline: Value) -> Vec<(Kind, &'static str, Value)> {
    let mut specs = specs(external());
    specs.push((
        Kind::Plugin,
        "step",
        json!({"type": "phase", "source": {"inline": "export const execute = (input) => input;"}}),
    ));
    specs.push((Kind::ToolPipeline, "pipe", pipeline));
    specs.push((
        Kind::SectionBinding,
        "part",
        json!({"document": {"glob": "a.md"}, "block": {"id": "b"}, "upstream": {"name": "up"}}),
    ));
    specs
}

fn pipeline() -> Value {
    let agents = json!([{"name": "main", "type": "custom", "plugin": {"name": "step"}}]);
    json!({"tool": {"description": "adds"}, "declared": {"startAgent": "main", "agents": agents}})
}

impl Namespace {
    fn id(&self, kind: Kind) -> ObjectId {
        self.objects.iter().find(|object| object.id.kind == kind).unwrap().id.clone()
    }

    /// Lets the gateway's pod report this error of an object.
    fn pod_finds(&mut self, kind: Kind, reason: Reason, field: &str) {
        self.pod_reports(Some(Problem::error(reason, self.id(kind), field, "words of the pod")));
    }

    /// Lets the gateway's pod report that it is connected to the upstream, and this problem.
    fn pod_reports(&mut self, problem: Option<Problem>) {
        let connected = json!({"upstream": "ns/up", "connectionState": "Connected", "toolCount": 1});
        let report = json!({"revision": "new", "problems": Vec::from_iter(problem), "upstreams": [connected]});
        let reported = Reported::new(serde_json::from_value(report).unwrap());
        let ready = [("pod".to_owned(), Ok(Arc::new(reported)))].into();
        self.input.pods.insert(gateway(), Pods { all: 1, ready, ..Pods::default() });
    }
}

#[test]
fn no_object_with_an_error_of_any_reason_is_ready() {
    // These say where an object is, and `Programmed` shows them when it is nowhere; or how another condition stands.
    let elsewhere = [Reason::NotTaken, Reason::NoGateway, Reason::NameTaken, Reason::RequiredChainMissing];
    let mut namespace = Namespace::of(&all_kinds(pipeline()), None);
    for kind in
        [Kind::MCPGateway, Kind::MCPUpstream, Kind::Plugin, Kind::PluginChain, Kind::ToolPipeline, Kind::SectionBinding]
    {
        namespace.pod_reports(None);
        let mut ready = Vec::new();
        for reason in Reason::ALL {
            let problem = Problem::error(*reason, namespace.id(kind), "spec.x", "words");
            let state = namespace.input.state();
            let problems = &mut Arc::get_mut(&mut state.planned).expect("it is held once").problems;
            problems.insert(problem.object.clone().unwrap(), vec![problem]);
            let found = namespace.condition(kind, "Ready");
            if found == "True Ready" {
                ready.push(*reason);
            } else {
                assert!(found.ends_with(reason.as_str()) || kind == Kind::MCPGateway, "{kind} {reason}: {found}");
            }
        }
        let unknown = ready.iter().filter(|reason| !elsewhere.contains(reason));
        let expected: &[Reason] = if kind == Kind::MCPGateway { &[] } else { &[Reason::AuditUnavailable] };
        assert_eq!(unknown.copied().collect::<Vec<_>>(), expected, "{kind}");
    }
}

#[test]
fn an_invalid_pipeline_is_not_ready_for_the_reason_that_clients_meet() {
    let with = |change: fn(&mut Value)| {
        let mut spec = pipeline();
        change(&mut spec);
        Namespace::of(&all_kinds(spec), None).condition(Kind::ToolPipeline, "Ready")
    };
    assert_eq!(with(|_| ()), "True Ready");
    assert_eq!(with(|spec| spec["tool"]["inputSchema"] = json!({"type": "objekt"})), "False InvalidSchema");
    assert_eq!(with(|spec| spec["output"] = json!({"schema": {"type": "objekt"}})), "False InvalidSchema");
    let sourceless = |spec: &mut Value| spec["output"] = json!({"schema": {"type": "object", "properties": {}}});
    assert_eq!(with(sourceless), "False MissingSources");
    assert_eq!(with(|spec| spec["declared"]["agents"][0]["enabled"] = json!(false)), "False NothingEnabled");
    assert_eq!(with(|spec| spec["declared"]["agents"][0]["plugin"]["name"] = json!("none")), "False PluginNotFound");
}

#[test]
fn a_pipeline_whose_name_is_anothers_is_not_ready() {
    let mut namespace = Namespace::of(&all_kinds(pipeline()), None);
    namespace.pod_finds(Kind::ToolPipeline, Reason::ToolNameConflict, "spec.tool.name");
    assert_eq!(namespace.condition(Kind::ToolPipeline, "Ready"), "False ToolNameConflict");
    assert_eq!(namespace.condition(Kind::ToolPipeline, "Programmed"), "False ToolNameConflict");
    // One that renames itself to what another has runs on in its last form, and says so.
    let named = |name: &str| {
        let mut spec = pipeline();
        spec["tool"]["name"] = json!(name);
        spec
    };
    let with_other = |name: &str| {
        let mut specs = all_kinds(named(name));
        specs.push((Kind::ToolPipeline, "zother", named("sum")));
        specs
    };
    let before = Namespace::of(&with_other("own"), None);
    assert_eq!(before.condition(Kind::ToolPipeline, "Ready"), "True Ready");
    let renamed = Namespace::of(&with_other("sum"), Some(before.plan()));
    assert_eq!(renamed.condition(Kind::ToolPipeline, "Ready"), "False NameConflict");
    assert_eq!(renamed.condition(Kind::ToolPipeline, "Programmed"), "False PreviousRevision");
}

#[test]
fn an_object_that_the_pinned_revision_does_not_have_is_not_ready() {
    for kind in [Kind::ToolPipeline, Kind::PluginChain, Kind::SectionBinding] {
        let mut namespace = Namespace::of(&all_kinds(pipeline()), None);
        assert_eq!(namespace.condition(kind, "Ready"), "True Ready", "{kind}");
        let id = namespace.id(kind);
        let state = namespace.input.state();
        let mut digests = (*state.planned.digests).clone();
        digests.remove(&id);
        state.revisions.insert("old".into(), Arc::new(digests));
        (state.pin, state.current) = (Pin::Kept, Some("old".into()));
        namespace.input.runs(Some("old"));
        assert_eq!(namespace.condition(kind, "Ready"), "False Pinned", "{kind}");
    }
}

#[test]
fn a_gateway_shows_what_its_pods_cannot_use() {
    for (reason, field, condition, found) in [
        (Reason::AuditUnavailable, "spec.audit.mode", "Refusing", "True AuditUnavailable"),
        (Reason::IssuerUnavailable, "spec.authentication.tokenReview", "ResolvedRefs", "False IssuerUnavailable"),
        (Reason::StoreUnavailable, "spec.history.store", "ResolvedRefs", "False StoreUnavailable"),
        (Reason::SecretNotFound, "spec.authentication.apiKeys", "ResolvedRefs", "False SecretNotFound"),
        (Reason::AddressUnavailable, "spec.listeners[0]", "ResolvedRefs", "False AddressUnavailable"),
    ] {
        let mut namespace = Namespace::of(&all_kinds(pipeline()), None);
        assert_eq!(namespace.condition(Kind::MCPGateway, "Ready"), "True Ready");
        namespace.pod_finds(Kind::MCPGateway, reason, field);
        assert_eq!(namespace.condition(Kind::MCPGateway, condition), found);
        assert_eq!(namespace.condition(Kind::MCPGateway, "Ready"), format!("False {reason}"));
        let status = namespace.status(Kind::MCPGateway);
        assert!(status["conditions"].to_string().contains("words of the pod"), "{status}");
    }
}

#[test]
fn a_pipeline_whose_model_lacks_its_key_is_not_ready() {
    let mut spec = pipeline();
    spec["models"] = json!([{"role": "fast", "baseURL": "https://llm.example/v1", "model": "m",
        "apiKeySecretRef": {"name": "llm", "key": "key"}}]);
    let mut namespace = Namespace::of(&all_kinds(spec), None);
    for (state, expected) in
        [("Found", "True Ready"), ("NotFound", "False SecretNotFound"), ("Invalid", "False InvalidSecret")]
    {
        let secret = json!({"namespace": "ns", "name": "llm", "key": "key", "state": state});
        let report = serde_json::from_value(json!({"revision": "new", "secrets": [secret]})).unwrap();
        let ready = [("pod".to_owned(), Ok(Arc::new(Reported::new(report))))].into();
        namespace.input.pods.insert(gateway(), Pods { all: 1, ready, ..Pods::default() });
        assert_eq!(namespace.condition(Kind::ToolPipeline, "Ready"), expected);
    }
}

#[test]
fn a_gateway_without_ready_pods_says_that_they_wait_for_the_store_of_a_required_trail() {
    let mut namespace = Namespace::of(&all_kinds(pipeline()), None);
    namespace.input.runs(None);
    let said = |namespace: &Namespace| namespace.status(Kind::MCPGateway)["conditions"].to_string();
    assert!(!said(&namespace).contains("reached its store"));
    let state = namespace.input.state();
    let mut plan = crate::domain::plan::Plan::clone(&state.in_force);
    plan.gateway.audit = crate::domain::audit::AuditMode::Required;
    state.in_force = Arc::new(plan);
    assert!(said(&namespace).contains("a pod is ready once it has reached its store"), "{}", said(&namespace));
}
