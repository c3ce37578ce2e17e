//! Clients that prove who they are by tokens of service accounts, which the API server reviews.

use std::time::Duration;

use serde_json::json;

use super::client::Caller;
use super::http::{Answer, get};
use super::process::{ACCOUNT, Gateway, Place, manifests};
use super::published::Revision;
use super::upstream;
use crate::harness::{Cluster, until};

const AUDIENCE: &str = "hawsepipe.test";

/// A gateway whose clients and whose admin API need tokens of service accounts.
struct Reviewed {
    place: Place<'static>,
    gateway: Gateway,
}

impl Reviewed {
    async fn start() -> Self {
        let cluster = Cluster::shared().await;
        let place = Place::new(cluster).await;
        let review = format!("tokenReview: {{audiences: [{AUDIENCE}]}}");
        let rule = format!("'\"system:serviceaccounts:{}\" in identity.groups'", place.namespace);
        let spec = format!(
            "authentication: {{{review}}}\n  admin: {{authentication: {{{review}}}}}\n  authorization: {{rules: [{{name: own, \
             effect: Allow, when: {rule}}}]}}"
        );
        let url = upstream::start().await;
        let written = manifests(&place.namespace, &url, "got").replace("authentication: {anonymous: {}}", &spec);
        Revision::of(&written).publish(cluster, &place.namespace).await;
        let gateway = place.start(&[]).await;
        gateway.endpoint().await;
        Self { place, gateway }
    }

    /// Lets the gateway create TokenReviews, as the chart does.
    async fn permit(&self) {
        let group = "rbac.authorization.k8s.io";
        let name = format!("{}-token-review", self.place.namespace);
        let binding = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": [{
                "apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}]},
            {"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
             "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
             "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": self.place.namespace}]},
        ]});
        Cluster::shared().await.kubectl(&["apply", "-f", "-"], &binding.to_string()).await.unwrap();
    }

    async fn token(&self, account: &str, audience: &str) -> String {
        Cluster::shared().await.token(&self.place.namespace, account, &[audience]).await
    }

    /// What a client with this token gets: GET needs a session, so 400 means that the client is known.
    async fn connect(&self, token: &str) -> Answer {
        let url = format!("http://{}/mcp", self.gateway.endpoint().await);
        get(&url, &[("authorization", &format!("Bearer {token}")), ("accept", "text/event-stream")]).await
    }

    async fn admin(&self, token: Option<&str>) -> Answer {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
        get(&format!("http://127.0.0.1:{}/api/v1/status", self.gateway.admin.port()), &headers).await
    }
}

#[tokio::test]
async fn tokens_of_service_accounts_are_reviewed_for_their_audience() {
    let cluster = Cluster::shared().await;
    let reviewed = Reviewed::start().await;
    cluster.make_account(&reviewed.place.namespace, "bot").await;
    let good = reviewed.token("bot", AUDIENCE).await;
    let early = reviewed.connect(&good).await;
    assert!(early.status == 503 && early.text.contains("may not create tokenreviews"), "{early:?}");
    reviewed.permit().await;
    until("the gateway may have tokens reviewed", async || {
        let known = reviewed.connect(&good).await.status.as_u16();
        (known != 503 && known != 401).then_some(())
    })
    .await;
    let other = reviewed.token("bot", "another").await;
    let forged = format!("{}AAAA", &good[..good.len() - 4]);
    for (token, words) in
        [(&*other, "another audience"), (&*forged, "does not accept it"), ("no-token", "not of a service account")]
    {
        let refused = reviewed.connect(token).await;
        assert!(refused.status == 401 && refused.text.contains(words), "{words}: {refused:?}");
        assert!(!refused.text.contains(token), "{refused:?}");
        assert_eq!(reviewed.admin(Some(token)).await.status, 401);
    }
    assert_eq!(reviewed.admin(None).await.status, 401);
    let status = reviewed.admin(Some(&good)).await;
    assert!(status.status == 200, "{status:?}");
    let caller = Caller::new(&reviewed.gateway, "up__whoami").await.with_token(&good);
    assert_eq!(caller.call().await.unwrap(), "got nobody");
    assert!(!reviewed.gateway.log().contains(&good), "no log has a token");
    // A deleted account is known for as long as a review counts.
    let account = ["delete", "serviceaccount", "-n", &reviewed.place.namespace, "bot"];
    cluster.kubectl(&account, "").await.unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(25);
    while reviewed.connect(&good).await.status != 401 {
        assert!(std::time::Instant::now() < deadline, "the token of a deleted account is still accepted");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
