//! Pods of a gateway that do not start. The controller manager makes Pod objects; no kubelet runs, so the test plays it.

use serde_json::{Value, json};

use super::harness::{Operated, condition, object};
use super::workload::IMAGE;
use crate::harness::{Cluster, until};

/// A gateway with one pod of its Deployment, and this annotation on it.
fn gateway(note: &str) -> Value {
    object(
        "MCPGateway",
        "main",
        &json!({"authentication": {"anonymous": {}}, "replicas": 1, "pod": {"annotations": {"note": note}}}),
    )
}

impl Operated<'_> {
    /// Waits until the Deployment's pod of this template is there, and has its container wait as a kubelet would.
    async fn fail_pod(&self, note: &str, reason: &str, message: &str) -> String {
        let pod = until("the Deployment's pod is there", async || {
            let pods = self.get(&["pods", "-l", "hawsepipe.dev/gateway=main,pod-template-hash", "-o", "json"]).await;
            let pods: Value = serde_json::from_str(&pods).unwrap();
            let mut living = pods["items"].as_array().unwrap().iter();
            let found = living.find(|pod| pod["metadata"]["annotations"]["note"] == note)?;
            Some(found["metadata"]["name"].as_str().unwrap().to_owned())
        })
        .await;
        self.container_waits(&pod, "gateway", reason, message).await;
        pod
    }

    /// Waits until the condition is not there.
    async fn until_without(&self, name: &str) {
        until(&format!("the gateway has no {name}"), async || {
            let status = self.object("mcpgateways", "main").await["status"].clone();
            condition(&status, name).is_none().then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn pods_of_a_gateway_that_do_not_start_are_told_in_their_own_words() {
    let operated = Operated::with(Cluster::shared().await, &[], &[IMAGE]).await;
    operated.apply(&[gateway("one")]).await;
    let first = operated.fail_pod("one", "ImagePullBackOff", "Back-off pulling image").await;
    let words = format!("pod {first}: container gateway: ImagePullBackOff: Back-off pulling image");
    until("that none is ready is told with the pull's failure", async || {
        let status = operated.object("mcpgateways", "main").await["status"].clone();
        let (is, message) = condition(&status, "Ready")?;
        (is == "False NoReadyPods" && message.ends_with(&words)).then_some(())
    })
    .await;

    // One that is ready serves on.
    let _served = operated.serve("main", &[]).await;
    let message = operated.until_condition("mcpgateways", "main", "PartiallyInvalid", "True WorkloadNotReady").await;
    assert!(message.ends_with(&words), "{message}");
    operated.until_condition("mcpgateways", "main", "Ready", "True Ready").await;
    operated.until_event("MCPGateway", "main", "Warning WorkloadNotReady").await;

    // Kubernetes gives the rollout up, and its words are told too.
    let soon = r#"{"spec": {"progressDeadlineSeconds": 1}}"#;
    operated.kubectl(&["patch", "deployment", "main-gateway", "--type=merge", "-p", soon]).await;
    let message = operated.until_condition("mcpgateways", "main", "Ready", "False WorkloadNotReady").await;
    assert!(
        message.contains(&words) && message.contains("Deployment main-gateway: ProgressDeadlineExceeded"),
        "{message}"
    );

    // The next template's pod is not known to fail, and has its time.
    let later = r#"{"spec": {"progressDeadlineSeconds": 600}}"#;
    operated.kubectl(&["patch", "deployment", "main-gateway", "--type=merge", "-p", later]).await;
    operated.apply(&[gateway("two")]).await;
    operated.kubectl(&["delete", "pod", &first, "--force", "--grace-period=0"]).await;
    operated.until_without("PartiallyInvalid").await;
    operated.until_condition("mcpgateways", "main", "Ready", "True Ready").await;
    operated.fail_pod("two", "CrashLoopBackOff", "back-off 10s").await;
    operated.until_condition("mcpgateways", "main", "PartiallyInvalid", "True WorkloadNotReady").await;
}
