//! The HorizontalPodAutoscaler of a gateway's pods.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::json;

use super::input::WorkloadInput;
use crate::api::gateway::pods::Autoscaling;
use crate::controller::manifest::Manifest;

/// Default target for the CPU utilization of the pods, in percent of their requests.
const TARGET_PERCENT: u32 = 70;

/// Returns the autoscaler; `None` if the gateway's spec does not ask for one.
pub(super) fn autoscaler(input: &WorkloadInput<'_>) -> Option<Manifest<HorizontalPodAutoscaler>> {
    let written = input.spec.autoscaling.as_ref()?;
    let percent = written.target_cpu_utilization_percentage.unwrap_or(TARGET_PERCENT);
    let name = input.owner.workload();
    Some(Manifest::from_json(json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": input.owner.metadata(&name, None),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": least(written),
            "maxReplicas": written.max_replicas,
            "metrics": [{
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
            }],
        },
    })))
}

/// Returns the lowest number of pods.
pub(super) fn least(written: &Autoscaling) -> u32 {
    written.min_replicas.unwrap_or(1)
}
