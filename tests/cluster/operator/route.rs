//! The HTTPRoute of a gateway. The kind is one of Gateway API, which is installed while the operator runs.

use serde_json::{Value, json};

use super::harness::{Operated, object};
use super::workload::IMAGE;
use crate::harness::{Cluster, checkout, documents, until};

const ROUTE: &str = "httproute/main-gateway";
const KIND: &str = "crd/httproutes.gateway.networking.k8s.io";

/// A gateway with this many pods and these members of `spec.route`, or none.
fn gateway(replicas: u32, route: &Value) -> Value {
    let mut spec = json!({"authentication": {"anonymous": {}}, "replicas": replicas});
    if !route.is_null() {
        spec["route"] = route.clone();
    }
    object("MCPGateway", "main", &spec)
}

/// Installs the kind of Gateway API 1.7, or as it was before 1.2: rules had no timeouts in the standard channel.
async fn install(operated: &Operated<'_>, has_timeouts: bool) {
    let mut kind = documents(&checkout().join("tests/cluster/gateway-api/httproutes.yaml")).remove(0);
    if !has_timeouts {
        let rule = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/rules/items/properties";
        kind.pointer_mut(rule).unwrap().as_object_mut().unwrap().remove("timeouts").unwrap();
    }
    operated.cluster.kubectl(&["apply", "--server-side", "-f", "-"], &kind.to_string()).await.unwrap();
    let get = ["get", "-n", &operated.namespace, "httproutes"];
    until("the kind is served", async || operated.cluster.kubectl(&get, "").await.ok()).await;
}

async fn until_not_installed(operated: &Operated<'_>) {
    let message = operated.until_condition("mcpgateways", "main", "ResolvedRefs", "False GatewayAPINotInstalled").await;
    assert!(message.starts_with("spec.route: "), "{message}");
}

/// Checks the route that the operator makes once its kind is installed, and once that has timeouts too.
async fn is_made(operated: &Operated<'_>, route: &Value) {
    install(operated, false).await;
    let timeouts = |made: &Value| made["spec"]["rules"][0]["timeouts"].clone();
    let older = operated.until_made(ROUTE, |made| !made.is_null()).await;
    assert_eq!(timeouts(&older), Value::Null);
    install(operated, true).await;
    let mut edits = 0;
    let made = until("the route has timeouts after an edit of the gateway", async || {
        edits += 1;
        operated.apply(&[gateway(edits % 2 + 1, route)]).await;
        let made = operated.made(ROUTE).await;
        (timeouts(&made) == json!({"request": "0s"})).then_some(made)
    })
    .await;
    assert_eq!(made["spec"]["hostnames"], json!(["mcp.example.com"]));
    assert_eq!(made["spec"]["parentRefs"][0]["sectionName"], "https");
    let rule = &made["spec"]["rules"][0];
    assert_eq!(rule["matches"][0]["path"], json!({"type": "PathPrefix", "value": "/"}));
    assert_eq!(
        (&rule["backendRefs"][0]["name"], &rule["backendRefs"][0]["port"]),
        (&json!("main-gateway"), &json!(8080))
    );
    operated.until_condition("mcpgateways", "main", "ResolvedRefs", "True ResolvedRefs").await;
    operated.delete(ROUTE).await;
    operated.until_made(ROUTE, |again| !again.is_null() && again["metadata"]["uid"] != made["metadata"]["uid"]).await;
}

/// Checks that the route is written only if it has to be, and follows the spec.
async fn follows_the_spec(operated: &Operated<'_>, route: &Value) {
    let edit = async |edits: u32| {
        // The operator applies the Deployment before the route, and again after the route's turn.
        for replicas in [2 * edits + 1, 2 * edits + 2] {
            operated.apply(&[gateway(replicas, route)]).await;
            operated.until_made("deployment/main-gateway", |made| made["spec"]["replicas"] == replicas).await;
        }
    };
    operated.until_left_alone("httproutes.gateway.networking.k8s.io", edit).await;
    operated.apply(&[gateway(3, &Value::Null)]).await;
    operated.until_made(ROUTE, Value::is_null).await;
    operated.apply(&[gateway(3, route)]).await;
    operated.until_made(ROUTE, |made| !made.is_null()).await;
}

#[tokio::test]
async fn a_route_is_made_once_its_kind_is_installed_and_nothing_else_needs_it() {
    let cluster = Cluster::own().await;
    let operated = Operated::with(&cluster, &[], &[IMAGE]).await;
    let mark = cluster.mark().await;
    let edge = json!({"name": "edge", "namespace": "infra", "sectionName": "https"});
    let route = json!({"parentRefs": [edge], "hostnames": ["mcp.example.com"]});
    operated.apply(&[gateway(2, &route)]).await;
    until_not_installed(&operated).await;
    operated.until_made("deployment/main-gateway", |made| made["spec"]["replicas"] == 2).await;
    until("the operator is ready", async || operated.operator.log().contains("every kind is watched").then_some(()))
        .await;
    let requests = cluster.requests_since(mark).await;
    let of_routes = requests.iter().filter(|request| request.resource.starts_with("httproutes")).count();
    assert_eq!(of_routes, 0, "the kind is watched only if it is installed");

    is_made(&operated, &route).await;
    follows_the_spec(&operated, &route).await;
    operated.delete(KIND).await;
    until_not_installed(&operated).await;
    operated.apply(&[gateway(1, &route)]).await;
    operated.until_made("deployment/main-gateway", |made| made["spec"]["replicas"] == 1).await;
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;
}
