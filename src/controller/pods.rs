//! What gateways' pods report, read from the admin port of each ready one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::Empty;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::ResourceExt;
use tokio::sync::Notify;

use super::GATEWAY_LABEL;
use super::gateway_tokens::GatewayTokens;
use super::pod::{Answer, REPORT, Request, ready_address, stranger};
use super::watches::{Watches, all};
use super::writer::Writer;
use crate::domain::ids::ObjectKey;
use crate::domain::report::{Report, UpstreamReport};
use crate::domain::seen::SeenNames;

/// How often each pod is asked. `Programmed` is to be right within 2 s.
pub(super) const PERIOD: Duration = Duration::from_millis(500);
/// How long a report counts after which no other came.
const COUNTS: Duration = Duration::from_secs(5);
/// Pods asked at once.
const AT_ONCE: usize = 16;

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
    writer: Writer,
    tokens: GatewayTokens,
    /// By the pod's uid: what it said last.
    known: HashMap<String, Known>,
}

impl Asking {
    /// `writer` asks for the tokens that are shown to pods.
    pub(super) fn new(writer: Writer) -> Self {
        let http = Client::builder(TokioExecutor::new()).build_http();
        Self { http, tokens: GatewayTokens::new(writer.clone()), writer, known: HashMap::new() }
    }

    /// What the pods of every gateway that exists say now.
    pub(super) async fn ask(&mut self, watches: &Watches) -> ByGateway {
        let (mut found, ready) = pods(watches);
        let tokens = self.tokens.of(&ready.iter().map(|pod| pod.uid.clone()).collect()).await;
        let account = self.tokens.account();
        let answers = stream::iter(ready.iter().map(|pod| {
            let token = tokens.get(&pod.uid).cloned();
            let request = Request { address: &pod.address, token, account: account.as_deref() };
            let (http, pulse) = (&self.http, &self.writer.pulse);
            let known = self.known.get(&pod.pod_uid).map(|known| (known.tag.clone(), Arc::clone(&known.report)));
            async move {
                let answer = request.send(http, known).await;
                pulse.beats();
                (pod, answer)
            }
        }));
        let answers: Vec<_> = answers.buffer_unordered(AT_ONCE).collect().await;
        let mut before = std::mem::take(&mut self.known);
        for (Ready { gateway, name, address, pod_uid, .. }, answer) in answers {
            let answer = answer.map_err(|error| format!("http://{address}{REPORT}: {error}"));
            let report = counts(answer, before.remove(pod_uid), Instant::now()).map(|known| {
                let report = Arc::clone(&known.report);
                self.known.insert(pod_uid.clone(), known);
                report
            });
            found.entry(gateway.clone()).or_default().ready.insert(name.clone(), report);
        }
        found
    }
}

/// A ready pod of a gateway that exists.
struct Ready {
    gateway: ObjectKey,
    /// The gateway's.
    uid: String,
    pod_uid: String,
    name: String,
    address: String,
}

/// The pods of every gateway that exists, and those of them that are asked.
fn pods(watches: &Watches) -> (ByGateway, Vec<Ready>) {
    let (mut found, mut ready) = (ByGateway::new(), Vec::new());
    let gateways = watches.gateways();
    for pod in all(&watches.pods) {
        let Some(label) = pod.labels().get(GATEWAY_LABEL) else { continue };
        let gateway = ObjectKey::new(pod.namespace().unwrap_or_default(), label);
        let Some(uid) = gateways.get(&gateway) else { continue };
        let pods = found.entry(gateway.clone()).or_default();
        pods.all += 1;
        let Some(address) = ready_address(&pod) else { continue };
        let name = pod.name_any();
        match stranger(&pod, &gateway) {
            Some(why) => drop(pods.ready.insert(name, Err(why))),
            None => {
                ready.push(Ready { gateway, uid: uid.clone(), pod_uid: pod.uid().unwrap_or_default(), name, address })
            }
        }
    }
    (found, ready)
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
        asking.writer.pulse.rests();
        ticks.tick().await;
        asking.writer.pulse.beats();
        let now = asking.ask(&watches).await;
        let failed = {
            let before = found.borrow();
            not_loaded(&now) != not_loaded(&before) || seen_names(&now) != seen_names(&before)
        };
        if found.send_if_modified(|before| {
            *before != now && {
                *before = now;
                true
            }
        }) {
            changed.notify_one();
        }
        if failed {
            // Plans are made anew by it, or the index is written.
            watches.changed.notify_one();
        }
    }
}

/// What pods could not load: gateway, revision, plugin.
fn not_loaded(pods: &ByGateway) -> BTreeSet<(&ObjectKey, &str, &str)> {
    let reports = pods.iter().flat_map(|(key, pods)| pods.reports().map(move |report| (key, report)));
    let all = reports.flat_map(|(key, report)| {
        report.not_loaded.iter().map(move |failed| (key, report.revision.as_str(), failed.plugin.as_str()))
    });
    all.collect()
}

/// Names of tools that indexes lack.
fn seen_names(pods: &ByGateway) -> Vec<(&ObjectKey, &SeenNames)> {
    let all = pods.iter().flat_map(|(key, pods)| pods.reports().map(move |report| (key, &report.seen_names)));
    all.filter(|(_, names)| !names.is_empty()).collect()
}

/// What a pod said last.
struct Known {
    tag: String,
    report: Arc<Reported>,
    /// When it said so.
    at: Instant,
}

/// What counts of a pod: its answer, and while it gives none for a moment, what it said last.
fn counts(answer: Result<Answer, String>, before: Option<Known>, now: Instant) -> Result<Known, String> {
    match answer {
        Ok((tag, report)) => Ok(Known { tag, report, at: now }),
        Err(error) => before.filter(|known| now.saturating_duration_since(known.at) < COUNTS).ok_or(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pod_said_last_counts_for_a_while_after_it_stops_answering() {
        let report = Arc::new(Reported::new(Report::default()));
        let silent = || Err("it does not answer".to_owned());
        let began = Instant::now();
        assert!(counts(silent(), None, began).is_err());
        let mut known = counts(Ok(("tag".into(), report)), None, began);
        for _ in 0..4 {
            known = counts(silent(), known.ok(), began + COUNTS - Duration::from_millis(1));
        }
        // It does not count for longer by having been asked for.
        assert!(known.is_ok() && counts(silent(), known.ok(), began + COUNTS).is_err());
    }
}
