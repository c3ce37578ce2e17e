//! Tests of lowering: defaults, values, and Problems about fields that are not implemented.

mod tools;
mod transports;
mod unimplemented;
mod warned;

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::config::input::{InputValue, Namespaces, ProtocolSetting, SourceInput};
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::{
    ArgumentValidation, EraSetting, HttpTransport, Limits, OtlpProtocol, PluginLimits, PrefixMode, Runtime,
    ToolDiscovery, TracingPlan, TransportPlan,
};
use crate::domain::plugin::{Encoding, FailurePolicy, Mode, Phase, Role, View};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

const FILE: fn() -> ManifestSource<'static> =
    || ManifestSource::File { folder: Path::new("/m"), plugin_dir: Path::new("/p") };

const CLUSTER: ManifestSource<'static> = ManifestSource::Cluster { domain: "cluster.local" };

fn object<T: DeserializeOwned>(spec: Value) -> T {
    serde_json::from_value(json!({"metadata": {"name": "x", "namespace": "ns", "labels": {"l": "v"}}, "spec": spec}))
        .unwrap()
}

/// Formats each Problem as `reason field`, with `!` before errors.
fn said(problems: &[Problem]) -> Vec<String> {
    let mark = |p: &Problem| if p.is_error() { "!" } else { "" };
    problems.iter().map(|p| format!("{}{} {}", mark(p), p.reason, p.field)).collect()
}

fn lower_gateway(mut spec: Value) -> (crate::config::input::GatewayInput, Vec<String>) {
    spec.as_object_mut().unwrap().entry("authentication").or_insert(json!({"anonymous": {}}));
    let (input, problems) = gateway(&object(spec), FILE());
    (input, said(&problems))
}

fn lower_upstream(spec: Value) -> (crate::config::input::UpstreamInput, Vec<String>) {
    let (input, problems) = upstream(&object(spec), FILE());
    (input, said(&problems))
}

fn lower_plugin(mut spec: Value) -> (crate::config::input::PluginInput, Vec<String>) {
    spec.as_object_mut().unwrap().entry("source").or_insert(json!({"inline": "x"}));
    let (input, problems) = plugin(&object(spec), FILE());
    (input, said(&problems))
}

#[test]
fn a_gateway_has_its_defaults() {
    let (input, problems) = lower_gateway(json!({}));
    assert!(problems.is_empty(), "{problems:?}");
    let plan = input.plan;
    assert!(plan.declared && plan.anonymous && !plan.stopped && !plan.stop_cancels && plan.refusing.is_none());
    assert_eq!((plan.prefix, plan.session_idle_seconds, plan.history_per_plugin), (PrefixMode::Always, 3600, 1000));
    assert_eq!(plan.limits, Limits::default());
    assert_eq!(plan.runtime, Runtime { plugin_dir: "/p".into(), ..Runtime::default() });
    assert!(plan.listeners.is_empty() && plan.log_level.is_none() && plan.required.is_empty());
    assert!(plan.tracing.is_none());
    let endpoint = "http://c:4317".to_owned();
    let (input, problems) = lower_gateway(json!({"telemetry": {"tracing": {"endpoint": endpoint}}}));
    let default = TracingPlan { endpoint, protocol: OtlpProtocol::Grpc, sample_percent: 10 };
    assert_eq!((problems.as_slice(), input.plan.tracing), (&[][..], Some(default)));
    assert_eq!(input.chains.namespaces, Namespaces::Same);
}

