//! What the operator writes for a gateway: its snapshot, and the rights of its pods.

use std::collections::BTreeSet;

use hawsepipe::api::pack::{revision, unpack};
use hawsepipe::api::snapshot::GatewaySnapshotSpec;
use hawsepipe::config::shards::join;
use serde_json::{Value, json};

use super::harness::{Operated, condition, gateway, object};
use crate::harness::until;

const CODE: &str = "export default () => ({ continue: true });";

fn objects() -> Vec<Value> {
    vec![
        gateway("main"),
        object("MCPUpstream", "up", &json!({"external": {"url": "http://up.example/mcp"}})),
        object("Plugin", "mark", &json!({"source": {"inline": CODE}, "role": "Guard"})),
        object("Plugin", "unused", &json!({"source": {"inline": "export default () => ({});"}})),
        object("PluginChain", "answers", &json!({"phase": "Response", "entries": [{"name": "mark"}]})),
    ]
}

fn spec(object: &Value) -> GatewaySnapshotSpec {
    serde_json::from_value(object["spec"].clone()).unwrap()
}

/// The plan that the index of the gateway `main` names.
pub async fn plan(operated: &Operated<'_>) -> hawsepipe::domain::plan::Plan {
    stored_plan(operated).await.expect("every shard that the index names is stored")
}

/// The same, if every shard that the index names is stored.
pub async fn stored_plan(operated: &Operated<'_>) -> Option<hawsepipe::domain::plan::Plan> {
    let stored = operated.objects("gatewaysnapshots").await;
    let mut of_main = stored.iter().filter(|object| object["metadata"]["name"] == "main");
    let index = of_main.find_map(|object| spec(object).index).unwrap();
    let current = index.revisions.iter().find(|revision| revision.revision == index.current).unwrap();
    assert_eq!(current.revision, revision(&current.shards, &[]));
    let shards: Vec<_> = stored.iter().filter_map(|object| spec(object).shard).collect();
    let named = |sha256: &str| shards.iter().find(|shard| shard.sha256 == sha256);
    let named: Option<Vec<_>> = current.shards.iter().map(|shard| named(&shard.sha256)).collect();
    let pieces: Vec<_> = named?.into_iter().map(|shard| unpack(shard).unwrap()).collect();
    Some(join(pieces.iter().map(|(kind, json)| (*kind, json.as_str()))).unwrap())
}

/// The plan once all of [`objects`] are in it: they are applied one after the other.
async fn whole_plan(operated: &Operated<'_>) -> hawsepipe::domain::plan::Plan {
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;
    until("all objects are in the plan", async || {
        let plan = plan(operated).await;
        (plan.upstreams.len() == 1 && plan.code.values().any(|code| code == CODE)).then_some(plan)
    })
    .await
}

#[tokio::test]
async fn objects_become_a_snapshot_and_an_edit_another() {
    let operated = Operated::start().await;
    operated.apply(&objects()).await;
    let first = whole_plan(&operated).await;
    assert_eq!(first.upstreams.len(), 1);
    let plugins: Vec<_> = first.plugins.iter().map(|plugin| plugin.key.name.as_str()).collect();
    assert_eq!(plugins, ["mark"], "only what its chains name");
    assert_eq!(first.code.values().collect::<Vec<_>>(), [CODE]);

    // Nothing but what it may read.
    let role = operated.get(&["role", "main-gateway", "-o", "json"]).await;
    let role: Value = serde_json::from_str(&role).unwrap();
    let rules =
        json!([{"apiGroups": ["hawsepipe.dev"], "resources": ["gatewaysnapshots"], "verbs": ["get", "list", "watch"]}]);
    assert_eq!(role["rules"], rules);
    operated.get(&["serviceaccount", "main-gateway"]).await;
    operated.get(&["rolebinding", "main-gateway"]).await;

    let mut edited = Vec::new();
    for n in 0..5 {
        let code = format!("export default () => ({{ text: '{n}', continue: true }});");
        operated.apply(&[object("Plugin", "mark", &json!({"source": {"inline": code}, "role": "Guard"}))]).await;
        until("the edit is in the snapshot", async || {
            plan(&operated).await.code.values().any(|c| *c == code).then_some(())
        })
        .await;
        edited.push(code);
    }
    let stored = operated.objects("gatewaysnapshots").await;
    let index = stored.iter().find_map(|object| spec(object).index).unwrap();
    assert_eq!(index.revisions.len(), 3, "three are kept");
    let named: BTreeSet<_> =
        index.revisions.iter().flat_map(|revision| &revision.shards).map(|s| s.name.clone()).collect();
    until("shards that no revision names are gone", async || {
        let stored = operated.objects("gatewaysnapshots").await;
        let shards = stored.iter().filter(|object| spec(object).shard.is_some());
        let names: BTreeSet<_> = shards.map(|shard| shard["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        (names == named).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_wrong_edit_is_told_and_changes_nothing() {
    let operated = Operated::start().await;
    operated.apply(&objects()).await;
    let before = whole_plan(&operated).await;

    operated
        .apply(&[object("Plugin", "mark", &json!({"source": {"inline": "export default ("}, "role": "Guard"}))])
        .await;
    let message = operated.until_condition("plugins", "mark", "Accepted", "False SyntaxError").await;
    assert!(message.contains("still runs") || message.contains("line"), "{message}");
    let chain = operated.object("pluginchains", "answers").await;
    until("the chain says that an older form runs", async || {
        let chain = operated.object("pluginchains", "answers").await;
        (condition(&chain["status"], "PartiallyInvalid")?.0 == "True PreviousRevision").then_some(())
    })
    .await;
    assert_eq!(plan(&operated).await.code, before.code, "{chain}");
    until("an Event tells it", async || {
        let events: Value = serde_json::from_str(&operated.get(&["events", "-o", "json"]).await).unwrap();
        let told = |event: &Value| {
            event["reason"] == "SyntaxError" && event["involvedObject"]["name"] == "mark" && event["type"] == "Warning"
        };
        events["items"].as_array().unwrap().iter().any(told).then_some(())
    })
    .await;
}
