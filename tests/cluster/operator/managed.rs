//! Servers of managed upstreams: the operator makes their objects. The controller manager makes Pod objects; no kubelet
//! runs, so the test plays it.

use hawsepipe::domain::plan::TransportPlan;
use serde_json::{Value, json};

use super::harness::{Operated, condition, gateway, object};
use super::snapshots::plan;
use super::workload::IMAGE;
use crate::harness::{Cluster, until};

/// A server on stdio with a member of each kind that a pod has.
pub fn files() -> Value {
    json!({
        "image": "registry.example.com/files:1", "imagePullPolicy": "IfNotPresent", "imagePullSecrets": [{"name": "pull"}],
        "containerName": "files", "command": ["serve"], "args": ["/data"], "replicas": 2,
        "env": [{"name": "LEVEL", "value": "warn"}, {"name": "EMPTY", "value": ""},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "files", "key": "token"}}},
            {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "files", "key": "mode"}}}],
        "ports": [{"name": "metrics", "port": 9100}],
        "volumes": [{"name": "data", "mountPath": "/data", "readOnly": true, "persistentVolumeClaim": {"claimName": "docs"}},
            {"name": "scratch", "mountPath": "/tmp", "emptyDir": {"sizeLimit": "64Mi"}},
            {"name": "keys", "mountPath": "/keys", "secret": {"secretName": "files"}},
            {"name": "settings", "mountPath": "/settings", "configMap": {"name": "files"}}],
        "resources": {"requests": {"cpu": "0.05", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "serviceAccountName": "", "egress": ["api.example.com:443"],
        "pod": {"nodeSelector": {}, "tolerations": [{"key": "k", "operator": "Exists"}], "runtimeClassName": "",
            "labels": {"team": "a"}, "annotations": {"note": "b"}, "runAsUser": 1000},
    })
}

/// A server that listens itself.
pub fn everything() -> Value {
    json!({"image": "registry.example.com/everything:1", "transport": "StreamableHTTP",
        "ports": [{"name": "mcp", "port": 3001}, {"name": "metrics", "port": 9100}], "port": "mcp"})
}

fn upstream(name: &str, managed: &Value) -> Value {
    object("MCPUpstream", name, &json!({"managed": managed}))
}

impl Operated<'_> {
    /// Has a server's first pod say that its container waits, as a kubelet would.
    async fn play_kubelet(&self, upstream: &str, container: &str, reason: &str, message: &str) {
        let label = format!("hawsepipe.dev/upstream={upstream}");
        let get = ["pods", "-l", &label, "-o", "jsonpath={.items[0].metadata.name}"];
        let pod = until("a pod is there", async || Some(self.get(&get).await).filter(|name| !name.is_empty())).await;
        self.container_waits(&pod, container, reason, message).await;
    }

    /// Has a container of a pod wait, as a kubelet would.
    pub async fn container_waits(&self, pod: &str, container: &str, reason: &str, message: &str) {
        let waiting = json!({"name": container, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason, "message": message}}});
        let patch = json!({"status": {"containerStatuses": [waiting]}}).to_string();
        self.kubectl(&["patch", "pod", pod, "--subresource=status", "--type=merge", "-p", &patch]).await;
    }

    /// Waits until an upstream has this many pods.
    async fn until_pods(&self, upstream: &str, count: usize) {
        let label = format!("hawsepipe.dev/upstream={upstream}");
        until(&format!("a restricted namespace takes the pods of {upstream}"), async || {
            let pods: Value = serde_json::from_str(&self.get(&["pods", "-l", &label, "-o", "json"]).await).unwrap();
            (pods["items"].as_array().unwrap().len() == count).then_some(())
        })
        .await;
    }

    /// The status of an upstream says how its pods are.
    async fn tell_of_pods(&self) {
        let message = self.until_condition("mcpupstreams", "files", "Programmed", "False WorkloadNotReady").await;
        assert_eq!(message, "no pod of StatefulSet files-mcp is ready");
        let address = format!("http://files-mcp.{}.svc:8080/mcp", self.namespace);
        until("the status has the address", async || {
            (self.object("mcpupstreams", "files").await["status"]["address"] == address).then_some(())
        })
        .await;
        let workload = self.object("mcpupstreams", "files").await["status"]["workload"].clone();
        assert_eq!(workload, json!({"kind": "StatefulSet", "name": "files-mcp"}));
        self.play_kubelet("files", "files", "ImagePullBackOff", "Back-off pulling image").await;
        until("the pull's failure is told", async || {
            let status = self.object("mcpupstreams", "files").await["status"].clone();
            let (_, message) = condition(&status, "Programmed")?;
            message.ends_with(": container files: ImagePullBackOff: Back-off pulling image").then_some(())
        })
        .await;
    }

    /// Waits until a plan has the URL of an upstream.
    async fn until_planned(&self, name: &str, port: u16) {
        let expected = format!("http://{name}-mcp.{}.svc:{port}/mcp", self.namespace);
        until(&format!("the plan has {expected}"), async || {
            let plan = plan(self).await;
            let mut served = plan.upstreams.iter().filter(|upstream| upstream.refusing.is_none());
            let upstream = served.find(|upstream| upstream.key.name == name)?;
            matches!(&upstream.transport, TransportPlan::External { url, .. } if *url == expected).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_managed_upstream_gets_its_server_and_gateways_its_address() {
    let operated = Operated::with(Cluster::shared().await, &[], &[IMAGE]).await;
    let restricted = "pod-security.kubernetes.io/enforce=restricted";
    operated.cluster.kubectl(&["label", "namespace", &operated.namespace, restricted], "").await.unwrap();
    let theirs = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "theirs-mcp"},
        "spec": {"ports": [{"port": 3001}]}});
    let mut old = everything();
    old["transport"] = json!("SSE");
    let named = [("everything", everything()), ("files", files()), ("theirs", everything()), ("old", old)];
    let upstreams = named.map(|(name, managed)| upstream(name, &managed));
    operated.apply(&[&[gateway("main"), theirs][..], &upstreams].concat()).await;
    let policy = operated.until_made("networkpolicy/everything-mcp", |made| !made["spec"]["ingress"].is_null()).await;
    let gateways = &policy["spec"]["ingress"][0]["from"][0];
    assert_eq!(gateways["podSelector"]["matchLabels"]["hawsepipe.dev/gateway"], "main");
    for (name, count) in [("everything", 1), ("files", 2), ("old", 1)] {
        operated.until_pods(name, count).await;
    }
    operated.until_condition("mcpupstreams", "old", "Accepted", "True Accepted").await;
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;
    operated.until_planned("everything", 3001).await;
    operated.until_planned("files", 8080).await;
    let message = operated.until_condition("mcpupstreams", "theirs", "Programmed", "False NameTaken").await;
    assert!(message.contains(&format!("Service {}/theirs-mcp", operated.namespace)), "{message}");
    until("calls to a Service of somebody else are refused", async || {
        let plan = plan(&operated).await;
        plan.upstreams.iter().find(|upstream| upstream.key.name == "theirs")?.refusing.as_ref().map(drop)
    })
    .await;
    operated.tell_of_pods().await;

    operated.delete("service/everything-mcp").await;
    operated.until_made("service/everything-mcp", |made| !made.is_null()).await;
    operated.apply(&[object("MCPUpstream", "everything", &json!({"managed": everything(), "enabled": false}))]).await;
    operated.until_made("deployment/everything-mcp", |made| made["spec"]["replicas"] == 0).await;
}

