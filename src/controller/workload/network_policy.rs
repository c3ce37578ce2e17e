//! The NetworkPolicy of a gateway's pods.

mod target;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};

use self::target::Peer;
pub(in crate::controller) use self::target::{FindService, NetworkTarget, Peers, Port, Resolver, of_spec, targets};
use super::input::WorkloadInput;
use crate::controller::GATEWAY_LABEL;
use crate::controller::manifest::Manifest;

/// The most rules for what pods connect to.
const MAX_RULES: usize = 256;
/// Their most bytes: tenants write the selectors of Services.
const MAX_BYTES: usize = 128 << 10;
/// The most ports that are open to any address one by one.
const MAX_PORTS: usize = 256;
/// The ports of API servers. A NetworkPolicy cannot select the API server, and its address is not known.
const API_SERVER: [u16; 4] = [443, 6443, 8443, 16443];
/// The ports of DNS servers. The pods of OpenShift's DNS Service listen on 5353.
const DNS: [u16; 2] = [53, 5353];
/// The label with the name of a namespace.
pub(in crate::controller) const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Returns the policy of a gateway whose pods connect to `peers`.
pub(super) fn network_policy(input: &WorkloadInput<'_>, mut peers: Peers) -> Manifest<NetworkPolicy> {
    let own = json!({"podSelector": {"matchLabels": {GATEWAY_LABEL: input.owner.key.name}}});
    let listeners: BTreeSet<_> = input.listeners.iter().map(|listener| Port::Number(listener.port)).collect();
    let admin = Port::Number(input.admin_port());
    let inside: BTreeSet<_> = listeners.iter().cloned().chain([admin.clone()]).collect();
    let operator = input.settings.operator.split('/').next().unwrap_or_default();
    let askers = json!([
        {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: operator}}},
        {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}},
    ]);
    let mut egress = vec![dns(), json!({"to": [own], "ports": ports(&inside)})];
    peers.entry(Peer::Anywhere).or_default().extend(API_SERVER.map(Port::Number));
    egress.extend(rules(&peers));
    Manifest::from_json(json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": input.owner.metadata(&input.owner.workload(), None),
        "spec": {
            "podSelector": own["podSelector"],
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"ports": ports(&listeners)},
                {"from": [own], "ports": ports(&inside)},
                {"from": askers, "ports": ports(&[admin].into())},
            ],
            "egress": egress,
        },
    }))
}

/// Returns the rule that opens the ports of DNS servers.
pub(in crate::controller) fn dns() -> Value {
    let ports = DNS.iter().flat_map(|port| ["UDP", "TCP"].map(|protocol| json!({"protocol": protocol, "port": port})));
    json!({"ports": ports.collect::<Vec<_>>()})
}

/// Returns a rule for each peer. If these are too many or too large, the ports of all peers whose ports are numbers are
/// open to any address. If even that is too much, all ports are.
pub(in crate::controller) fn rules(peers: &Peers) -> Vec<Value> {
    if let Some(rules) = rules_within_bounds(peers) {
        return rules;
    }
    let is_number = |port: &Port| matches!(port, Port::Number(_));
    let by_number = |open: &BTreeSet<Port>| !open.is_empty() && open.iter().all(is_number);
    let (merged, mut others): (Peers, Peers) = peers.clone().into_iter().partition(|(_, open)| by_number(open));
    others.insert(Peer::Anywhere, merged.into_values().flatten().collect());
    let everything = || vec![json!({"ports": [{"protocol": "TCP", "port": 1, "endPort": u16::MAX}]})];
    rules_within_bounds(&others).unwrap_or_else(everything)
}

/// Returns a rule for each peer; `None` if these are too many or too large.
fn rules_within_bounds(peers: &Peers) -> Option<Vec<Value>> {
    let many_ports = peers.get(&Peer::Anywhere).is_some_and(|anywhere| anywhere.len() > MAX_PORTS);
    if many_ports || peers.len() > MAX_RULES {
        return None;
    }
    let rules: Vec<_> = peers.iter().map(|(peer, open)| rule(peer, open)).collect();
    let bytes: usize = rules.iter().map(|rule| rule.to_string().len()).sum();
    (bytes <= MAX_BYTES).then_some(rules)
}

fn rule(peer: &Peer, open: &BTreeSet<Port>) -> Value {
    let mut rule = json!({});
    if let Some(to) = selector(peer) {
        rule["to"] = json!([to]);
    }
    if !open.is_empty() {
        rule["ports"] = ports(open);
    }
    rule
}

fn selector(peer: &Peer) -> Option<Value> {
    let namespace = |name: &str| json!({"matchLabels": {NAMESPACE_NAME: name}});
    match peer {
        Peer::Pods(name, labels) => {
            Some(json!({"namespaceSelector": namespace(name), "podSelector": {"matchLabels": labels}}))
        }
        Peer::Namespace(name) => Some(json!({"namespaceSelector": namespace(name)})),
        Peer::Address(address) => {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            Some(json!({"ipBlock": {"cidr": format!("{address}/{bits}")}}))
        }
        Peer::Anywhere => None,
    }
}

pub(in crate::controller) fn ports(open: &BTreeSet<Port>) -> Value {
    let port = |port: &Port| match port {
        Port::Number(number) => json!({"protocol": "TCP", "port": number}),
        Port::Name(name) => json!({"protocol": "TCP", "port": name}),
    };
    open.iter().map(port).collect()
}
