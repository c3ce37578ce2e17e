//! The quickstart as custom resources: what `hawsepipe run` serves from its folder, an operator and a gateway with the
//! rights that the operator made serve from a cluster.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::harness::Operated;
use crate::gateway::process::Gateway;
use crate::harness::{Cluster, Process, checkout, documents, until};

/// Calls, and a word that shows that a chain was at work or a server answered.
const CALLS: [(&str, &str, &str); 5] = [
    ("files__read_text_file", r#"{"path": "handover.md"}"#, "[redacted:apiKey]"),
    ("files__read_text_file", r#"{"path": "changes.md"}"#, "tokens left out]"),
    ("files__list_directory", r#"{"path": "."}"#, "style-guide.md"),
    ("everything__echo", r#"{"message": "my password is x"}"#, "hawsepipe.dev/denied"),
    ("everything__get-structured-content", r#"{"location": "Chicago"}"#, "structuredContent"),
];

/// A gateway without a cluster, which serves these manifests.
async fn standalone(cluster: &Cluster, manifests: &str) -> Gateway {
    let path = checkout().join("manifests/quickstart").join(manifests);
    let path = path.to_string_lossy();
    let state = std::env::temp_dir().join(format!("hawsepipe-cluster-state-{}", std::process::id()));
    let state = state.to_string_lossy();
    let arguments = ["run", "-f", &path, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--state-dir", &state];
    // It asks no API server, so it needs no token.
    Gateway::of(Process::start(cluster, "default", "none", &arguments, &[])).await
}

/// The quickstart's objects. Its servers, which are processes there, are reached over HTTP at `servers`, and its plugins
/// are in a folder of the pod.
fn objects(servers: SocketAddr) -> Vec<Value> {
    let files = ["gateway.yaml", "servers.yaml", "plugins.yaml", "chains.yaml"];
    let mut objects: Vec<_> =
        files.iter().flat_map(|file| documents(&checkout().join("manifests/quickstart").join(file))).collect();
    for object in &mut objects {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        match object["kind"].as_str().unwrap() {
            "MCPUpstream" => {
                object["spec"].as_object_mut().unwrap().remove("process").unwrap();
                object["spec"]["external"] = json!({"url": format!("http://{servers}/{name}/mcp")});
            }
            "MCPGateway" => object["spec"]["plugins"]["pluginDir"] = json!(checkout().join("plugins")),
            _ => {}
        }
    }
    objects
}

/// What a gateway of a namespace offers: the names, and of each call the whole result, as it would be in `default`.
async fn served(gateway: &Gateway, namespace: &str) -> Value {
    let names = |tools: &Value| {
        let tools = tools["items"].as_array().unwrap();
        // Their order is that of the servers: of files there, of creation here.
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    let tools = until("both servers' tools are listed", async || {
        let names = names(&gateway.get("/api/v1/tools").await.json());
        let of = |server: &str| names.iter().any(|name| name.starts_with(server));
        (of("files__") && of("everything__")).then_some(names)
    })
    .await;
    let mut answers = Vec::new();
    for (tool, arguments, shows) in CALLS {
        // A denied call's result is on standard output too, and its exit code says that it is an error.
        let said = gateway.call_with(&[tool, arguments, "-o", "json"]).await.unwrap_or_else(|error| error);
        assert!(said.contains(shows), "{tool} {arguments}: {said}");
        let said = said.replace(&format!("{namespace}/"), "default/");
        answers.push(serde_json::from_str::<Value>(&said).unwrap());
    }
    json!({"tools": tools, "answers": answers})
}

#[tokio::test]
async fn a_cluster_serves_the_quickstart_as_a_folder_does() {
    let operated = Operated::start().await;
    let cluster = operated.cluster;
    let (folder, servers) = tokio::join!(standalone(cluster, ""), standalone(cluster, "servers.yaml"));
    operated.apply(&objects(servers.endpoint().await)).await;
    let pod = operated.serve("quickstart", &[]).await;
    let (expected, found) = tokio::join!(served(&folder, "default"), served(&pod.gateway, &operated.namespace));
    assert_eq!(found, expected);
    for chain in ["no-credentials-out", "answers"] {
        operated.until_condition("pluginchains", chain, "Ready", "True Ready").await;
    }
    operated.until_condition("mcpgateways", "quickstart", "Ready", "True Ready").await;
}

#[tokio::test]
async fn the_rights_that_the_operator_made_are_those_to_read_snapshots() {
    let operated = Operated::start().await;
    operated.apply(&[super::harness::gateway("main")]).await;
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;
    let rights = operated.cluster.rights((&operated.namespace, "main-gateway"), &operated.namespace).await;
    assert_eq!(rights, ["gatewaysnapshots.hawsepipe.dev [] [] [get list watch]"]);
}