#[tokio::test]
async fn a_servers_objects_follow_its_spec_and_belong_to_it() {
    let operated = Operated::with(Cluster::shared().await, &[], &[IMAGE]).await;
    let mut shared = files();
    shared["session"] = json!("Shared");
    shared["volumes"] = json!([]);
    operated.apply(&[upstream("files", &files())]).await;
    let (deployment, stateful_set) = ("deployment/files-mcp", "statefulset/files-mcp");
    operated.until_made(stateful_set, |made| !made.is_null()).await;
    operated.apply(&[upstream("files", &shared)]).await;
    let before = operated.until_made(deployment, |made| !made.is_null()).await;
    operated.until_made(stateful_set, Value::is_null).await;

    // An edit that is not accepted changes nothing.
    let mut wrong = shared.clone();
    wrong["command"] = json!([]);
    wrong["replicas"] = json!(7);
    operated.apply(&[upstream("files", &wrong)]).await;
    let message = operated.until_condition("mcpupstreams", "files", "Accepted", "False InvalidConfig").await;
    assert!(message.contains("docker inspect"), "{message}");
    assert_eq!(operated.made(deployment).await["metadata"]["generation"], before["metadata"]["generation"]);

    operated.apply(&[upstream("files", &files())]).await;
    operated.until_made(stateful_set, |made| !made.is_null()).await;
    operated.until_made(deployment, Value::is_null).await;
    let mut foreign = files();
    foreign["serviceAccountName"] = json!("default");
    // Pods that nobody runs are never ready, so that those of the older template would stay, and with them the account.
    foreign["replicas"] = json!(0);
    operated.apply(&[upstream("files", &foreign)]).await;
    operated.until_made("serviceaccount/files-mcp", Value::is_null).await;
    operated.apply(&[upstream("files", &files())]).await;
    operated.until_made("serviceaccount/files-mcp", |made| !made.is_null()).await;

    let all = ["serviceaccount", "networkpolicy", "service", "statefulset"].map(|kind| format!("{kind}/files-mcp"));
    let external = json!({"external": {"url": "http://up.example/mcp"}});
    operated.apply(&[object("MCPUpstream", "files", &external)]).await;
    for what in &all {
        operated.until_made(what, Value::is_null).await;
    }
    operated.apply(&[upstream("files", &files())]).await;
    // Kubernetes deletes them with their owner.
    let owner = operated.object("mcpupstreams", "files").await["metadata"]["uid"].clone();
    for what in &all {
        operated.until_made(what, |made| made["metadata"]["ownerReferences"][0]["uid"] == owner).await;
    }
}
