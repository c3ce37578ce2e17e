//! The loop that runs the servers of managed upstreams. It is a loop of its own, because the pods of thousands of servers
//! must not delay the plan that guards calls.

mod turns;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinError, JoinSet};

use self::turns::Turns;
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

/// How long to wait for further changes after the first: the objects of a server change one after the other.
const TOGETHER: Duration = Duration::from_millis(50);
/// How long to wait, while servers are brought up to date, before the state of those that are is published.
const PUBLISHED: Duration = Duration::from_millis(200);
/// The longest pause before all servers are compared again.
const IDLE: Duration = Duration::from_secs(60);

type PodsByUpstream = BTreeMap<ObjectKey, Vec<Arc<Pod>>>;

/// The loop of managed servers, and what it remembers between rounds.
pub(super) struct ManagedLoop {
    around: Arc<Surroundings>,
    plans: watch::Receiver<PlanningState>,
    managed: watch::Sender<ManagedServers>,
    /// The state that the planning loop published last, where in it each upstream is, and the gateways that take it.
    planned: PlanningState,
    places: HashMap<ObjectKey, usize>,
    taking: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// The pods of servers, as of the begin of the round; `None` if they are not known.
    pods: Option<PodsByUpstream>,
    /// The servers that are not being brought up to date now.
    kept: HashMap<ObjectKey, ManagedReconciler>,
    turns: Turns,
    /// Those that are. Each is a task of its own, so that one whose requests hang delays no other.
    running: JoinSet<(ObjectKey, ManagedReconciler)>,
}

impl ManagedLoop {
    pub(super) fn new(
        writer: Writer,
        watches: Arc<Watches>,
        (pods, cluster_domain): (PodSettings, String),
        plans: watch::Receiver<PlanningState>,
        managed: watch::Sender<ManagedServers>,
    ) -> Self {
        Self {
            around: Arc::new(Surroundings { writer, watches, pods, cluster_domain, unread: BTreeMap::new() }),
            plans,
            managed,
            planned: PlanningState::default(),
            places: HashMap::new(),
            taking: BTreeMap::new(),
            pods: None,
            kept: HashMap::new(),
            turns: Turns::default(),
            running: JoinSet::new(),
        }
    }

    /// Runs forever. Notifies `status_changed` when the state of a server changes.
    pub(super) async fn run(mut self, status_changed: Arc<Notify>) {
        let changed = Arc::clone(&self.around.watches.managed_changed);
        // When to compare all servers again, and when to publish their state, if it may have changed.
        let (mut round, mut publish) = (Instant::now(), None);
        loop {
            self.around.writer.pulse.beats();
            let now = Instant::now();
            if round <= now {
                self.begin_round();
                (round, publish) = (now + IDLE, Some(if self.running.is_empty() { now } else { now + PUBLISHED }));
            }
            if publish.is_some_and(|when| when <= now) {
                self.publish(&status_changed);
                (round, publish) = (self.look_again().map_or(round, |again| round.min(again)), None);
            }
            self.around.writer.pulse.rests();
            tokio::select! {
                () = changed.notified() => round = round.min(Instant::now() + TOGETHER),
                // To wait for a change marks it as seen; the round asks whether there was one.
                Ok(()) = self.plans.changed() => {
                    self.plans.mark_changed();
                    round = Instant::now();
                }
                Some(ended) = self.running.join_next() => {
                    self.note(ended);
                    let now = Instant::now();
                    let soon = if self.running.is_empty() { now } else { now + PUBLISHED };
                    publish = Some(publish.map_or(soon, |before: Instant| before.min(soon)));
                }
                () = tokio::time::sleep_until(publish.map_or(round, |when| when.min(round)).into()) => {}
            }
        }
    }

