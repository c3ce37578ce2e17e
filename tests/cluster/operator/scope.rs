//! The namespaces that an operator is told to watch.

use serde_json::json;

use super::harness::{Operated, gateway, object};
use crate::harness::{Cluster, until};

#[tokio::test]
async fn a_namespace_that_does_not_exist_is_named_and_stops_nothing() {
    let cluster = Cluster::shared().await;
    let absent = format!("absent-{}", &uuid::Uuid::new_v4().simple().to_string()[..10]);
    let operated = Operated::with(cluster, &[&format!(" {absent} ")], &[]).await;
    let says = async |words: &str| {
        let is_it = |line: &str| line.contains(words) && line.contains(&format!("\"namespace\":\"{absent}\""));
        until(words, async || operated.operator.log().lines().any(is_it).then_some(())).await;
    };
    says("names a namespace that does not exist").await;
    operated.apply(&[gateway("main")]).await;
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;
    cluster.kubectl(&["create", "namespace", &absent], "").await.unwrap();
    says("the namespace exists now").await;
}

#[tokio::test]
async fn servers_of_other_kinds_are_watched_in_the_namespaces_that_are_watched_alone() {
    let operated = Operated::start().await;
    let server = json!({"apiGroup": "apps", "kind": "DaemonSet", "name": "server"});
    operated.apply(&[gateway("main"), object("MCPUpstream", "up", &json!({"serverRef": server}))]).await;
    let why = operated.until_condition("mcpupstreams", "up", "ResolvedRefs", "False KindNotSupported").await;
    assert!(
        why.contains("forbidden") && why.contains(&format!("in the namespace \"{}\"", operated.namespace)),
        "{why}"
    );
}
