//! The loop that runs the servers of managed upstreams. It is a loop of its own, because the pods of thousands of servers
//! must not delay the plan that guards calls.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::sync::{Notify, watch};

use super::lowered::LoweredObject;
use super::managed_reconciler::{ManagedReconciler, Surroundings};
use super::managed_state::{Address, ManagedServers};
use super::planning_state::PlanningState;
use super::status::is_of_itself;
use super::watches::{MANAGED_PODS, Watches, all};
use super::workload::PodSettings;
use super::writer::Writer;
use crate::api::upstream::managed::UPSTREAM_LABEL;
use crate::domain::ids::{Kind, ObjectKey};

/// How many servers are brought up to date concurrently.
const AT_ONCE: usize = 16;
/// How long a round waits for further changes after the first: the objects of a server change one after the other.
const TOGETHER: Duration = Duration::from_millis(50);
/// The longest pause between two rounds.
const IDLE: Duration = Duration::from_secs(60);

type PodsByUpstream = BTreeMap<ObjectKey, Vec<Arc<Pod>>>;

/// The loop of managed servers, and what it remembers between rounds.
pub(super) struct ManagedLoop {
    writer: Writer,
    watches: Arc<Watches>,
    pods: PodSettings,
    /// The DNS domain of the cluster.
    cluster_domain: String,
    plans: watch::Receiver<PlanningState>,
    managed: watch::Sender<ManagedServers>,
    /// The state that the planning loop published last, and the gateways that take each upstream in it.
    planned: PlanningState,
    taking: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    kept: HashMap<ObjectKey, ManagedReconciler>,
}

impl ManagedLoop {
    pub(super) fn new(
        writer: Writer,
        watches: Arc<Watches>,
        (pods, cluster_domain): (PodSettings, String),
        plans: watch::Receiver<PlanningState>,
        managed: watch::Sender<ManagedServers>,
    ) -> Self {
        let (planned, taking, kept) = (PlanningState::default(), BTreeMap::new(), HashMap::new());
        Self { writer, watches, pods, cluster_domain, plans, managed, planned, taking, kept }
    }

    /// Runs forever. Notifies `status_changed` when the state of a server changes.
    pub(super) async fn run(mut self, status_changed: Arc<Notify>) {
        let changed = Arc::clone(&self.watches.managed_changed);
        loop {
            self.writer.pulse.beats();
            let again = self.round().await;
            self.publish(&status_changed);
            self.writer.pulse.rests();
            tokio::select! {
                () = changed.notified() => tokio::time::sleep(TOGETHER).await,
                // To wait for a change marks it as seen; the round asks whether there was one.
                Ok(()) = self.plans.changed() => self.plans.mark_changed(),
                () = tokio::time::sleep(again) => {}
            }
        }
    }

    /// Brings every server up to date. Returns how long to wait before the next round.
    async fn round(&mut self) -> Duration {
        if self.plans.has_changed().unwrap_or_default() {
            self.planned = self.plans.borrow_and_update().clone();
            self.taking = taking(&self.planned);
        }
        // What was planned in an earlier term may be older than what another leader has written since.
        let term = self.writer.leadership.term();
        if term.is_none() || self.planned.term != term || self.planned.held.is_some() {
            self.kept.clear();
            return IDLE;
        }
        self.look();
        let (nobody, kept) = (BTreeSet::new(), std::mem::take(&mut self.kept));
        let (around, pods) = (&self.around(), &self.pods_by_upstream());
        let writes = kept.into_iter().map(|(key, mut kept)| {
            let gateways = self.taking.get(&key).unwrap_or(&nobody);
            async move {
                kept.apply(around, gateways, pods_of(pods.as_ref(), &key)).await;
                (key, kept)
            }
        });
        self.kept = stream::iter(writes).buffer_unordered(AT_ONCE).collect().await;
        let again = self.kept.values().filter_map(ManagedReconciler::look_again).min();
        again.map_or(IDLE, |again| again.saturating_duration_since(Instant::now()).min(IDLE))
    }

