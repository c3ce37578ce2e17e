//! Measures managed upstreams whose servers run on simulated nodes: how long until each has a ready pod, single edits,
//! the operator's memory, and whether it writes anything when nothing changes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::harness::{Cluster, counts};
use crate::nodes;
use crate::operator::harness::{ACCOUNT, api, condition, object, operator_with};
use crate::scale::{self, create};
use crate::steady::{until_calm, written};

/// Has the operator create pods.
const IMAGE: (&str, &str) = ("HAWSEPIPE_GATEWAY_IMAGE", "registry.example.com/hawsepipe:1");
/// The number of measured edits, each of another upstream.
const EDITS: usize = 100;
/// After this time, the measurement counts as failed.
const DEADLINE: Duration = Duration::from_secs(900);

/// Measures and prints a table. Every other server is one on stdio.
pub async fn measure(upstreams: usize, watched: Duration) {
    let cluster = Cluster::own().await;
    let namespace = cluster.namespace().await;
    let client = cluster.admin().await;
    let _scheduler = nodes::start(&cluster, &namespace).await;
    let operator = operator_with(&cluster, &namespace, ACCOUNT, &[IMAGE]).await;
    eprintln!("creating {upstreams} managed upstreams");
    let began = Instant::now();
    create(&client, &namespace, objects(upstreams)).await;
    eprintln!("they were created after {:?}", began.elapsed());
    let seen = Seen { client, namespace };
    let made = seen.until("every workload is there", began, async || seen.workloads().await == upstreams).await;
    eprintln!("every workload was there after {made:?}");
    let pods = seen.until("every pod is ready", began, async || seen.ready_pods().await == upstreams).await;
    eprintln!("every pod was ready after {pods:?}");
    let told = seen.until("every status is written", began, async || seen.ready().await == upstreams).await;
    eprintln!("the last status was written after {told:?}");
    until_calm(&cluster).await;
    let edits = seen.measure_edits(upstreams).await;
    seen.until("every status is written", Instant::now(), async || seen.ready().await == upstreams).await;
    until_calm(&cluster).await;
    eprintln!("watching for {watched:?}");
    let mark = cluster.mark().await;
    tokio::time::sleep(watched).await;
    let writes = written(&cluster, mark).await;
    println!("| {upstreams} managed upstreams on simulated nodes | |\n|---|---|");
    println!("| from the first one's creation to the last workload | {:.1} s |", made.as_secs_f64());
    println!("| to the last ready pod | {:.1} s |", pods.as_secs_f64());
    println!("| to the last status that says that its server is ready | {:.1} s |", told.as_secs_f64());
    println!("| an edit to its workload: p50, p99 of {} | {} |", edits.workload.len(), shown(edits.workload));
    println!("| an edit to its snapshot: p50, p99 | {} |", shown(edits.snapshot));
    println!("| writes of the operator in {} s, its lease apart | {} |", watched.as_secs(), writes.len());
    println!("| ready pods after them | {} |", seen.ready_pods().await);
    println!("| most memory of the operator | {} MB |", operator.most_memory() / 1000);
    if !writes.is_empty() {
        println!("\n{:#?}", counts(&writes));
    }
}

/// Makes a gateway without pods and this many managed upstreams. Returns each object with the plural of its kind.
fn objects(upstreams: usize) -> Vec<(&'static str, Value)> {
    let gateway = json!({"authentication": {"anonymous": {}}, "replicas": 0});
    let mut objects = vec![("mcpgateways", object("MCPGateway", "main", &gateway))];
    for n in 0..upstreams {
        let managed = if is_stdio(n) {
            json!({"image": "server:1", "command": ["serve"], "egress": ["api.example.com:443"]})
        } else {
            json!({"image": "server:1", "transport": "StreamableHTTP", "ports": [{"name": "mcp", "port": 3001}]})
        };
        objects.push(("mcpupstreams", object("MCPUpstream", &name(n), &json!({"managed": managed}))));
    }
    objects
}

fn name(n: usize) -> String {
    format!("upstream-{n}")
}

const fn is_stdio(n: usize) -> bool {
    n % 2 == 1
}

/// The time from each edit until it was seen.
#[derive(Default)]
struct Edits {
    workload: Vec<Duration>,
    snapshot: Vec<Duration>,
}

