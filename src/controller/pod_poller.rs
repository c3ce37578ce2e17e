//! Polls the gateways' pods for reports, at the admin port of each ready pod.
//!
//! Gateways do not delay each other, and pods that do not answer do not delay pods that do.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::ResourceExt;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;

use super::GATEWAY_LABEL;
use super::gateway_tokens::GatewayTokens;
use super::pod::{REPORT, ReportRequest, TaggedReport, ready_address, stranger};
use super::pod_health::failing;
use super::pods::{ByGateway, Pods};
use super::polled_pod::{PERIOD, PolledPod};
use super::watches::{Watches, all};
use super::writer::Writer;
use crate::domain::ids::ObjectKey;
use crate::domain::seen::SeenNames;

/// How many pods of one gateway are polled concurrently: `AT_ONCE` of those that answered the last request, and
/// `OTHERS_AT_ONCE` of the others.
const AT_ONCE: usize = 16;
const OTHERS_AT_ONCE: usize = 8;

/// Polls pods, and remembers their reports.
pub(super) struct PodPoller {
    http: Client<HttpConnector, Empty<Bytes>>,
    writer: Writer,
    tokens: GatewayTokens,
    found: GatewayPods,
    /// The polling state of each pod.
    asked: HashMap<PodId, PolledPod>,
    /// Limits for each gateway, by its uid.
    gates: HashMap<String, PollSlots>,
    /// Each gateway's pods as last published, by the gateway's uid.
    told: HashMap<String, Pods>,
    under_way: JoinSet<(PodId, Result<TaggedReport, String>)>,
}

/// Limits how many pods of one gateway are polled concurrently.
struct PollSlots {
    answering: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

impl Default for PollSlots {
    fn default() -> Self {
        let [answering, others] = [AT_ONCE, OTHERS_AT_ONCE].map(|most| Arc::new(Semaphore::new(most)));
        Self { answering, others }
    }
}

impl PodPoller {
    /// Creates a poller without pods. `writer` is used to request the tokens that are presented to pods.
    pub(super) fn new(writer: Writer) -> Self {
        Self {
            http: Client::builder(TokioExecutor::new()).build_http(),
            tokens: GatewayTokens::new(writer.clone()),
            writer,
            found: GatewayPods::default(),
            asked: HashMap::new(),
            gates: HashMap::new(),
            told: HashMap::new(),
            under_way: JoinSet::new(),
        }
    }

    /// Replaces the set of known pods, and polls those that are due.
    fn look(&mut self, found: GatewayPods) {
        self.found = found;
        self.tokens.begin(&self.found.ready.iter().map(|pod| pod.uid.clone()).collect());
        self.ask();
    }

    /// Polls the pods that are due. The pods of a gateway are not polled before the first request for the gateway's
    /// token has ended.
    fn ask(&mut self) {
        let pods: HashSet<_> = self.found.ready.iter().map(ReadyPod::id).collect();
        let gateways: BTreeSet<_> = self.found.ready.iter().map(|pod| &pod.uid).collect();
        self.asked.retain(|id, _| pods.contains(id));
        self.gates.retain(|uid, _| gateways.contains(uid));
        let account = self.tokens.account();
        for pod in &self.found.ready {
            let asked = self.asked.entry(pod.id()).or_insert_with(|| PolledPod::new(Instant::now()));
            let Some(token) = self.tokens.shown(&pod.uid) else { continue };
            if !asked.begin(Instant::now()) {
                continue;
            }
            let gates = self.gates.entry(pod.uid.clone()).or_default();
            let gate = Arc::clone(if asked.answers() { &gates.answering } else { &gates.others });
            let request =
                ReportRequest { address: pod.address.clone(), token: Some(token.clone()), account: account.clone() };
            let (http, id, known) = (self.http.clone(), pod.id(), asked.said().cloned());
            self.under_way.spawn(async move {
                // Cannot fail: the semaphore is never closed.
                let _place = gate.acquire_owned().await;
                let answer = request.send(&http, known).await;
                (id, answer.map_err(|error| format!("http://{}{REPORT}: {error}", request.address)))
            });
        }
    }

    /// Waits until a pod answers or a request for a token ends. Then either processes all answers that have arrived, or
    /// polls the pods that are due. Returns whether an answer differs from the pod's previous one. Waits forever if
    /// nothing is in progress.
    async fn hear(&mut self) -> bool {
        let first = tokio::select! {
            Some(first) = self.under_way.join_next() => first,
            () = self.tokens.hear() => {
                self.ask();
                return false;
            }
        };
        let (mut next, mut news) = (Some(first), false);
        while let Some(done) = next {
            if let Ok((id, answer)) = done
                && let Some(asked) = self.asked.get_mut(&id)
            {
                news |= asked.end(answer, Instant::now());
            }
            next = self.under_way.try_join_next();
        }
        news
    }

