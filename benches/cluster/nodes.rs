//! Simulated nodes (kwok), on which pods become ready at once and nothing runs, and a scheduler of a few lines.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, PostParams};
use kube::core::Status;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use crate::harness::{Cluster, checkout};

const NODES: usize = 10;
/// How many pods are bound concurrently.
const AT_ONCE: usize = 16;
/// The pause between two looks for pods without a node.
const PAUSE: Duration = Duration::from_millis(100);

/// Starts nodes for the pods of a namespace, which end with the control plane. The scheduler ends with the value.
///
/// # Panics
/// If kwok is not installed, or does not start.
pub async fn start(cluster: &Cluster, namespace: &str) -> AbortOnDropHandle<()> {
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
    let stages = format!("--config={}", installed("stages.yaml").display());
    let arguments = ["--manage-all-nodes", "--node-lease-duration-seconds=40", &kubeconfig, &stages];
    cluster.plane().run_beside("kwok", &installed("kwok"), &arguments);
    let client = cluster.admin().await;
    let nodes: Api<Node> = Api::all(client.clone());
    for n in 0..NODES {
        let node = json!({"metadata": {"name": format!("node-{n}")}, "spec": {"podCIDR": format!("10.244.{n}.0/24")}});
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    }
    AbortOnDropHandle::new(tokio::spawn(schedule(client, namespace.to_owned())))
}

/// Returns a file of kwok.
fn installed(name: &str) -> PathBuf {
    let file = checkout().join(".cache/kwok").join(name);
    assert!(file.is_file(), "{} is not there: run `.ci/setup.sh kwok`, which builds it with Go", file.display());
    file
}

/// Gives each new pod of a namespace a node.
async fn schedule(client: Client, namespace: String) {
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    let mut next = 0;
    loop {
        let waiting = pods.list(&ListParams::default().fields("spec.nodeName=")).await.unwrap();
        let bindings = waiting.items.into_iter().map(|pod| {
            next += 1;
            bind(pods.clone(), pod.name_any(), format!("node-{}", next % NODES))
        });
        stream::iter(bindings).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn bind(pods: Api<Pod>, pod: String, node: String) {
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
    // A pod that was deleted meanwhile needs none.
    let _: Result<Status, _> = pods.create_subresource("binding", &pod, &PostParams::default(), &binding).await;
}