/// Shows the median and the 99th percentile in milliseconds.
fn shown(mut took: Vec<Duration>) -> String {
    took.sort();
    let at = |percent: usize| took.get((took.len() * percent).div_ceil(100).saturating_sub(1));
    let [p50, p99] = [50, 99].map(|percent| at(percent).map_or(0, Duration::as_millis));
    format!("{p50}, {p99} ms")
}

/// Observes a namespace of the cluster.
struct Seen {
    client: Client,
    namespace: String,
}

impl Seen {
    /// Waits until something is true. Returns the time since `began`.
    async fn until(&self, what: &str, began: Instant, is_true: impl AsyncFn() -> bool) -> Duration {
        while !is_true().await {
            assert!(
                began.elapsed() < DEADLINE,
                "{what}: not in time; {:?}",
                self.reasons().await.into_iter().take(5).collect::<Vec<_>>()
            );
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        began.elapsed()
    }

    fn all<K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn workloads(&self) -> usize {
        let ours = ListParams::default().labels("hawsepipe.dev/upstream");
        let (deployments, sets): (Api<Deployment>, Api<StatefulSet>) = (self.all(), self.all());
        deployments.list_metadata(&ours).await.unwrap().items.len()
            + sets.list_metadata(&ours).await.unwrap().items.len()
    }

    async fn ready_pods(&self) -> usize {
        let pods: Api<Pod> = self.all();
        let pods = pods.list(&ListParams::default().labels("hawsepipe.dev/upstream")).await.unwrap();
        let is_ready = |pod: &&Pod| {
            let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
        };
        pods.items.iter().filter(is_ready).count()
    }

    /// Counts the upstreams by what their conditions `Accepted` and `Programmed` say.
    async fn reasons(&self) -> BTreeMap<String, usize> {
        let all = api(&self.client, &self.namespace, "mcpupstreams").list(&ListParams::default()).await.unwrap();
        let mut reasons = BTreeMap::new();
        for upstream in all {
            let is = |name: &str| condition(&upstream.data["status"], name).unwrap_or_default();
            let ((accepted, _), (programmed, why)) = (is("Accepted"), is("Programmed"));
            *reasons.entry(format!("{accepted}, {programmed}: {why}")).or_default() += 1;
        }
        reasons
    }

    /// Counts the upstreams whose servers are ready: all that is wrong is that no pod of the gateway calls them.
    async fn ready(&self) -> usize {
        let ready = format!("True Accepted, False Pending: {}/main has no ready pod", self.namespace);
        self.reasons().await.get(&ready).copied().unwrap_or_default()
    }

    async fn measure_edits(&self, upstreams: usize) -> Edits {
        let mut edits = Edits::default();
        let index = scale::Seen { client: self.client.clone(), namespace: self.namespace.clone() };
        for n in 0..EDITS.min(upstreams) {
            let before = index.index().await;
            let began = Instant::now();
            let image = self.edit(n).await;
            let (workload, (snapshot, _)) =
                tokio::join!(self.until_rolled(n, &image, began), index.until_index_is_not(before.as_deref(), began));
            edits.workload.push(workload);
            edits.snapshot.push(snapshot);
        }
        edits
    }

    /// Changes the image of a server, which its workload has, and a label, which the plan has. Returns the image.
    async fn edit(&self, n: usize) -> String {
        let image = format!("server:{}", n + 2);
        let patch = json!({"metadata": {"labels": {"edit": n.to_string()}}, "spec": {"managed": {"image": image}}});
        let api = api(&self.client, &self.namespace, "mcpupstreams");
        api.patch(&name(n), &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        image
    }

    /// Waits until a server's workload has an image. Returns the time since `began`.
    async fn until_rolled(&self, n: usize, image: &str, began: Instant) -> Duration {
        let resource =
            if is_stdio(n) { ApiResource::erase::<StatefulSet>(&()) } else { ApiResource::erase::<Deployment>(&()) };
        let workloads: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        loop {
            let made = workloads.get(&format!("{}-mcp", name(n))).await.unwrap();
            let containers =
                made.data["spec"]["template"]["spec"]["containers"].as_array().cloned().unwrap_or_default();
            if containers.iter().any(|container| container["image"] == image) {
                return began.elapsed();
            }
            assert!(began.elapsed() < DEADLINE, "{} is not edited in time", name(n));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
