//! Asks the pods of gateways for their reports, at the admin port of each ready one.
//!
//! No pod waits for one of another gateway, and one that answers waits for none that does not.

use std::collections::{BTreeSet, HashMap};
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
use super::asked::{Asked, PERIOD};
use super::gateway_tokens::{GatewayTokens, Shown};
use super::pod::{Answer, REPORT, Request, ready_address, stranger};
use super::pods::ByGateway;
use super::watches::{Watches, all};
use super::writer::Writer;
use crate::domain::ids::ObjectKey;
use crate::domain::seen::SeenNames;

/// Pods of one gateway that are asked at once: of those that answered last, and of the others.
const AT_ONCE: usize = 16;
const OTHERS_AT_ONCE: usize = 8;

/// Asks pods.
pub(super) struct Asking {
    http: Client<HttpConnector, Empty<Bytes>>,
    writer: Writer,
    tokens: GatewayTokens,
    /// Pods that were found last, without what they report, and those of them that are asked.
    found: ByGateway,
    ready: Vec<Ready>,
    /// By the pod's uid: how asking it went.
    asked: HashMap<String, Asked>,
    /// By the gateway's uid.
    gates: HashMap<String, Gates>,
    under_way: JoinSet<(String, Result<Answer, String>)>,
}

/// What bounds how many pods of one gateway are asked at once.
struct Gates {
    answering: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

impl Default for Gates {
    fn default() -> Self {
        let [answering, others] = [AT_ONCE, OTHERS_AT_ONCE].map(|most| Arc::new(Semaphore::new(most)));
        Self { answering, others }
    }
}

impl Asking {
    /// `writer` asks for the tokens that are shown to pods.
    pub(super) fn new(writer: Writer) -> Self {
        Self {
            http: Client::builder(TokioExecutor::new()).build_http(),
            tokens: GatewayTokens::new(writer.clone()),
            writer,
            found: ByGateway::new(),
            ready: Vec::new(),
            asked: HashMap::new(),
            gates: HashMap::new(),
            under_way: JoinSet::new(),
        }
    }

    /// Looks which pods there are, and has those asked that it is time for.
    async fn look(&mut self, watches: &Watches) {
        (self.found, self.ready) = pods(watches);
        let tokens = self.tokens.of(&self.ready.iter().map(|pod| pod.uid.clone()).collect()).await;
        let account = self.tokens.account();
        self.ask(&tokens, account.as_deref());
    }

    fn ask(&mut self, tokens: &HashMap<String, Shown>, account: Option<&str>) {
        let pods: BTreeSet<_> = self.ready.iter().map(|pod| &pod.pod_uid).collect();
        let gateways: BTreeSet<_> = self.ready.iter().map(|pod| &pod.uid).collect();
        self.asked.retain(|uid, _| pods.contains(uid));
        self.gates.retain(|uid, _| gateways.contains(uid));
        for pod in &self.ready {
            let asked = self.asked.entry(pod.pod_uid.clone()).or_insert_with(|| Asked::new(Instant::now()));
            if !asked.begin(Instant::now()) {
                continue;
            }
            let gates = self.gates.entry(pod.uid.clone()).or_default();
            let gate = Arc::clone(if asked.answers() { &gates.answering } else { &gates.others });
            let request = Request {
                address: pod.address.clone(),
                token: tokens.get(&pod.uid).cloned(),
                account: account.map(str::to_owned),
            };
            let (http, uid, known) = (self.http.clone(), pod.pod_uid.clone(), asked.said().cloned());
            self.under_way.spawn(async move {
                // It is never closed.
                let _place = gate.acquire_owned().await;
                let answer = request.send(&http, known).await;
                (uid, answer.map_err(|error| format!("http://{}{REPORT}: {error}", request.address)))
            });
        }
    }

    /// Waits for an answer, and takes all there are. Says whether any is news; it never ends where nothing is under way.
    async fn hear(&mut self) -> bool {
        let Some(first) = self.under_way.join_next().await else { return std::future::pending().await };
        let (mut next, mut news) = (Some(first), false);
        while let Some(done) = next {
            if let Ok((uid, answer)) = done
                && let Some(asked) = self.asked.get_mut(&uid)
            {
                news |= asked.end(answer, Instant::now());
            }
            next = self.under_way.try_join_next();
        }
        news
    }

    /// What the pods of every gateway say. A gateway with a pod that is asked for the first time is as it was `before`.
    fn found(&self, before: &ByGateway) -> ByGateway {
        let (mut found, now) = (self.found.clone(), Instant::now());
        let mut waiting = BTreeSet::new();
        for pod in &self.ready {
            match self.asked.get(&pod.pod_uid).and_then(|asked| asked.counts(now)) {
                Some(counts) => {
                    found.entry(pod.gateway.clone()).or_default().ready.insert(pod.name.clone(), counts);
                }
                None => drop(waiting.insert(&pod.gateway)),
            }
        }
        for gateway in waiting {
            match before.get(gateway) {
                Some(pods) => drop(found.insert(gateway.clone(), pods.clone())),
                None => drop(found.remove(gateway)),
            }
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
            asking.look(&watches).await;
        }
        let now = asking.found(&found.borrow());
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

#[cfg(test)]
mod tests;
