//! Servers that other operators run, of a kind that these define.

use hawsepipe::domain::plan::TransportPlan;
use serde_json::{Value, json};

use super::harness::{ACCOUNT, Operated, gateway, object};
use super::snapshots::plan;
use crate::harness::{Cluster, until};

const GROUP: &str = "versions.example.org";

/// Defines the kind, in one version or in two.
async fn define(cluster: &Cluster, is_second_served: bool) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version =
        |name: &str, served: bool| json!({"name": name, "served": served, "storage": name == "v1", "schema": schema});
    let names = json!({"plural": "toolservers", "singular": "toolserver", "kind": "ToolServer"});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("toolservers.{GROUP}")},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names,
            "versions": [version("v1", true), version("v2", is_second_served)]},
    });
    cluster.kubectl(&["apply", "-f", "-"], &definition.to_string()).await.unwrap();
}

/// Says where the server is.
async fn publish(operated: &Operated<'_>, url: &str) {
    let server = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ToolServer", "metadata": {"name": "server"},
        "status": {"address": {"url": url}}});
    let apply = ["apply", "-n", &operated.namespace, "-f", "-"];
    until("the kind is served", async || operated.cluster.kubectl(&apply, &server.to_string()).await.ok()).await;
}

/// Lets the operator watch the kind.
async fn permit(operated: &Operated<'_>) {
    let group = "rbac.authorization.k8s.io";
    let metadata = json!({"name": "toolservers"});
    let rules = json!([{"apiGroups": [GROUP], "resources": ["toolservers"], "verbs": ["list", "watch"]}]);
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata, "rules": rules});
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "toolservers"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": operated.namespace}]});
    let objects: Vec<Value> = vec![role, binding];
    operated.apply(&objects).await;
}

async fn until_reached_at(operated: &Operated<'_>, expected: &str) {
    until(&format!("the plan has {expected}"), async || {
        let plan = plan(operated).await;
        let transport = &plan.upstreams.first()?.transport;
        matches!(transport, TransportPlan::External { url, .. } if url == expected).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_kind_whose_version_is_not_served_any_more_is_watched_in_another() {
    let operated = Operated::start().await;
    define(operated.cluster, true).await;
    publish(&operated, "http://one.example/mcp").await;
    permit(&operated).await;
    let server = json!({"apiGroup": GROUP, "kind": "ToolServer", "name": "server"});
    operated.apply(&[gateway("main"), object("MCPUpstream", "up", &json!({"serverRef": server}))]).await;
    operated.until_condition("mcpupstreams", "up", "ResolvedRefs", "True ResolvedRefs").await;
    until_reached_at(&operated, "http://one.example/mcp").await;
    define(operated.cluster, false).await;
    publish(&operated, "http://two.example/mcp").await;
    until_reached_at(&operated, "http://two.example/mcp").await;
}
