//! The volumes of a server's pod, and where they are mounted.

use serde_json::{Value, json};

use super::input::ServerInput;
use crate::controller::pod_parts::{mount, volume};

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
    let written = input.managed.volumes.iter().flatten().map(mount);
    let tmp = has_tmp(input).then(|| json!({"name": TMP, "mountPath": TMP_DIR}));
    let bridge = input.is_stdio().then(|| json!({"name": BRIDGE, "mountPath": BRIDGE_DIR, "readOnly": true}));
    written.chain(tmp).chain(bridge).collect()
}

/// Whether the pod needs a folder for temporary files: an image can be without one that its user can write to.
fn has_tmp(input: &ServerInput<'_>) -> bool {
    !input.managed.volumes.iter().flatten().any(|volume| volume.mount_path() == TMP_DIR)
}
