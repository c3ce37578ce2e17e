//! An operator whose connection was cut for so long that the API server no longer knows what happened meanwhile.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::harness::{ACCOUNT, Operated, gateway, object};
use super::snapshots::plan;
use crate::harness::{API_SERVER, CONTROLLER_MANAGER, Cluster, Line, until};

const CODE: &str = "export default () => ({ continue: true });";

fn upstream(name: &str) -> Value {
    object("MCPUpstream", name, &json!({"external": {"url": format!("http://{name}.example/mcp")}}))
}

fn objects() -> Vec<Value> {
    let mapped = json!({"source": {"configMapKeyRef": {"name": "code", "key": "p.mjs"}}});
    let server = json!({"serverRef": {"kind": "Service", "name": "server", "port": "80"}});
    vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"p.mjs": CODE}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "server"}, "spec": {"ports": [{"port": 80}]}}),
        gateway("main"),
        gateway("gone"),
        upstream("kept"),
        upstream("gone"),
        object("MCPUpstream", "service", &server),
        object("Plugin", "kept", &json!({"source": {"inline": CODE}})),
        object("Plugin", "gone", &json!({"source": {"inline": CODE}})),
        object("Plugin", "mapped", &mapped),
        object("PluginChain", "kept", &json!({"phase": "Response", "entries": [{"name": "kept"}]})),
        object("PluginChain", "orphan", &json!({"phase": "Response", "entries": [{"name": "gone"}]})),
        object("PluginChain", "mapped", &json!({"phase": "Response", "entries": [{"name": "mapped"}]})),
        object("PluginChain", "gone", &json!({"phase": "Request", "entries": [{"name": "kept"}]})),
    ]
}

/// What is deleted while nobody sees it: of people, and of the operator's own.
const DELETED: [&str; 10] = [
    "mcpgateway/gone",
    "mcpupstream/gone",
    "plugin/gone",
    "pluginchain/gone",
    "configmap/code",
    "service/server",
    "serviceaccount/main-gateway",
    "role/main-gateway",
    "rolebinding/main-gateway",
    "gatewaysnapshots/main",
];

#[tokio::test]
async fn what_was_deleted_while_the_history_was_compacted_is_noticed() {
    let cluster = Cluster::own().await;
    let namespace = cluster.namespace().await;
    let line = Line::to(&cluster).await;
    let operator = super::harness::operator_through(&cluster, &line, &namespace, ACCOUNT).await;
    let operated = Operated::of(&cluster, namespace, operator).await;
    operated.apply(&objects()).await;
    for (plural, name, is) in [("pluginchains", "mapped", "True"), ("mcpupstreams", "service", "True")] {
        operated.until_condition(plural, name, "ResolvedRefs", &format!("{is} ResolvedRefs")).await;
    }
    until("everything is in the plan", async || {
        let stored = operated.object("gatewaysnapshots", "main").await;
        stored.get("spec")?;
        let plan = plan_of(&operated).await?;
        (plan.upstreams.len() == 3 && plan.chains.len() == 4).then_some(())
    })
    .await;
    let shard = shard(&operated).await;

    line.cut();
    for deleted in DELETED {
        operated.delete(deleted).await;
    }
    operated.delete(&format!("gatewaysnapshots/{shard}")).await;
    let edited = "export default () => ({ text: 'edited', continue: true });";
    operated.apply(&[object("Plugin", "kept", &json!({"source": {"inline": edited}})), upstream("new")]).await;
    cluster.plane().compact().await;
    // Its memory of events goes with it.
    cluster.plane().kill(API_SERVER);
    cluster.plane().start_api_server_again().await;
    line.mend();

    converged(&operated, edited).await;
    let log = operated.operator.log();
    let expired = log.lines().filter(|line| line.contains("a watch failed") && is_gone(line)).count();
    assert!(expired >= 5, "its watches were not told that their history is gone:\n{log}");
}

/// Waits until nothing counts on what was deleted, and what is the operator's own is there again.
async fn converged(operated: &Operated<'_>, edited: &str) {
    operated.until_condition("pluginchains", "orphan", "ResolvedRefs", "False PluginNotFound").await;
    operated.until_condition("plugins", "mapped", "ResolvedRefs", "False ConfigMapNotFound").await;
    operated.until_condition("mcpupstreams", "service", "ResolvedRefs", "False ServerNotFound").await;
    until("the plan is without what was deleted", async || {
        let plan = plan_of(operated).await?;
        let mut upstreams: Vec<_> = plan.upstreams.iter().map(|upstream| upstream.key.name.as_str()).collect();
        upstreams.sort_unstable();
        let edited = plan.code.values().any(|code| code == edited);
        (upstreams == ["kept", "new", "service"] && plan.chains.len() == 3 && edited).then_some(())
    })
    .await;
    until("what pods need is made again", async || {
        let names = ["serviceaccount/main-gateway", "role/main-gateway", "rolebinding/main-gateway"];
        operated.cluster.kubectl(&[&["get", "-n", &operated.namespace], &names[..]].concat(), "").await.ok()
    })
    .await;
    until("nothing is left of a gateway that is gone", async || {
        let stored = operated.objects("gatewaysnapshots").await;
        stored.iter().all(|object| object["spec"]["gateway"] == "main").then_some(())
    })
    .await;
}

