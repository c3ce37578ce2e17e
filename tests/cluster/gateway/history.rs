//! The history of a gateway whose MCPGateway names a store.

use serde_json::Value;

use super::process::{Folder, Gateway, Place, manifests};
use super::published::Revision;
use super::upstream;
use crate::harness::{Cluster, until};

async fn calls(gateway: &Gateway) -> usize {
    let listed: Value = serde_json::from_str(&gateway.get("/api/v1/calls?outcome=ok").await.text).unwrap();
    listed["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn an_embedded_store_outlasts_the_container_and_memory_does_not() {
    let cluster = Cluster::shared().await;
    let url = upstream::start().await;
    for (history, outlasts) in [("{store: {embedded: {}}}", true), ("{}", false)] {
        let place = Place::new(cluster).await;
        let spec = format!("authentication: {{anonymous: {{}}}}\n  history: {history}");
        let written = manifests(&place.namespace, &url, "got").replace("authentication: {anonymous: {}}", &spec);
        Revision::of(&written).publish(cluster, &place.namespace).await;
        let state = Folder::new();
        let arguments = ["--state-dir", state.path().to_str().unwrap()];
        let mut gateway = place.start(&arguments).await;
        until("a call succeeds", async || gateway.call("up__whoami").await.ok()).await;
        let is_written = async || {
            let metrics = gateway.get("/metrics").await.text;
            (calls(&gateway).await > 0 && metrics.contains("hawsepipe_history_queue_length 0")).then_some(())
        };
        until("the call is written", is_written).await;
        gateway.kill();
        let again = place.start(&arguments).await;
        until("the plan is in force", async || again.call("up__whoami").await.ok()).await;
        until("the call is recorded", async || (calls(&again).await > 0).then_some(())).await;
        assert_eq!(calls(&again).await > 1, outlasts, "{history}");
    }
}