#[test]
fn a_gateway_in_a_cluster_is_reached_by_its_names_there() {
    let lower = |spec: Value| gateway(&object(spec), CLUSTER).0.plan.listeners;
    let service = ["x-gateway.ns.svc", "x-gateway.ns.svc.cluster.local", "x-gateway"];
    let listeners = lower(json!({"authentication": {"anonymous": {}}}));
    let [only] = listeners.as_slice() else { panic!("{listeners:?}") };
    assert_eq!((only.name.as_str(), only.port, only.path.as_str()), ("http", 8080, "/mcp"));
    assert_eq!((only.hosts.len(), only.default_hosts.as_slice()), (0, service.map(str::to_owned).as_slice()));

    let route = json!({"parentRefs": [{"name": "edge"}], "hostnames": ["MCP.example.com", "*.example.net"]});
    let listeners = lower(json!({"authentication": {"anonymous": {}}, "route": route, "listeners": [
        {"name": "a", "port": 80}, {"name": "b", "port": 81, "hosts": ["Own.example:8443"]}]}));
    let default = service.into_iter().chain(["mcp.example.com", "*.example.net"]);
    assert!(listeners[0].hosts.is_empty() && default.eq(listeners[0].default_hosts.iter().map(String::as_str)));
    assert_eq!(
        (listeners[1].hosts.as_slice(), listeners[1].default_hosts.len()),
        (["own.example".to_owned()].as_slice(), 0)
    );
}

#[test]
fn a_gateway_has_what_is_written() {
    let (input, problems) = lower_gateway(json!({
        "stopped": true, "stopMode": "Cancel",
        "listeners": [{"name": "a", "port": 8080, "hosts": ["MCP.example.com:8080", "[::1]"]}],
        "upstreams": {"prefix": "OnConflict", "toolDiscovery": "Search", "namespaces": {"from": "Names", "names": ["a"]}},
        "chains": {"required": [{"name": "c"}, {"name": "d", "namespace": "o"}], "selector": {"matchLabels": {"a": "b"}}},
        "limits": {"maxRequestSize": "1Mi", "perSession": {"concurrentCalls": -1, "totalCalls": 7}},
        "plugins": {"pluginDir": "code", "nodeExecutable": "./node", "poolSizePerPlugin": 0, "maxBytesInFlight": 5},
        "sessions": {"idleSeconds": 5}, "history": {"perPlugin": 0},
        "telemetry": {"logLevel": "Debug", "tracing": {"endpoint": "http://c:4318", "protocol": "HTTP", "samplePercent": 3}},
    }));
    assert!(problems.is_empty(), "{problems:?}");
    let plan = input.plan;
    assert!(plan.stopped && plan.stop_cancels);
    assert_eq!(
        (plan.listeners[0].path.as_str(), plan.listeners[0].hosts.as_slice()),
        ("/mcp", ["mcp.example.com".to_owned(), "[::1]".to_owned()].as_slice(),)
    );
    assert_eq!(plan.required.iter().map(ToString::to_string).collect::<Vec<_>>(), ["ns/c", "o/d"]);
    assert_eq!((plan.limits.max_request_size, plan.limits.session_concurrent_calls), (1 << 20, None));
    assert_eq!((plan.limits.session_total_calls, plan.limits.call_timeout_ms), (Some(7), 30_000));
    assert_eq!(
        (plan.runtime.plugin_dir.as_path(), plan.runtime.node_executable.as_path()),
        (Path::new("/m/code"), Path::new("/m/node"),)
    );
    assert_eq!((plan.runtime.pool_size_per_plugin, plan.runtime.max_bytes_in_flight), (0, 5));
    assert_eq!((plan.session_idle_seconds, plan.history_per_plugin, plan.log_level.as_deref()), (5, 0, Some("debug")));
    let endpoint = "http://c:4318".to_owned();
    assert_eq!(plan.tracing, Some(TracingPlan { endpoint, protocol: OtlpProtocol::Http, sample_percent: 3 }));
    assert_eq!(plan.tool_discovery, ToolDiscovery::Search);
    assert_eq!(input.upstreams.namespaces, Namespaces::Names(vec!["a".into()]));
    assert_eq!(input.chains.selector.match_labels["a"], "b");
}

