//! The NetworkPolicy of a server's pods.

use std::collections::BTreeSet;

use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};

use super::input::ServerInput;
use crate::api::snapshot::GATEWAY_LABEL;
use crate::api::upstream::managed::{Managed, UPSTREAM_LABEL};
use crate::controller::manifest::Manifest;
use crate::controller::workload::{NAMESPACE_NAME, NetworkTarget, Peers, Port, dns, ports, rules};
use crate::domain::egress::EgressRule;
use crate::domain::ids::ObjectKey;

/// The most gateways that are named one by one. If more take an upstream, the pods of every gateway in their namespaces
/// may connect.
const MAX_GATEWAYS: usize = 256;

/// Returns the targets of a server's `egress`.
pub(in crate::controller) fn targets(managed: &Managed) -> BTreeSet<NetworkTarget> {
    let rules = managed.egress.iter().flatten().filter_map(|entry| EgressRule::parse(entry).ok());
    rules.map(|rule| NetworkTarget::of_rule(&rule)).collect()
}

/// Returns the policy of a server to which the pods of `gateways` connect, and which connects to `peers`.
pub(super) fn network_policy(
    input: &ServerInput<'_>,
    gateways: &BTreeSet<ObjectKey>,
    peers: &Peers,
) -> Manifest<NetworkPolicy> {
    let endpoint = BTreeSet::from([Port::Number(input.managed.mcp_port())]);
    // A rule without peers would let everybody in.
    let ingress = (!gateways.is_empty()).then(|| json!([{"from": askers(gateways), "ports": ports(&endpoint)}]));
    let egress: Vec<Value> = [dns()].into_iter().chain(rules(peers)).collect();
    Manifest::from_json(json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": input.owner.metadata(&input.owner.workload(), None),
        "spec": {
            "podSelector": {"matchLabels": {UPSTREAM_LABEL: input.owner.key.name}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    }))
}

fn askers(gateways: &BTreeSet<ObjectKey>) -> Vec<Value> {
    if gateways.len() > MAX_GATEWAYS {
        let any = json!({"matchExpressions": [{"key": GATEWAY_LABEL, "operator": "Exists"}]});
        let namespaces: BTreeSet<_> = gateways.iter().map(|gateway| &gateway.namespace).collect();
        let theirs = json!({"matchExpressions": [{"key": NAMESPACE_NAME, "operator": "In", "values": namespaces}]});
        return vec![json!({"namespaceSelector": theirs, "podSelector": any})];
    }
    let asker = |gateway: &ObjectKey| {
        json!({
            "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: gateway.namespace}},
            "podSelector": {"matchLabels": {GATEWAY_LABEL: gateway.name}},
        })
    };
    gateways.iter().map(asker).collect()
}
