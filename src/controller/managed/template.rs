//! The template of a server's pods, within the Pod Security Standard `restricted`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::container::{bridge_copy, container};
use super::health::TEMPLATE;
use super::input::ServerInput;
use super::volumes::volumes;
use crate::api::canonical;
use crate::api::upstream::managed::UPSTREAM_LABEL;
use crate::controller::MANAGED_BY;
use crate::controller::strip::strip;
use crate::controller::workload::{not_empty, sysctls, written_annotations, written_labels};
use crate::domain::digest::sha256_hex;

/// The user id, and the group of mounted files, of a server whose spec has no `pod.runAsUser`, unless the cluster
/// assigns them.
const USER: u32 = 65532;
/// Number of hexadecimal characters of a template's digest.
const DIGITS: usize = 16;

/// Returns the template and its digest. Pods carry the digest, so that pods of an older template are known.
pub(super) fn template(input: &ServerInput<'_>) -> (Value, String) {
    let pod = input.managed.pod.clone().unwrap_or_default();
    let mut labels = written_labels(pod.labels.clone());
    for (key, value) in [(UPSTREAM_LABEL, input.owner.key.name.as_str()), MANAGED_BY] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    let mut annotations = written_annotations(pod.annotations.clone());
    annotations.remove(TEMPLATE);
    let mut template = json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec(input)});
    strip(&mut template);
    let mut digest = sha256_hex(canonical(&template).to_string().as_bytes());
    digest.truncate(DIGITS);
    template["metadata"]["annotations"][TEMPLATE] = digest.clone().into();
    (template, digest)
}

fn spec(input: &ServerInput<'_>) -> Value {
    let pod = input.managed.pod.clone().unwrap_or_default();
    let own_account = || input.owner.workload();
    let group = (!input.pods.assigned_ids).then_some(USER);
    let user = pod.run_as_user.or(group);
    json!({
        "serviceAccountName": input.written_account().map_or_else(own_account, Into::into),
        // The server calls no API server, whoever it runs as.
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": user,
            "runAsGroup": user,
            "fsGroup": group,
            // The files of a large volume are not visited at each start.
            "fsGroupChangePolicy": group.map(|_| "OnRootMismatch"),
            "seccompProfile": {"type": "RuntimeDefault"},
            "sysctls": sysctls(input.managed.ports.iter().flatten().map(|declared| declared.port)),
        },
        "imagePullSecrets": pull_secrets(input),
        "nodeSelector": not_empty(pod.node_selector),
        "tolerations": pod.tolerations,
        "affinity": pod.affinity,
        "topologySpreadConstraints": pod.topology_spread_constraints,
        "priorityClassName": pod.priority_class_name.filter(|name| !name.is_empty()),
        "runtimeClassName": pod.runtime_class_name.filter(|name| !name.is_empty()),
        "initContainers": input.is_stdio().then(|| json!([bridge_copy(input)])),
        "containers": [container(input)],
        "volumes": volumes(input),
    })
}

/// Returns the Secrets for pulling images, each once.
fn pull_secrets(input: &ServerInput<'_>) -> Vec<Value> {
    let of_pod = input.managed.pod.iter().filter_map(|pod| pod.image_pull_secrets.as_ref());
    let all = input.managed.image_pull_secrets.iter().chain(of_pod).flatten();
    let names: BTreeSet<_> = all.map(|secret| &secret.name).collect();
    names.into_iter().map(|name| json!({"name": name})).collect()
}
