//! Commands in the node's network namespace.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a condition may take. It is only reached by a run that fails.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often a condition is asked for.
const AGAIN: Duration = Duration::from_millis(250);
/// The namespace of the operator.
pub const SYSTEM: &str = "hawsepipe-system";
/// The namespace of the gateway.
pub const MCP: &str = "mcp";

pub fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program in the network of the node.
pub fn on_node(program: &Path) -> Command {
    let mut command = Command::new(checkout().join("tests/e2e/node/node.sh"));
    command.arg("run").arg(program).current_dir(checkout());
    command
}

/// Runs a program on the node with this input, and returns its output.
///
/// # Errors
/// With its output, if it does not succeed.
pub fn try_run(program: &str, arguments: &[&str], input: &str) -> Result<String, String> {
    let mut command = on_node(Path::new(program));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("node.sh starts");
    // The pipe holds what the tests write.
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let [said, complained] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    match output.status.success() {
        true => Ok(said),
        false => Err(format!("{program} {}: {}\n{said}{complained}", arguments.join(" "), output.status)),
    }
}

/// Runs kubectl, which must succeed.
pub fn kubectl(arguments: &[&str]) -> String {
    try_run("kubectl", arguments, "").unwrap_or_else(|failure| panic!("{failure}"))
}

/// What kubectl gets, as JSON.
pub fn get(arguments: &[&str]) -> Value {
    serde_json::from_str(&kubectl(&[&["get", "-o", "json"], arguments].concat())).expect("kubectl prints JSON")
}

/// Whether the pod that kubectl got is ready.
pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

/// Applies a file of `manifests/`.
pub fn apply(file: &str) {
    kubectl(&["apply", "-f", &format!("tests/e2e/manifests/{file}")]);
}

/// Runs Helm, which must succeed.
pub fn helm(arguments: &[&str]) -> String {
    let helm: PathBuf = checkout().join(".cache/helm/v4/helm");
    try_run(&helm.to_string_lossy(), arguments, "").unwrap_or_else(|failure| panic!("{failure}"))
}

/// Tries until it succeeds, and returns what it has then.
pub fn until<T>(what: &str, attempt: impl Fn() -> Result<T, String>) -> T {
    let started = Instant::now();
    loop {
        match attempt() {
            Ok(found) => return found,
            Err(why) if started.elapsed() > PATIENCE => panic!("{what}, after {PATIENCE:?}: {why}"),
            Err(_) => sleep(AGAIN),
        }
    }
}

/// Prints what helps to see why a step failed.
pub fn tell_what_is_there() {
    let asked: [&[&str]; 5] = [
        &["get", "pods,deployments,services,mcpgateways,mcpupstreams", "-A", "-o", "wide"],
        &["get", "events", "-A", "--sort-by=.lastTimestamp"],
        &["logs", "-n", SYSTEM, "-l", "app.kubernetes.io/component=operator", "--tail=40", "--prefix"],
        &["logs", "-n", MCP, "-l", "hawsepipe.dev/gateway", "--tail=40", "--prefix"],
        &["logs", "-n", MCP, "client", "--tail=20"],
    ];
    for arguments in asked {
        println!("$ kubectl {}", arguments.join(" "));
        println!("{}", try_run("kubectl", arguments, "").unwrap_or_else(|failure| failure));
    }
}
