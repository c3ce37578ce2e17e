//! A real Prometheus beside processes of ours, and what the dashboards ask it for. Two test binaries use this file.
//!
//! With `HAWSEPIPE_PANELS=FOLDER`, which `make panels` sets, tests go on for `SECONDS` after their checks, and write there
//! what Prometheus answers to each query of each panel.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// How long Prometheus can take to start on a busy machine.
const SOON: Duration = Duration::from_secs(150);
/// How many seconds a picture shows.
pub const SECONDS: u32 = 60;

/// A running Prometheus. Dropped, it is killed and its folder removed.
pub struct Prometheus {
    child: Child,
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
    /// Its configuration and its data.
    folder: PathBuf,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn program() -> PathBuf {
    let program = checkout().join(".cache/prometheus/prometheus");
    assert!(program.exists(), "{} is not there: run `make setup`", program.display());
    program
}

/// The text of a file of the chart.
fn of_chart(path: &str) -> String {
    std::fs::read_to_string(checkout().join("charts/hawsepipe").join(path)).unwrap()
}

impl Prometheus {
    /// Starts one that scrapes `targets` each second, with the chart's alerts, which do not wait, and waits until it
    /// answers.
    ///
    /// # Panics
    /// If it does not.
    pub async fn start(targets: &[String]) -> Self {
        let folder = std::env::temp_dir().join(format!("hawsepipe-prometheus-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir(&folder).unwrap();
        for name in ["gateway", "operator"] {
            let alerts = of_chart(&format!("alerts/{name}.yaml"));
            let waits = |line: &&str| line.trim_start().starts_with("for: ");
            let lines: Vec<_> = alerts.lines().filter(|line| !waits(line)).collect();
            std::fs::write(folder.join(format!("{name}.yaml")), lines.join("\n")).unwrap();
        }
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["gateway.yaml", "operator.yaml"],
            "scrape_configs": [{"job_name": "hawsepipe", "static_configs": [{"targets": targets}]}],
        });
        std::fs::write(folder.join("config.yaml"), config.to_string()).unwrap();
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new(program())
            .arg(format!("--config.file={}", folder.join("config.yaml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let client = Client::builder(TokioExecutor::new()).build_http();
        let started = Self { child, url: format!("http://{address}"), client, folder };
        let deadline = Instant::now() + SOON;
        while started.ask("-/ready", &[]).await.is_none() {
            assert!(Instant::now() < deadline, "Prometheus is not ready");
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        started
    }

    /// The answer to a request with this form; `None` where there is none or it says that it failed.
    async fn ask(&self, path: &str, form: &[(&str, &str)]) -> Option<Bytes> {
        let escape = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let form: Vec<_> = form.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
        let url = format!("{}/{path}", self.url);
        let request = if form.is_empty() { Request::get(url) } else { Request::post(url) };
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let answer = self.client.request(request.body(Full::from(form.join("&"))).unwrap()).await.ok()?;
        let succeeded = answer.status().is_success();
        let body = answer.into_body().collect().await.ok()?.to_bytes();
        succeeded.then_some(body)
    }

    /// What an endpoint of its API answers.
    async fn data(&self, path: &str, form: &[(&str, &str)]) -> Value {
        let answer = self.ask(&format!("api/v1/{path}"), form).await;
        let answer = answer.unwrap_or_else(|| panic!("no answer to {path}: {form:?}"));
        serde_json::from_slice::<Value>(&answer).unwrap()["data"].clone()
    }

    /// The result of a query: each series and its value.
    pub async fn query(&self, expression: &str) -> Vec<Value> {
        self.data("query", &[("query", expression)]).await["result"].as_array().unwrap().clone()
    }

    /// The only value of a query; `None` without one.
    pub async fn value(&self, expression: &str) -> Option<f64> {
        self.query(expression).await.first().and_then(|series| series["value"][1].as_str()?.parse().ok())
    }

    /// The names of the alerts that fire.
    pub async fn firing(&self) -> BTreeSet<String> {
        let data = self.data("alerts", &[]).await;
        let firing = data["alerts"].as_array().unwrap().iter().filter(|alert| alert["state"] == "firing");
        firing.map(|alert| alert["labels"]["alertname"].as_str().unwrap().to_owned()).collect()
    }

    /// Writes the answers to the queries of a dashboard into `folder`, over the seconds since `start`. A panel without
    /// data says why.
    pub async fn record(&self, folder: &Path, dashboard: &str, start: SystemTime, empty: &[(&str, &str)]) {
        let start = start.duration_since(UNIX_EPOCH).unwrap().as_secs();
        let end = start + u64::from(SECONDS);
        let (from, to) = (start.to_string(), end.to_string());
        let mut panels = Vec::new();
        // What Grafana takes: four times the pause between two scrapes.
        for Panel { title, queries, instant } in panels_of(dashboard, "4s") {
            let mut results = Vec::new();
            for query in queries {
                let data = match instant {
                    true => self.data("query", &[("query", &query), ("time", &to)]).await,
                    false => {
                        let range = [("query", query.as_str()), ("start", &from), ("end", &to), ("step", "1")];
                        self.data("query_range", &range).await
                    }
                };
                results.push(data["result"].clone());
            }
            let why = empty.iter().find(|(of, _)| *of == title).map(|(_, why)| why);
            panels.push(json!({"results": results, "why": why}));
        }
        let recorded = json!({"start": start, "seconds": SECONDS, "panels": panels});
        std::fs::write(folder.join(format!("{dashboard}.json")), recorded.to_string()).unwrap();
    }
}

/// Where to write what panels show, if that is wanted.
pub fn recorded_to() -> Option<PathBuf> {
    std::env::var_os("HAWSEPIPE_PANELS").map(PathBuf::from)
}

/// A panel and its queries, as Grafana sends them with all chosen.
pub struct Panel {
    pub title: String,
    pub queries: Vec<String>,
    /// Whether it shows the last values alone.
    instant: bool,
}

/// The panels of a dashboard; `interval` is that of rates.
pub fn panels_of(dashboard: &str, interval: &str) -> Vec<Panel> {
    let dashboard: Value = serde_json::from_str(&of_chart(&format!("dashboards/{dashboard}.json"))).unwrap();
    let chosen =
        [("$namespace", ".*"), ("$gateway", ".*"), ("$plugin", "default/deny"), ("$__rate_interval", interval)];
    let query = |target: &Value| {
        let expression = target["expr"].as_str().unwrap().to_owned();
        chosen.iter().fold(expression, |all, (name, value)| all.replace(name, value))
    };
    let panel = |panel: &Value| {
        let targets = panel["targets"].as_array().unwrap();
        Panel {
            title: panel["title"].as_str().unwrap().to_owned(),
            queries: targets.iter().map(query).collect(),
            instant: panel["type"] != "timeseries",
        }
    };
    dashboard["panels"].as_array().unwrap().iter().map(panel).collect()
}

/// The first query of a panel, with rates over a minute.
pub fn query_of(dashboard: &str, title: &str) -> String {
    let found = panels_of(dashboard, "1m").into_iter().find(|panel| panel.title == title);
    found.unwrap_or_else(|| panic!("no panel {title}")).queries.remove(0)
}
