//! Statuses of objects that are in a gateway's plan, from manifests to reports of pods.

use super::*;
use crate::controller::compiled::CompiledObjects;
use crate::controller::load_reports::LoadReports;
use crate::controller::lowered::Objects;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::Plan;

/// Code that is being parsed for the first time.
const UNTRIED: &str = "untried";

/// The objects of a namespace, and the input for their statuses.
pub(super) struct Namespace {
    pub(super) objects: Objects,
    pub(super) input: StatusInput,
}

impl Namespace {
    /// Compiles these objects for the gateway `gw`, whose only pod is ready and runs the newest revision, `new`. All
    /// code exports `default`, except [`UNTRIED`], which is still being parsed.
    #[expect(clippy::too_many_lines, reason = "each part of the input is named")]
    pub(super) fn of(specs: &[(Kind, &str, Value)], before: Option<&Plan>) -> Self {
        let objects = specs.iter().map(|(kind, name, spec)| {
            let object = json!({
                "apiVersion": "hawsepipe.dev/v1alpha1", "kind": kind.as_str(), "spec": spec,
                "metadata": {"name": name, "namespace": "ns", "uid": name, "generation": 1},
            });
            (*kind, Arc::new(serde_json::from_value(object).unwrap()))
        });
        let (objects, _) = Lowering::new("cluster.local").read(objects);
        let mut inputs = compiled::inputs(&objects, &Dereferenced::default());
        let code = inputs.plugins.iter().filter_map(|plugin| plugin_code(&inputs, plugin));
        let known = code.map(|code| code_key(&sha256_hex(code.text.as_bytes()), &code.file_name));
        let facts = CodeFacts {
            is_module: true,
            exports: ["default", "execute"].map(Into::into).into(),
            ..CodeFacts::default()
        };
        inputs.facts = known.map(|key| (key, facts.clone())).collect();
        inputs.parsing.insert(code_key(&sha256_hex(UNTRIED.as_bytes()), "index.js"));
        inputs.facts.retain(|key, _| !inputs.parsing.contains(key));
        let (own, protocols) = compiled::check_standalone(&mut inputs);
        let code = compiled::applied_code(&inputs);
        let gateway = objects.iter().find(|object| object.id.kind == Kind::MCPGateway).unwrap();
        let planned =
            Arc::new(compiled::plan(gateway, &mut inputs, before, None, &BTreeMap::new(), &mut LoadReports::default()));
        let (key, revisions) = (gateway.id.key.clone(), [("new".to_owned(), Arc::clone(&planned.digests))].into());
        let state = GatewayState {
            in_force: Arc::clone(&planned.plan),
            planned,
            current: Some("new".into()),
            restrictions: String::new(),
            addresses: Vec::new(),
            pin: Pin::None,
            revisions,
            fault: None,
            lacks_route_kind: false,
            rollout: Rollout::default(),
        };
        let compiled = Arc::new(CompiledObjects::new(Arc::clone(&objects), own, protocols, code));
        let mut input = StatusInput { compiled, gateways: [(key, state)].into(), ..StatusInput::default() };
        input.runs(Some("new"));
        Self { objects, input }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.input.gateways[&gateway()].planned.plan
    }

    pub(super) fn status(&self, kind: Kind) -> Value {
        let object = self.objects.iter().find(|object| object.id.kind == kind).unwrap();
        of(&self.input, object, "2026-01-01T00:00:00Z")
    }

    /// Returns a condition, as `Status Reason`.
    pub(super) fn condition(&self, kind: Kind, name: &str) -> String {
        let status = self.status(kind);
        let conditions = status["conditions"].as_array().unwrap();
        let condition = conditions.iter().find(|condition| condition["type"] == name).unwrap();
        format!("{} {}", condition["status"].as_str().unwrap(), condition["reason"].as_str().unwrap())
    }
}

impl StatusInput {
    pub(super) fn state(&mut self) -> &mut GatewayState {
        self.gateways.get_mut(&gateway()).unwrap()
    }

    /// Makes the gateway's pod ready and run this revision. With `None`, the pod is not ready.
    pub(super) fn runs(&mut self, revision: Option<&str>) {
        let report = revision.map(|revision| Report { revision: revision.into(), ..Report::default() });
        let ready: std::collections::BTreeMap<_, _> =
            report.into_iter().map(|report| ("pod".to_owned(), Ok(Arc::new(Reported::new(report))))).collect();
        self.pods.insert(gateway(), Pods { all: 1, ready, ..Pods::default() });
    }
}

pub(super) fn gateway() -> ObjectKey {
    ObjectKey::new("ns", "gw")
}

/// Returns a gateway, a plugin, a chain that runs the plugin, and an upstream with this spec.
pub(super) fn specs(upstream: Value) -> Vec<(Kind, &'static str, Value)> {
    vec![
        (Kind::MCPGateway, "gw", json!({"authentication": {"anonymous": {}}})),
        (Kind::Plugin, "p", json!({"source": {"inline": "export default (input) => input;"}})),
        (Kind::PluginChain, "c", json!({"phase": "Request", "entries": [{"name": "p"}]})),
        (Kind::MCPUpstream, "up", upstream),
    ]
}

pub(super) fn external() -> Value {
    json!({"external": {"url": "http://up.example/mcp"}})
}

#[test]
fn an_object_that_every_ready_pod_runs_is_programmed() {
    let namespace = Namespace::of(&specs(external()), None);
    for kind in [Kind::MCPGateway, Kind::Plugin, Kind::PluginChain, Kind::MCPUpstream] {
        assert_eq!(namespace.condition(kind, "Programmed"), "True Programmed", "{kind}");
        assert_eq!(namespace.status(kind)["live"], "1/1", "{kind}");
    }
    assert_eq!(namespace.status(Kind::MCPUpstream)["address"], "http://up.example/mcp");
    let gateway = namespace.status(Kind::MCPGateway);
    assert_eq!((&gateway["upstreams"], &gateway["problems"]), (&json!(1), &json!(0)));
}

