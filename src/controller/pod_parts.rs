//! Parts of pods that users write: environment variables and volumes.

use serde_json::{Value, json};

use crate::api::shared::EnvVar;
use crate::api::upstream::managed::Volume;

/// Returns the variable. An empty value is left out, because the API server would drop it.
pub(super) fn variable(written: &EnvVar) -> Value {
    let value = written.value.as_ref().filter(|value| !value.is_empty());
    json!({"name": written.name, "value": value, "valueFrom": written.value_from})
}

/// Returns the volume.
pub(super) fn volume(written: &Volume) -> Value {
    let Volume { name, mount_path: _, read_only, persistent_volume_claim, empty_dir, secret, config_map, image } =
        written;
    // The group of a claim's files is not changed if the claim itself is read-only.
    let read_only = read_only.filter(|read_only| *read_only);
    let claim = persistent_volume_claim.as_ref();
    json!({
        "name": name,
        "persistentVolumeClaim": claim.map(|claim| json!({"claimName": claim.claim_name, "readOnly": read_only})),
        "emptyDir": empty_dir,
        "secret": secret,
        "configMap": config_map,
        "image": image,
    })
}

/// Returns the place where the volume is mounted.
pub(super) fn mount(written: &Volume) -> Value {
    let read_only = written.read_only.filter(|read_only| *read_only);
    json!({"name": written.name, "mountPath": written.mount_path, "readOnly": read_only})
}
