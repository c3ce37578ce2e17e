//! Connections to the API server that die in silence, as behind a firewall that forgot them.

use std::time::Duration;

use serde_json::json;

use super::harness::{ACCOUNT, Operated, gateway, object, operator_through};
use crate::harness::{Cluster, Line};

/// A watch lasts 30 s, and a request that meets a dead connection 20 s; and the machine may be busy.
const NOTICED: Duration = Duration::from_secs(150);

#[tokio::test]
#[ignore = "long: make test-long"]
async fn connections_that_died_in_silence_do_not_stop_planning() {
    let cluster = Cluster::shared().await;
    let (line, namespace) = (Line::to(cluster).await, cluster.namespace().await);
    let operator = operator_through(cluster, &line, &namespace, ACCOUNT).await;
    let operated = Operated::of(cluster, namespace, operator).await;
    let plugin = |text: &str| object("Plugin", "say", &json!({"source": {"inline": text}}));
    operated.apply(&[gateway("main"), plugin("1;")]).await;
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;

    line.silence();
    operated.apply(&[plugin("2;")]).await;
    let told = tokio::time::timeout(NOTICED, async {
        loop {
            let object = operated.object("plugins", "say").await;
            if object["status"]["observedGeneration"] == object["metadata"]["generation"] {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    told.await.expect("the edit counts");
}
