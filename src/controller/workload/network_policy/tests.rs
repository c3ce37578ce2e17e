//! Who may connect to whom, by the policy as the API defines it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::ServiceSpec;
use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::*;
use crate::controller::compiled;
use crate::controller::load_reports::LoadReports;
use crate::controller::status::tests::{inspected, read};
use crate::controller::workload::tests::settings;
use crate::domain::egress::EgressRule;
use crate::domain::ids::Kind;

/// The other end of a connection.
#[derive(Clone, Debug)]
enum End {
    /// A pod of a namespace, with one label.
    Pod(&'static str, &'static str, &'static str),
    /// An address outside the cluster.
    Outside(&'static str),
}

/// Whether a selector selects these labels. The policies have no expressions.
fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    assert!(selector.match_expressions.is_none());
    selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
}

fn is_peer(peer: &NetworkPolicyPeer, end: &End, own_namespace: &str) -> bool {
    let label = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    match (end, &peer.ip_block) {
        (End::Outside(address), Some(block)) => {
            let (net, bits) = block.cidr.split_once('/').unwrap();
            let net: IpAddr = net.parse().unwrap();
            assert_eq!(bits, if net.is_ipv4() { "32" } else { "128" });
            net == address.parse::<IpAddr>().unwrap()
        }
        (End::Pod(namespace, key, value), None) => {
            let in_namespace = match &peer.namespace_selector {
                Some(selector) => selects(selector, &label(NAMESPACE_NAME, namespace)),
                None => *namespace == own_namespace,
            };
            in_namespace && peer.pod_selector.as_ref().is_none_or(|selector| selects(selector, &label(key, value)))
        }
        _ => false,
    }
}

fn is_port(open: &NetworkPolicyPort, port: &Value, protocol: &str) -> bool {
    assert!(open.protocol.is_some(), "the API server sets a default, which is then a difference");
    let named = match (&open.port, port) {
        (None, _) => true,
        (Some(IntOrString::Int(first)), Value::Number(number)) => {
            let number = i32::try_from(number.as_i64().unwrap()).unwrap();
            (*first..=open.end_port.unwrap_or(*first)).contains(&number)
        }
        (Some(IntOrString::String(name)), Value::String(port)) => name == port,
        _ => false,
    };
    named && open.protocol.as_deref() == Some(protocol)
}

/// Whether the policy of a gateway in namespace `ns` lets a connection in, or out, at this port.
fn allows(policy: &NetworkPolicy, inward: bool, end: &End, port: &Value, protocol: &str) -> bool {
    let spec = policy.spec.as_ref().unwrap();
    let rule = |peers: &Option<Vec<NetworkPolicyPeer>>, ports: &Option<Vec<NetworkPolicyPort>>| {
        peers.as_ref().is_none_or(|peers| peers.iter().any(|peer| is_peer(peer, end, "ns")))
            && ports.as_ref().is_none_or(|ports| ports.iter().any(|open| is_port(open, port, protocol)))
    };
    match inward {
        true => spec.ingress.iter().flatten().any(|it| rule(&it.from, &it.ports)),
        false => spec.egress.iter().flatten().any(|it| rule(&it.to, &it.ports)),
    }
}

/// Returns an ExternalName Service with a port that clients never see.
fn alias(host: &str, port: u16) -> Value {
    json!({"type": "ExternalName", "externalName": host, "ports": [{"port": port, "targetPort": 9999}]})
}

/// The Services of the cluster.
fn service(namespace: &str, name: &str) -> Option<ServiceSpec> {
    let spec = match (namespace, name) {
        ("ns", "up") => json!({"selector": {"app": "up"}, "ports": [{"port": 80, "targetPort": 8080}]}),
        ("ns", "named") => json!({"selector": {"app": "named"}, "ports": [{"port": 80, "targetPort": "web"}]}),
        ("other", "up") => json!({"selector": {"app": "far"}, "ports": [{"port": 9000}]}),
        ("ns", "headless") => {
            json!({"clusterIP": "None", "selector": {"app": "set"}, "ports": [{"port": 81, "targetPort": 8181}]})
        }
        ("ns", "by-hand") => json!({"ports": [{"port": 82, "targetPort": 8282}, {"port": 84, "targetPort": "web"}]}),
        ("ns", "both") => json!({"selector": {"app": "both"}, "ports": [
            {"port": 80, "protocol": "UDP", "targetPort": 8001}, {"port": 80, "protocol": "TCP", "targetPort": 8002}]}),
        ("ns", "outside") => alias("x.example", 83),
        ("ns", "alias") => alias("up.other.svc.cluster.test.", 9000),
        ("ns", "loop") => alias("loop.ns.svc.cluster.test", 85),
        _ => return None,
    };
    Some(serde_json::from_value(spec).unwrap())
}

/// Returns the policy of a gateway with upstreams at these URLs, and a plugin that may reach `egress`.
fn policy(urls: &[String], egress: &[&str]) -> NetworkPolicy {
    let none = json!({});
    let spec = json!({
        "authentication": {"anonymous": {}},
        "listeners": [{"name": "http", "port": 8080}, {"name": "more", "port": 8081}],
        "telemetry": {"tracing": {"endpoint": "http://collector.tracing.svc:4317"}},
    });
    let chain = json!({"phase": "Request", "upstreams": {"names": ["up-0"]}, "entries": [{"name": "p"}]});
    let plugin = json!({"source": {"inline": "export default 1"}, "egress": egress});
    let mut objects = vec![
        read(Kind::MCPGateway, "main", &spec, &none),
        read(Kind::PluginChain, "checks", &chain, &none),
        read(Kind::Plugin, "p", &plugin, &none),
    ];
    objects.extend(
        urls.iter()
            .enumerate()
            .map(|(n, url)| read(Kind::MCPUpstream, &format!("up-{n}"), &json!({"external": {"url": url}}), &none)),
    );
    let mut inputs = inspected(&objects);
    let planned = compiled::plan(&objects[0], &mut inputs, None, None, &BTreeMap::new(), &mut LoadReports::default());
    let (settings, spec, plans) = (settings(), planned.spec.as_ref().unwrap(), [&*planned.plan, &*planned.plan]);
    let peers =
        Resolver { namespace: "ns", domain: &settings.cluster_domain, service: &service }.peers(&targets(&plans));
    let manifest = network_policy(&WorkloadInput::new(&planned.owner, spec, &settings, plans), peers);
    let policy: NetworkPolicy = serde_json::from_value(manifest.body().clone()).unwrap();
    assert_eq!(serde_json::to_value(&policy).unwrap(), *manifest.body(), "every field is one of Kubernetes");
    policy
}

const GATEWAY: End = End::Pod("ns", GATEWAY_LABEL, "main");

#[test]
fn a_name_that_no_namespace_can_have_is_a_host_outside() {
    let long = format!("http://up.{}.svc/mcp", "x".repeat(64));
    let urls = ["http://up.-tools.svc/mcp", "http://up.y_.svc/mcp", &long, "http://up.ns.svc:0/mcp"].map(str::to_owned);
    let text = serde_json::to_string(&policy(&urls, &["up.-y.svc:81"])).unwrap();
    assert!(!["-tools", "y_", "xxx", "-y", "\"port\":0"].iter().any(|part| text.contains(part)), "{text}");
}

#[test]
fn clients_reach_listeners_and_the_admin_port_is_for_operator_and_scrapers() {
    let policy = policy(&[], &[]);
    let prometheus = End::Pod("monitoring", "app.kubernetes.io/name", "prometheus");
    let operator = End::Pod("system", "app", "operator");
    let other = End::Pod("ns", "app", "client");
    for (end, port, reaches) in [
        (&other, 8080, true),
        (&other, 8081, true),
        (&other, 9090, false),
        (&other, 22, false),
        (&End::Outside("192.0.2.1"), 8080, true),
        (&End::Outside("192.0.2.1"), 9090, false),
        (&operator, 9090, true),
        (&prometheus, 9090, true),
        (&End::Pod("ns", GATEWAY_LABEL, "other"), 9090, false),
        (&End::Pod("other", GATEWAY_LABEL, "main"), 9090, false),
        (&GATEWAY, 9090, true),
        (&GATEWAY, 8080, true),
    ] {
        assert_eq!(allows(&policy, true, end, &json!(port), "TCP"), reaches, "{end:?} {port}");
    }
}

/// Returns the policy of a gateway with upstreams of every form.
fn of_every_form() -> NetworkPolicy {
    let urls = [
        "http://up/mcp",
        "http://named.ns.svc/mcp",
        "http://up.other.svc.cluster.test:9000/mcp",
        "http://headless:81/mcp",
        "http://by-hand:82/mcp",
        "http://by-hand:84/mcp",
        "http://both/mcp",
        "http://outside:83/mcp",
        "http://alias:9000/mcp",
        "http://loop:85/mcp",
        "http://198.51.100.7:7000/mcp",
        "https://[2001:db8::1]/mcp",
        "https://mcp.example.com:8443/mcp",
        "http://x.unseen.svc/mcp",
    ];
    policy(&urls.map(str::to_owned), &["api.example.com:5000", "*.example.net:5001", "198.51.100.8:5002"])
}

#[test]
fn pods_reach_pods_of_services_that_the_plan_names_and_no_others() {
    let policy = of_every_form();
    let number = |port: u16| json!(port);
    for (end, port, reaches) in [
        (&End::Pod("ns", "app", "up"), number(8080), true),
        (&End::Pod("ns", "app", "up"), number(80), false),
        (&End::Pod("ns", "app", "named"), json!("web"), true),
        (&End::Pod("other", "app", "far"), number(9000), true),
        (&End::Pod("other", "app", "far"), number(9999), false),
        (&End::Pod("ns", "app", "both"), number(8002), true),
        (&End::Pod("ns", "app", "both"), number(8001), false),
        (&End::Pod("ns", "app", "both"), json!("web"), false),
        (&End::Pod("ns", "app", "far"), number(9000), false),
        (&End::Pod("ns", "app", "set"), number(81), true),
        (&End::Pod("ns", "app", "set"), number(8181), true),
        (&End::Pod("unseen", "app", "any"), number(1234), true),
        (&End::Pod("tracing", "app", "any"), number(4317), true),
        (&End::Pod("elsewhere", "app", "any"), number(4317), false),
        (&GATEWAY, number(9090), true),
        (&GATEWAY, number(8081), true),
    ] {
        assert_eq!(allows(&policy, false, end, &port, "TCP"), reaches, "{end:?} {port}");
    }
}

#[test]
fn pods_reach_addresses_that_the_plan_names_and_the_ports_of_names_anywhere() {
    let (policy, outside) = (of_every_form(), End::Outside("203.0.113.1"));
    for (end, port, reaches) in [
        (&outside, 8282, true),
        (&outside, 83, true),
        (&outside, 84, true),
        (&outside, 85, true),
        (&outside, 9000, false),
        (&outside, 9999, false),
        (&outside, 8443, true),
        (&outside, 5000, true),
        (&outside, 5001, true),
        (&outside, 443, true),
        (&outside, 6443, true),
        (&outside, 7000, false),
        (&outside, 5002, false),
        (&outside, 80, false),
        (&End::Outside("198.51.100.7"), 7000, true),
        (&End::Outside("198.51.100.8"), 5002, true),
        (&End::Outside("2001:db8::1"), 443, true),
    ] {
        assert_eq!(allows(&policy, false, end, &json!(port), "TCP"), reaches, "{end:?} {port}");
    }
    assert!(allows(&policy, false, &outside, &json!(53), "UDP") && allows(&policy, false, &outside, &json!(53), "TCP"));
    assert!(!allows(&policy, false, &outside, &json!(443), "UDP"));
}

#[test]
fn too_many_rules_become_ports_that_are_open_to_any_address() {
    let addresses: Vec<_> = (0..300).map(|n| format!("http://198.51.{}.{}:7000/mcp", n / 250, n % 250 + 1)).collect();
    let collapsed = policy(&addresses, &[]);
    let rules = |policy: &NetworkPolicy| policy.spec.as_ref().unwrap().egress.as_ref().unwrap().len();
    assert_eq!(rules(&collapsed), 4, "DNS, the other pods, the collector's namespace, and the rest");
    let outside = End::Outside("203.0.113.1");
    for (port, reaches) in [(1, false), (7000, true), (443, true), (65535, false)] {
        assert_eq!(allows(&collapsed, false, &outside, &json!(port), "TCP"), reaches, "{port}");
    }
    assert!(allows(&collapsed, false, &End::Pod("tracing", "app", "any"), &json!(1), "TCP"));
    let few = policy(&addresses[..100], &[]);
    assert!(rules(&few) > 100 && !allows(&few, false, &outside, &json!(7000), "TCP"));
}

#[test]
fn long_selectors_and_many_ports_stay_within_bounds() {
    let labels: BTreeMap<_, _> = (0..2000).map(|n| (format!("label-{n:04}"), "x".repeat(63))).collect();
    let pods = Peer::Pods("ns".to_owned(), labels);
    let open = [Port::Number(8080)];
    let collapsed = rules(&Peers::from([(pods, open.clone().into())]));
    assert_eq!(collapsed, [json!({"ports": ports(&open.into())})]);
    let named = Peers::from([(
        Peer::Pods("ns".to_owned(), [("k".repeat(MAX_BYTES), String::new())].into()),
        [Port::Name("web".into())].into(),
    )]);
    assert_eq!(rules(&named), [json!({"ports": [{"protocol": "TCP", "port": 1, "endPort": 65535}]})]);
    let many = (1..=u16::MAX).map(Port::Number).collect();
    assert_eq!(rules(&Peers::from([(Peer::Anywhere, many)])).len(), 1);
    assert_eq!(rules(&Peers::from([(Peer::Anywhere, (1..u16::MAX).map(Port::Number).collect())])).len(), 1);
}

#[test]
fn a_proxy_and_the_database_are_reached_as_the_spec_names_them() {
    let postgres = json!({"urlSecretRef": {"name": "s", "key": "url"}, "address": "web.ns:80"});
    let spec = json!({
        "authentication": {"anonymous": {}},
        "history": {"store": {"postgres": postgres}},
        "pod": {"env": [{"name": "HTTPS_PROXY", "value": "http://192.0.2.9:3128"}]},
    });
    let named = |spec: Value| -> Vec<NetworkTarget> {
        of_spec(&serde_json::from_value::<crate::api::gateway::MCPGatewaySpec>(spec).unwrap()).collect()
    };
    let expected =
        ["192.0.2.9:3128", "web.ns:80"].map(|rule| NetworkTarget::of_rule(&EgressRule::parse(rule).unwrap()));
    assert_eq!(named(spec), expected);
    assert_eq!(named(json!({"authentication": {"anonymous": {}}})), []);
}