    /// Takes in the newest plans, and begins to bring every server up to date.
    fn begin_round(&mut self) {
        if self.plans.has_changed().unwrap_or_default() {
            self.planned = self.plans.borrow_and_update().clone();
            self.taking = taking(&self.planned);
            let objects = self.planned.compiled.objects.iter().enumerate();
            let upstreams = objects.filter(|(_, object)| object.id.kind == Kind::MCPUpstream);
            self.places = upstreams.map(|(place, object)| (object.id.key.clone(), place)).collect();
            self.around = Arc::new(Surroundings { unread: self.planned.unread.clone(), ..(*self.around).clone() });
        }
        if !self.is_planned() {
            self.kept.clear();
            (self.running, self.turns) = (JoinSet::new(), Turns::default());
            return;
        }
        self.kept.retain(|key, _| self.places.contains_key(key));
        self.pods = self.pods_by_upstream();
        self.places.keys().for_each(|key| self.turns.add(key));
        self.begin_some();
    }

    /// Whether this process leads, and knows the plans of its term. What was planned in an earlier term may be older than
    /// what another leader has written since.
    fn is_planned(&self) -> bool {
        let term = self.around.writer.leadership.term();
        term.is_some() && self.planned.term == term && self.planned.held.is_none()
    }

    /// Begins to bring those servers up to date whose turn it is.
    fn begin_some(&mut self) {
        while self.is_planned()
            && let Some(key) = self.turns.next()
        {
            let Some(object) = self.places.get(&key).map(|place| &self.planned.compiled.objects[*place]) else {
                self.turns.ended(&key);
                continue;
            };
            let kept = self.kept.remove(&key).filter(|kept| kept.is_of(object));
            let mut kept = kept.unwrap_or_else(|| ManagedReconciler::new(object));
            kept.look(object, is_valid(&self.planned, object));
            let gateways = self.taking.get(&key).cloned().unwrap_or_default();
            let (around, pods) = (Arc::clone(&self.around), pods_of(self.pods.as_ref(), &key).map(<[_]>::to_vec));
            self.running.spawn(async move {
                kept.apply(&around, &gateways, pods.as_deref()).await;
                (key, kept)
            });
        }
    }

    /// Takes back a server whose turn is over.
    fn note(&mut self, ended: Result<(ObjectKey, ManagedReconciler), JoinError>) {
        let (key, kept) = match ended {
            Ok(ended) => ended,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        self.turns.ended(&key);
        self.kept.insert(key, kept);
        self.begin_some();
    }

    /// Returns when to compare all servers again, even if nothing changes.
    fn look_again(&self) -> Option<Instant> {
        self.kept.values().filter_map(ManagedReconciler::look_again).min()
    }

    /// Returns the pods of servers, by upstream; `None` if they are not known.
    fn pods_by_upstream(&self) -> Option<PodsByUpstream> {
        let watches = &self.around.watches;
        if watches.cache_sync.unseen(&[MANAGED_PODS]).is_some() {
            return None;
        }
        let mut found = PodsByUpstream::new();
        for pod in all(&watches.managed_pods) {
            let Some(name) = pod.labels().get(UPSTREAM_LABEL) else { continue };
            found.entry(ObjectKey::new(pod.namespace().unwrap_or_default(), name)).or_default().push(pod);
        }
        Some(found)
    }

    /// Publishes the state of every server, if it changed. One that is being brought up to date has its state of before.
    fn publish(&self, status_changed: &Notify) {
        let (pods, before) = (self.pods_by_upstream(), ManagedServers::clone(&self.managed.borrow()));
        let objects = self.places.iter().filter(|_| self.is_planned());
        let servers = objects.filter_map(|(key, place)| {
            let object = &self.planned.compiled.objects[*place];
            let state = match self.kept.get(key).filter(|kept| kept.is_of(object)) {
                Some(kept) => kept.state(object, &self.around, pods_of(pods.as_ref(), key)),
                None => before.get(key).filter(|before| before.uid == object.uid()).cloned(),
            };
            Some((key.clone(), state?))
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
            self.around.watches.changed.notify_one();
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
