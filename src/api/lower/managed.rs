//! Lowers the server of a managed upstream, and finds settings that exclude each other.

use std::collections::BTreeSet;

use crate::api::upstream::managed::{BRIDGE_PORT, BRIDGE_PORT_NAME, Managed, ManagedTransport, Volume};
use crate::config::input::ManagedInput;
use crate::domain::egress::EgressRule;

/// The folder in which the bridge is mounted.
const BRIDGE_FOLDER: &str = "/hawsepipe";
/// The start of the names of the operator's own volumes.
const RESERVED: &str = "hawsepipe";

pub(super) fn managed(server: &Managed) -> ManagedInput {
    ManagedInput { port: server.mcp_port(), path: server.mcp_path().to_owned(), fault: fault(server) }
}

/// Returns the first field that cannot be served as it is, with a message.
fn fault(server: &Managed) -> Option<(String, String)> {
    let of_stdio = || (server.transport() == ManagedTransport::Stdio).then(|| stdio(server)).flatten();
    of_stdio().or_else(|| twice(server)).or_else(|| volumes(server)).or_else(|| egress(server))
}

fn stdio(server: &Managed) -> Option<(String, String)> {
    if server.command.as_ref().is_none_or(Vec::is_empty) {
        let message = format!(
            "transport Stdio needs the command of the server, because a bridge takes the place of the image's entry \
             point; what the image starts says `docker inspect -f '{{{{json .Config.Entrypoint}}}}{{{{json \
             .Config.Cmd}}}}' {}`",
            server.image
        );
        return Some(("spec.managed.command".to_owned(), message));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._~".contains(c);
    if server.mcp_path() == "/healthz" || !server.mcp_path().chars().all(is_plain) {
        let message = "with transport Stdio, a path has only letters, digits and -._~/, and /healthz is the bridge's";
        return Some(("spec.managed.path".to_owned(), message.to_owned()));
    }
    let mut ports = server.ports.iter().flatten().enumerate();
    let (place, _) = ports.find(|(_, port)| port.port == BRIDGE_PORT || port.name == BRIDGE_PORT_NAME)?;
    let message = format!(
        "with transport Stdio, port {BRIDGE_PORT} and the name {BRIDGE_PORT_NAME} are the bridge's: give another number \
         and name, or take the port out"
    );
    Some((format!("spec.managed.ports[{place}]"), message))
}

/// Returns the first port number that two ports have.
fn twice(server: &Managed) -> Option<(String, String)> {
    let mut seen = BTreeSet::new();
    let (place, port) = server.ports.iter().flatten().enumerate().find(|(_, port)| !seen.insert(port.port))?;
    let message = format!("another port has the number {} already; give each port its own", port.port);
    Some((format!("spec.managed.ports[{place}].port"), message))
}

fn volumes(server: &Managed) -> Option<(String, String)> {
    let volumes = || server.volumes.iter().flatten().enumerate();
    if let Some((place, _)) = volumes().find(|(_, volume)| volume.name.starts_with(RESERVED)) {
        let message = format!("names that start with `{RESERVED}` are the operator's: give another");
        return Some((format!("spec.managed.volumes[{place}].name"), message));
    }
    let covers_bridge = |volume: &Volume| {
        let path = volume.mount_path();
        path == BRIDGE_FOLDER || path.starts_with(&format!("{BRIDGE_FOLDER}/"))
    };
    let is_stdio = server.transport() == ManagedTransport::Stdio;
    let (place, _) = volumes().find(|(_, volume)| is_stdio && covers_bridge(volume))?;
    let message = format!("with transport Stdio, the bridge is in {BRIDGE_FOLDER}: mount the volume elsewhere");
    Some((format!("spec.managed.volumes[{place}].mountPath"), message))
}

fn egress(server: &Managed) -> Option<(String, String)> {
    let entries = server.egress.iter().flatten().enumerate();
    let mut wrong = entries.filter_map(|(place, entry)| Some((place, EgressRule::parse(entry).err()?)));
    wrong.next().map(|(place, message)| (format!("spec.managed.egress[{place}]"), message))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn lowered(mut spec: Value) -> ManagedInput {
        spec["image"] = json!("registry.example.com/server:1");
        managed(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn the_endpoint_is_that_of_the_named_port_or_of_the_bridge() {
        let ports = json!([{"name": "metrics", "port": 9100}, {"name": "http", "port": 3001}]);
        let http = |port: Value| json!({"transport": "StreamableHTTP", "ports": ports, "port": port, "path": "/x"});
        let endpoint = |spec: Value| {
            let found = lowered(spec);
            assert_eq!(found.fault, None);
            (found.port, found.path)
        };
        assert_eq!(endpoint(http(json!("http"))), (3001, "/x".to_owned()));
        assert_eq!(endpoint(http(Value::Null)), (9100, "/x".to_owned()));
        assert_eq!(endpoint(json!({"command": ["serve"], "ports": ports})), (8080, "/mcp".to_owned()));
    }

    #[test]
    fn settings_that_exclude_each_other_are_told() {
        let http = |member: &str, value: Value| {
            let ports = json!([{"name": "http", "port": 80}]);
            let mut spec = json!({"transport": "StreamableHTTP", "ports": ports});
            spec[member] = value;
            spec
        };
        let stdio = |member: &str, value: Value| json!({"command": ["serve"], member: value});
        let volume = |name: &str, path: &str| json!([{"name": name, "mountPath": path, "emptyDir": {}}]);
        let twice = json!([{"name": "a", "port": 80}, {"name": "b", "port": 80}]);
        for (spec, field) in [
            (json!({}), "command"),
            (json!({"command": []}), "command"),
            (stdio("ports", json!([{"name": "http", "port": 8080}])), "ports[0]"),
            (stdio("ports", json!([{"name": "mcp", "port": 1}])), "ports[0]"),
            (stdio("path", json!("/healthz")), "path"),
            (stdio("path", json!("/a%20b")), "path"),
            (http("ports", twice), "ports[1].port"),
            (http("volumes", volume("hawsepipe", "/x")), "volumes[0].name"),
            (stdio("volumes", volume("x", "/hawsepipe/")), "volumes[0].mountPath"),
            (stdio("volumes", volume("x", "/hawsepipe/bridge")), "volumes[0].mountPath"),
            (http("egress", json!(["example.com:0"])), "egress[0]"),
        ] {
            let found = lowered(spec.clone()).fault.map(|(field, _)| field);
            assert_eq!(found, Some(format!("spec.managed.{field}")), "{spec}");
        }
        for spec in [
            http("path", json!("/healthz")),
            http("volumes", volume("x", "/hawsepipe")),
            http("ports", json!([{"name": "mcp", "port": 8080}])),
            stdio("volumes", volume("x", "/hawsepipes")),
            stdio("egress", json!(["*.example.com:443"])),
        ] {
            assert_eq!(lowered(spec.clone()).fault, None, "{spec}");
        }
        let (_, message) = lowered(json!({})).fault.unwrap();
        let command =
            "`docker inspect -f '{{json .Config.Entrypoint}}{{json .Config.Cmd}}' registry.example.com/server:1`";
        assert!(message.ends_with(command), "{message}");
    }
}
