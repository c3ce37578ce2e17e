//! Measures thousands of upstreams and hundreds of chains: the first snapshot, single edits, and the operator's memory.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use kube::Client;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::Cluster;
use crate::operator::harness::{ACCOUNT, api, gateway, object, operator};

/// How many objects are created concurrently.
const AT_ONCE: usize = 16;
/// The number of measured edits.
const EDITS: usize = 10;
/// After this time, the measurement counts as failed.
const DEADLINE: Duration = Duration::from_secs(600);

/// Measures and prints a table.
pub async fn measure(upstreams: usize, chains: usize) {
    let cluster = Cluster::own().await;
    let namespace = cluster.namespace().await;
    let client = cluster.admin().await;
    eprintln!("creating {upstreams} upstreams and {chains} chains");
    create(&client, &namespace, objects(upstreams, chains)).await;
    let operator = operator(&cluster, &namespace, ACCOUNT).await;
    let began = Instant::now();
    let seen = Seen { client, namespace };
    let (first, _) = seen.until_index_is_not(None, began).await;
    eprintln!("the first snapshot was written after {first:?}");
    seen.until_all_told("mcpupstreams", upstreams, began).await;
    seen.until_all_told("pluginchains", chains, began).await;
    let whole = began.elapsed();
    let edits = seen.measure_edits(&cluster).await;
    println!("| {upstreams} upstreams, {chains} chains | |\n|---|---|");
    println!("| from the operator's start to the first snapshot | {:.1} s |", first.as_secs_f64());
    println!("| to the last status | {:.1} s |", whole.as_secs_f64());
    println!("| an edit to its snapshot: median of {EDITS} | {:.0} ms |", edits.took[EDITS / 2].as_secs_f64() * 1e3);
    println!("| the slowest | {:.0} ms |", edits.took[EDITS - 1].as_secs_f64() * 1e3);
    println!("| writes for each edit, its status and the lease included | {:.1} |", edits.writes);
    println!("| most memory of the operator | {} MB |", operator.most_memory() / 1000);
}

/// The results of edits.
struct Edits {
    /// The time from each edit to its snapshot, fastest first.
    took: Vec<Duration>,
    /// The operator's mean number of writes for each edit.
    writes: f64,
}

/// Makes a gateway with this many upstreams and chains. Returns each object with the plural of its kind.
pub fn objects(upstreams: usize, chains: usize) -> Vec<(&'static str, Value)> {
    let mut objects = vec![("mcpgateways", gateway("main"))];
    for n in 0..upstreams {
        let spec =
            json!({"external": {"url": format!("http://server-{n}.example/mcp")}, "description": "One of many."});
        objects.push(("mcpupstreams", object("MCPUpstream", &format!("upstream-{n}"), &spec)));
    }
    for n in 0..20 {
        let code = format!("export default () => ({{ continue: true }}); // {n}");
        objects.push(("plugins", object("Plugin", &format!("plugin-{n}"), &json!({"source": {"inline": code}}))));
    }
    for n in 0..chains {
        let spec = json!({"phase": "Response", "upstreams": {"names": [format!("upstream-{n}*")]},
            "entries": [{"name": format!("plugin-{}", n % 20), "config": {"n": n}}]});
        objects.push(("pluginchains", object("PluginChain", &format!("chain-{n}"), &spec)));
    }
    objects
}

/// Creates the objects in the cluster.
pub async fn create(client: &Client, namespace: &str, objects: Vec<(&'static str, Value)>) {
    let creations = objects.into_iter().map(|(plural, object)| async move {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        api(client, namespace, plural).create(&PostParams::default(), &object).await.unwrap();
    });
    stream::iter(creations).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
}

/// Observes a namespace of the cluster.
pub struct Seen {
    pub client: Client,
    pub namespace: String,
}

impl Seen {
    /// Returns the current revision of the index.
    pub async fn index(&self) -> Option<String> {
        let found = api(&self.client, &self.namespace, "gatewaysnapshots").get_opt("main").await.unwrap()?;
        Some(found.data.pointer("/spec/index/current")?.as_str()?.to_owned())
    }

    /// Waits until the current revision is not `before`. Returns the time since `began`, and the new revision.
    pub async fn until_index_is_not(&self, before: Option<&str>, began: Instant) -> (Duration, Option<String>) {
        loop {
            let now = self.index().await;
            if now.is_some() && now.as_deref() != before {
                return (began.elapsed(), now);
            }
            assert!(began.elapsed() < DEADLINE, "no snapshot in time");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until each object of a kind has a status.
    pub async fn until_all_told(&self, plural: &str, count: usize, began: Instant) {
        loop {
            let list = api(&self.client, &self.namespace, plural).list(&ListParams::default()).await.unwrap();
            let told = list.items.iter().filter(|o| o.data.pointer("/status/observedGeneration").is_some()).count();
            if told == count {
                return;
            }
            assert!(began.elapsed() < DEADLINE, "{told} of {count} statuses of {plural} were written in time");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn measure_edits(&self, cluster: &Cluster) -> Edits {
        let mark = cluster.mark().await;
        let (mut before, mut took) = (self.index().await, Vec::new());
        for n in 0..EDITS {
            let began = Instant::now();
            self.edit(n).await;
            let (took_one, now) = self.until_index_is_not(before.as_deref(), began).await;
            before = now;
            took.push(took_one);
        }
        took.sort();
        let requests = cluster.requests_since(mark).await;
        let reads = ["get", "list", "watch"];
        let writes = requests.iter().filter(|r| r.user.ends_with(ACCOUNT) && !reads.contains(&r.verb.as_str()));
        #[allow(clippy::cast_precision_loss)] // Far below 2^52.
        Edits { took, writes: writes.count() as f64 / EDITS as f64 }
    }

    async fn edit(&self, n: usize) {
        let patch = json!({"spec": {"external": {"url": format!("http://edited-{n}.example/mcp")}}});
        let api = api(&self.client, &self.namespace, "mcpupstreams");
        api.patch("upstream-7", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }
}
