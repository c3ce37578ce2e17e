//! What the operator writes when nothing is to be written: nothing.

use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{ACCOUNT, Operated, condition, gateway, object};
use super::managed::{everything, files};
use super::workload::IMAGE;
use crate::harness::{Cluster, Request, counts, until};

const UPSTREAMS: usize = 60;
const CHAINS: usize = 10;
/// Longer than every period of the operator's own: polls, what is seen late, looks whatever happens.
const WATCHED: Duration = Duration::from_secs(25);

fn objects() -> Vec<Value> {
    let mut objects = vec![
        gateway("main"),
        object("Plugin", "mark", &json!({"source": {"inline": "export default () => ({ continue: true });"}})),
        object("Plugin", "broken", &json!({"source": {"inline": "export default ("}})),
    ];
    for n in 0..UPSTREAMS {
        let url = format!("http://server-{n}.example/mcp");
        objects.push(object("MCPUpstream", &format!("up-{n}"), &json!({"external": {"url": url}})));
    }
    for (name, server) in [("files", files()), ("everything", everything())] {
        objects.push(object("MCPUpstream", name, &json!({"managed": server})));
    }
    for n in 0..CHAINS {
        let spec = json!({"phase": "Response", "entries": [{"name": "mark"}]});
        objects.push(object("PluginChain", &format!("chain-{n}"), &spec));
    }
    objects
}

/// What the operator wrote, its lease apart.
fn written<'a>(requests: &'a [Request], user: &str) -> Vec<&'a Request> {
    let writes = |request: &&Request| !matches!(request.verb.as_str(), "get" | "list" | "watch");
    let ours = requests.iter().filter(|request| request.user == user && !request.resource.starts_with("leases."));
    ours.filter(writes).collect()
}

#[tokio::test]
async fn in_a_steady_state_nothing_is_written() {
    let operated = Operated::with(Cluster::shared().await, &[], &[IMAGE]).await;
    operated.apply(&objects()).await;
    let told = |status: &Value| condition(status, "Ready").is_some() && condition(status, "Accepted").is_some();
    for plural in ["mcpgateways", "plugins", "mcpupstreams", "pluginchains"] {
        until(&format!("every one of {plural} has a status"), async || {
            let all = operated.objects(plural).await;
            all.iter().all(|object| told(&object["status"])).then_some(())
        })
        .await;
    }
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;
    let user = format!("system:serviceaccount:{}:{ACCOUNT}", operated.namespace);
    // Statuses that follow from others may take another round.
    tokio::time::sleep(Duration::from_secs(3)).await;

    let mark = operated.cluster.mark().await;
    let annotate = ["annotate", "-n", &operated.namespace, "--all", "--overwrite", "mcpgw,mcpup,plug,pchain"];
    for n in 0..5 {
        let annotation = format!("example.com/touched={n}");
        operated.cluster.kubectl(&[&annotate[..], &[&annotation]].concat(), "").await.unwrap();
        // With a namespace more everything is compiled anew, and every status computed.
        operated.cluster.namespace().await;
        tokio::time::sleep(WATCHED / 5).await;
    }
    let requests = operated.cluster.requests_since(mark).await;
    let written = written(&requests, &user);
    assert!(written.is_empty(), "{:?}\n{written:#?}", counts(written.iter().copied()));
    let reads = requests.iter().filter(|request| request.user == user && request.verb != "watch").count();
    assert!(reads > 0, "the operator did not even renew its lease: is it alive?");
}
