//! The Service through which gateways reach a server.

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::input::ServerInput;
use crate::api::upstream::behaviour::Era;
use crate::api::upstream::managed::{BRIDGE_PORT, BRIDGE_PORT_NAME, UPSTREAM_LABEL};
use crate::controller::manifest::Manifest;

pub(super) fn service(input: &ServerInput<'_>) -> Manifest<Service> {
    let port = |name: &str, port: u16| json!({"name": name, "port": port, "protocol": "TCP", "targetPort": port});
    let bridge = input.is_stdio().then(|| port(BRIDGE_PORT_NAME, BRIDGE_PORT));
    let declared = input.managed.ports.iter().flatten().map(|declared| port(&declared.name, declared.port));
    let ports: Vec<Value> = bridge.into_iter().chain(declared).collect();
    Manifest::from_json(json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": input.owner.metadata(&input.owner.workload(), None),
        "spec": {
            "type": "ClusterIP",
            "selector": {UPSTREAM_LABEL: input.owner.key.name},
            "ports": ports,
            "sessionAffinity": if has_sessions(input) { "ClientIP" } else { "None" },
        },
    }))
}

/// Whether sessions live in the server's pods, so that a gateway's pod must reach the same one again. Servers of the
/// modern era have none.
fn has_sessions(input: &ServerInput<'_>) -> bool {
    let era = input.spec.protocol.as_ref().and_then(|protocol| protocol.era);
    input.is_stdio() || era != Some(Era::Modern)
}