#[test]
fn a_chain_says_what_it_runs_and_how_many_upstreams_it_covers() {
    let chain = Namespace::of(&specs(external()), None).status(Kind::PluginChain);
    assert_eq!((&chain["upstreams"], &chain["runs"], &chain["entries"]), (&json!("1"), &json!("p"), &json!(1)));
}

#[test]
fn a_plugin_says_how_it_is_spoken_with_and_how_many_chains_name_it() {
    let plugin = Namespace::of(&specs(external()), None).status(Kind::Plugin);
    assert_eq!((&plugin["protocol"], &plugin["chains"]), (&json!("Module"), &json!(1)));
}

#[test]
fn a_gateway_says_why_it_is_not_programmed() {
    let mut namespace = Namespace::of(&specs(external()), None);
    let programmed = |namespace: &Namespace| namespace.condition(Kind::MCPGateway, "Programmed");
    namespace.input.runs(Some("old"));
    assert_eq!(programmed(&namespace), "False Pending");
    namespace.input.runs(None);
    assert_eq!(programmed(&namespace), "False NoReadyPods");
    namespace.input.runs(Some("new"));
    namespace.input.state().pin = Pin::Kept;
    assert_eq!(programmed(&namespace), "False Pinned");
    namespace.input.state().current = None;
    assert_eq!(programmed(&namespace), "Unknown Pending");
    namespace.input.state().fault = Some((Reason::NameTaken, "taken".into()));
    assert_eq!(programmed(&namespace), "False NameTaken");
    namespace.input.blind.push("pods".into());
    assert_eq!(programmed(&namespace), "Unknown Pending");
}

#[test]
fn code_that_is_being_parsed_is_pending_and_what_it_is_to_guard_is_refused() {
    let mut untried = specs(external());
    untried[1].2["source"]["inline"] = json!(UNTRIED);
    let before = Namespace::of(&specs(external()), None);
    let edited = Namespace::of(&untried, Some(before.plan()));
    assert_eq!(edited.condition(Kind::Plugin, "Accepted"), "Unknown Pending");
    assert_eq!(edited.condition(Kind::Plugin, "Programmed"), "False Pending");
    assert_eq!(edited.condition(Kind::PluginChain, "Ready"), "True Ready", "the form before runs on");

    let new = Namespace::of(&untried, None);
    for kind in [Kind::Plugin, Kind::PluginChain] {
        assert_eq!(new.condition(kind, "Accepted"), "Unknown Pending");
        assert_eq!(new.condition(kind, "Ready"), "Unknown Pending");
    }
    assert_eq!(new.condition(Kind::Plugin, "Programmed"), "False Pending");
    assert_eq!(new.condition(Kind::PluginChain, "Refusing"), "True Pending");
    assert_eq!(new.condition(Kind::MCPGateway, "Refusing"), "True Pending");
}

#[test]
fn an_upstream_whose_last_accepted_form_runs_is_not_programmed() {
    let before = Namespace::of(&specs(external()), None);
    let map = json!([{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k"}}}]);
    for (spec, condition, reason) in [
        (json!({"external": {"url": "http://up.example/mcp"}, "tools": {"include": ["["]}}), "Accepted", None),
        (
            json!({"external": {"url": "http://up.example/mcp", "headers": map}}),
            "ResolvedRefs",
            Some("False ConfigMapNotFound"),
        ),
    ] {
        let namespace = Namespace::of(&specs(spec), Some(before.plan()));
        let found = namespace.condition(Kind::MCPUpstream, condition);
        assert!(found.starts_with("False") && reason.is_none_or(|reason| found == reason), "{found}");
        assert_eq!(namespace.condition(Kind::MCPUpstream, "Programmed"), "False PreviousRevision");
        assert_eq!(namespace.status(Kind::MCPUpstream)["live"], "0/1");
    }
}

#[test]
fn an_upstream_says_what_its_pods_see_of_it_and_how_it_stands_where_it_stands_worst() {
    let reports = [
        json!({
            "upstream": "ns/up", "connectionState": "Connected", "era": "Legacy", "version": "2025-11-25",
            "serverName": "files", "toolCount": 1, "toolsRevision": "ab", "tools": [{"name": "read", "sha256": "cd"}],
        }),
        json!({
            "upstream": "ns/up", "connectionState": "Error", "failures": 3, "autoDisabled": true, "error": "refused",
        }),
    ];
    let reports = reports.iter().enumerate().map(|(number, upstream)| {
        let report = json!({"revision": "new", "upstreams": [upstream]});
        (format!("pod-{number}"), Ok(Arc::new(Reported::new(serde_json::from_value(report).unwrap()))))
    });
    let mut namespace = Namespace::of(&specs(external()), None);
    namespace.input.pods.insert(gateway(), Pods { all: 2, ready: reports.collect(), ..Pods::default() });
    let status = namespace.status(Kind::MCPUpstream);
    let told = [
        ("connectionState", json!("Error")),
        ("failureCount", json!(3)),
        ("autoDisabledPods", json!("1/2")),
        ("protocol", json!({"era": "Legacy", "version": "2025-11-25"})),
        ("server", json!({"name": "files"})),
        ("toolCount", json!(1)),
        ("toolsRevision", json!("ab")),
        ("tools", json!([{"name": "read", "sha256": "cd"}])),
    ];
    for (field, expected) in told {
        assert_eq!(status[field], expected, "{field}");
    }
    assert_eq!(namespace.condition(Kind::MCPUpstream, "Connected"), "False AutoDisabled");
}
