//! The containers of a server's pod.

use serde_json::{Value, json};

use super::input::ServerInput;
use super::volumes::{BRIDGE, BRIDGE_DIR, mounts};
use crate::api::upstream::managed::{BRIDGE_PORT, BRIDGE_PORT_NAME};
use crate::api::upstream::process::ProcessSession;
use crate::controller::pod_parts::variable;
use crate::controller::workload::{is_port_name, written_resources};

/// The name of the container of a server whose spec has no `containerName`.
const NAME: &str = "server";
/// The bridge in the gateway's image.
const BRIDGE_IN_IMAGE: &str = "/usr/local/bin/hawsepipe-bridge";
/// Default time in milliseconds after which an unused session's process is ended.
const IDLE_MS: u32 = 300_000;
/// The longest time in seconds that the bridge keeps an unused session. Also used where the spec says never: sessions of
/// gateways' pods that are gone would fill the bridge otherwise.
const LONGEST_IDLE: u32 = 86_400;
/// How often a container is probed while it starts, in seconds, and how often in vain until it is restarted: 5 minutes.
const STARTING: (u32, u32) = (2, 150);

pub(super) fn container(input: &ServerInput<'_>) -> Value {
    let managed = input.managed;
    let probe = |(period, failures): (u32, u32)| {
        let mut probe = handler(input);
        probe["periodSeconds"] = period.into();
        probe["timeoutSeconds"] = period.min(5).into();
        probe["failureThreshold"] = failures.into();
        probe
    };
    json!({
        "name": managed.container_name.as_deref().unwrap_or(NAME),
        "image": managed.image,
        "imagePullPolicy": managed.image_pull_policy,
        "command": command(input),
        "args": managed.args,
        "env": managed.env.iter().flatten().map(variable).collect::<Vec<_>>(),
        "ports": ports(input),
        "resources": managed.resources.clone().map(written_resources),
        "startupProbe": probe(STARTING),
        "livenessProbe": probe((10, 3)),
        "readinessProbe": probe((5, 2)),
        // The root is writable: many images write beside their code, and nothing here can mend an image that does.
        "securityContext": restricted(),
        "volumeMounts": mounts(input),
    })
}

/// Returns the init container that copies the bridge from the gateway's image into a volume.
pub(super) fn bridge_copy(input: &ServerInput<'_>) -> Value {
    let mut security = restricted();
    security["readOnlyRootFilesystem"] = true.into();
    json!({
        "name": "bridge-copy",
        "image": input.pods.image,
        "imagePullPolicy": input.pods.pull_policy.to_string(),
        "command": [BRIDGE_IN_IMAGE, "--install", format!("{BRIDGE_DIR}/bridge")],
        // Init containers run before the others, so that the pod as a whole requests no more.
        "resources": input.managed.resources.clone().map(written_resources),
        "securityContext": security,
        "volumeMounts": [{"name": BRIDGE, "mountPath": BRIDGE_DIR}],
    })
}

/// Returns what the Pod Security Standard `restricted` demands of a container.
fn restricted() -> Value {
    json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}})
}

/// Returns the command. The bridge starts the server's own command; Kubernetes appends the arguments.
fn command(input: &ServerInput<'_>) -> Vec<String> {
    let written = input.managed.command.iter().flatten().cloned();
    if !input.is_stdio() {
        return written.collect();
    }
    let session = match input.managed.session {
        None | Some(ProcessSession::PerSession) => "PerSession",
        Some(ProcessSession::Shared) => "Shared",
    };
    let idle = input.spec.timeouts.as_ref().and_then(|timeouts| timeouts.idle_ms).unwrap_or(IDLE_MS);
    // Without `--listen`, it listens on `BRIDGE_PORT`, over IPv6 and IPv4 as far as the node has them.
    let bridge = [
        format!("{BRIDGE_DIR}/bridge"),
        format!("--path={}", input.managed.mcp_path()),
        format!("--session={session}"),
        format!("--idle-seconds={}", if idle == 0 { LONGEST_IDLE } else { idle.div_ceil(1000).min(LONGEST_IDLE) }),
        "--".to_owned(),
    ];
    bridge.into_iter().chain(written).collect()
}

fn handler(input: &ServerInput<'_>) -> Value {
    if input.is_stdio() {
        json!({"httpGet": {"path": "/healthz", "port": BRIDGE_PORT_NAME}})
    } else {
        json!({"tcpSocket": {"port": input.managed.mcp_port()}})
    }
}

/// Returns the container's ports. A port has its name, if a container's port can have it.
fn ports(input: &ServerInput<'_>) -> Vec<Value> {
    let port = |name: &str, port: u16| {
        let name = Some(name).filter(|name| is_port_name(name));
        json!({"name": name, "containerPort": port, "protocol": "TCP"})
    };
    let bridge = input.is_stdio().then(|| port(BRIDGE_PORT_NAME, BRIDGE_PORT));
    let declared = input.managed.ports.iter().flatten().map(|declared| port(&declared.name, declared.port));
    bridge.into_iter().chain(declared).collect()
}
