//! The volumes of a server's pod, and where they are mounted.

use serde_json::{Value, json};

use super::input::ServerInput;
use crate::api::upstream::managed::Volume;

/// The volume with the bridge.
pub(super) const BRIDGE: &str = "hawsepipe";
/// Where the bridge is mounted.
pub(super) const BRIDGE_DIR: &str = "/hawsepipe";
/// The volume at [`TMP_DIR`] of a server whose spec mounts none there.
const TMP: &str = "hawsepipe-tmp";
const TMP_DIR: &str = "/tmp";

pub(super) fn volumes(input: &ServerInput<'_>) -> Vec<Value> {
    let empty = |name: &str| json!({"name": name, "emptyDir": {}});
    let own = [(has_tmp(input), TMP), (input.is_stdio(), BRIDGE)];
    let own = own.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, name)| empty(name));
    input.managed.volumes.iter().flatten().map(volume).chain(own).collect()
}

pub(super) fn mounts(input: &ServerInput<'_>) -> Vec<Value> {
    let mount = |name: &str, path: &str, is_read_only: bool| json!({"name": name, "mountPath": path, "readOnly": is_read_only.then_some(true)});
    let written = input.managed.volumes.iter().flatten();
    let written = written.map(|volume| mount(&volume.name, &volume.mount_path, volume.read_only == Some(true)));
    let tmp = has_tmp(input).then(|| mount(TMP, TMP_DIR, false));
    let bridge = input.is_stdio().then(|| mount(BRIDGE, BRIDGE_DIR, true));
    written.chain(tmp).chain(bridge).collect()
}

/// Whether the pod needs a folder for temporary files: an image can be without one that its user can write to.
fn has_tmp(input: &ServerInput<'_>) -> bool {
    !input.managed.volumes.iter().flatten().any(|volume| volume.mount_path() == TMP_DIR)
}

fn volume(written: &Volume) -> Value {
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
