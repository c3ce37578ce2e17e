//! Names that clients reach a gateway by in a cluster.

use serde_json::json;

use super::harness::{Operated, object};
use crate::gateway::http::get;
use crate::harness::Cluster;

#[tokio::test]
async fn a_gateway_answers_to_the_names_of_its_service_and_its_route() {
    let variables = [("HAWSEPIPE_CLUSTER_DOMAIN", "corp.example")];
    let operated = Operated::with(Cluster::shared().await, &[], &variables).await;
    let route = json!({"parentRefs": [{"name": "edge"}], "hostnames": ["mcp.example.com", "*.example.net"]});
    let spec = json!({"authentication": {"anonymous": {}}, "route": route});
    operated.apply(&[object("MCPGateway", "main", &spec)]).await;
    let gateway = operated.start_gateway("main", &[]).await;
    let url = format!("http://{}/mcp", gateway.endpoint().await);
    let service = format!("main-gateway.{}.svc", operated.namespace);
    let whole = format!("{service}.corp.example:8080");
    let elsewhere = format!("{service}.cluster.local");
    for (host, served) in [
        ("main-gateway", true),
        (&*service, true),
        (&*whole, true),
        ("mcp.example.com", true),
        ("a.example.net:443", true),
        (&*elsewhere, false),
        ("other-gateway", false),
        ("example.net", false),
        ("evil.example", false),
    ] {
        let answer = get(&url, &[("host", host)]).await;
        assert_eq!(answer.status != 403, served, "{host}: {answer:?}");
    }
}
