//! Where people look, and what must not be there.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hawsepipe::api::pack::unpack;
use hawsepipe::api::snapshot::Shard;
use serde_json::Value;

use crate::gateway::process::Gateway;
use crate::harness::Process;
use crate::operator::harness::{Operated, api};

/// Values that stand nowhere else, by name.
pub struct Canaries(Vec<(&'static str, String)>);

impl Canaries {
    /// One of each name.
    pub fn new(names: &[&'static str]) -> Self {
        Self(names.iter().map(|name| (*name, format!("{name}-{}", uuid::Uuid::new_v4().simple()))).collect())
    }

    /// The whole value.
    pub fn get(&self, name: &str) -> &str {
        &self.0.iter().find(|(known, _)| *known == name).expect("it is one of them").1
    }

    /// The names of those that stand in a text, were it only in part, or as a Secret's data has them.
    pub fn found_in(&self, text: &str) -> Vec<&'static str> {
        let is_there = |name: &str, value: &str| {
            // So long that none of it comes by chance: the name and 8 digits.
            let start = &value[..name.len() + 9];
            let data = BASE64_STANDARD.encode(&start[..start.len() / 3 * 3]);
            text.contains(start) || text.contains(&data)
        };
        self.0.iter().filter(|(name, value)| is_there(name, value)).map(|(name, _)| *name).collect()
    }
}

/// What a place is called, and what stands there.
pub type Found = (String, String);

const KINDS: [&str; 6] = ["mcpgateways", "mcpupstreams", "plugins", "pluginchains", "toolpipelines", "sectionbindings"];
const OTHERS: [&str; 6] = ["events", "roles", "rolebindings", "leases", "configmaps", "serviceaccounts"];
const ADMIN: [&str; 14] = [
    "api/v1/executions?limit=1000",
    "api/v1/calls?limit=1000",
    "api/v1/plugins",
    "api/v1/workers",
    "api/v1/chains",
    "api/v1/upstreams",
    "api/v1/tools",
    "api/v1/sessions",
    "api/v1/invocations",
    "api/v1/plan",
    "api/v1/report",
    "api/v1/explain?tool=up__act",
    "readyz",
    "metrics",
];

/// Objects of a namespace: statuses of ours, and all that the operator makes.
pub async fn of_cluster(operated: &Operated<'_>, namespace: &str) -> Vec<Found> {
    let mut found = Vec::new();
    for plural in KINDS {
        for object in api(&operated.client, namespace, plural).list(&Default::default()).await.unwrap() {
            found.push((format!("status of {plural} {:?}", object.metadata.name), object.data["status"].to_string()));
        }
    }
    for kind in OTHERS {
        let objects = operated.cluster.kubectl(&["get", kind, "-n", namespace, "-o", "json"], "").await.unwrap();
        found.push((kind.to_owned(), objects));
    }
    found
}

/// The snapshot's objects, and what is packed in them.
pub async fn of_snapshot(operated: &Operated<'_>) -> Vec<Found> {
    let objects = operated.objects("gatewaysnapshots").await;
    objects
        .iter()
        .map(|object| ("snapshot".to_owned(), unpacked(&object.to_string(), &object["spec"]["shard"])))
        .collect()
}

/// The text that shards are in, and what is packed in one.
fn unpacked(text: &str, shard: &Value) -> String {
    let shard: Option<Shard> = serde_json::from_value(shard.clone()).unwrap();
    format!("{text}{}", shard.map(|shard| unpack(&shard).unwrap().1).unwrap_or_default())
}

/// Every file that a gateway keeps, with what is packed in it.
pub fn of_disk(folder: &Path) -> Vec<Found> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let (_, json) = text.split_once('\n').unwrap();
        let kept: Value = serde_json::from_str(json).unwrap();
        let shards = kept["shards"].as_array().unwrap().iter().map(|shard| unpacked("", &shard[1]));
        (path.display().to_string(), shards.fold(text.clone(), |text, shard| text + &shard))
    };
    files.map(read).collect()
}

/// What the processes say of themselves.
pub async fn of_processes(operator: &Process, gateway: &Gateway) -> Vec<Found> {
    let mut found = Vec::new();
    for path in ADMIN {
        let answer = gateway.get(&format!("/{path}")).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        found.push((format!("the gateway's {path}"), answer.text));
    }
    let metrics = crate::gateway::http::get(&format!("http://{}/metrics", operator.address().await), &[]).await;
    assert_eq!(metrics.status, 200, "{metrics:?}");
    found.push(("the operator's metrics".to_owned(), metrics.text));
    found.push(("the operator's log".to_owned(), operator.log()));
    found.push(("the gateway's log".to_owned(), gateway.log()));
    found
}
