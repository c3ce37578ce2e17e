//! Several operators: one writes.

use std::time::Duration;

use serde_json::json;

use super::harness::{ACCOUNT, Operated, gateway, object};
use crate::harness::{Request, until};

/// The verbs that change something.
fn writes(request: &Request) -> bool {
    !matches!(request.verb.as_str(), "get" | "list" | "watch")
}

#[tokio::test]
async fn a_leader_that_was_paused_never_writes_again() {
    let operated = Operated::start().await;
    operated.apply(&[gateway("main")]).await;
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;
    let next = operated.another("next").await;
    operated.operator.signal("STOP");

    // Its lease has to end before the next one writes.
    let plugin = object("Plugin", "new", &json!({"source": {"inline": "export default () => ({});"}}));
    operated.apply(&[plugin]).await;
    operated.until_condition("plugins", "new", "Accepted", "True Accepted").await;
    let mark = operated.cluster.mark().await;
    operated.operator.signal("CONT");
    let user = |account: &str| format!("system:serviceaccount:{}:{account}", operated.namespace);
    let old = user(ACCOUNT);
    until("the old leader is awake", async || {
        let requests = operated.cluster.requests_since(mark).await;
        requests.iter().any(|request| request.user == old).then_some(())
    })
    .await;
    let other = object("Plugin", "other", &json!({"source": {"inline": "export default () => ({});"}}));
    operated.apply(&[other]).await;
    operated.until_condition("plugins", "other", "Accepted", "True Accepted").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let requests = operated.cluster.requests_since(mark).await;
    let written = |account: &str| -> Vec<_> {
        requests.iter().filter(|request| request.user == user(account) && writes(request)).collect()
    };
    assert!(written(ACCOUNT).is_empty(), "{:?}", written(ACCOUNT));
    assert!(!written("next").is_empty(), "the next one wrote nothing:\n{}", next.log());
}

#[tokio::test]
async fn a_leader_that_ends_gives_its_lease_back() {
    let operated = Operated::start().await;
    operated.apply(&[gateway("main")]).await;
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;
    let _next = operated.another("next").await;
    let holder = || operated.get(&["lease", "hawsepipe-operator", "-o", "jsonpath={.spec.holderIdentity}"]);
    let first = holder().await;
    operated.operator.signal("TERM");
    let began = std::time::Instant::now();
    until("another holds the lease", async || {
        let now = holder().await;
        (!now.is_empty() && now != first).then_some(())
    })
    .await;
    assert!(began.elapsed() < Duration::from_secs(14), "it waited until the lease was over: {:?}", began.elapsed());
}
