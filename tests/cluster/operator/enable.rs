//! An upstream that left routing, and the annotation that brings it back.

use std::sync::atomic::Ordering;

use serde_json::json;

use super::harness::{Operated, gateway, object};
use crate::gateway::upstream;
use crate::harness::until;

#[tokio::test]
async fn a_new_word_enables_an_upstream_that_left_routing() {
    let operated = Operated::start().await;
    let (url, broken) = upstream::breakable().await;
    // One failure and one retry, and it is left alone from then on.
    let health = json!({"retryBackoffMs": [10], "autoRecover": false});
    let spec = json!({"external": {"url": url}, "protocol": {"era": "Legacy"}, "health": health});
    operated.apply(&[gateway("main"), object("MCPUpstream", "up", &spec)]).await;
    let served = operated.serve("main", &[]).await;

    let message = operated.until_condition("mcpupstreams", "up", "Connected", "False AutoDisabled").await;
    assert!(message.contains("503"), "{message}");
    operated.until_event("MCPUpstream", "up", "Warning AutoDisabled").await;
    operated.until_row("mcpup", "up", &["external", "Error", "2", "1/1", "False", "AutoDisabled"]).await;
    let status = operated.object("mcpupstreams", "up").await["status"].clone();
    assert_eq!((&status["failureCount"], &status["autoDisabledPods"]), (&json!(2), &json!("1/1")), "{status:#}");
    assert!(status["autoDisabledTime"].as_str().is_some_and(|time| time.ends_with('Z')), "{status:#}");
    assert!(served.gateway.call("up__whoami").await.is_err());

    // It is repaired, and nobody asks it again until somebody says so.
    broken.store(false, Ordering::Relaxed);
    let annotate = ["annotate", "-n", &operated.namespace, "--overwrite", "mcpup/up"];
    operated.cluster.kubectl(&[&annotate[..], &["example.com/enable=yes"]].concat(), "").await.unwrap();
    operated.cluster.kubectl(&[&annotate[..], &["hawsepipe.dev/enable=monday"]].concat(), "").await.unwrap();
    served.gateway.until_answers("up__whoami", "nobody").await;
    operated.until_condition("mcpupstreams", "up", "Connected", "True Connected").await;
    let status = until("the word is acknowledged", async || {
        let status = operated.object("mcpupstreams", "up").await["status"].clone();
        (status["enableAcknowledged"] == "monday").then_some(status)
    })
    .await;
    assert_eq!(status["failureCount"], 0, "{status:#}");
    for gone in ["autoDisabledTime", "autoDisabledPods"] {
        assert!(status.get(gone).is_none(), "{status:#}");
    }
}