#[test]
fn guards_of_a_gateway_that_are_not_built_refuse() {
    let mut tls = json!({"certificateSecretRef": {"name": "s"}});
    let lowered = |tls: &Value| lower_gateway(json!({"listeners": [{"name": "a", "port": 1, "tls": tls}]}));
    let (input, problems) = lowered(&tls);
    let listener = &input.plan.listeners[0];
    assert!(problems.is_empty() && listener.refusing.is_none(), "{problems:?}");
    assert_eq!(listener.tls, Some(ObjectKey::new("ns", "s")));
    tls["clientCASecretRef"] = json!({"name": "ca", "key": "ca.crt"});
    let (input, problems) = lowered(&tls);
    assert_eq!(problems, ["!NotImplemented spec.listeners[0].tls.clientCASecretRef"]);
    assert!(input.plan.refusing.is_none() && input.plan.listeners[0].refusing.is_some());
}

#[test]
fn an_upstream_has_its_defaults() {
    let (input, problems) = lower_upstream(json!({"external": {"url": "http://h/mcp"}}));
    assert!(problems.is_empty(), "{problems:?}");
    let plan = input.plan;
    assert!(
        plan.enabled
            && plan.argument_validation == ArgumentValidation::Coerce
            && plan.refusing.is_none()
            && plan.labels["l"] == "v"
    );
    assert_eq!((plan.connect_timeout_ms, plan.call_timeout_ms, plan.idle_timeout_ms), (5000, None, 300_000));
    assert_eq!((plan.health.period_seconds, plan.health.timeout_ms), (30, 5000));
    assert_eq!(plan.health.retry_backoff_ms, [1000, 5000, 15_000]);
    assert!(plan.health.auto_recover);
    assert_eq!((plan.era, plan.concurrent_calls, plan.max_response_size), (EraSetting::Auto, None, None));
    assert!(input.share_with.is_none());
    let (input, _) = lower_upstream(json!({"process": {"command": "npx"}}));
    assert!(input.plan.health.auto_recover);
    assert_eq!((input.plan.connect_timeout_ms, input.plan.idle_timeout_ms), (0, 0));
    for (transport, connect_ms) in [("Stdio", 60_000), ("StreamableHTTP", 5000)] {
        let ports = json!([{"name": "http", "port": 80}]);
        let managed = json!({"image": "i", "command": ["serve"], "transport": transport, "ports": ports});
        let (of_managed, _) = lower_upstream(json!({"managed": managed}));
        assert_eq!(of_managed.plan.connect_timeout_ms, connect_ms, "{transport}");
        let retries: u32 = of_managed.plan.health.retry_backoff_ms.iter().sum();
        assert!((240_000..=300_000).contains(&retries), "its pod has time to start");
    }
    let TransportPlan::Process { command, cwd, .. } = input.plan.transport else { panic!() };
    assert_eq!((command.as_str(), cwd.as_path()), ("npx", Path::new("/m")));
}

#[test]
fn of_annotations_the_word_to_enable_an_upstream_counts() {
    let id = ObjectId::new(Kind::MCPUpstream, ObjectKey::new("ns", "x"));
    let lowered = |annotations: Value| {
        let metadata = json!({"name": "x", "namespace": "ns", "annotations": annotations});
        let written = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "MCPUpstream", "metadata": metadata,
            "spec": {"external": {"url": "http://h/mcp"}}});
        let (lowered, problems) = document(&id, &written, None, FILE());
        assert!(problems.is_empty(), "{problems:?}");
        let Ok(Lowered::Upstream(input)) = lowered else { panic!() };
        input.plan
    };
    let plain = lowered(json!({}));
    assert_eq!(plain, lowered(json!({"example.com/enable": "monday"})));
    assert_eq!(lowered(json!({"hawsepipe.dev/enable": "monday"})).enable.as_deref(), Some("monday"));
    let long = lowered(json!({"hawsepipe.dev/enable": "x".repeat(1000)}));
    assert_eq!(long.enable.map(|word| word.len()), Some(253));
}

