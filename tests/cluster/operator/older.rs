//! An operator that is newer than the definitions of its cluster: what counts at once is written all the same.

use serde_json::json;

use super::harness::{Operated, object};
use crate::gateway::upstream;
use crate::harness::{Cluster, until};

/// Takes a field out of the definition of snapshots, as in one that is older, and waits until that counts. Gives the
/// words of the API server for an object that has the field.
async fn forget_seen_names(cluster: &Cluster) -> String {
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/index/properties/seenNames";
    let patch = json!([{"op": "remove", "path": path}]).to_string();
    cluster
        .kubectl(&["patch", "crd", "gatewaysnapshots.hawsepipe.dev", "--type=json", "-p", &patch], "")
        .await
        .unwrap();
    let mut probe = object("GatewaySnapshot", "probe", &json!({"index": {"seenNames": []}}));
    probe["metadata"]["namespace"] = json!("default");
    let dry_run = ["apply", "--server-side", "--validate=ignore", "--dry-run=server", "-f", "-"];
    until("the definition does not have the field", async || {
        let refused = cluster.kubectl(&dry_run, &probe.to_string()).await.err()?;
        refused.contains("seenNames").then_some(refused)
    })
    .await
}

#[tokio::test]
async fn a_stop_is_written_where_the_definition_lacks_a_field() {
    let cluster = Cluster::own().await;
    let words = forget_seen_names(&cluster).await;
    println!("{words}");
    assert!(words.ends_with(".spec.index.seenNames: field not declared in schema"), "{words}");

    let operated = Operated::on(&cluster).await;
    let gateway = |stopped: bool| {
        let spec =
            json!({"authentication": {"anonymous": {}}, "upstreams": {"prefix": "OnConflict"}, "stopped": stopped});
        object("MCPGateway", "main", &spec)
    };
    let url = upstream::start().await;
    let up = object("MCPUpstream", "up", &json!({"external": {"url": url}, "protocol": {"era": "Legacy"}}));
    operated.apply(&[gateway(false), up]).await;
    let served = operated.serve("main", &[]).await;
    served.gateway.until_answers("whoami", "nobody").await;
    until("the operator says what to do", async || {
        operated.operator.log().contains("apply the custom resource definitions of this operator").then_some(())
    })
    .await;

    operated.apply(&[gateway(true)]).await;
    let index = until("the index says that the gateway is stopped", async || {
        let index = operated.object("gatewaysnapshots", "main").await["spec"]["index"].clone();
        (index["acts"]["stopped"] == true).then_some(index)
    })
    .await;
    assert!(index["seenNames"].is_null(), "{index:#}");
}
