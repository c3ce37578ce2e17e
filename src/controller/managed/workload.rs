//! The Deployment or StatefulSet of a server's pods.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use serde_json::{Value, json};

use super::health::WantedPods;
use super::input::ServerInput;
use super::template::template;
use crate::api::upstream::managed::{ManagedTransport, UPSTREAM_LABEL};
use crate::api::upstream::process::ProcessSession;
use crate::controller::manifest::Manifest;

/// Whether the server needs a StatefulSet: its pods hold the processes of sessions, so that one is replaced only after it
/// has ended, or they share a volume that can often be mounted only once.
pub(super) fn is_stateful(input: &ServerInput<'_>) -> bool {
    let has_claim = input.managed.volumes.iter().flatten().any(|volume| volume.persistent_volume_claim.is_some());
    let is_shared = input.managed.session == Some(ProcessSession::Shared);
    has_claim || input.managed.transport() == ManagedTransport::Stdio && !is_shared
}

/// Returns the pods that should run, and their template.
pub(super) fn pods(input: &ServerInput<'_>) -> (WantedPods, Value) {
    let is_enabled = input.spec.enabled != Some(false);
    let replicas = if is_enabled { input.managed.replicas.unwrap_or(1) } else { 0 };
    let (template, revision) = template(input);
    let kind = if is_stateful(input) { "StatefulSet" } else { "Deployment" };
    (WantedPods { kind, name: input.owner.workload(), replicas, template: revision }, template)
}

pub(super) fn deployment(input: &ServerInput<'_>, pods: &WantedPods, template: &Value) -> Manifest<Deployment> {
    Manifest::from_json(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": input.owner.metadata(&pods.name, None),
        "spec": {
            "replicas": pods.replicas,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": {UPSTREAM_LABEL: input.owner.key.name}},
            // An old pod ends only once a new one is ready.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
            "template": template,
        },
    }))
}

pub(super) fn stateful_set(input: &ServerInput<'_>, pods: &WantedPods, template: &Value) -> Manifest<StatefulSet> {
    Manifest::from_json(json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": input.owner.metadata(&pods.name, None),
        "spec": {
            "replicas": pods.replicas,
            "revisionHistoryLimit": 3,
            "serviceName": pods.name,
            // Pods do not wait for each other: one that never becomes ready must not keep its correction from being
            // rolled out.
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {UPSTREAM_LABEL: input.owner.key.name}},
            "template": template,
        },
    }))
}
