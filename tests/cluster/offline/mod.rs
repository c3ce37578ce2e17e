//! `hawsepipe validate` says of an object what an API server says: the same verdict; of rules the same words; of what a
//! schema refuses the same fields and the same kinds of fault.

mod bounds;
mod faults;
mod generate;
mod local;
mod online;

use std::collections::BTreeSet;

use futures_util::{StreamExt, stream};
use kube::Client;
use serde_json::{Value, json};

use self::faults::Verdict;
use self::generate::Generator;
use self::online::Server;
use crate::harness::{Cluster, documents};
use crate::objects::files;

/// Requests at once.
const AT_ONCE: usize = 16;
/// How many objects are generated.
const GENERATED: usize = 1000;
const SEED: u64 = 0x5eed_0004;

/// Every object of our kinds in `tests/golden/api` that is to be accepted.
fn accepted() -> Vec<Value> {
    let all = files().into_iter().flat_map(|file| documents(&file));
    all.filter(|object| object["apiVersion"] == "hawsepipe.dev/v1alpha1").collect()
}

fn refused() -> Vec<Value> {
    documents(&crate::harness::checkout().join("tests/golden/api/refused.yaml"))
}

/// A namespace to ask in.
async fn server() -> Server {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace().await;
    let client: Client = cluster.admin().await;
    Server::new(client, namespace).await
}

/// Fails with each object of which the two do not say the same. Gives what the API server said.
async fn compare(server: &Server, objects: Vec<Value>) -> Vec<Verdict> {
    let asked = stream::iter(objects).map(|object| async move {
        let online = server.create(&object).await;
        let offline = local::verdict(&object, None, server.rules());
        (object, online, offline)
    });
    let answers: Vec<_> = asked.buffered(AT_ONCE).collect().await;
    let differ = answers.iter().filter(|(_, online, offline)| !online.agrees(offline));
    let told: Vec<_> = differ.map(|(object, online, offline)| tell(object, online, offline)).collect();
    assert!(told.is_empty(), "{} of {} differ:\n{}", told.len(), answers.len(), told.join("\n"));
    answers.into_iter().map(|(_, online, _)| online).collect()
}

fn tell(object: &Value, online: &Verdict, offline: &Verdict) -> String {
    format!("- online:  {online:?}\n  offline: {offline:?}\n  {:.1500}", object.to_string())
}

#[tokio::test]
async fn objects_that_are_accepted() {
    let server = server().await;
    let verdicts = compare(&server, accepted()).await;
    assert!(verdicts.len() > 20 && verdicts.iter().all(Verdict::is_accepted), "{verdicts:?}");
}

#[tokio::test]
async fn an_object_for_each_rule_and_range() {
    let server = server().await;
    let verdicts = compare(&server, refused()).await;
    let rules: BTreeSet<_> = verdicts.iter().flat_map(|verdict| verdict.rules()).collect();
    assert!(rules.len() > 50, "too few rules to be all of them: {rules:?}");
    assert!(!verdicts.iter().any(Verdict::is_accepted), "one is accepted");
}

#[tokio::test]
async fn an_object_for_each_bound_of_each_field() {
    let server = server().await;
    let broken = bounds::broken(&accepted());
    assert!(broken.len() > 1000, "too few bounds to be all of them: {}", broken.len());
    compare(&server, broken).await;
}

#[tokio::test]
async fn generated_objects() {
    let server = server().await;
    let mut generator = Generator::new(SEED, accepted());
    let verdicts = compare(&server, generator.by_ref().take(GENERATED).collect()).await;
    let refused = verdicts.iter().filter(|verdict| !verdict.is_accepted()).count();
    // Neither verdict may be all there is, and no kind of fault may be left out.
    assert!((GENERATED / 2..GENERATED * 19 / 20).contains(&refused), "{refused} of {GENERATED} are refused");
    let kinds: BTreeSet<_> = verdicts.iter().flat_map(Verdict::kinds).collect();
    assert_eq!(kinds.len(), faults::KINDS, "{kinds:?}");
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Rules that compare with what was there before.
#[tokio::test]
async fn changes_that_are_refused() {
    let server = server().await;
    let code = json!({"inline": "export default () => ({});"});
    let plugin = |kind: &str| object("Plugin", "changed", &json!({"source": code, "type": kind}));
    let chain = |phase: &str| object("PluginChain", "changed", &json!({"phase": phase, "entries": [{"name": "a"}]}));
    for (before, after, is_accepted) in [
        (plugin("middleware"), plugin("phase"), false),
        (plugin("middleware"), object("Plugin", "changed", &json!({"source": code})), true),
        (chain("Request"), chain("Response"), false),
        (chain("Request"), chain("Request"), true),
    ] {
        let online = server.update(&before, &after).await;
        let offline = local::verdict(&after, Some(&before), server.rules());
        assert!(online.agrees(&offline), "{}", tell(&after, &online, &offline));
        assert_eq!(online.is_accepted(), is_accepted, "{online:?}: {after}");
        assert_eq!(online.rules().count(), usize::from(!is_accepted), "{online:?}: {after}");
    }
    // No folder holds one, so nothing is said of it offline.
    let shard = |data: &str| {
        let shard =
            json!({"kind": "Code", "encoding": "JSONZstd", "sha256": "0".repeat(64), "sizeBytes": 1, "data": data});
        object("GatewaySnapshot", "changed", &json!({"gateway": "main", "shard": shard}))
    };
    let online = server.update(&shard("AAAA"), &shard("AAAB")).await;
    assert_eq!(online.rules().collect::<Vec<_>>(), ["a shard never changes: its name is its content"]);
}
