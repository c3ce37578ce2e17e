//! Keeps the state of one gateway between planning rounds, and brings the gateway's objects in line with its plan.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::apply::{ApplyError, SnapshotStore};
use super::desired::Desired;
use super::doubling::Doubling;
use super::load_reports::LoadReports;
use super::owned;
use super::owner::Owner;
use super::planned_gateway::PlannedGateway;
use super::pods::Pods;
use super::reconcile::OwnedObjects;
use super::rights::RequestError;
use super::rollout::Rollout;
use super::seal_secret::SealSecret;
use super::seen_marks::LAG;
use super::status::{GatewayState, Pin};
use super::watches::{Seen, Watches};
use super::workload::{
    self, FindService, NetworkTarget, Peers, Resolver, Workload, WorkloadInput, WorkloadSettings, of_spec, targets,
};
use super::writer::Writer;
use crate::api::gateway::NetworkPolicy;
use crate::api::restrictions;
use crate::domain::plan::Plan;
use crate::domain::reason::Reason;

/// The first pause after a transient failure. Later pauses double, up to `LONGEST_RETRY`.
const FIRST_RETRY: Duration = Duration::from_secs(1);
pub(super) const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// The shortest time between two repairs of objects that someone else changed or deleted.
const REPAIR_PERIOD: Duration = Duration::from_secs(1);
/// The shortest time between two writes of the index for tool names alone: names arrive one by one while servers start.
const NAMES_PERIOD: Duration = Duration::from_secs(10);
/// Maximum number of immediate retries of a write that conflicted with another client's.
const MAX_CONFLICTS: usize = 5;

/// Brings the objects of one gateway in line with its plan.
pub(super) struct GatewayReconciler {
    pub(super) planned: Arc<PlannedGateway>,
    pub(super) stored: SnapshotStore,
    /// The pods' reports about loading the gateway's plugins.
    pub(super) loading: LoadReports,
    /// Why the gateway's objects are not up to date, if they are not.
    pub(super) fault: Option<(Reason, String)>,
    /// When objects that someone else had changed or deleted were last repaired.
    repaired: Option<Instant>,
    /// Whether a repair is due that has to wait until [`REPAIR_PERIOD`] is over.
    damaged: bool,
    /// Whether everything that the plan requires was written.
    applied: bool,
    owned: OwnedObjects,
    /// Whether the gateway asks for a route although Gateway API is not installed.
    lacks_route_kind: bool,
    /// What is wrong with the rollout of the gateway's Deployment.
    rollout: Rollout,
    /// Whether one of these two changed since [`Self::note`] was last called.
    is_news: bool,
    /// The desired objects with a workload, and what they were built from.
    built: Option<Built>,
    seal: SealSecret,
    /// Whether new tool names wait to be written.
    named: bool,
    /// When tool names were last written.
    names_written: Option<Instant>,
    /// After a transient failure: the pauses, and when to try again unless the plan changes.
    retry: Option<(Doubling, Instant)>,
}

/// Desired objects, and what they were built from besides the gateway's spec.
struct Built {
    in_force: Arc<Plan>,
    targets: Arc<BTreeSet<NetworkTarget>>,
    peers: Result<Option<Peers>, String>,
    desired: Arc<Desired>,
}

impl GatewayReconciler {
    /// Creates the state for a plan of which nothing has been written yet. `fault` is the reason why the previous plan
    /// could not be applied.
    pub(super) fn new(
        planned: PlannedGateway,
        stored: SnapshotStore,
        loading: LoadReports,
        fault: Option<(Reason, String)>,
    ) -> Self {
        let planned = Arc::new(planned);
        Self {
            planned,
            stored,
            loading,
            fault,
            repaired: None,
            damaged: false,
            applied: false,
            owned: OwnedObjects::default(),
            lacks_route_kind: false,
            rollout: Rollout::default(),
            is_news: false,
            built: None,
            seal: SealSecret::default(),
            named: false,
            names_written: None,
            retry: None,
        }
    }

    /// Returns this state with another plan. If the new plan requires the same objects, a pending retry keeps its time.
    /// While the gateway is invalid, its last valid spec stays.
    pub(super) fn with_plan(self, mut planned: PlannedGateway) -> Self {
        planned.spec = planned.spec.or_else(|| self.planned.spec.clone());
        let (repaired, damaged) = (self.repaired, self.damaged);
        let (named, names_written) = (self.named, self.names_written);
        let asks_for_news = planned.wanted != self.planned.wanted || planned.spec != self.planned.spec;
        let (mut retry, mut owned) = (self.retry, self.owned);
        if asks_for_news {
            retry = None;
            owned.forget_pauses();
        }
        Self {
            repaired,
            damaged,
            owned,
            seal: self.seal,
            lacks_route_kind: self.lacks_route_kind,
            rollout: self.rollout,
            named,
            names_written,
            retry,
            ..Self::new(planned, self.stored, self.loading, self.fault)
        }
    }

