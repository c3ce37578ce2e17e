//! What gateways' pods report, read from the admin port of each ready one.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::StatusCode;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::sync::Notify;

use super::GATEWAY_LABEL;
use super::watches::{Watches, all};
use crate::domain::causes::causes;
use crate::domain::ids::ObjectKey;
use crate::domain::report::{Report, UpstreamReport};

/// How often each pod is asked. `Programmed` is to be right within 2 s.
pub(super) const PERIOD: Duration = Duration::from_millis(500);
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The largest report that is read, in bytes.
const MAX_REPORT: usize = 64 << 20;
/// Pods asked at once.
const AT_ONCE: usize = 16;
/// Where a pod reports.
const REPORT: &str = "/api/v1/report";
/// The admin port of a pod that names none.
const ADMIN_PORT: i32 = 9090;
/// The name that its port has.
const ADMIN: &str = "admin";

/// A gateway's pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pods {
    /// How many there are.
    pub(super) all: u32,
    /// Those that are ready, by name, with what they report, or why one does not.
    pub(super) ready: BTreeMap<String, Result<Arc<Reported>, String>>,
}

/// A report, with its upstreams by name.
#[derive(Debug)]
pub(super) struct Reported {
    pub(super) report: Report,
    upstreams: HashMap<String, usize>,
}

impl Reported {
    pub(super) fn new(report: Report) -> Self {
        let upstreams = report.upstreams.iter().enumerate().map(|(place, up)| (up.upstream.clone(), place)).collect();
        Self { report, upstreams }
    }

    /// What it says of an upstream, `namespace/name`.
    pub(super) fn upstream(&self, name: &str) -> Option<&UpstreamReport> {
        self.report.upstreams.get(*self.upstreams.get(name)?)
    }
}

impl PartialEq for Reported {
    fn eq(&self, other: &Self) -> bool {
        self.report == other.report
    }
}

impl Eq for Reported {}

impl Pods {
    /// Reports of ready pods.
    pub(super) fn reports(&self) -> impl Iterator<Item = &Report> {
        self.ready.values().flatten().map(|reported| &reported.report)
    }

    /// What ready pods say of an upstream.
    pub(super) fn of_upstream(&self, name: &str) -> impl Iterator<Item = &UpstreamReport> {
        self.ready.values().flatten().filter_map(move |reported| reported.upstream(name))
    }
}

/// The pods of every gateway.
pub(super) type ByGateway = BTreeMap<ObjectKey, Pods>;

/// Asks pods.
pub(super) struct Asking {
    http: Client<HttpConnector, Empty<Bytes>>,
    token_file: Option<PathBuf>,
    /// By address: the last report, and its tag.
    known: HashMap<String, Answer>,
}

impl Asking {
    /// `token_file` holds a service account token for gateways; the kubelet renews it.
    pub(super) fn new(token_file: Option<PathBuf>) -> Self {
        Self { http: Client::builder(TokioExecutor::new()).build_http(), token_file, known: HashMap::new() }
    }

    /// What every gateway's pods say now.
    pub(super) async fn ask(&mut self, watches: &Watches) -> ByGateway {
        let mut found = ByGateway::new();
        let mut ready = Vec::new();
        for pod in all(&watches.pods) {
            let Some(gateway) = pod.labels().get(GATEWAY_LABEL) else { continue };
            let key = ObjectKey::new(pod.namespace().unwrap_or_default(), gateway);
            let pods = found.entry(key.clone()).or_default();
            pods.all += 1;
            if let Some(address) = ready_address(&pod) {
                ready.push((key, pod.name_any(), address));
            }
        }
        let token = self.token().await;
        let answers = stream::iter(ready.into_iter().map(|(key, name, address)| {
            let (known, token) = (self.known.get(&address).cloned(), token.as_deref());
            let http = &self.http;
            async move {
                let answer = ask_one(http, &address, token, known).await;
                (key, name, address, answer)
            }
        }));
        let answers: Vec<_> = answers.buffer_unordered(AT_ONCE).collect().await;
        self.known.clear();
        for (key, name, address, answer) in answers {
            let report = match answer {
                Ok((tag, report)) => {
                    self.known.insert(address, (tag, Arc::clone(&report)));
                    Ok(report)
                }
                Err(error) => Err(format!("http://{address}{REPORT}: {error}")),
            };
            found.entry(key).or_default().ready.insert(name, report);
        }
        found
    }

    async fn token(&self) -> Option<String> {
        let text = tokio::fs::read_to_string(self.token_file.as_ref()?).await;
        text.inspect_err(|error| tracing::warn!(%error, "the token for gateways cannot be read")).ok()
    }
}

/// Asks for ever; tells when anything changed.
pub(super) async fn follow(
    watches: Arc<Watches>,
    mut asking: Asking,
    found: tokio::sync::watch::Sender<ByGateway>,
    changed: Arc<Notify>,
) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = asking.ask(&watches).await;
        if found.send_if_modified(|before| {
            *before != now && {
                *before = now;
                true
            }
        }) {
            changed.notify_one();
        }
    }
}

/// Where a pod's admin port is, if it is ready.
fn ready_address(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let is_ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
    if !is_ready || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let ports = pod.spec.iter().flat_map(|spec| &spec.containers).flat_map(|c| c.ports.iter().flatten());
    let mut named = ports.filter(|port| port.name.as_deref() == Some(ADMIN));
    let port = named.next().map_or(ADMIN_PORT, |port| port.container_port);
    let ip = status.pod_ip.as_deref().filter(|ip| !ip.is_empty())?;
    Some(if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") })
}

/// A tag, and the report that has it.
type Answer = (String, Arc<Reported>);

async fn ask_one(
    http: &Client<HttpConnector, Empty<Bytes>>,
    address: &str,
    token: Option<&str>,
    known: Option<Answer>,
) -> Result<Answer, String> {
    let mut request = http::Request::get(format!("http://{address}{REPORT}"));
    if let Some(token) = token {
        request = request.header(http::header::AUTHORIZATION, format!("Bearer {}", token.trim()));
    }
    if let Some((tag, _)) = &known {
        request = request.header(http::header::IF_NONE_MATCH, tag);
    }
    let request = request.body(Empty::new()).map_err(|error| error.to_string())?;
    let exchange = async {
        let response = http.request(request).await.map_err(|error| causes(&error))?;
        let (head, body) = response.into_parts();
        match (head.status, known) {
            (StatusCode::NOT_MODIFIED, Some(known)) => Ok(known),
            (StatusCode::OK, _) => {
                let body = Limited::new(body, MAX_REPORT).collect().await.map_err(|error| error.to_string())?;
                let report = serde_json::from_slice(&body.to_bytes()).map_err(|error| error.to_string())?;
                let report = Reported::new(report);
                let tag = head.headers.get(http::header::ETAG).and_then(|tag| tag.to_str().ok()).unwrap_or_default();
                Ok((tag.to_owned(), Arc::new(report)))
            }
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => Err(format!(
                "it answers {}: the operator is to have --gateway-token-file, and the gateway --operator with the \
                 operator's service account",
                head.status
            )),
            (status, _) => Err(format!("it answers {status}")),
        }
    };
    tokio::time::timeout(TIMEOUT, exchange).await.map_err(|_| "it does not answer".to_owned())?
}
