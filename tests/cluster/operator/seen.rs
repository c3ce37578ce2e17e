//! Names of tools that upstreams were ever seen to have: every pod of the gateway knows them, one that starts later too.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::harness::{Operated, object};
use crate::gateway::process::Gateway;
use crate::gateway::upstream;
use crate::harness::until;

fn external(name: &str, url: &str) -> Value {
    object("MCPUpstream", name, &json!({"external": {"url": url}, "protocol": {"era": "Legacy"}}))
}

/// The name that clients see of the one tool of `second`; none while it is not listed.
async fn named(gateway: &Gateway) -> Option<String> {
    let report = gateway.report().await;
    let second = report.upstreams.iter().find(|upstream| upstream.upstream.ends_with("/second"))?;
    second.tools.first()?.r#as.clone()
}

#[tokio::test]
async fn a_pod_that_starts_during_an_outage_gives_the_names_to_no_other_upstream() {
    let operated = Operated::start().await;
    let (url, broken) = upstream::breakable().await;
    broken.store(false, Ordering::Relaxed);
    let spec = json!({"authentication": {"anonymous": {}}, "upstreams": {"prefix": "OnConflict"}});
    let objects = [object("MCPGateway", "main", &spec), external("first", &url)];
    operated.apply(&objects).await;
    operated.apply(&[external("second", &upstream::start().await)]).await;
    let mut served = operated.serve("main", &[]).await;
    served.gateway.until_answers("whoami", "nobody").await;
    until("the pod runs both upstreams", async || named(&served.gateway).await).await;
    let revisions = |index: &Value| (index["current"].clone(), index["revisions"].as_array().map(Vec::len));
    let before = operated.object("gatewaysnapshots", "main").await["spec"]["index"].clone();
    let index = until("the index has the names", async || {
        let index = operated.object("gatewaysnapshots", "main").await["spec"]["index"].clone();
        (index["seenNames"].as_array()?.len() == 2).then_some(index)
    })
    .await;
    let of = |name: &str| json!({"namespace": operated.namespace, "name": name, "tools": ["whoami"]});
    assert_eq!(index["seenNames"], json!([of("first"), of("second")]));
    assert_eq!(revisions(&index), revisions(&before), "names are no new revision: {index:#}");
    served
        .gateway
        .until_reported("nothing is left to report", |report| report.seen_names.is_empty().then_some(()))
        .await;

    broken.store(true, Ordering::Relaxed);
    served.restart(&[]).await;
    let name = until("the other upstream's tool is listed", async || named(&served.gateway).await).await;
    assert_eq!(name, "second__whoami");
    assert!(served.gateway.call("whoami").await.is_err(), "another upstream answers");
    broken.store(false, Ordering::Relaxed);
    served.gateway.until_answers("whoami", "nobody").await;

    // Who deletes an upstream gives its names away.
    operated.delete("mcpupstream/first").await;
    until("the name is free", async || (named(&served.gateway).await? == "whoami").then_some(())).await;
}

#[tokio::test]
async fn an_operator_that_ends_writes_the_names_that_wait_for_it() {
    let operated = Operated::start().await;
    let spec = json!({"authentication": {"anonymous": {}}, "upstreams": {"prefix": "OnConflict"}});
    operated.apply(&[object("MCPGateway", "main", &spec), external("first", &upstream::start().await)]).await;
    let _served = operated.serve("main", &[]).await;
    let named = async || operated.object("gatewaysnapshots", "main").await["spec"]["index"]["seenNames"].clone();
    until("the index has the first name", async || (!named().await.is_null()).then_some(())).await;
    // Its name waits for others: the index was just written for one.
    operated.apply(&[external("second", &upstream::start().await)]).await;
    until("the operator heard of the second one's tool", async || {
        let status = operated.object("mcpupstreams", "second").await["status"].clone();
        (status["toolCount"] == 1).then_some(())
    })
    .await;
    operated.operator.signal("TERM");
    until("the index has both", async || (named().await.as_array()?.len() == 2).then_some(())).await;
}
