//! The template of a gateway's pods, within the Pod Security Standard `restricted`.

mod container;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use self::container::container;
pub(in crate::controller) use self::container::{is_port_name, written_resources};
use self::volumes::volumes;
use super::input::WorkloadInput;
use crate::api::gateway::pods::GatewayPod;
use crate::api::shared::LocalRef;
use crate::controller::{GATEWAY_LABEL, MANAGED_BY};

/// The user id and the group id of the gateway's processes, as in the image, unless the cluster assigns others.
const USER: u32 = 65532;
/// The start of the operator's own labels.
const OWN_LABELS: &str = "hawsepipe.dev/";
/// Default number of seconds that a pod has to end.
const GRACE_SECONDS: u32 = 60;
/// The part of these seconds that is reserved for the gateway to end after its last call.
const END_SECONDS: u32 = 5;
/// The lowest port on which every user can listen.
const UNPRIVILEGED: u16 = 1024;

pub(super) fn template(input: &WorkloadInput<'_>) -> Value {
    let pod = input.spec.pod.clone().unwrap_or_default();
    let mut labels = written_labels(pod.labels.clone());
    for (key, value) in [(GATEWAY_LABEL, input.owner.key.name.as_str()), MANAGED_BY] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    let annotations = not_empty(Some(written_annotations(pod.annotations.clone())));
    json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec(input, pod)})
}

fn spec(input: &WorkloadInput<'_>, pod: GatewayPod) -> Value {
    let grace = pod.termination_grace_period_seconds.unwrap_or(GRACE_SECONDS);
    json!({
        "serviceAccountName": input.owner.workload(),
        // A projected volume contains the token, so no other token is mounted.
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": security(input),
        "terminationGracePeriodSeconds": grace,
        "topologySpreadConstraints": spread(input, &pod),
        "nodeSelector": not_empty(pod.node_selector.clone()),
        "tolerations": pod.tolerations,
        "affinity": pod.affinity,
        "priorityClassName": pod.priority_class_name.as_ref().filter(|name| !name.is_empty()),
        "runtimeClassName": pod.runtime_class_name.as_ref().filter(|name| !name.is_empty()),
        "imagePullSecrets": pull_secrets(input, pod.image_pull_secrets.clone()),
        "containers": [container(input, grace.saturating_sub(END_SECONDS), pod)],
        "volumes": volumes(input),
    })
}

/// Returns the labels that users give to pods, without those that would put a pod into the Service or the NetworkPolicy
/// of something else.
pub(in crate::controller) fn written_labels(written: Option<BTreeMap<String, String>>) -> BTreeMap<String, String> {
    written.into_iter().flatten().filter(|(key, _)| !key.starts_with(OWN_LABELS)).collect()
}

/// Returns the annotations that users give to pods, without those that would take a container out of the Pod Security
/// Standard `restricted`.
pub(in crate::controller) fn written_annotations(
    written: Option<BTreeMap<String, String>>,
) -> BTreeMap<String, String> {
    let of_apparmor = |key: &str| key.starts_with("container.apparmor.security.beta.kubernetes.io/");
    let confines = |profile: &str| profile == "runtime/default" || profile.starts_with("localhost/");
    written.into_iter().flatten().filter(|(key, profile)| !of_apparmor(key) || confines(profile)).collect()
}

/// Returns the sysctl that lets a user other than root listen on `ports`, if that needs one.
pub(in crate::controller) fn sysctls(mut ports: impl Iterator<Item = u16>) -> Option<Value> {
    let privileged = ports.any(|port| port < UNPRIVILEGED);
    privileged.then(|| json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]))
}

/// Returns the map unless it is empty. The operator would own an empty map, and the API server would drop it.
pub(in crate::controller) fn not_empty(map: Option<BTreeMap<String, String>>) -> Option<BTreeMap<String, String>> {
    map.filter(|map| !map.is_empty())
}

/// Returns the Secrets that the spec names for pulling images, then those that plugins name. Returns `None` if there is no
/// list, which is not the same as an empty one.
fn pull_secrets(input: &WorkloadInput<'_>, written: Option<Vec<LocalRef>>) -> Option<Vec<LocalRef>> {
    let of_images: BTreeSet<_> = input.images.iter().flat_map(|image| &image.pull_secrets).collect();
    let named = |name: &str| written.iter().flatten().any(|secret| secret.name == name);
    let more: Vec<_> =
        of_images.into_iter().filter(|name| !named(name)).map(|name| LocalRef { name: name.clone() }).collect();
    if more.is_empty() { written } else { Some(written.into_iter().flatten().chain(more).collect()) }
}

fn security(input: &WorkloadInput<'_>) -> Value {
    let ports = input.listeners.iter().map(|listener| listener.port).chain([input.admin_port()]);
    let id = (!input.settings.pods.assigned_ids).then_some(USER);
    json!({
        "runAsNonRoot": true,
        "runAsUser": id,
        "runAsGroup": id,
        "fsGroup": id,
        "seccompProfile": {"type": "RuntimeDefault"},
        "sysctls": sysctls(ports),
    })
}

/// Returns the spec's constraints, even if the list is empty. If the spec has no list, pods are spread over nodes and
/// zones as far as possible.
fn spread(input: &WorkloadInput<'_>, pod: &GatewayPod) -> Value {
    if let Some(written) = &pod.topology_spread_constraints {
        return json!(written);
    }
    let over = |topology: &str| {
        json!({
            "topologyKey": topology,
            "maxSkew": 1,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {GATEWAY_LABEL: input.owner.key.name}},
            // Pods of an older template do not count during a rollout.
            "matchLabelKeys": ["pod-template-hash"],
        })
    };
    json!([over("kubernetes.io/hostname"), over("topology.kubernetes.io/zone")])
}