#[test]
fn values_keep_where_they_come_from() {
    let (input, _) = lower_upstream(json!({"process": {"command": "x", "env": [
        {"name": "A", "value": "1"},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
        {"name": "D", "valueFrom": {"environment": "E"}},
    ]}}));
    let values: Vec<_> = input.values.into_iter().map(|v| v.value).collect();
    let named = |name: &str| (name.to_owned(), "k".to_owned());
    let ((secret, key), (map, map_key)) = (named("s"), named("m"));
    assert_eq!(
        values,
        [
            InputValue::Literal("1".into()),
            InputValue::Secret { name: secret, key, optional: false },
            InputValue::ConfigMap { name: map, key: map_key, optional: false },
            InputValue::Environment("E".into()),
        ]
    );
}

#[test]
fn certificates_of_a_connection_are_values() {
    let tls = json!({
        "caRef": {"name": "m", "key": "ca"}, "clientCertificateSecretRef": {"name": "s"}, "serverName": "n",
    });
    let (input, problems) = lower_upstream(json!({"external": {"url": "https://h", "tls": tls}}));
    let values: Vec<_> = input.tls.iter().map(|it| (it.name.as_str(), it.value.clone(), it.field.as_str())).collect();
    let secret = |key: &str| InputValue::Secret { name: "s".into(), key: key.into(), optional: false };
    let map = InputValue::ConfigMap { name: "m".into(), key: "ca".into(), optional: false };
    let client = "spec.external.tls.clientCertificateSecretRef";
    let expected = [
        ("caRef", map, "spec.external.tls.caRef"),
        ("tls.crt", secret("tls.crt"), client),
        ("tls.key", secret("tls.key"), client),
    ];
    assert_eq!((values, problems), (expected.to_vec(), Vec::<String>::new()));
    let TransportPlan::External { tls, .. } = input.plan.transport else { panic!() };
    assert_eq!(tls.server_name.as_deref(), Some("n"));
}

#[test]
fn upstreams_of_a_cluster_are_kept_and_refuse() {
    for (spec, said) in [
        (json!({"managed": {"image": "i"}}), "ClusterOnly spec.managed"),
        (json!({"serverRef": {"kind": "K", "name": "n"}}), "ClusterOnly spec.serverRef"),
        (
            json!({"vectorSearch": {"backend": "SQLite", "description": "d", "index": "i"}}),
            "NotImplemented spec.vectorSearch",
        ),
    ] {
        let (input, problems) = lower_upstream(spec);
        assert_eq!(problems, [said]);
        assert!(input.plan.transport == TransportPlan::None && input.plan.refusing.is_some());
    }
}

