//! The gateway container.

use serde_json::{Value, json};

use super::volumes::{API_KEYS_DIR, SECRETS_DIR, STATE_DIR, mounts};
use crate::api::gateway::pods::GatewayPod;
use crate::api::shared::{EnvVar, Resources};
use crate::controller::pod_parts::variable;
use crate::controller::workload::input::WorkloadInput;

/// The name of the admin port. The operator polls the port with this name for reports.
const ADMIN: &str = "admin";
/// Maximum number of characters of a container port's name.
const MAX_PORT_NAME: usize = 15;

/// Returns the container. `drain` is the number of seconds that running calls have to end.
pub(super) fn container(input: &WorkloadInput<'_>, drain: u32, written: GatewayPod) -> Value {
    let probe = |path: &str, period: u32, failures: u32| {
        json!({
            "httpGet": {"path": path, "port": ADMIN},
            "periodSeconds": period,
            "timeoutSeconds": period.min(5),
            "failureThreshold": failures,
        })
    };
    json!({
        "name": "gateway",
        "image": input.settings.pods.image,
        "imagePullPolicy": input.settings.pods.pull_policy.to_string(),
        "args": args(input, drain),
        "env": env(written.env),
        "envFrom": written.env_from,
        "ports": ports(input),
        "resources": written.resources.map_or_else(default_resources, written_resources),
        // A pod that waits for its first plan counts as started but not as ready, because a restart would not help.
        "startupProbe": probe("/healthz", 1, 60),
        "livenessProbe": probe("/healthz", 10, 3),
        "readinessProbe": probe("/readyz", 2, 2),
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
        },
        // The gateway writes the error with which it ends. Its log has what plugins, servers and clients say, and more
        // people may read a status.
        "terminationMessagePolicy": "File",
        "volumeMounts": mounts(input),
    })
}

fn env(written: Option<Vec<EnvVar>>) -> Vec<Value> {
    // Other pods of the gateway forward requests to this address.
    let own = json!({"name": "HAWSEPIPE_GATEWAY_ADVERTISE", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}});
    [own].into_iter().chain(written.iter().flatten().map(variable)).collect()
}

fn args(input: &WorkloadInput<'_>, drain: u32) -> Vec<String> {
    let key = &input.owner.key;
    let mut args = vec![
        "gateway".to_owned(),
        format!("--name={}", key.name),
        format!("--namespace={}", key.namespace),
        format!("--operator={}", input.settings.operator),
        format!("--admin=:{}", input.admin_port()),
        format!("--drain-seconds={drain}"),
        format!("--state-dir={STATE_DIR}"),
    ];
    let (secret, key) = &input.seal_key;
    args.push(format!("--secrets-dir={SECRETS_DIR}"));
    if !input.api_keys.is_empty() {
        args.push(format!("--api-keys-dir={API_KEYS_DIR}"));
    }
    args.push(format!("--seal-key-file={SECRETS_DIR}/{secret}/{key}"));
    args
}

/// Returns the container's ports. The port of a listener has the listener's name, if a port can have this name.
fn ports(input: &WorkloadInput<'_>) -> Vec<Value> {
    let named = |name: Option<&str>, port: u16| json!({"name": name, "containerPort": port, "protocol": "TCP"});
    let listeners = input.listeners.iter().map(|listener| {
        let name = Some(listener.name.as_str()).filter(|name| is_port_name(name) && *name != ADMIN);
        named(name, listener.port)
    });
    listeners.chain([named(Some(ADMIN), input.admin_port())]).collect()
}

/// Whether a container port can have this name (RFC 6335). The caller passes the name of a listener, which is always a
/// DNS label.
pub(in crate::controller) fn is_port_name(name: &str) -> bool {
    name.len() <= MAX_PORT_NAME && name.contains(|c: char| c.is_ascii_lowercase()) && !name.contains("--")
}

pub(in crate::controller) fn written_resources(written: Resources) -> Value {
    json!({
        "requests": written.requests.filter(|map| !map.is_empty()),
        "limits": written.limits.filter(|map| !map.is_empty()),
    })
}

/// Returns the default resources. They have no CPU limit, because throttling would cause timeouts of plugins.
fn default_resources() -> Value {
    json!({"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}})
}
