//! The loop that writes the snapshots that result from the custom resources. It runs a round after each change, and at
//! least once a minute.

mod causes;
mod step;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use tracing::{Instrument, Span, debug_span, instrument};

use self::causes::{Causes, names};
use self::step::{Step, step};
use super::apply::{ApplyError, SnapshotStore};
use super::compiled::{self, CompiledObjects, RunningPlan};
use super::dereference::{Dereferenced, Dereferencing};
use super::gateway_reconciler::{GatewayReconciler, LONGEST_RETRY};
use super::kinds::planned_from;
use super::load_reports::LoadReports;
use super::lowered::{LoweredObject, Lowering, Objects};
use super::managed_state::ManagedServers;
use super::metrics::ControllerMetrics;
use super::namespaces::NamespaceTracker;
use super::parsing::Parsing;
use super::planning_state::PlanningState;
use super::pods::ByGateway;
use super::references::references;
use super::watches::{Seen, Watches};
use super::workload::Workloads;
use super::writer::Writer;
use crate::config::config_schema::ConfigVerdicts;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::Plan;
use crate::domain::ports::Inspect;
use crate::telemetry::trace_context::{Cause, TARGET};

/// How long a round waits for further changes after the first, so that they are compiled together.
const TOGETHER: Duration = Duration::from_millis(5);

/// Returns the trace span of a round, with some of the objects that changed.
fn traced(objects: usize, edited: &[ObjectId]) -> Span {
    debug_span!(target: TARGET, "reconcile", objects, changed = edited.len(), names = names(edited))
}

/// The planning loop, and what it remembers between rounds.
pub(super) struct PlanningLoop<I> {
    watches: Arc<Watches>,
    writer: Writer,
    workloads: Workloads,
    dereferencing: Dereferencing,
    parsing: Parsing<I>,
    /// What checks of configurations found in the last compilation.
    config_verdicts: Arc<ConfigVerdicts>,
    metrics: ControllerMetrics,
    planning: watch::Sender<PlanningState>,
    reported: watch::Receiver<ByGateway>,
    /// Whether to make new plans because a pod could not load a plugin.
    lost: bool,
    status_changed: Arc<Notify>,
    lowering: Lowering,
    found: Dereferenced,
    gateways: HashMap<ObjectKey, GatewayReconciler>,
    /// The result of the last compilation. It is published only together with the result of writing it.
    compiled: Arc<CompiledObjects>,
    /// Gateways that are not planned, because what is stored for them cannot be read, and why.
    unread: BTreeMap<ObjectKey, String>,
    /// The trace of the round that compiled `compiled`.
    cause: Cause,
    /// What the next plans are made for.
    causes: Causes,
    /// The term in which the last round took place; `None` if this process did not lead.
    term: Option<u64>,
    /// Whether the last round applied a plan.
    led: bool,
    /// The watches that were failing in the last round.
    faults: Vec<String>,
    namespaces: NamespaceTracker,
}