#[test]
fn a_plugin_has_its_defaults_and_what_is_written() {
    let (input, problems) = lower_plugin(json!({}));
    assert!(problems.is_empty(), "{problems:?}");
    assert!(input.enabled && input.role == Role::Transform && input.phases.is_none() && input.order == 0);
    assert_eq!((input.protocol, input.limits), (ProtocolSetting::Auto, PluginLimits::default()));
    assert!(input.config.is_none() && !input.config_overrides && input.share_with.is_none());
    let (input, problems) = lower_plugin(json!({
        "role": "Guard", "phases": ["Response"], "order": 4_294_967_295_u32, "protocol": "Once", "timeoutMs": 5,
        "source": {"configMapKeyRef": {"name": "m", "key": "k.mjs"}}, "pool": {"size": 0},
        "config": {"b": 1.0, "a": [2.50, 1e3, {"d": -0.0, "c": 12_345_678_901_234_567_890_u64}]},
        "limits": {"maxStderrSize": "1Ki"}, "filter": {"tools": ["t*"]},
        "shareWith": {"namespaces": {"from": "All"}, "configOverrides": "Allow"},
    }));
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!((input.role, input.phases, input.order), (Role::Guard, Some(vec![Phase::Response]), 4_294_967_295));
    assert_eq!(input.source, SourceInput::ConfigMap { name: "m".into(), key: "k.mjs".into() });
    assert_eq!(input.config.unwrap().get(), r#"{"a":[2.5,1000,{"c":12345678901234567890,"d":0}],"b":1}"#);
    assert_eq!((input.limits.max_stderr, input.limits.max_input), (1024, 8 << 20));
    assert!(input.config_overrides && input.share_with == Some(Namespaces::All));
    assert_eq!((input.pool_size, input.timeout_ms, input.filter_tools), (Some(0), Some(5), vec!["t*".to_owned()]));
}

#[test]
fn a_plugin_says_how_it_is_spoken_with_and_how_its_workers_live() {
    let (input, problems) = lower_plugin(json!({
        "protocol": "Lines", "encoding": "MessagePack", "limits": {"memory": "64Mi"},
        "pool": {"size": 3, "maxExecutions": 7, "maxLifetimeSeconds": 60, "concurrency": 1},
    }));
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!((input.protocol, input.encoding, input.reuse), (ProtocolSetting::Lines, Encoding::MessagePack, false));
    assert_eq!((input.pool_size, input.max_executions, input.max_lifetime_seconds), (Some(3), Some(7), Some(60)));
    assert_eq!(input.limits.memory, 64 << 20);
    assert_eq!(input.concurrency, 1);
    let (input, problems) = lower_plugin(json!({"protocol": "Module", "pool": {"concurrency": 8}}));
    assert!(problems.is_empty() && input.concurrency == 8, "{problems:?}");
    let (input, problems) = lower_plugin(json!({"protocol": "Once", "reuse": true}));
    assert!(problems.is_empty() && input.reuse && input.protocol == ProtocolSetting::Once, "{problems:?}");
    assert_eq!((input.encoding, input.limits.memory), (Encoding::Json, 256 << 20));
}

#[test]
fn plugins_that_are_not_built_cannot_run() {
    let (input, problems) = lower_plugin(json!({"type": "qa-handler"}));
    assert_eq!(problems, ["!NotImplemented spec.type"]);
    assert!(input.refusing.is_some());
}

#[test]
fn a_chain_has_its_defaults_and_what_is_written() {
    let (input, problems) = chain(&object(json!({"phase": "Request", "entries": [{"name": "p"}]})));
    assert!(problems.is_empty());
    assert_eq!(
        (input.phase, input.order, input.methods.as_slice()),
        (Phase::Request, 100, [crate::domain::method::Method::CallTool].as_slice())
    );
    assert!(input.gateways.is_empty() && input.upstreams.is_none() && !input.notifications_pass);
    let entry = &input.entries[0];
    assert_eq!((entry.plugin.to_string().as_str(), entry.enabled, entry.view), ("ns/p", true, View::Auto));
    assert!(entry.failure_policy.is_none() && entry.mode == Mode::Enforce && entry.order.is_none());
    let (input, problems) = chain(&object(json!({
        "phase": "Response", "order": 0, "gateways": [{"name": "g"}], "upstreams": {"names": ["a*"]},
        "methods": ["tools/call", "resources/read"], "notifications": "Pass",
        "entries": [
            {"name": "p", "namespace": "o", "order": 3, "enabled": false, "view": "Json", "failurePolicy": "Ignore",
             "maxTokens": 9, "when": "true", "config": {"k": 1.0}},
            {"name": "q", "canary": {"name": "r", "percent": 5}},
        ],
    })));
    assert_eq!(said(&problems), ["NotImplemented spec.entries[1].canary"]);
    assert_eq!((input.order, input.gateways[0].to_string().as_str(), input.notifications_pass), (0, "ns/g", true));
    let entry = &input.entries[0];
    assert_eq!((entry.plugin.to_string().as_str(), entry.order, entry.max_tokens), ("o/p", Some(3), Some(9)));
    assert_eq!((entry.failure_policy, entry.view), (Some(FailurePolicy::Ignore), View::Json));
    assert_eq!(entry.config.as_ref().unwrap().get(), r#"{"k":1}"#);
}

#[test]
fn a_cluster_serves_other_upstreams_than_a_folder() {
    let lower = |spec: Value| {
        let (input, problems) = upstream(&object(spec), CLUSTER);
        (input, said(&problems))
    };
    let (input, problems) = lower(json!({"process": {"command": "node"}}));
    assert_eq!(problems, ["!StandaloneOnly spec.process"]);
    assert_eq!(input.plan.refusing.map(|r| r.reason), Some(Reason::StandaloneOnly));
    let managed = |transport: &str| json!({"managed": {"image": "x", "transport": transport, "ports": [{"name": "a", "port": 1}]}});
    let (input, problems) = lower(managed("StreamableHTTP"));
    assert_eq!((problems.len(), input.plan.refusing, input.plan.transport), (0, None, TransportPlan::None));
    assert_eq!(input.managed.map(|managed| (managed.port, managed.path)), Some((1, "/mcp".to_owned())));
    let (input, problems) = lower(managed("SSE"));
    assert_eq!((problems.len(), input.plan.refusing, input.plan.http_transport), (0, None, HttpTransport::Sse));

    let (input, problems) = lower(json!({"serverRef": {"kind": "Service", "name": "up", "port": 80}}));
    assert_eq!((problems.len(), input.plan.refusing), (0, None));
    let server = input.server.unwrap();
    assert_eq!((server.kind.as_str(), server.port.as_deref(), server.path), ("Service", Some("80"), None));

    let pods = object(json!({"authentication": {"anonymous": {}}, "replicas": 2, "admin": {"port": 9091}}));
    assert_eq!(said(&gateway(&pods, CLUSTER).1), [""; 0]);
    assert_eq!(said(&gateway(&pods, FILE()).1), ["ClusterOnly spec.replicas"], "one for all such fields");
}

#[test]
fn a_database_that_the_network_policy_cuts_off_is_a_problem() {
    let of = |postgres: &Value, policy: Option<&str>| {
        let store = json!({"store": {"postgres": postgres}});
        let spec = json!({"authentication": {"anonymous": {}}, "history": store, "networkPolicy": policy});
        let told = |place| said(&gateway(&object(spec.clone()), place).1);
        (told(CLUSTER), told(FILE()))
    };
    let without = json!({"urlSecretRef": {"name": "s", "key": "url"}});
    let with = json!({"urlSecretRef": {"name": "s", "key": "url"}, "address": "db.data.svc:5432"});
    let told = "InvalidConfig spec.history.store.postgres";
    assert_eq!(of(&without, None).0, [told]);
    assert_eq!(of(&without, Some("Managed")).0, [told]);
    assert_eq!(of(&without, Some("None")).0, [""; 0]);
    assert_eq!(of(&with, None).0, [""; 0]);
    assert_eq!(of(&without, None).1, [""; 0], "a standalone gateway has no NetworkPolicy");
    assert_eq!(of(&with, None).1, ["ClusterOnly spec.history.store.postgres.address"]);
}

#[test]
fn an_object_that_is_not_valid_says_whether_it_is_off_or_says_nothing() {
    let off = |kind: Kind, spec: Value| {
        let id = ObjectId::new(kind, ObjectKey::new("ns", "x"));
        let object = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": kind.as_str(), "metadata": {"name": "x"},
            "spec": spec});
        document(&id, &object, None, FILE()).0.unwrap_err().off
    };
    for said in [true, false] {
        assert_eq!(off(Kind::MCPGateway, json!({"stopped": said, "replicas": "many"})), Some(said));
        assert_eq!(off(Kind::MCPUpstream, json!({"enabled": !said, "external": 1})), Some(said));
        assert_eq!(off(Kind::Plugin, json!({"enabled": !said, "source": 1})), None, "it may guard");
    }
    assert_eq!(off(Kind::MCPGateway, json!({"replicas": "many"})), None);
    assert_eq!(off(Kind::MCPUpstream, json!({"enabled": "no", "external": 1})), None);
}