    /// Processes the pods' reports about loading plugins. Returns whether another plugin failed to load for which there
    /// is an earlier form to go back to.
    pub(super) fn hear(&mut self, pods: &Pods) -> bool {
        self.seal.hear(pods, Instant::now());
        self.loading.hear(&self.planned, &self.stored.revisions, pods)
    }

    /// Adds the tool names that pods report. If any of them is new, the index is due to be written.
    pub(super) fn hear_names(&mut self, pods: &Pods) {
        self.named |= self.stored.hear_names(&self.planned.plan, pods);
    }

    /// Returns when to write the index for tool names alone; `None` if there are no new names, or if everything has to
    /// be written.
    fn names_due(&self) -> Option<Instant> {
        let earliest = self.names_written.map_or_else(Instant::now, |last| last + NAMES_PERIOD);
        (self.named && self.applied && self.retry.is_none()).then_some(earliest)
    }

    /// Returns how long to wait before the stored objects are checked again, even if nothing changes.
    pub(super) fn look_again(&self) -> Duration {
        let wait = if self.damaged { REPAIR_PERIOD } else { LAG + Duration::from_secs(1) };
        let due = self.names_due().into_iter().chain(self.owned.contests.again(Instant::now())).min();
        due.map_or(wait, |due| wait.min(due.saturating_duration_since(Instant::now())))
    }

    /// Writes the tool names that are still waiting, before this process ends.
    pub(super) async fn write_names(&mut self, writer: &Writer) -> Result<(), ApplyError> {
        match std::mem::take(&mut self.named) {
            true => self.stored.write_names(writer, &self.planned.owner).await,
            false => Ok(()),
        }
    }

