//! The Service through which clients reach a gateway.

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::input::WorkloadInput;
use crate::api::gateway::inbound::ServiceType;
use crate::controller::GATEWAY_LABEL;
use crate::controller::manifest::Manifest;
use crate::controller::owner::{Owner, workload};
use crate::domain::plan::ListenerPlan;

/// Returns the Service. It has a port for each listener, and does not expose the admin port.
pub(super) fn service(input: &WorkloadInput<'_>) -> Manifest<Service> {
    let name = input.owner.workload();
    let written = input.spec.service.clone().unwrap_or_default();
    let mut metadata = input.owner.metadata(&name, None);
    metadata.annotations = written.annotations.filter(|annotations| !annotations.is_empty());
    let ports: Vec<_> = input.listeners.iter().map(port).collect();
    Manifest::from_json(json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "type": type_name(written.r#type),
            "selector": {GATEWAY_LABEL: input.owner.key.name},
            "ports": ports,
            "sessionAffinity": "None",
        },
    }))
}

fn port(listener: &ListenerPlan) -> Value {
    json!({"name": listener.name, "port": listener.port, "protocol": "TCP", "targetPort": listener.port})
}

fn type_name(written: Option<ServiceType>) -> &'static str {
    match written {
        None | Some(ServiceType::ClusterIP) => "ClusterIP",
        Some(ServiceType::NodePort) => "NodePort",
        Some(ServiceType::LoadBalancer) => "LoadBalancer",
    }
}

/// Returns the URLs at which a gateway's endpoints can be reached through its Service.
pub(in crate::controller) fn addresses(owner: &Owner, listeners: &[ListenerPlan]) -> Vec<String> {
    let host = format!("{}.{}.svc", workload(&owner.key.name), owner.key.namespace);
    // A listener with a refusal is not opened.
    let open = listeners.iter().filter(|listener| listener.refusing.is_none());
    let scheme = |listener: &ListenerPlan| if listener.tls.is_some() { "https" } else { "http" };
    open.map(|listener| format!("{}://{host}:{}{}", scheme(listener), listener.port, listener.path)).collect()
}