impl<I: Inspect + 'static> PlanningLoop<I> {
    pub(super) fn new(
        watches: Arc<Watches>,
        writer: Writer,
        workloads: Workloads,
        (lowering, inspect): (Lowering, I),
        metrics: ControllerMetrics,
        (planning, reported, managed): (
            watch::Sender<PlanningState>,
            watch::Receiver<ByGateway>,
            watch::Receiver<ManagedServers>,
        ),
        status_changed: Arc<Notify>,
    ) -> Self {
        Self {
            dereferencing: Dereferencing::new(writer.clone(), &watches, workloads.runs_pods().then_some(managed)),
            parsing: Parsing::new(inspect, Arc::clone(&watches.changed)),
            config_verdicts: Arc::default(),
            watches,
            writer,
            workloads,
            metrics,
            planning,
            reported,
            lost: false,
            status_changed,
            lowering,
            found: Dereferenced::default(),
            gateways: HashMap::new(),
            compiled: Arc::default(),
            unread: BTreeMap::new(),
            cause: Cause::default(),
            causes: Causes::default(),
            term: None,
            led: false,
            faults: Vec::new(),
            namespaces: NamespaceTracker::default(),
        }
    }

    /// Runs until `stop`, then writes the tool names that are still waiting. Sets `listed` once every kind has been
    /// listed.
    pub(super) async fn run(mut self, listed: &AtomicBool, stop: &CancellationToken) {
        tokio::select! {
            () = self.watches.cache_sync.settled() => {}
            () = stop.cancelled() => return,
        }
        while !stop.is_cancelled() {
            if self.watches.cache_sync.is_complete() && !listed.swap(true, Ordering::AcqRel) {
                tracing::info!("every kind is watched");
            }
            self.writer.pulse.beats();
            let again = self.round().await;
            self.writer.pulse.rests();
            let (changed, led) = (Arc::clone(&self.watches.changed), Arc::clone(&self.writer.leadership.changed));
            tokio::select! {
                () = changed.notified() => tokio::time::sleep(TOGETHER).await,
                () = led.notified() => {}
                () = tokio::time::sleep(again) => {}
                () = stop.cancelled() => {}
            }
        }
        self.hear();
        for (key, kept) in &mut self.gateways {
            if let Err(error) = kept.write_names(&self.writer).await {
                tracing::warn!(gateway = %key, "names of tools that pods saw are not written: {error}");
            }
        }
    }

    /// Runs one round. Returns how long to wait before the next one, even if nothing changes.
    async fn round(&mut self) -> Duration {
        let began = Instant::now();
        for gone in self.namespaces.look(&self.watches) {
            self.writer.forget_rights(&gone);
            self.dereferencing.forget(&gone);
        }
        let leads = self.note_term();
        let (objects, edited) = self.lowering.read(self.watches.objects());
        // Most rounds find no change, and are not traced.
        let span = if leads && !edited.is_empty() { traced(objects.len(), &edited) } else { Span::none() };
        let referred = self.dereference(&objects, &span).await;
        self.hear();
        let news = self.take_news(began);
        self.causes.add(&edited, referred, news);
        let changed = referred || news || !edited.is_empty();
        let step = step(leads, self.led, changed, || self.is_held(&objects));
        self.led = matches!(step, Step::Apply | Step::Compile);
        if matches!(step, Step::StandBy | Step::Hold) {
            self.parsing.rest();
        }
        match step {
            Step::StandBy => {
                self.causes.clear();
                return LONGEST_RETRY;
            }
            Step::Hold => return LONGEST_RETRY,
            Step::Apply => return self.apply(false).await,
            Step::Compile => {}
        }
        let span = if span.is_disabled() { traced(objects.len(), &edited) } else { span };
        let work = async {
            self.cause = Cause::current();
            self.compile(objects).await;
            self.apply(true).await
        };
        let wait = work.instrument(span).await;
        self.metrics.reconciled("MCPGateway", began.elapsed());
        self.hear_again(wait)
    }

    /// Notes the current term, and returns whether this process leads. If the last round was in another term, another
    /// process may have written since then, even if no round noticed this. What is stored must then be read again.
    fn note_term(&mut self) -> bool {
        let term = self.writer.leadership.term();
        if std::mem::replace(&mut self.term, term) != term {
            self.gateways.clear();
            self.led = false;
        }
        self.metrics.leader(term.is_some(), &self.watches.scope);
        term.is_some()
    }

    /// Processes reports again that arrived before there was a plan to compare them with. Returns how long to wait
    /// before the next round, at most `wait`.
    fn hear_again(&mut self, wait: Duration) -> Duration {
        self.reported.mark_changed();
        self.hear();
        let looks = self.gateways.values().map(GatewayReconciler::look_again);
        if self.lost { Duration::ZERO } else { looks.fold(wait, Duration::min) }
    }

    /// Whether to make new plans although no object changed.
    fn take_news(&mut self, now: Instant) -> bool {
        let lost = std::mem::take(&mut self.lost);
        lost | self.may_be_repaired() | self.parsing.take_news(now)
    }

    /// Processes what pods report. New plans are due if a pod could not load a plugin that has an earlier form to go
    /// back to. New tool names are noted, to be written later.
    fn hear(&mut self) {
        if !self.reported.has_changed().unwrap_or_default() {
            return;
        }
        let reported = self.reported.borrow_and_update();
        for (key, kept) in &mut self.gateways {
            let Some(pods) = reported.get(key) else { continue };
            self.lost |= kept.hear(pods);
            kept.hear_names(pods);
        }
    }

    /// Whether nothing can be planned because a kind was never listed: its objects would count as deleted. If so,
    /// publishes the reason. Wakes the status loop if nothing can be planned or the failures of watches changed.
    fn is_held(&mut self, objects: &Objects) -> bool {
        let faults = self.watches.cache_sync.faults();
        let differs = faults != self.faults;
        self.faults = faults;
        let held = self.watches.cache_sync.unseen(&planned_from());
        let is_held = held.is_some();
        if is_held {
            let compiled = Arc::new(CompiledObjects { objects: Arc::clone(objects), ..CompiledObjects::default() });
            self.planning.send_replace(PlanningState { compiled, held, ..PlanningState::default() });
        }
        if is_held || differs {
            self.status_changed.notify_one();
        }
        is_held
    }

    /// Resolves what objects refer to. Returns whether the result changed.
    async fn dereference(&mut self, objects: &[LoweredObject], round: &Span) -> bool {
        let references = references(objects);
        let span = match round.is_disabled() {
            true => Span::none(),
            false => debug_span!(
                target: TARGET, parent: round, "dereference",
                config_maps = references.config_maps.len(), servers = references.servers.len()
            ),
        };
        let found = self.dereferencing.find(&references, &self.watches).instrument(span).await;
        let changed = found != self.found;
        self.found = found;
        changed
    }

    #[instrument(target = TARGET, level = "debug", skip_all, fields(objects = objects.len()))]
    async fn compile(&mut self, objects: Objects) {
        let mut inputs = compiled::inputs(&objects, &self.found);
        inputs.config_verdicts = Arc::clone(&self.config_verdicts);
        self.parsing.inspect(&mut inputs).await;
        let (own, protocols) = compiled::check_standalone(&mut inputs);
        let code = compiled::applied_code(&inputs);
        let (mut before, why) = (std::mem::take(&mut self.gateways), self.causes.take());
        let snapshots = self.watches.snapshots_by_owner();
        self.unread.clear();
        for gateway in objects.iter().filter(|object| object.id.kind == Kind::MCPGateway) {
            self.writer.pulse.beats();
            let key = &gateway.id.key;
            let kept = before.remove(key).filter(|kept| kept.planned.owner.uid == gateway.uid());
            let seen = snapshots.get(gateway.uid()).map(Vec::as_slice).unwrap_or_default();
            if let Some(mut kept) = kept {
                kept.stored.why.clone_from(&why);
                let running = self.running(gateway, &mut kept.stored, seen).await;
                inputs.revoked = kept.stored.revoked_upstreams();
                let (previous, plans, loading) = (&kept.planned.plan, &kept.stored.plans, &mut kept.loading);
                let planned = compiled::plan(gateway, &mut inputs, Some(previous), running.as_ref(), plans, loading);
                self.gateways.insert(key.clone(), kept.with_plan(planned));
                continue;
            }
            let Some((mut stored, plans)) = self.read_stored(gateway).await else { continue };
            stored.why.clone_from(&why);
            let running = self.running(gateway, &mut stored, seen).await;
            let mut loading = LoadReports::stored(stored.index.as_ref(), &plans);
            inputs.revoked = stored.revoked_upstreams();
            let newest = plans.first().map(Arc::as_ref);
            let planned = compiled::plan(gateway, &mut inputs, newest, running.as_ref(), &stored.plans, &mut loading);
            self.gateways.insert(key.clone(), GatewayReconciler::new(planned, stored, loading, None));
        }
        self.config_verdicts.forget_unused();
        for gateway in before.keys().filter(|key| !self.gateways.contains_key(key)) {
            tracing::info!(%gateway, "the MCPGateway is gone; Kubernetes deletes what belongs to it");
        }
        self.compiled = Arc::new(CompiledObjects::new(objects, own, protocols, code));
    }

    /// Reads what is stored for a gateway, and its plans. Without them, an accepted older form could be lost: a gateway for
    /// which that fails is not planned.
    async fn read_stored(&mut self, gateway: &LoweredObject) -> Option<(SnapshotStore, Vec<Arc<Plan>>)> {
        let (owner, pinned) = (gateway.as_owner(), compiled::pinned(gateway));
        let failed = |error: &ApplyError| {
            tracing::warn!(gateway = %owner.key, "{error}");
            self.lowering.forget(&gateway.id);
            self.unread.insert(owner.key.clone(), format!("{error}"));
        };
        SnapshotStore::read(&self.writer, &owner, pinned).await.inspect_err(failed).ok()
    }

    /// Returns the plan that runs until the gateway's next plan is in force; see [`SnapshotStore::running`]. If it
    /// cannot be read now, the gateway is planned again in the next round.
    async fn running(
        &mut self,
        gateway: &LoweredObject,
        stored: &mut SnapshotStore,
        seen: &[Seen],
    ) -> Option<RunningPlan> {
        let running = stored.running(&self.writer, &gateway.as_owner(), compiled::pinned(gateway), seen).await;
        running.unwrap_or_else(|error| {
            self.lowering.forget(&gateway.id);
            Some(Err(error.to_string()))
        })
    }

    /// Whether a damaged revision has changed, so that reading it again can succeed.
    fn may_be_repaired(&self) -> bool {
        let mut damaged = self.gateways.values().filter(|kept| kept.stored.is_damaged()).peekable();
        if damaged.peek().is_none() {
            return false;
        }
        let snapshots = self.watches.snapshots_by_owner();
        damaged.any(|kept| {
            let seen = snapshots.get(&kept.planned.owner.uid).map(Vec::as_slice).unwrap_or_default();
            kept.stored.may_be_repaired(seen, &kept.planned.owner)
        })
    }

    /// Writes what differs from the plans. Returns how long to wait before the next round.
    async fn apply(&mut self, changed: bool) -> Duration {
        let mut again = self.parsing.next_news(Instant::now()).unwrap_or(LONGEST_RETRY);
        let (snapshots, workloads) = (self.watches.snapshots_by_owner(), self.workloads.settings().await);
        let mut told = changed;
        let until = |when: Instant| when.saturating_duration_since(Instant::now());
        for (key, kept) in &mut self.gateways {
            if let Some(when) = kept.waits_until() {
                again = again.min(until(when));
                continue;
            }
            let span = match changed {
                true => debug_span!(target: TARGET, "apply", gateway = %key, fault = Empty),
                false => Span::none(),
            };
            let seen = snapshots.get(&kept.planned.owner.uid).map(Vec::as_slice).unwrap_or_default();
            let result =
                kept.apply(&self.writer, &self.watches, seen, workloads.as_ref()).instrument(span.clone()).await;
            if let Err(error) = &result {
                span.record("fault", error.reason().as_str());
                self.metrics.failed("MCPGateway", error.reason().as_str());
            }
            told |= kept.note(result, Instant::now());
            again = again.min(kept.look_again()).min(kept.waits_until().map_or(again, until));
        }
        if told {
            self.publish();
        }
        again
    }

    /// Publishes objects and plans for the status loop in one step. If the objects were newer than the plans, they
    /// would be reported as programmed although no pod runs them.
    fn publish(&mut self) {
        let runs_pods = self.workloads.runs_pods();
        let gateways = self.gateways.iter().map(|(key, kept)| (key.clone(), kept.state(runs_pods))).collect();
        self.planning.send_replace(PlanningState {
            compiled: Arc::clone(&self.compiled),
            gateways,
            unread: self.unread.clone(),
            held: None,
            term: self.term,
            cause: self.cause.clone(),
        });
        self.status_changed.notify_one();
    }
}
