//! Objects are edited while the client calls plain tools and a pipeline.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::client;
use super::commands::{MCP, checkout, get, kubectl, on_node, try_run, until};
use super::conformance::NODE;
use super::replacing::gateway_settled;

/// How many edits of other objects are made.
const EDITS: usize = 10;
/// Objects that no call of the client is about; `@` is the number of the edit.
const OTHER: &str = r"
apiVersion: hawsepipe.dev/v1alpha1
kind: Plugin
metadata: {name: other, namespace: mcp}
spec: {source: {inline: 'export default (input) => ({ text: input.text, continue: true }); // @'}}
---
apiVersion: hawsepipe.dev/v1alpha1
kind: PluginChain
metadata: {name: other, namespace: mcp}
spec: {phase: Request, upstreams: {names: [other]}, tools: {exclude: ['none-@']}, entries: [{name: other}]}
---
apiVersion: hawsepipe.dev/v1alpha1
kind: MCPUpstream
metadata: {name: other, namespace: mcp}
spec: {external: {url: 'http://everything-mcp.mcp.svc:3001/mcp'}, tools: {exclude: ['none-@']}}
";

fn patch(object: &str, spec: &Value) {
    let patch = json!({"spec": spec}).to_string();
    kubectl(&["patch", object, "-n", MCP, "--type=merge", "-p", &patch]);
}

fn wait_for(object: &str, condition: &str) {
    kubectl(&["wait", "-n", MCP, object, &format!("--for={condition}"), "--timeout=180s"]);
}

/// Waits until every ready pod of the gateway runs the newest form of an object.
fn in_force(object: &str) {
    until("the edit is in force", || {
        let found = get(&[object, "-n", MCP]);
        let programmed = found["status"]["conditions"].as_array().into_iter().flatten().any(|condition| {
            condition["type"] == "Programmed"
                && condition["status"] == "True"
                && condition["observedGeneration"] == found["metadata"]["generation"]
        });
        programmed.then_some(()).ok_or_else(|| found["status"].to_string())
    });
}

pub fn other_objects() {
    let before = client::answered();
    for edit in 0..EDITS {
        try_run("kubectl", &["apply", "-f", "-"], &OTHER.replace('@', &edit.to_string())).unwrap();
        for object in ["plugin/other", "pluginchain/other", "mcpupstream/other"] {
            in_force(object);
        }
    }
    client::no_call_failed(before);
    kubectl(&["delete", "-n", MCP, "pluginchain/other", "plugin/other", "mcpupstream/other"]);
    client::no_call_failed(client::answered());
}

/// A header of a running upstream comes from a Secret that no pod has mounted.
pub fn a_secret_header() {
    let before = client::answered();
    kubectl(&["create", "secret", "generic", "sums", "-n", MCP, "--from-literal=key=sesame"]);
    let header = json!([{"name": "X-Key", "valueFrom": {"secretKeyRef": {"name": "sums", "key": "key"}}}]);
    patch("mcpupstream/sums", &json!({"external": {"headers": header}}));
    in_force("mcpupstream/sums");
    gateway_settled();
    client::no_call_failed(before);
}

/// PostgreSQL on the node, and its URL.
struct Postgres(Child, String);

impl Postgres {
    fn start() -> Self {
        let mut command = on_node(&checkout().join(".cache/venv/bin/python"));
        command.arg(checkout().join("tests/fixtures/postgres.py")).arg(NODE);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        Self(child, url.trim().to_owned())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A gateway gets a store and has to store each call there, in one edit; later it has neither.
pub fn a_store() {
    let postgres = Postgres::start();
    let before = client::answered();
    let url = format!("--from-literal=url={}", postgres.1);
    kubectl(&["create", "secret", "generic", "history", "-n", MCP, &url]);
    let address = postgres.1.split(['@', '/']).nth(3).unwrap();
    let store = json!({"urlSecretRef": {"name": "history", "key": "url"}, "address": address});
    patch("mcpgateway/main", &json!({"history": {"store": {"postgres": store}}, "audit": {"mode": "Required"}}));
    in_force("mcpgateway/main");
    gateway_settled();
    wait_for("mcpgateway/main", "condition=Ready");
    client::no_call_failed(before);

    let before = client::answered();
    patch("mcpgateway/main", &json!({"history": null, "audit": null}));
    in_force("mcpgateway/main");
    gateway_settled();
    client::no_call_failed(before);
}

/// An older revision is pinned, and then the newest runs again.
pub fn a_pin() {
    let before = client::answered();
    let gateway = || get(&["mcpgateway/main", "-n", MCP]);
    let revision = || gateway()["status"]["snapshot"]["revision"].as_str().unwrap_or_default().to_owned();
    let older = revision();
    patch("mcpupstream/sums", &json!({"tools": {"exclude": ["nothing-*"]}}));
    in_force("mcpupstream/sums");
    patch("mcpgateway/main", &json!({"pinnedRevision": older}));
    until("the pinned revision runs", || (revision() == older).then_some(()).ok_or_else(revision));
    wait_for("mcpupstream/sums", "jsonpath={.status.conditions[?(@.type==\"Ready\")].reason}=Pinned");
    client::no_call_failed(before);

    let before = client::answered();
    patch("mcpgateway/main", &json!({"pinnedRevision": null}));
    in_force("mcpupstream/sums");
    wait_for("mcpgateway/main", "condition=Ready");
    client::no_call_failed(before);
}