    /// Returns when to try again; `None` if no retry is pending, or if it is due now.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.retry.map(|(_, when)| when).filter(|when| *when > Instant::now())
    }

    /// Writes what differs from the plan. `seen` are the gateway's snapshots that the watch shows.
    pub(super) async fn apply(
        &mut self,
        writer: &Writer,
        watches: &Watches,
        seen: &[Seen],
        workloads: Option<&Result<WorkloadSettings, String>>,
    ) -> Result<(), ApplyError> {
        let owner = &self.planned.owner;
        // If someone else changed or deleted the gateway's objects, they are read again, but at most once per
        // [`REPAIR_PERIOD`]. Otherwise, a client that changes them endlessly could keep this process from all other
        // work.
        self.damaged = !self.stored.is_intact(seen, owner);
        let repairs = self.damaged && self.repaired.is_none_or(|last| last.elapsed() >= REPAIR_PERIOD);
        if repairs {
            (self.repaired, self.damaged) = (Some(Instant::now()), false);
        }
        if repairs || self.is_unsure() {
            self.refresh(writer).await?;
        }
        let written = self.write(writer, repairs).await;
        // The other owned objects are applied even if writing the snapshot failed.
        let settings = workloads.map(Result::as_ref).transpose().map_err(|why| ApplyError::NoAccount(why.clone()));
        let service = |namespace: &str, name: &str| watches.service(namespace, name);
        let services = watches.cache_sync.unseen(&["services"]).map_or(Ok(&service as FindService<'_>), Err);
        let desired = self.desired(settings.as_ref().ok().copied().flatten(), services);
        // Before the pods, which look for the key when they start.
        let sealed = match &desired.workload {
            Some(workload) if workload.seals => self.seal.create(writer, &self.planned.owner).await,
            _ => Ok(()),
        };
        let applied = self.owned.apply(writer, watches, &self.planned.owner, &desired).await;
        let wants_route = desired.workload.as_ref().is_some_and(|workload| workload.route.is_some());
        let lacks_route_kind = wants_route && watches.extensions.is_known();
        let rollout = rollout(watches, &self.planned.owner);
        self.is_news |= (lacks_route_kind, &rollout) != (self.lacks_route_kind, &self.rollout);
        (self.lacks_route_kind, self.rollout) = (lacks_route_kind, rollout);
        written.and(sealed).and(applied).and(settings.map(drop))
    }

    /// Returns the objects that should exist besides snapshots. While the gateway is invalid, its workload stays as it
    /// is. An error in `services` says why Services are not known.
    fn desired(
        &mut self,
        settings: Option<&WorkloadSettings>,
        services: Result<FindService<'_>, String>,
    ) -> Arc<Desired> {
        let (owner, newest) = (&self.planned.owner, &self.planned.plan);
        let in_force = self.stored.in_force().unwrap_or(newest);
        let Some((settings, spec)) = settings.zip(self.planned.spec.as_ref()) else {
            return Arc::new(Desired::of_gateway(owner, None));
        };
        let plans: [&Plan; 2] = [in_force, newest];
        let before = self.built.take().filter(|built| Arc::ptr_eq(&built.in_force, in_force));
        let found = || Arc::new(targets(&plans).into_iter().chain(of_spec(spec)).collect());
        let targets = before.as_ref().map_or_else(found, |built| Arc::clone(&built.targets));
        let peers = match spec.network_policy {
            Some(NetworkPolicy::None) => Ok(None),
            None | Some(NetworkPolicy::Managed) => {
                let (namespace, domain) = (owner.key.namespace.as_str(), settings.cluster_domain.as_str());
                services.map(|service| Some(Resolver { namespace, domain, service }.peers(&*targets)))
            }
        };
        let built = before.filter(|built| built.peers == peers).unwrap_or_else(|| {
            let workload = Workload::of(&WorkloadInput::new(owner, spec, settings, plans), peers.clone());
            let desired = Arc::new(Desired::of_gateway(owner, Some(workload)));
            Built { in_force: Arc::clone(in_force), targets, peers, desired }
        });
        Arc::clone(&self.built.insert(built).desired)
    }

    /// Whether the stored snapshots may differ from what is known of them, because a write failed. A failure of another
    /// object says nothing of them, and reading all of them takes long.
    fn is_unsure(&self) -> bool {
        self.retry.is_some() && !self.applied
    }

    /// Reads the stored objects again. Because they can differ from what was written, the next write compares all of
    /// them with the plan.
    async fn refresh(&mut self, writer: &Writer) -> Result<(), ApplyError> {
        self.applied = false;
        self.stored.refresh(writer, &self.planned.owner).await
    }

    /// Writes the snapshot if the plan is not applied yet or `repairs` is set, otherwise only the tool names that are
    /// due.
    async fn write(&mut self, writer: &Writer, repairs: bool) -> Result<(), ApplyError> {
        let mut written = Ok(());
        if !self.applied || repairs {
            written = self.stored.write(writer, &self.planned).await;
            for _ in 0..MAX_CONFLICTS {
                let Err(ApplyError::Request { error: RequestError::Conflict, .. }) = written else { break };
                self.refresh(writer).await?;
                written = self.stored.write(writer, &self.planned).await;
            }
        } else if self.names_due().is_some_and(|due| due <= Instant::now()) {
            written = self.stored.write_names(writer, &self.planned.owner).await;
        } else {
            return written;
        }
        // If writing the names failed, the next attempt writes everything.
        self.applied = written.is_ok();
        self.note_names(self.applied);
        written
    }

    /// If `written` is true, notes that the waiting tool names, if any, were written.
    fn note_names(&mut self, written: bool) {
        if written && std::mem::take(&mut self.named) {
            self.names_written = Some(Instant::now());
        }
    }

    /// Records the result of [`Self::apply`]. Returns whether anything changed that the status shows.
    pub(super) fn note(&mut self, result: Result<(), ApplyError>, now: Instant) -> bool {
        let fault = result.as_ref().err().map(|error| (error.reason(), error.to_string()));
        let mut pauses = self.retry.map_or(Doubling::new(FIRST_RETRY, LONGEST_RETRY), |(pauses, _)| pauses);
        let pause = pauses.pause();
        self.retry = result.err().and_then(|error| error.again(now, pause)).map(|when| (pauses, when));
        let is_news = fault != self.fault;
        if let (true, Some((_, message))) = (is_news, &fault) {
            tracing::warn!(gateway = %self.planned.owner.key, "{message}");
        }
        self.fault = fault;
        std::mem::take(&mut self.is_news) || is_news
    }

    /// Returns the URLs at which the gateway's endpoints can be reached through its Service.
    fn addresses(&self) -> Vec<String> {
        let in_force = self.stored.in_force().unwrap_or(&self.planned.plan);
        workload::addresses(&self.planned.owner, &workload::listeners(in_force))
    }

    /// Returns the state that the status loop needs. `runs_pods` is true if the operator creates workloads.
    pub(super) fn state(&self, runs_pods: bool) -> GatewayState {
        let index = self.stored.index.as_ref();
        let current = index.map(|index| index.current.clone());
        let newest = index.and_then(|index| index.revisions.first()).map(|newest| newest.revision.clone());
        let restrictions =
            index.and_then(|index| index.restrictions.as_ref()).map(|stored| restrictions::read(stored).digest());
        let pin = match &self.planned.pinned {
            Some(pinned) if current.is_some() && Some(pinned) != current.as_ref() => Pin::Lost(pinned.clone()),
            Some(_) if current != newest => Pin::Kept,
            _ => Pin::None,
        };
        GatewayState {
            planned: Arc::clone(&self.planned),
            in_force: Arc::clone(self.stored.in_force().unwrap_or(&self.planned.plan)),
            pin,
            current,
            restrictions: restrictions.unwrap_or_default(),
            addresses: if runs_pods && self.planned.spec.is_some() { self.addresses() } else { Vec::new() },
            revisions: self.stored.revisions.clone(),
            fault: self.fault.clone(),
            lacks_route_kind: self.lacks_route_kind,
            rollout: self.rollout.clone(),
        }
    }
}

/// Returns what is wrong with the rollout of the owner's Deployment.
fn rollout(watches: &Watches, owner: &Owner) -> Rollout {
    let deployment = watches.owned("deployments", &owner.key.namespace, &owner.workload());
    let deployment = deployment.filter(|deployment| owner.owns(&deployment.metadata));
    let seen = deployment.map(|deployment| owned::rollout(&deployment)).unwrap_or_default();
    seen.named(&format!("Deployment {}", owner.workload()))
}

#[cfg(test)]
mod tests;
