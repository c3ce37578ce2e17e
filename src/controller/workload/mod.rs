//! The Deployment of a gateway's pods, and the objects that belong to it. Pure functions, except for [`Workloads`].

mod autoscaler;
mod budget;
mod deployment;
mod input;
mod network_policy;
mod route;
mod secrets;
mod service;
mod settings;
mod template;
#[cfg(test)]
mod tests;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

pub(super) use self::input::{WorkloadInput, listeners};
pub(super) use self::network_policy::{
    FindService, NAMESPACE_NAME, NetworkTarget, Peers, Port, Resolver, dns, of_spec, ports, rules, targets,
};
pub(super) use self::route::{HTTPRoute, without_timeouts};
pub(super) use self::service::addresses;
pub use self::settings::{ImagePullPolicy, PodSettings};
pub(super) use self::settings::{WorkloadSettings, Workloads};
pub(super) use self::template::{
    is_port_name, not_empty, sysctls, written_annotations, written_labels, written_resources,
};
use super::manifest::Manifest;

/// The objects of a gateway's pods. If one is `None`, it should not exist.
pub(super) struct Workload {
    pub(super) service: Option<Manifest<Service>>,
    pub(super) deployment: Option<Manifest<Deployment>>,
    pub(super) budget: Option<Manifest<PodDisruptionBudget>>,
    pub(super) autoscaler: Option<Manifest<HorizontalPodAutoscaler>>,
    pub(super) route: Option<Manifest<HTTPRoute>>,
    /// An error leaves it as it is, and says why.
    pub(super) network_policy: Result<Option<Manifest<NetworkPolicy>>, String>,
    /// Whether the pods need the Secret that the operator creates for sealing session ids.
    pub(super) seals: bool,
}

impl Workload {
    /// Returns the workload of a gateway whose pods connect to `peers`: `None` if it has no NetworkPolicy, an error if
    /// they are not known.
    pub(super) fn of(input: &WorkloadInput<'_>, peers: Result<Option<Peers>, String>) -> Self {
        Self {
            service: Some(service::service(input)),
            deployment: Some(deployment::deployment(input)),
            budget: Some(budget::budget(input)),
            autoscaler: autoscaler::autoscaler(input),
            route: route::route(input),
            network_policy: peers.map(|peers| peers.map(|peers| network_policy::network_policy(input, peers))),
            seals: input.seals(),
        }
    }
}
