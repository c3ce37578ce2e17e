//! Measures that the operator writes nothing for minutes when nothing changes, even while others add annotations.

use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::harness::{Cluster, Mark, Request, counts};
use crate::operator::harness::{ACCOUNT, api, operator};
use crate::scale::{Seen, create, objects};

/// The measurement begins once the operator has written nothing for this long.
const CALM: Duration = Duration::from_secs(10);
/// The pause between two annotations by another controller.
const BETWEEN: Duration = Duration::from_millis(50);

/// Measures twice for `watched`, first without and then with another controller, and prints a table.
pub async fn measure(upstreams: usize, chains: usize, watched: Duration) {
    let cluster = Cluster::own().await;
    let namespace = cluster.namespace().await;
    let client = cluster.admin().await;
    create(&client, &namespace, objects(upstreams, chains)).await;
    let operator = operator(&cluster, &namespace, ACCOUNT).await;
    let (seen, began) = (Seen { client: client.clone(), namespace: namespace.clone() }, Instant::now());
    seen.until_all_told("mcpupstreams", upstreams, began).await;
    seen.until_all_told("pluginchains", chains, began).await;
    until_calm(&cluster).await;
    eprintln!("converged after {:.0} s; watching for {watched:?}", began.elapsed().as_secs_f64());
    let mark = cluster.mark().await;
    tokio::time::sleep(watched).await;
    let alone = written(&cluster, mark).await;
    eprintln!("watching for {watched:?} while another controller adds annotations");
    let mark = cluster.mark().await;
    let annotated = annotate(&client, &namespace, upstreams, chains, watched).await;
    let beside = written(&cluster, mark).await;
    println!("| {upstreams} upstreams, {chains} chains, {} s each | |\n|---|---|", watched.as_secs());
    println!("| mutating requests of the operator, its lease apart | {} |", alone.len());
    println!("| the same, while another controller wrote {annotated} annotations | {} |", beside.len());
    println!("| most memory of the operator | {} MB |", operator.most_memory() / 1000);
    for some in [&alone, &beside] {
        if !some.is_empty() {
            println!("\n{:#?}", counts(some));
        }
    }
}

/// Waits until the operator has written nothing for a while.
pub async fn until_calm(cluster: &Cluster) {
    loop {
        let mark = cluster.mark().await;
        tokio::time::sleep(CALM).await;
        if written(cluster, mark).await.is_empty() {
            return;
        }
    }
}

/// Returns the operator's writes since `mark`, except those of its Lease.
pub async fn written(cluster: &Cluster, mark: Mark) -> Vec<Request> {
    let mut requests = cluster.requests_since(mark).await;
    let reads = ["get", "list", "watch"];
    requests.retain(|request| {
        request.user.ends_with(ACCOUNT)
            && !reads.contains(&request.verb.as_str())
            && !request.resource.starts_with("leases.")
    });
    requests
}

/// Annotates objects in turn, including the gateway and its index. Returns the number of annotations.
async fn annotate(client: &Client, namespace: &str, upstreams: usize, chains: usize, lasting: Duration) -> usize {
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < lasting {
        let (plural, name) = match count % 4 {
            0 => ("mcpgateways", "main".to_owned()),
            1 => ("mcpupstreams", format!("upstream-{}", count % upstreams)),
            2 => ("pluginchains", format!("chain-{}", count % chains)),
            _ => ("gatewaysnapshots", "main".to_owned()),
        };
        let patch = json!({"metadata": {"annotations": {"example.com/touched": count.to_string()}}});
        let api = api(client, namespace, plural);
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        count += 1;
        tokio::time::sleep(BETWEEN).await;
    }
    count
}
