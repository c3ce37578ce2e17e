//! Pods are replaced while the client calls.

use serde_json::{Value, json};

use super::client;
use super::commands::{MCP, SYSTEM, get, helm, is_ready, kubectl, try_run, until};

const GATEWAY: &str = "deployment/main-gateway";
const OPERATOR: &str = "deployment/hawsepipe-operator";
const GATEWAY_PODS: &str = "hawsepipe.dev/gateway=main";
const OPERATOR_PODS: &str = "app.kubernetes.io/component=operator";
/// How often a pod of the gateway is restarted.
const RESTARTS: usize = 20;

/// Names of the pods that the selector finds, the oldest first, once there are two and both are ready: none starts or ends
/// any more.
fn settled(namespace: &str, selector: &str) -> Vec<String> {
    until("two pods are ready and the others gone", || {
        let pods = get(&["pods", "-n", namespace, "-l", selector, "--sort-by=.metadata.creationTimestamp"]);
        let pods = pods["items"].as_array().unwrap();
        let names: Vec<_> = pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        match pods.len() == 2 && pods.iter().all(is_ready) {
            true => Ok(names),
            false => Err(format!("{names:?}")),
        }
    })
}

/// Waits until the gateway's Deployment is rolled out.
pub fn gateway_settled() {
    rolled_out(MCP, GATEWAY, GATEWAY_PODS, |_| true);
}

/// Waits until a Deployment's template is as expected and only pods of it are there.
fn rolled_out(namespace: &str, deployment: &str, selector: &str, expected: impl Fn(&Value) -> bool) {
    until("the template is the new one", || {
        let template = &get(&[deployment, "-n", namespace])["spec"]["template"];
        expected(template).then_some(()).ok_or_else(|| template.to_string())
    });
    kubectl(&["rollout", "status", deployment, "-n", namespace, "--timeout=300s"]);
    settled(namespace, selector);
}

fn has_image(template: &Value, image: &str) -> bool {
    template["spec"]["containers"][0]["image"] == image
}

fn both_have_image(image: &str) {
    rolled_out(SYSTEM, OPERATOR, OPERATOR_PODS, |template| has_image(template, image));
    rolled_out(MCP, GATEWAY, GATEWAY_PODS, |template| has_image(template, image));
}

pub fn a_new_template() {
    let before = client::answered();
    let patch = json!({"spec": {"pod": {"annotations": {"example.com/round": "2"}}}}).to_string();
    kubectl(&["patch", "mcpgateway/main", "-n", MCP, "--type=merge", "-p", &patch]);
    rolled_out(MCP, GATEWAY, GATEWAY_PODS, |template| template["metadata"]["annotations"]["example.com/round"] == "2");
    client::no_call_failed(before);
}

pub fn a_new_image() {
    let before = client::answered();
    let set = ["--reset-then-reuse-values", "--set", "image.tag=e2e-next", "--wait", "--timeout=5m"];
    helm(&[&["upgrade", "hawsepipe", "charts/hawsepipe", "-n", SYSTEM][..], &set].concat());
    both_have_image("hawsepipe:e2e-next");
    client::no_call_failed(before);
}

/// Evicts each pod that runs now, as draining a node does: where the disruption budget refuses it, it is tried again.
pub fn evictions() {
    let before = client::answered();
    for pod in settled(MCP, GATEWAY_PODS) {
        let path = format!("/api/v1/namespaces/{MCP}/pods/{pod}/eviction");
        let metadata = json!({"name": pod, "namespace": MCP});
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}).to_string();
        until("the eviction is granted", || try_run("kubectl", &["create", "--raw", &path, "-f", "-"], &eviction));
    }
    settled(MCP, GATEWAY_PODS);
    client::no_call_failed(before);
}

pub fn the_operator() {
    let before = client::answered();
    kubectl(&["rollout", "restart", OPERATOR, "-n", SYSTEM]);
    rolled_out(SYSTEM, OPERATOR, OPERATOR_PODS, |_| true);
    client::no_call_failed(before);
}

pub fn restarts() {
    for _ in 0..RESTARTS {
        let before = client::answered();
        let pods = settled(MCP, GATEWAY_PODS);
        kubectl(&["delete", "pod", &pods[0], "-n", MCP]);
        settled(MCP, GATEWAY_PODS);
        client::no_call_failed(before);
    }
}

pub fn rollback() {
    let before = client::answered();
    helm(&["rollback", "hawsepipe", "1", "-n", SYSTEM, "--wait", "--timeout=5m"]);
    both_have_image("hawsepipe:e2e");
    client::no_call_failed(before);
}