    fn around(&self) -> Surroundings<'_> {
        Surroundings {
            writer: &self.writer,
            watches: &self.watches,
            pods: &self.pods,
            cluster_domain: &self.cluster_domain,
            unread: &self.planned.unread,
        }
    }

    /// Returns the pods of servers, by upstream; `None` if they are not known.
    fn pods_by_upstream(&self) -> Option<PodsByUpstream> {
        if self.watches.cache_sync.unseen(&[MANAGED_PODS]).is_some() {
            return None;
        }
        let mut found = PodsByUpstream::new();
        for pod in all(&self.watches.managed_pods) {
            let Some(name) = pod.labels().get(UPSTREAM_LABEL) else { continue };
            found.entry(ObjectKey::new(pod.namespace().unwrap_or_default(), name)).or_default().push(pod);
        }
        Some(found)
    }

    /// Takes in the newest form of every upstream.
    fn look(&mut self) {
        let mut before = std::mem::take(&mut self.kept);
        for object in upstreams(&self.planned) {
            let kept = before.remove(&object.id.key).filter(|kept| kept.is_of(object));
            let mut kept = kept.unwrap_or_else(|| ManagedReconciler::new(object));
            kept.look(object, is_valid(&self.planned, object));
            self.kept.insert(object.id.key.clone(), kept);
        }
    }

    /// Publishes the state of every server, if it changed.
    fn publish(&self, status_changed: &Notify) {
        let (around, pods) = (self.around(), self.pods_by_upstream());
        let servers = upstreams(&self.planned).filter_map(|object| {
            let key = &object.id.key;
            Some((key.clone(), self.kept.get(key)?.state(object, &around, pods_of(pods.as_ref(), key))?))
        });
        let servers: ManagedServers = Arc::new(servers.collect());
        let mut plans_change = false;
        let is_news = self.managed.send_if_modified(|before| {
            plans_change = addressed(before) != addressed(&servers);
            let is_news = *before != servers;
            *before = servers;
            is_news
        });
        if plans_change {
            self.watches.changed.notify_one();
        }
        // The plans may turn out to be the same.
        if is_news {
            status_changed.notify_one();
        }
    }
}

/// Returns who has the address of each upstream.
fn addressed(servers: &ManagedServers) -> BTreeMap<&ObjectKey, &Address> {
    servers.iter().map(|(key, server)| (key, &server.address)).collect()
}

/// Returns the pods of one upstream; `None` if pods are not known.
fn pods_of<'a>(pods: Option<&'a PodsByUpstream>, upstream: &ObjectKey) -> Option<&'a [Arc<Pod>]> {
    pods.map(|pods| pods.get(upstream).map(Vec::as_slice).unwrap_or_default())
}

fn upstreams(planned: &PlanningState) -> impl Iterator<Item = &LoweredObject> {
    planned.compiled.objects.iter().filter(|object| object.id.kind == Kind::MCPUpstream)
}

/// Whether an upstream is accepted. One that only refers to something that is missing is.
fn is_valid(planned: &PlanningState, object: &LoweredObject) -> bool {
    let mut found = planned.compiled.own.get(&object.id).into_iter().flatten();
    object.lowered.is_ok() && !found.any(|problem| problem.is_error() && is_of_itself(problem.reason))
}

/// Returns the gateways whose pods can have each upstream in the plan that they run.
fn taking(planned: &PlanningState) -> BTreeMap<ObjectKey, BTreeSet<ObjectKey>> {
    let mut found: BTreeMap<ObjectKey, BTreeSet<ObjectKey>> = BTreeMap::new();
    for (gateway, state) in &planned.gateways {
        for upstream in state.planned.plan.upstreams.iter().chain(&state.in_force.upstreams) {
            found.entry(upstream.key.clone()).or_default().insert(gateway.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests;
