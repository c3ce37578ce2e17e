//! Gateways of an operator. No kubelet runs here, so the test makes the Pod objects, with address and readiness, for
//! processes that it starts itself under the service account that the operator made.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::harness::Operated;
use crate::gateway::process::{Gateway, Place};
use crate::harness::until;

/// A gateway process and its Pod object.
pub struct Served<'c> {
    pub gateway: Gateway,
    pod: String,
    place: Place<'c>,
}

impl Served<'_> {
    /// Kills the process and starts another in its pod, as the kubelet does: at the same admin address.
    pub async fn restart(&mut self, more: &[&str]) {
        self.gateway.kill();
        let admin = self.gateway.admin.to_string();
        self.gateway = self.place.start(&[&["--admin", &admin], more].concat()).await;
    }
}

impl<'c> Operated<'c> {
    /// Starts a pod of the gateway `name`, and waits until it is ready.
    pub async fn serve(&self, name: &str, more: &[&str]) -> Served<'c> {
        let (gateway, place) = self.run(name, more).await;
        let served = Served { pod: format!("{name}-{}", gateway.admin.port()), gateway, place };
        self.pod(name, &format!("{name}-gateway"), &served).await;
        served
    }

    /// Starts a process of the gateway `name` without a pod, and waits until it is ready.
    pub async fn start_gateway(&self, name: &str, more: &[&str]) -> Gateway {
        self.run(name, more).await.0
    }

    async fn run(&self, name: &str, more: &[&str]) -> (Gateway, Place<'c>) {
        let account = format!("{name}-gateway");
        until("the operator made the service account", async || {
            let get = ["get", "-n", &self.namespace, "rolebinding", &account];
            self.cluster.kubectl(&get, "").await.ok()
        })
        .await;
        let token = self.cluster.token(&self.namespace, &account, &[]).await;
        let mut place = Place::of(self.cluster, &self.namespace, name, token);
        place.variables.clone_from(&self.variables);
        let gateway = place.start(more).await;
        until("it is ready", async || (gateway.get("/readyz").await.status == 200).then_some(())).await;
        (gateway, place)
    }

    async fn pod(&self, gateway: &str, account: &str, served: &Served<'_>) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": served.pod, "labels": {"hawsepipe.dev/gateway": gateway}},
            "spec": {"serviceAccountName": account, "containers": [{
                "name": "gateway", "image": "none",
                "ports": [{"name": "admin", "containerPort": served.gateway.admin.port()}]}]},
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        self.set_ready(served, true).await;
    }

    /// Says of a pod that it is ready, or is not.
    pub async fn set_ready(&self, served: &Served<'_>, ready: bool) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let word = if ready { "True" } else { "False" };
        let status = json!({"status": {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}],
            "conditions": [{"type": "Ready", "status": word}]}});
        pods.patch_status(&served.pod, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }
}
