//! The Deployment of a gateway's pods.

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

use super::autoscaler::least;
use super::input::WorkloadInput;
use super::template::template;
use crate::controller::GATEWAY_LABEL;
use crate::controller::manifest::Manifest;

/// Number of pods of a gateway whose spec has neither `replicas` nor `autoscaling`.
const REPLICAS: u32 = 2;

/// Returns the Deployment. With `autoscaling`, its number of pods is that of a new Deployment; see
/// [`with_live_count`](crate::controller::scale::with_live_count) for an existing one.
pub(super) fn deployment(input: &WorkloadInput<'_>) -> Manifest<Deployment> {
    let replicas = input.spec.replicas.or_else(|| input.spec.autoscaling.as_ref().map(least)).unwrap_or(REPLICAS);
    Manifest::from_json(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": input.owner.metadata(&input.owner.workload(), None),
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": {GATEWAY_LABEL: input.owner.key.name}},
            // An old pod ends only once a new one is ready.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
            "template": template(input),
        },
    }))
}