    /// Returns what the pods of every gateway report. A gateway stays as it was last published while the first answer
    /// of one of its pods is awaited.
    fn tell(&mut self) -> ByGateway {
        let (mut pods, now) = (self.found.pods.clone(), Instant::now());
        let mut waiting = BTreeSet::new();
        for pod in &self.found.ready {
            match self.asked.get(&pod.id()).and_then(|asked| asked.counts(now)) {
                Some(counts) => {
                    pods.entry(pod.gateway.clone()).or_default().ready.insert(pod.name.clone(), counts);
                }
                None => drop(waiting.insert((&pod.gateway, &pod.uid))),
            }
        }
        for (gateway, uid) in waiting {
            match self.told.get(uid) {
                Some(told) => drop(pods.insert(gateway.clone(), told.clone())),
                None => drop(pods.remove(gateway)),
            }
        }
        let uid = |gateway| self.found.gateways.get(gateway).cloned();
        self.told = pods.iter().filter_map(|(gateway, pods)| Some((uid(gateway)?, pods.clone()))).collect();
        pods
    }
}

/// The pods of every gateway that exists.
#[derive(Default)]
struct GatewayPods {
    /// Uids of the gateways.
    gateways: BTreeMap<ObjectKey, String>,
    /// The pods of each gateway, not yet including the reports of the pods to poll.
    pods: ByGateway,
    /// The pods to poll.
    ready: Vec<ReadyPod>,
}

/// The uids of a gateway and of its pod, so that a new gateway of the same name does not get reports that were meant
/// for the old one.
type PodId = (String, String);

/// A ready pod of a gateway that exists.
struct ReadyPod {
    gateway: ObjectKey,
    /// Uid of the gateway.
    uid: String,
    pod_uid: String,
    name: String,
    address: String,
}

impl ReadyPod {
    fn id(&self) -> PodId {
        (self.uid.clone(), self.pod_uid.clone())
    }
}

/// Finds the pods of every gateway that exists.
fn find(watches: &Watches) -> GatewayPods {
    let mut found = GatewayPods { gateways: watches.gateways(), ..GatewayPods::default() };
    let mut seen: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for pod in all(&watches.pods) {
        let Some(label) = pod.labels().get(GATEWAY_LABEL) else { continue };
        let gateway = ObjectKey::new(pod.namespace().unwrap_or_default(), label);
        let Some(uid) = found.gateways.get(&gateway) else { continue };
        let pods = found.pods.entry(gateway.clone()).or_default();
        pods.all += 1;
        seen.entry(gateway.clone()).or_default().push(Arc::clone(&pod));
        let Some(address) = ready_address(&pod) else { continue };
        let name = pod.name_any();
        match stranger(&pod, &gateway) {
            Some(why) => drop(pods.ready.insert(name, Err(why))),
            None => {
                let (uid, pod_uid) = (uid.clone(), pod.uid().unwrap_or_default());
                found.ready.push(ReadyPod { gateway, uid, pod_uid, name, address });
            }
        }
    }
    for (gateway, pods) in &mut found.pods {
        pods.failing = seen.get(gateway).and_then(|seen| failing(seen));
    }
    found
}

/// Polls forever, and publishes changes.
pub(super) async fn follow(
    watches: Arc<Watches>,
    mut asking: PodPoller,
    found: watch::Sender<ByGateway>,
    changed: Arc<Notify>,
) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        asking.writer.pulse.rests();
        let is_due = tokio::select! {
            _ = ticks.tick() => true,
            news = asking.hear() => match news {
                true => false,
                false => continue,
            },
        };
        asking.writer.pulse.beats();
        if is_due {
            asking.look(find(&watches));
        }
        let now = asking.tell();
        let calls_for_plans = {
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
        if calls_for_plans {
            // Wakes the planning loop, which makes new plans or writes the index.
            watches.changed.notify_one();
        }
    }
}

/// Returns the plugins that pods could not load, as gateway, revision and plugin.
fn not_loaded(pods: &ByGateway) -> BTreeSet<(&ObjectKey, &str, &str)> {
    let reports = pods.iter().flat_map(|(key, pods)| pods.reports().map(move |report| (key, report)));
    let all = reports.flat_map(|(key, report)| {
        report.not_loaded.iter().map(move |failed| (key, report.revision.as_str(), failed.plugin.as_str()))
    });
    all.collect()
}

/// Returns the tool names that pods report because their gateway's index does not have them.
fn seen_names(pods: &ByGateway) -> Vec<(&ObjectKey, &SeenNames)> {
    let all = pods.iter().flat_map(|(key, pods)| pods.reports().map(move |report| (key, &report.seen_names)));
    all.filter(|(_, names)| !names.is_empty()).collect()
}

#[cfg(test)]
mod tests;
