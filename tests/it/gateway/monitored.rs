//! A real Prometheus beside a real gateway: what dashboards ask for is there, and alerts fire for what is wrong.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio::task::JoinSet;

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::parts::{chain, external, object, plugin, raw_stdio, tools_of, until};
use crate::prometheus::{Panel, Prometheus, SECONDS, panels_of, query_of, recorded_to};

/// How many calls the guard denies.
const DENIED: u32 = 100;
/// Panels with a query that finds nothing after this load, and why.
const EMPTY: [(&str, &str); 9] = [
    ("Refused at admission", "every call was let in"),
    ("Sessions and streams", "nobody opened a stream"),
    ("Refused credentials", "every client is served"),
    ("Denied by rules", "the gateway has no rules"),
    ("Chains that refuse", "every entry that must run can run"),
    ("Started and ended", "no worker was recycled or killed"),
    ("Asked of the gateway", "this plugin asks the gateway for nothing"),
    ("Connections", "this plugin opens no connection"),
    ("Dropped", "nothing was dropped"),
];
/// The dashboards of what gateways do.
const DASHBOARDS: [&str; 4] = ["overview", "chains", "plugin", "upstreams"];
/// The alerts that fire: no operator runs here, either.
const FIRING: [&str; 7] = [
    "HawsepipeCallsFailing",
    "HawsepipeChainFailsOpen",
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

fn manifests(folder: &Folder) -> String {
    // Bound and not listened on: whoever connects is refused.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let upstreams =
        ["denied", "broken", "slow"].map(|name| raw_stdio(name, &folder.path().join(format!("{name}.log"))));
    let plugins =
        [("deny", DENY), ("throw", THROW), ("slow", SLOW)].map(|(name, code)| plugin(name, code, "role: Guard"));
    let chains = [("denied", "deny"), ("broken", "throw"), ("slow", "slow")]
        .map(|(upstream, plugin)| chain(upstream, "Request", &[upstream], &[plugin]));
    // A Guard as a shadow weakens its chain.
    let entries = "entries: [{name: deny, mode: Shadow}, {name: throw, when: 'false'}]";
    let trial = object("PluginChain", "trial", &format!("phase: Request, upstreams: {{names: [slow]}}, {entries}"));
    let gateway = object("MCPGateway", "main", "authentication: {anonymous: {}}");
    [&upstreams[..], &plugins, &chains].concat().concat()
        + &trial
        + &gateway
        + &external("dead", &format!("http://{nobody}/mcp"))
}

async fn call(http: &Http, url: &str, upstream: &str) {
    let answer = http.call(url, &format!("{upstream}__args"), &json!({}), &json!({})).await;
    assert!(answer["result"].is_object(), "{answer}");
}

/// Makes the load, and waits until Prometheus has seen it.
async fn load(url: &str, prometheus: &Prometheus) {
    let http = Http::new();
    let call = async |upstream: &str| call(&http, url, upstream).await;
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
    for dashboard in DASHBOARDS {
        for Panel { title, queries, .. } in panels_of(dashboard, "1m") {
            for expression in queries {
                let shows = !prometheus.query(&expression).await.is_empty() || EMPTY.iter().any(|(of, _)| *of == title);
                assert!(shows, "{dashboard}: {title}: nothing for {expression}");
            }
        }
    }
}

/// Goes on with the load, and records what panels show meanwhile.
async fn record(folder: &Path, url: &str, prometheus: &Prometheus) {
    let (http, start) = (Http::new(), SystemTime::now());
    let mut each_second = tokio::time::interval(Duration::from_secs(1));
    let mut slow = JoinSet::new();
    for second in 0..=SECONDS {
        each_second.tick().await;
        let (http_of_slow, url_of_slow) = (http.clone(), url.to_owned());
        slow.spawn(async move { call(&http_of_slow, &url_of_slow, "slow").await });
        // More for some seconds, then fewer.
        for _ in 0..3 + second / 6 % 4 {
            call(&http, url, "denied").await;
        }
        call(&http, url, "broken").await;
    }
    for dashboard in DASHBOARDS {
        prometheus.record(folder, dashboard, start, &EMPTY).await;
    }
}

#[tokio::test]
async fn dashboards_show_what_a_gateway_did_and_alerts_fire_for_what_is_wrong() {
    let folder = Folder::new();
    folder.write("manifests.yaml", &manifests(&folder));
    let store = folder.path().join("history.db");
    let gateway = Gateway::start_with(&folder, &["--store", store.to_str().unwrap()]);
    tools_of(&gateway, &["denied", "broken", "slow"]).await;
    let prometheus = Prometheus::start(&[gateway.admin()]).await;
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
        ("chains", "Failing open", 1.0),
        ("upstreams", "Connected", 3.0),
        ("upstreams", "In error", 1.0),
        ("upstreams", "Out of routing", 1.0),
    ] {
        let expression = query_of(dashboard, title);
        let shows = async || prometheus.value(&expression).await == Some(value);
        until(&format!("{dashboard}: {title} is {value}"), shows).await;
    }
    // As many calls failed as were denied, at the same time.
    let denials = prometheus.value(&query_of("overview", "Denied")).await.unwrap();
    let failures = prometheus.value(&query_of("chains", "Failed")).await.unwrap();
    assert!(denials > 0.0 && (denials / failures - 1.0).abs() < 0.1, "{denials} {failures}");
    if let Some(folder) = recorded_to() {
        record(&folder, &gateway.url(), &prometheus).await;
    }
}
