//! The objects of a managed upstream's server: what should exist, and how its pods are. Pure functions.

mod container;
mod health;
mod input;
mod network_policy;
mod service;
mod template;
#[cfg(test)]
mod tests;
mod volumes;
mod workload;

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::json;

pub(super) use self::health::{WantedPods, has_same_health, keep_health, run};
pub(super) use self::input::ServerInput;
pub(super) use self::network_policy::targets;
use super::manifest::Manifest;
use super::workload::Peers;
use crate::domain::ids::ObjectKey;

/// The resources of the objects in [`DesiredServer`].
pub(super) const OWNED: [&str; 5] = ["serviceaccounts", "networkpolicies", "services", "deployments", "statefulsets"];

/// The objects that should exist for a server. If one is `None`, an existing object is deleted, provided that it belongs
/// to the upstream.
#[derive(Default)]
pub(super) struct DesiredServer {
    pub(super) account: Option<Manifest<ServiceAccount>>,
    pub(super) network_policy: Option<Manifest<NetworkPolicy>>,
    pub(super) service: Option<Manifest<Service>>,
    pub(super) deployment: Option<Manifest<Deployment>>,
    pub(super) stateful_set: Option<Manifest<StatefulSet>>,
    /// The pods that should run; `None` if the upstream has no server.
    pub(super) pods: Option<WantedPods>,
}

impl DesiredServer {
    /// Returns the objects of a server to which the pods of `gateways` connect, and which connects to `peers`.
    pub(super) fn of(input: &ServerInput<'_>, gateways: &BTreeSet<ObjectKey>, peers: &Peers) -> Self {
        let account = || {
            let metadata = input.owner.metadata(&input.owner.workload(), None);
            Manifest::from_json(json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": false,
            }))
        };
        let (pods, template) = workload::pods(input);
        let is_stateful = workload::is_stateful(input);
        Self {
            account: input.written_account().is_none().then(account),
            network_policy: Some(network_policy::network_policy(input, gateways, peers)),
            service: Some(service::service(input)),
            deployment: (!is_stateful).then(|| workload::deployment(input, &pods, &template)),
            stateful_set: is_stateful.then(|| workload::stateful_set(input, &pods, &template)),
            pods: Some(pods),
        }
    }
}
