//! A real Prometheus beside a real gateway: what dashboards ask for is there, and alerts fire for what is wrong.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use hyper::Method;
use serde_json::{Value, json};

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::parts::{chain, external, object, plugin, raw_stdio, tools_of, until};
use crate::fixtures::checkout;

/// How many calls the guard denies.
const DENIED: u32 = 100;
/// Panels with a query that finds nothing after this load: nobody was turned away, no plugin asks the gateway for
/// anything, and nothing was dropped.
const EMPTY: [&str; 10] = [
    "Refused at admission",
    "Sessions and streams",
    "Chains that refuse",
    "Chains that fail open",
    "Skipped",
    "Shadows",
    "Started and ended",
    "Asked of the gateway",
    "Connections",
    "Dropped",
];
/// The alerts that fire: no operator runs here, either.
const FIRING: [&str; 6] = [
    "HawsepipeCallsFailing",
    "HawsepipeNoLeader",
    "HawsepipePluginFailing",
    "HawsepipePluginSlow",
    "HawsepipeUpstreamDown",
    "HawsepipeUpstreamOutOfRouting",
];

const DENY: &str = "export default () => ({ text: 'no', continue: false, error: 'not allowed' });";
const THROW: &str = "export default () => { throw new Error('broken'); };";
const SLOW: &str = "export default async ({ rawContent }) => {
  await new Promise((done) => setTimeout(done, 3000));
  return { text: rawContent, continue: true };
};";

struct Prometheus {
    child: Child,
    url: String,
    http: Http,
    /// Its configuration and its data.
    _folder: Folder,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Starts one that scrapes `target` each second, with the chart's alerts, which do not wait.
    fn start(target: &str) -> Self {
        let folder = Folder::new();
        for name in ["gateway", "operator"] {
            let alerts = checkout().join(format!("charts/hawsepipe/alerts/{name}.yaml"));
            let text = std::fs::read_to_string(alerts).unwrap();
            let waits = |line: &str| line.trim_start().starts_with("for: ");
            let lines: Vec<_> = text.lines().filter(|line| !waits(line)).collect();
            folder.write(&format!("{name}.yaml"), &lines.join("\n"));
        }
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["gateway.yaml", "operator.yaml"],
            "scrape_configs": [{"job_name": "gateway", "static_configs": [{"targets": [target]}]}],
        });
        folder.write("config.yaml", &config.to_string());
        let at = folder.path();
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new(program())
            .arg(format!("--config.file={}", at.join("config.yaml").display()))
            .arg(format!("--storage.tsdb.path={}", at.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, url: format!("http://{address}"), http: Http::new(), _folder: folder }
    }

    /// Waits until it answers.
    async fn ready(&self) {
        let url = format!("{}/-/ready", self.url);
        until("Prometheus is ready", async || {
            let answer = self.http.try_send(Method::GET, &url, &[], "").await;
            answer.is_ok_and(|answer| answer.status == 200)
        })
        .await;
    }

    /// The result of a query: each series and its value.
    async fn query(&self, expression: &str) -> Vec<Value> {
        let escaped: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let url = format!("{}/api/v1/query", self.url);
        let answer = self.http.send(Method::POST, &url, &headers, format!("query={escaped}")).await.json();
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().unwrap().clone()
    }

    /// The only value of a query; `None` without one.
    async fn value(&self, expression: &str) -> Option<f64> {
        self.query(expression).await.first().and_then(|series| series["value"][1].as_str()?.parse().ok())
    }

    /// The names of the alerts that fire.
    async fn firing(&self) -> BTreeSet<String> {
        let answer = self.http.get(&format!("{}/api/v1/alerts", self.url)).await.json();
        let alerts = answer["data"]["alerts"].as_array().unwrap().clone();
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        firing.map(|alert| alert["labels"]["alertname"].as_str().unwrap().to_owned()).collect()
    }
}

fn program() -> PathBuf {
    let program = checkout().join(".cache/prometheus/prometheus");
    assert!(program.exists(), "{} is not there: run `make setup`", program.display());
    program
}

/// The queries of a dashboard, each with the title of its panel, as Grafana sends them with all chosen.
fn queries(dashboard: &str) -> Vec<(String, String)> {
    let text =
        std::fs::read_to_string(checkout().join(format!("charts/hawsepipe/dashboards/{dashboard}.json"))).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let chosen =
                [("$namespace", ".*"), ("$gateway", ".*"), ("$plugin", "default/deny"), ("$__rate_interval", "1m")];
            let expression = chosen.iter().fold(expression.to_owned(), |all, (name, value)| all.replace(name, value));
            queries.push((panel["title"].as_str().unwrap().to_owned(), expression));
        }
    }
    queries
}