fn is_gone(line: &str) -> bool {
    line.contains("too old resource version") || line.contains("Expired") || line.contains("410")
}

/// The plan, once each of its shards is there.
async fn plan_of(operated: &Operated<'_>) -> Option<hawsepipe::domain::plan::Plan> {
    let stored = operated.objects("gatewaysnapshots").await;
    let index = stored.iter().find(|object| object["metadata"]["name"] == "main")?;
    let current = &index["spec"]["index"]["current"];
    let revisions = index["spec"]["index"]["revisions"].as_array()?;
    let shards = revisions.iter().find(|revision| revision["revision"] == *current)?["shards"].as_array()?;
    let is_there = |name: &Value| stored.iter().any(|object| object["metadata"]["name"] == *name);
    if !shards.iter().all(|shard| is_there(&shard["name"])) {
        return None;
    }
    Some(plan(operated).await)
}

/// A shard that the current revision of `main` needs.
async fn shard(operated: &Operated<'_>) -> String {
    let index = operated.object("gatewaysnapshots", "main").await;
    index["spec"]["index"]["revisions"][0]["shards"][0]["name"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_shard_that_somebody_deletes_is_written_again_while_edits_go_on() {
    let operated = Operated::start().await;
    operated.apply(&[gateway("main"), upstream("up")]).await;
    until("the upstream is in the plan", async || {
        let plan = plan_of(&operated).await?;
        (plan.upstreams.len() == 1).then_some(())
    })
    .await;
    let shards = super::harness::api(&operated.client, &operated.namespace, "gatewaysnapshots");
    let upstreams = super::harness::api(&operated.client, &operated.namespace, "mcpupstreams");
    // The shard of what is not edited stays the same.
    let name = shard(&operated).await;
    shards.delete(&name, &DeleteParams::default()).await.unwrap();
    let mut edits = 0;
    until("the shard is there again", async || {
        edits += 1;
        let label = json!({"metadata": {"labels": {"example.com/edit": edits.to_string()}}});
        upstreams.patch("up", &PatchParams::default(), &Patch::Merge(&label)).await.unwrap();
        shards.get_opt(&name).await.unwrap()
    })
    .await;
}

#[tokio::test]
async fn a_gateway_that_is_made_anew_owns_its_snapshots() {
    let cluster = Cluster::own().await;
    let operated = Operated::on(&cluster).await;
    operated.apply(&[gateway("main"), upstream("up")]).await;
    until("the upstream is in the plan", async || {
        let plan = plan_of(&operated).await?;
        (plan.upstreams.len() == 1).then_some(())
    })
    .await;
    // While nobody collects what the gateway that is gone left.
    cluster.plane().signal(CONTROLLER_MANAGER, "STOP");
    let gateways = super::harness::api(&operated.client, &operated.namespace, "mcpgateways");
    gateways.delete("main", &DeleteParams::background()).await.unwrap();
    operated.apply(&[gateway("main")]).await;
    let uid = operated.object("mcpgateways", "main").await["metadata"]["uid"].clone();
    until("the new gateway owns all that it runs", async || {
        let stored = operated.objects("gatewaysnapshots").await;
        let index = stored.iter().find(|object| object["metadata"]["name"] == "main")?;
        let shards = index["spec"]["index"]["revisions"][0]["shards"].as_array()?;
        let named = |name: &Value| stored.iter().find(|object| object["metadata"]["name"] == *name);
        let owned = |object: &Value| {
            let owners = object["metadata"]["ownerReferences"].as_array().unwrap();
            owners.len() == 1 && owners[0]["uid"] == uid
        };
        (owned(index) && shards.iter().all(|shard| named(&shard["name"]).is_some_and(owned))).then_some(())
    })
    .await;
    cluster.plane().signal(CONTROLLER_MANAGER, "CONT");
    until("what pods need is made for the new gateway", async || {
        let account = operated.get(&["sa", "main-gateway", "--ignore-not-found", "-o", "json"]).await;
        account.contains(uid.as_str().unwrap()).then_some(())
    })
    .await;
    assert!(plan_of(&operated).await.is_some(), "a snapshot was collected");
}

#[tokio::test]
async fn a_shard_that_somebody_deletes_is_written_again() {
    let operated = Operated::start().await;
    operated.apply(&[gateway("main"), upstream("up")]).await;
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;
    let index = until("the upstream is in the plan", async || {
        let plan = plan_of(&operated).await?;
        (plan.upstreams.len() == 1).then_some(operated.object("gatewaysnapshots", "main").await)
    })
    .await;
    let shards = super::harness::api(&operated.client, &operated.namespace, "gatewaysnapshots");
    let name = shard(&operated).await;
    shards.delete(&name, &DeleteParams::default()).await.unwrap();
    until("the shard is there again", async || shards.get_opt(&name).await.unwrap()).await;
    // Without its label the index is out of sight. It is neither lost nor made anew.
    let hidden = json!({"metadata": {"labels": {"hawsepipe.dev/gateway": null}}});
    shards.patch("main", &PatchParams::default(), &Patch::Merge(&hidden)).await.unwrap();
    let label = "/metadata/labels/hawsepipe.dev~1gateway";
    let again = until("the label is there again", async || {
        let index = operated.object("gatewaysnapshots", "main").await;
        index.pointer(label).is_some().then_some(index)
    })
    .await;
    assert_eq!(again["spec"], index["spec"]);
}
