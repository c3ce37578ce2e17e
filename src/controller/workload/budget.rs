//! The PodDisruptionBudget of a gateway's pods.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::json;

use super::input::WorkloadInput;
use crate::api::gateway::pods::DisruptionBudget;
use crate::controller::GATEWAY_LABEL;
use crate::controller::manifest::Manifest;

pub(super) fn budget(input: &WorkloadInput<'_>) -> Manifest<PodDisruptionBudget> {
    let default = || DisruptionBudget { max_unavailable: Some(1), ..DisruptionBudget::default() };
    let DisruptionBudget { min_available, max_unavailable } =
        input.spec.disruption_budget.clone().unwrap_or_else(default);
    Manifest::from_json(json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": input.owner.metadata(&input.owner.workload(), None),
        "spec": {
            "selector": {"matchLabels": {GATEWAY_LABEL: input.owner.key.name}},
            "minAvailable": min_available,
            "maxUnavailable": max_unavailable,
            // A pod that is not ready serves nobody, and must not keep a node from being drained.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }))
}
