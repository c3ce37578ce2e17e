//! What a gateway recorded of its calls: history, counters, and the upstream's own log.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use serde_json::Value;

use super::super::harness::Gateway;
use super::super::http::Http;

/// Everything by tool or chain name.
pub struct Seen {
    /// History rows, by tool.
    pub executions: HashMap<String, Vec<Value>>,
    /// Records of calls, by tool.
    pub calls: HashMap<String, Vec<Value>>,
    /// Of `hawsepipe_plugin_executions_total`: `plugin phase mode status reason` and the count, by chain.
    pub counted: HashMap<String, BTreeMap<String, u64>>,
    /// Tools that the upstream was called for.
    pub reached: BTreeSet<String>,
}

impl Seen {
    /// All of it.
    pub async fn of(gateway: &Gateway, upstream_log: &Path) -> Self {
        let by_tool = |items: Vec<Value>| {
            let mut map = HashMap::<String, Vec<Value>>::new();
            for item in items {
                map.entry(item["tool"].as_str().unwrap().to_owned()).or_default().push(item);
            }
            map
        };
        let log = std::fs::read_to_string(upstream_log).unwrap_or_default();
        let received = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let called = received.filter(|message| message["method"] == "tools/call");
        Self {
            executions: by_tool(list(gateway, "executions").await),
            calls: by_tool(list(gateway, "calls").await),
            counted: counted(&metrics(gateway).await),
            reached: called.map(|message| message["params"]["name"].as_str().unwrap().to_owned()).collect(),
        }
    }
}

/// Every item of a list of the admin API, over all its pages.
pub async fn list(gateway: &Gateway, what: &str) -> Vec<Value> {
    let (http, mut items, mut cursor) = (Http::new(), Vec::new(), String::new());
    loop {
        let page = http.get(&format!("http://{}/api/v1/{what}?limit=1000{cursor}", gateway.admin())).await.json();
        items.extend(page["items"].as_array().unwrap_or_else(|| panic!("{page}")).iter().cloned());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

/// The text of `/metrics`.
pub async fn metrics(gateway: &Gateway) -> String {
    Http::new().get(&format!("http://{}/metrics", gateway.admin())).await.body
}

/// The labels of a line of metrics.
pub fn labels(line: &str) -> HashMap<&str, &str> {
    let inside = line.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(inside, _)| inside);
    inside.split(',').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k, v.trim_matches('"'))).collect()
}

fn counted(metrics: &str) -> HashMap<String, BTreeMap<String, u64>> {
    let mut counted = HashMap::<String, BTreeMap<String, u64>>::new();
    for line in metrics.lines().filter(|line| line.starts_with("hawsepipe_plugin_executions_total{")) {
        let labels = labels(line);
        let words = ["plugin", "phase", "mode", "status", "reason"].map(|name| labels[name]).join(" ");
        let count = line.rsplit_once(' ').unwrap().1.parse().unwrap();
        counted.entry(labels["chain"].to_owned()).or_default().insert(words, count);
    }
    counted
}