fn manifests(folder: &Folder) -> String {
    // Bound and not listened on: whoever connects is refused.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let upstreams =
        ["denied", "broken", "slow"].map(|name| raw_stdio(name, &folder.path().join(format!("{name}.log"))));
    let plugins =
        [("deny", DENY), ("throw", THROW), ("slow", SLOW)].map(|(name, code)| plugin(name, code, "role: Guard"));
    let chains = [("denied", "deny"), ("broken", "throw"), ("slow", "slow")]
        .map(|(upstream, plugin)| chain(upstream, "Request", &[upstream], &[plugin]));
    let gateway = object("MCPGateway", "main", "authentication: {anonymous: {}}");
    [&upstreams[..], &plugins, &chains].concat().concat()
        + &gateway
        + &external("dead", &format!("http://{nobody}/mcp"))
}

/// Makes the load, and waits until Prometheus has seen it.
async fn load(url: &str, prometheus: &Prometheus) {
    let http = Http::new();
    let call = async |upstream: &str| {
        let answer = http.call(url, &format!("{upstream}__args"), &json!({}), &json!({})).await;
        assert!(answer["result"].is_object(), "{answer}");
    };
    let slow = async || tokio::join!(call("slow"), call("slow"), call("slow"));
    // A rate needs a series from before what it counts.
    for upstream in ["denied", "broken", "slow"] {
        call(upstream).await;
    }
    let seen = "sum(hawsepipe_calls_total)";
    until("the first calls are scraped", async || prometheus.value(seen).await == Some(3.0)).await;
    for _ in 1..DENIED {
        call("denied").await;
        call("broken").await;
    }
    slow().await;
    let denied = r#"sum(hawsepipe_calls_total{outcome="denied"})"#;
    until("all denials are scraped", async || prometheus.value(denied).await == Some(f64::from(DENIED))).await;
}

/// Every query of every panel finds something, or nothing where nothing was.
async fn check_panels(prometheus: &Prometheus) {
    for dashboard in ["overview", "chains", "plugin", "upstreams"] {
        for (title, expression) in queries(dashboard) {
            let result = prometheus.query(&expression).await;
            let shows = !result.is_empty() || EMPTY.contains(&title.as_str());
            assert!(shows, "{dashboard}: {title}: nothing for {expression}");
        }
    }
    for (_, expression) in queries("control-plane") {
        prometheus.query(&expression).await;
    }
}

/// The first query of a panel.
fn panel(dashboard: &str, title: &str) -> String {
    let found = queries(dashboard).into_iter().find(|(of, _)| of == title);
    found.unwrap_or_else(|| panic!("no panel {title}")).1
}

#[tokio::test]
async fn dashboards_show_what_a_gateway_did_and_alerts_fire_for_what_is_wrong() {
    let folder = Folder::new();
    folder.write("manifests.yaml", &manifests(&folder));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["denied", "broken", "slow"]).await;
    let prometheus = Prometheus::start(&gateway.admin());
    prometheus.ready().await;
    let _session = Http::new().initialize(&gateway.url()).await;
    load(&gateway.url(), &prometheus).await;

    let wanted = BTreeSet::from(FIRING.map(str::to_owned));
    until("the alerts fire", async || prometheus.firing().await.is_superset(&wanted)).await;
    assert_eq!(prometheus.firing().await, wanted);
    check_panels(&prometheus).await;
    for (dashboard, title, value) in [
        ("overview", "In flight", 0.0),
        ("overview", "Pods", 1.0),
        ("overview", "Sessions and streams", 1.0),
        ("chains", "Refusing", 0.0),
        ("chains", "Failing open", 0.0),
        ("upstreams", "Connected", 3.0),
        ("upstreams", "In error", 1.0),
        ("upstreams", "Out of routing", 1.0),
    ] {
        let expression = panel(dashboard, title);
        let shows = async || prometheus.value(&expression).await == Some(value);
        until(&format!("{dashboard}: {title} is {value}"), shows).await;
    }
    // As many calls failed as were denied, at the same time.
    let denials = prometheus.value(&panel("overview", "Denied")).await.unwrap();
    let failures = prometheus.value(&panel("chains", "Failed")).await.unwrap();
    assert!(denials > 0.0 && (denials / failures - 1.0).abs() < 0.1, "{denials} {failures}");
}
