//! The admin port, from this machine and from elsewhere.

use std::net::{IpAddr, UdpSocket};

use serde_json::json;

use super::http::{Answer, get};
use super::process::{Gateway, Place, manifests};
use super::published::{GATEWAY, Revision};
use super::upstream;
use crate::harness::{Cluster, until};

/// Makes the MCPGateway of the namespace, publishes a revision as its operator does, and gives the audience of tokens for
/// its pods.
async fn publish(cluster: &Cluster, namespace: &str) -> String {
    let url = upstream::start().await;
    Revision::of(&manifests(namespace, &url, "one")).publish(cluster, namespace).await;
    let gateway = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "MCPGateway", "metadata": {"name": GATEWAY},
        "spec": {"authentication": {"anonymous": {}}}});
    cluster.kubectl(&["apply", "-n", namespace, "-f", "-"], &gateway.to_string()).await.unwrap();
    let get = ["get", "-n", namespace, "mcpgateway", GATEWAY, "-o", "jsonpath={.metadata.uid}"];
    let uid = cluster.kubectl(&get, "").await.unwrap();
    let owner = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "MCPGateway", "name": GATEWAY, "uid": uid});
    let patch = json!({"metadata": {"ownerReferences": [owner]}}).to_string();
    let patch = ["patch", "-n", namespace, "gatewaysnapshot", GATEWAY, "--type=merge", "-p", &patch];
    cluster.kubectl(&patch, "").await.unwrap();
    format!("hawsepipe.dev/gateway/{uid}")
}

/// An address of this machine that is not loopback; none where it has none.
pub fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the system only says from which address it would be.
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback())
}

/// A gateway that is asked from elsewhere, and the place that it runs in.
struct Outside {
    place: Place<'static>,
    gateway: Gateway,
    address: IpAddr,
}

impl Outside {
    /// One whose operator is the account `operator`, which is there.
    async fn start() -> Self {
        let cluster = Cluster::shared().await;
        let place = Place::new(cluster).await;
        let operator = format!("{}/operator", place.namespace);
        let gateway = place.start(&["--admin", "0.0.0.0:0", "--operator", &operator]).await;
        cluster.make_account(&place.namespace, "operator").await;
        let address = outer_address().expect("this test needs an address that is not loopback");
        Self { place, gateway, address }
    }

    async fn ask(&self, path: &str, token: Option<&str>) -> Answer {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
        get(&format!("http://{}:{}{path}", self.address, self.gateway.admin.port()), &headers).await
    }

    /// A token of an account here.
    async fn token(&self, account: &str, audience: &str) -> String {
        Cluster::shared().await.token(&self.place.namespace, account, &[audience]).await
    }

    /// Publishes a revision, and waits until a token with the audience that it gives is accepted.
    async fn until_it_knows_its_gateway(&self) -> (String, String) {
        let audience = publish(Cluster::shared().await, &self.place.namespace).await;
        let right = self.token("operator", &audience).await;
        until("it knows its MCPGateway", async || {
            (self.ask("/api/v1/report", Some(&right)).await.status == 200).then_some(())
        })
        .await;
        (audience, right)
    }
}

#[tokio::test]
async fn before_it_knows_its_gateway_no_token_opens_it() {
    let outside = Outside::start().await;
    let early = outside.token("operator", "hawsepipe.dev/gateway/uid").await;
    let answer = outside.ask("/api/v1/report", Some(&early)).await;
    assert!(answer.status == 401 && answer.text.contains("no index of its MCPGateway"), "{answer:?}");
    assert_eq!(outside.ask("/healthz", None).await.status, 200);
    assert_eq!(outside.ask("/readyz", None).await.status, 503);
}

#[tokio::test]
async fn from_elsewhere_only_the_operators_token_for_this_gateway_opens_the_report_and_nothing_else() {
    let outside = Outside::start().await;
    let (audience, right) = outside.until_it_knows_its_gateway().await;
    Cluster::shared().await.make_account(&outside.place.namespace, "other").await;
    let for_another = outside.token("operator", "https://kubernetes.default.svc").await;
    let for_another_gateway = outside.token("operator", "hawsepipe.dev/gateway/uid").await;
    let of_another = outside.token("other", &audience).await;
    for (token, why) in [
        (None, "a bearer token is needed"),
        (Some("no-token"), "not a JSON Web Token"),
        (Some(&right[..right.len() - 4]), "signature"),
        (Some(&for_another), "audience"),
        (Some(&for_another_gateway), "audience"),
        (Some(&of_another), "another account"),
    ] {
        let answer = outside.ask("/api/v1/report", token).await;
        assert_eq!(answer.status, 401, "{why}: {answer:?}");
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(why), "{message}");
        assert!(token.is_none_or(|token| !message.contains(token)), "{message}");
    }
    for path in ["/api/v1/plan", "/api/v1/calls", "/api/v1/executions", "/api/v1/explain?tool=up__whoami"] {
        let answer = outside.ask(path, Some(&right)).await;
        assert!(answer.status == 403 && answer.text.contains("/api/v1/report alone"), "{path}: {answer:?}");
    }
    assert_eq!(outside.gateway.get("/api/v1/report").await.status, 200, "from this machine nothing is asked");
    assert!(!outside.gateway.log().contains(&right));
}

#[tokio::test]
async fn without_an_operator_nobody_comes_in_from_elsewhere() {
    let cluster = Cluster::shared().await;
    let place = Place::new(cluster).await;
    let gateway = place.start(&["--admin", "0.0.0.0:0"]).await;
    let address = outer_address().expect("this test needs an address that is not loopback");
    cluster.make_account(&place.namespace, "operator").await;
    let token = format!("Bearer {}", cluster.token(&place.namespace, "operator", &["hawsepipe.dev/gateway/uid"]).await);
    let url = format!("http://{address}:{}/api/v1/report", gateway.admin.port());
    assert_eq!(get(&url, &[("authorization", &token)]).await.status, 401);
}

#[tokio::test]
async fn a_report_that_did_not_change_is_not_sent_again() {
    let cluster = Cluster::shared().await;
    let place = Place::new(cluster).await;
    let url = upstream::start().await;
    let first = Revision::of(&manifests(&place.namespace, &url, "one"));
    first.publish(cluster, &place.namespace).await;
    let gateway = place.start(&[]).await;
    gateway.until_answers("up__whoami", "one nobody").await;
    let report = format!("http://127.0.0.1:{}/api/v1/report", gateway.admin.port());
    let tag = get(&report, &[]).await.headers["etag"].to_str().unwrap().to_owned();
    gateway.call("up__whoami").await.unwrap();
    let same = get(&report, &[("if-none-match", &tag)]).await;
    assert_eq!((same.status.as_u16(), same.text.as_str()), (304, ""), "a call changes nothing that is reported");
    let second = Revision::of(&manifests(&place.namespace, &url, "two"));
    second.publish(cluster, &place.namespace).await;
    gateway.until_runs(second.name()).await;
    assert_eq!(get(&report, &[("if-none-match", &tag)]).await.status, 200);
}
