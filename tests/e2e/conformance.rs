//! The official conformance suite of MCP through a gateway of two pods: each request goes to the other pod than the one
//! before it. What may be lost is what the tests without a cluster may lose.

#![allow(dead_code)] // The tests without a cluster use the rest.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::commands::{checkout, get, is_ready, kubectl, on_node, try_run, until};

#[path = "../it/conformance/baseline.rs"]
mod baseline;
#[path = "../it/conformance/checks.rs"]
mod checks;
#[path = "../it/conformance/compared.rs"]
mod compared;
#[path = "../it/conformance/program.rs"]
mod program;
#[path = "../it/conformance/suite.rs"]
mod suite;

/// The namespace of the gateway.
const NAMESPACE: &str = "conformance";
/// The address of the node, where pods find what runs beside them.
pub const NODE: &str = "10.99.0.1";
/// The fewest calls that each pod has had at the end, of some 100 in all.
const LEAST_CALLS: u64 = 20;

/// A command of the suite's, beside the gateways.
fn command(program: &Path) -> tokio::process::Command {
    on_node(program).into()
}

/// A program on the node that ends with its value, and that prints its URL first.
struct Announced(Child, String);

impl Announced {
    fn start(program: &Path, arguments: &[String]) -> Self {
        let mut child = on_node(program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        Self(child, said["url"].as_str().unwrap().to_owned())
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn through_two_pods() {
    let server = Announced::start(&program::fixture_program(), &["server-at".into(), NODE.into()]);
    let manifests = std::fs::read_to_string(checkout().join("tests/e2e/manifests/conformance.yaml")).unwrap();
    let manifests = manifests.replace("@URL@", &server.1.replace("localhost", NODE));
    try_run("kubectl", &["apply", "-f", "-"], &manifests).unwrap();
    for object in ["mcpgateway/suite", "mcpupstream/legacy", "mcpupstream/modern"] {
        kubectl(&["wait", "-n", NAMESPACE, object, "--for=condition=Ready", "--timeout=180s"]);
    }
    let pods = until("both pods of the gateway are ready", two_pods);
    let origins: Vec<_> = pods.iter().map(|(_, ip)| format!("http://{ip}:8080")).collect();
    let script = checkout().join("tests/conformance/spread.mjs").display().to_string();
    let spread = Announced::start(Path::new("node"), &[&[script], &origins[..]].concat());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        for revision in ["2025-11-25", "2026-07-28"] {
            let direct = compared::Direct::of(revision, &server.1).await;
            for era in ["Legacy", "Modern"] {
                direct.held_against(era, "", &format!("{}/{}/mcp", spread.1, era.to_lowercase())).await;
            }
        }
    });
    for (pod, _) in &pods {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}:9090/proxy/metrics");
        let calls = compared::calls(&kubectl(&["get", "--raw", &path]));
        println!("{pod}: {calls} calls");
        assert!(calls >= LEAST_CALLS, "one pod had nearly all calls");
    }
    kubectl(&["delete", "namespace", NAMESPACE, "--timeout=180s"]);
}

/// The names of the gateway's pods and their addresses, once there are two and both are ready.
fn two_pods() -> Result<Vec<(String, String)>, String> {
    let pods = get(&["pods", "-n", NAMESPACE, "-l", "hawsepipe.dev/gateway=suite"]);
    let pods = pods["items"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = pods
        .iter()
        .filter(|pod| is_ready(pod))
        .map(|pod| (text(&pod["metadata"]["name"]), text(&pod["status"]["podIP"])));
    let found: Vec<_> = found.collect();
    if found.len() == 2 { Ok(found) } else { Err(format!("{found:?} of {}", pods.len())) }
}
