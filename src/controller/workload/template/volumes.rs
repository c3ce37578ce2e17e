//! The volumes of a gateway's pod, and where they are mounted.

use serde::Serialize;
use serde_json::{Value, json};

use crate::api::gateway::runtime::PluginDirFrom;
use crate::api::upstream::managed::Volume;
use crate::controller::pod_parts::{mount, volume};
use crate::controller::workload::input::WorkloadInput;

/// Where Secrets are mounted: a file `NAME/KEY` for each key.
pub(super) const SECRETS_DIR: &str = "/run/secrets/hawsepipe";
/// Where Secrets with API keys of clients are mounted: a file `NAME/SUBJECT` for each key.
pub(super) const API_KEYS_DIR: &str = "/run/secrets/hawsepipe-api-keys";
/// Where the gateway stores its last good plan.
pub(super) const STATE_DIR: &str = "/var/lib/hawsepipe";
/// Where clients of the API server look for their token.
const TOKEN_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Number of seconds for which a token of the service account is valid. The kubelet renews it.
const TOKEN_SECONDS: u32 = 3607;
/// File mode: readable by owner and group only.
const GROUP_READABLE: u32 = 0o440;

pub(super) fn volumes(input: &WorkloadInput<'_>) -> Vec<Value> {
    let mut volumes = vec![
        json!({"name": "state", "emptyDir": {}}),
        json!({"name": "tmp", "emptyDir": {}}),
        json!({"name": "api-access", "projected": {"defaultMode": GROUP_READABLE, "sources": api_access()}}),
    ];
    let projected = json!({"defaultMode": GROUP_READABLE, "sources": secrets(input)});
    volumes.push(json!({"name": "secrets", "projected": projected}));
    volumes.extend(input.api_keys.iter().enumerate().map(|(at, secret)| {
        let source = json!({"secretName": secret, "optional": true, "defaultMode": GROUP_READABLE});
        json!({"name": format!("api-keys-{at}"), "secret": source})
    }));
    volumes.extend(plugin_dir(input));
    volumes.extend(written(input).map(volume));
    volumes
        .extend(input.images.iter().map(|image| image_volume(&image.volume(), &image.reference, &image.pull_policy)));
    volumes
}

pub(super) fn mounts(input: &WorkloadInput<'_>) -> Vec<Value> {
    let read_only = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    let mut mounts = vec![
        json!({"name": "state", "mountPath": STATE_DIR}),
        json!({"name": "tmp", "mountPath": "/tmp"}),
        read_only("api-access", TOKEN_DIR),
    ];
    mounts.push(read_only("secrets", SECRETS_DIR));
    let api_keys = input.api_keys.iter().enumerate();
    mounts
        .extend(api_keys.map(|(at, secret)| read_only(&format!("api-keys-{at}"), &format!("{API_KEYS_DIR}/{secret}"))));
    if plugin_dir(input).is_some() {
        mounts.push(read_only("plugins", &input.plugin_dir.to_string_lossy()));
    }
    mounts.extend(written(input).map(mount));
    mounts.extend(input.images.iter().map(|image| read_only(&image.volume(), &image.folder().to_string_lossy())));
    mounts
}

/// Returns the volumes that the spec adds.
fn written<'a>(input: &WorkloadInput<'a>) -> impl Iterator<Item = &'a Volume> {
    input.spec.pod.iter().filter_map(|pod| pod.volumes.as_ref()).flatten()
}

fn image_volume(name: &str, reference: &str, pull_policy: &impl Serialize) -> Value {
    json!({"name": name, "image": {"reference": reference, "pullPolicy": pull_policy}})
}

/// Returns the files that clients of the API server read in a pod. They are the same files that Kubernetes mounts
/// automatically.
fn api_access() -> Value {
    let namespace = json!({"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}});
    json!([
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ])
}

/// Returns the sources of the volume with Secrets. Missing Secrets and keys do not keep a pod from starting, because
/// the gateway reports them.
fn secrets(input: &WorkloadInput<'_>) -> Vec<Value> {
    let keys: Vec<_> = input.secrets.iter().collect();
    let of_one_secret = keys.chunk_by(|(a, _), (b, _)| a == b);
    let source = |keys: &[&(String, String)]| {
        let items: Vec<_> =
            keys.iter().map(|(name, key)| json!({"key": key, "path": format!("{name}/{key}")})).collect();
        keys.first().map(|(name, _)| json!({"secret": {"name": name, "optional": true, "items": items}}))
    };
    of_one_secret.filter_map(source).collect()
}

/// Returns the volume with plugins, if the image's own plugins are not used.
fn plugin_dir(input: &WorkloadInput<'_>) -> Option<Value> {
    let from = input.spec.plugins.as_ref()?.plugin_dir_from.as_ref()?;
    let PluginDirFrom { image, config_map_ref, claim_ref } = from;
    let image = image.as_ref().map(|image| image_volume("plugins", &image.reference, &image.pull_policy));
    let config_map = config_map_ref.as_ref().map(|map| json!({"name": "plugins", "configMap": {"name": map.name}}));
    let claim = claim_ref
        .as_ref()
        .map(|claim| json!({"name": "plugins", "persistentVolumeClaim": {"claimName": claim.name, "readOnly": true}}));
    image.or(config_map).or(claim)
}
