//! The token that the operator shows to gateways' pods: who gets it, and what it opens.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::harness::{ACCOUNT, Operated, gateway};
use crate::gateway::outer_address;
use crate::harness::until;

/// The admin port of a pod that somebody made: it keeps what it is shown, and lets nobody in.
struct Port {
    address: SocketAddr,
    shown: Arc<Mutex<Vec<Option<String>>>>,
}

impl Port {
    async fn open() -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, shown) = (socket.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let keep = Arc::clone(&shown);
        let report = move |headers: HeaderMap| async move {
            let bearer = headers.get("authorization").map(|bearer| bearer.to_str().unwrap().to_owned());
            keep.lock().unwrap().push(bearer);
            StatusCode::UNAUTHORIZED
        };
        let router = Router::new().route("/api/v1/report", get(report));
        tokio::spawn(async move { axum::serve(socket, router).await });
        Self { address, shown }
    }

    fn times(&self) -> usize {
        self.shown.lock().unwrap().len()
    }

    /// The claims of the token that it was shown.
    fn claims(&self) -> Value {
        let shown = self.shown.lock().unwrap();
        let token = shown.iter().flatten().next_back().expect("a token was shown").strip_prefix("Bearer ").unwrap();
        let claims = token.split('.').nth(1).unwrap();
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap()
    }
}

impl Operated<'_> {
    /// A ready pod with the label of a gateway, whose admin port is there.
    async fn labelled_pod(&self, name: &str, gateway: &str, account: &str, admin: SocketAddr) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"hawsepipe.dev/gateway": gateway}},
            "spec": {"serviceAccountName": account, "containers": [{
                "name": "c", "image": "none", "ports": [{"name": "admin", "containerPort": admin.port()}]}]},
        });
        let pod = serde_json::from_value(pod).unwrap();
        until("the pod's service account is there", async || pods.create(&PostParams::default(), &pod).await.ok())
            .await;
        let ip = admin.ip();
        let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": "True"}]}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }

    async fn uid(&self, gateway: &str) -> String {
        self.object("mcpgateways", gateway).await["metadata"]["uid"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn only_pods_that_run_as_the_account_of_a_gateway_that_exists_are_shown_the_token_and_each_gateway_has_its_own() {
    let operated = Operated::start().await;
    operated.apply(&[gateway("main"), gateway("other")]).await;
    let ports = [Port::open().await, Port::open().await, Port::open().await, Port::open().await];
    let [ghost, stranger, main, other] = &ports;
    operated.cluster.make_account(&operated.namespace, "ghost-gateway").await;
    operated.labelled_pod("ghost", "ghost", "ghost-gateway", ghost.address).await;
    operated.labelled_pod("a-stranger", "main", "other-gateway", stranger.address).await;
    operated.labelled_pod("main", "main", "main-gateway", main.address).await;
    operated.labelled_pod("other", "other", "other-gateway", other.address).await;
    until("the gateways' own pods are asked", async || (main.times() > 3 && other.times() > 3).then_some(())).await;

    for (port, name) in [(main, "main"), (other, "other")] {
        let claims = port.claims();
        assert_eq!(claims["aud"], json!([format!("hawsepipe.dev/gateway/{}", operated.uid(name).await)]));
        assert_eq!(claims["sub"], format!("system:serviceaccount:{}:{ACCOUNT}", operated.namespace));
    }
    assert_eq!((ghost.times(), stranger.times()), (0, 0));
    let message = operated.until_condition("mcpgateways", "main", "Programmed", "Unknown Pending").await;
    assert!(message.contains("ServiceAccount other-gateway"), "{message}");
    assert!(!operated.operator.log().contains("eyJ"), "a token was logged");
}

#[tokio::test]
async fn a_pod_reports_to_the_operators_token_from_another_machine() {
    let operated = Operated::start().await;
    operated.apply(&[gateway("main")]).await;
    let address = outer_address().expect("this test needs an address that is not loopback");
    let account = format!("{}/{ACCOUNT}", operated.namespace);
    let serves = operated.start_gateway("main", &["--admin", "0.0.0.0:0", "--operator", &account]).await;
    operated.labelled_pod("main", "main", "main-gateway", SocketAddr::new(address, serves.admin.port())).await;
    operated.until_condition("mcpgateways", "main", "Programmed", "True Programmed").await;
}

#[tokio::test]
async fn a_gateway_that_does_not_know_its_operator_is_told_how_to() {
    let operated = Operated::start().await;
    operated.apply(&[gateway("main")]).await;
    let port = Port::open().await;
    operated.labelled_pod("main", "main", "main-gateway", port.address).await;
    let message = operated.until_condition("mcpgateways", "main", "Programmed", "Unknown Pending").await;
    let wanted = format!("start the gateway with --operator={}/{ACCOUNT}", operated.namespace);
    assert!(message.contains(&wanted), "{message}");
}

#[tokio::test]
async fn a_right_to_the_token_that_is_missing_is_told() {
    let operated = Operated::start().await;
    // The rights to the Lease stay, so that it leads.
    let rule = r#"[{"op": "test", "path": "/rules/0/resources/0", "value": "serviceaccounts/token"},
        {"op": "remove", "path": "/rules/0"}]"#;
    let patch = ["patch", "-n", &operated.namespace, "role", ACCOUNT, "--type=json", "-p", rule];
    operated.cluster.kubectl(&patch, "").await.unwrap();
    operated.apply(&[gateway("main")]).await;
    let port = Port::open().await;
    operated.labelled_pod("main", "main", "main-gateway", port.address).await;
    let message = operated.until_condition("mcpgateways", "main", "Programmed", "Unknown Pending").await;
    assert!(message.contains("forbidden") && message.contains("serviceaccounts/token"), "{message}");
    assert!(port.shown.lock().unwrap().iter().all(Option::is_none));
}
