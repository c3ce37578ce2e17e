//! The loops: one brings snapshots to what objects say, one brings statuses to what is true.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use tracing::{Instrument, Span, debug_span, instrument};

use super::apply::{self, ApplyError, Stored};
use super::compiled::{self, Compiled, Planned};
use super::dereference::{Dereferencing, Found};
use super::lease::{self, Leadership, LeaseSettings};
use super::lowered::Lowering;
use super::metrics::ControllerMetrics;
use super::pods::{self, Asking};
use super::references::references;
use super::rights::RequestError;
use super::status::GatewayState;
use super::status_loop::StatusLoop;
use super::watches::{PLANNED_FROM, Watches};
use super::writer::Writer;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::ports::Inspect;
use crate::domain::reason::Reason;
use crate::telemetry::traces::{Cause, TARGET};

/// Changes that come together are compiled together.
const TOGETHER: Duration = Duration::from_millis(5);
/// The wait after what may pass, doubled until the longest.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// How long after a write what is seen may lag behind it.
const LAG: Duration = Duration::from_secs(10);
/// The most objects that the span of a round names.
const MAX_NAMED: usize = 8;

/// How often a write that somebody else's came before is tried again at once.
const MAX_CONFLICTS: usize = 5;

/// How the operator runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespaces to watch; empty is all.
    pub namespaces: Vec<String>,
    /// The lease of the leader.
    pub lease: LeaseSettings,
    /// A file with a service account token that gateways accept.
    pub token_file: Option<PathBuf>,
}

/// The span of a round: what changed, as far as that is short.
fn traced(objects: usize, edited: &[ObjectId]) -> Span {
    let names: Vec<_> = edited.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    debug_span!(target: TARGET, "reconcile", objects, changed = edited.len(), names = names.join(", "))
}

/// What the planning loop found, for the loop of statuses.
#[derive(Clone, Default)]
pub(super) struct Planning {
    pub(super) compiled: Arc<Compiled>,
    pub(super) gateways: BTreeMap<ObjectKey, GatewayState>,
    /// Gateways that wait because what is stored for them cannot be read, and why.
    pub(super) unread: BTreeMap<ObjectKey, String>,
    /// Why nothing can be planned, if so: what is not seen.
    pub(super) held: Option<String>,
    /// The round that found it.
    pub(super) cause: Cause,
}

/// Runs until `stop`. `ready` is told when every kind was listed once.
pub async fn run(
    client: Client,
    settings: Settings,
    inspect: impl Inspect + 'static,
    metrics: ControllerMetrics,
    ready: Arc<std::sync::atomic::AtomicBool>,
    stop: CancellationToken,
) {
    let watches = Arc::new(Watches::start(&client, &settings.namespaces));
    let leadership = Leadership::default();
    let writer = Writer::new(client.clone(), leadership.clone());
    let lease = tokio::spawn(lease::keep(client, settings.lease, leadership.clone(), stop.clone()));
    let (planning, plans) = watch::channel(Planning::default());
    let (reports, reported) = watch::channel(pods::ByGateway::new());
    let status_changed = Arc::new(Notify::new());
    let asking = Asking::new(settings.token_file);
    let statuses = StatusLoop::new(writer.clone(), Arc::clone(&watches), plans, reported, metrics.clone());
    let planner = Planner {
        dereferencing: Dereferencing::new(writer.clone(), &watches),
        watches: Arc::clone(&watches),
        writer,
        leadership,
        inspect,
        metrics,
        planning,
        status_changed: Arc::clone(&status_changed),
        lowering: Lowering::default(),
        found: Found::default(),
        gateways: HashMap::new(),
        led: false,
        faults: Vec::new(),
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = planner.run(&ready) => {}
        () = pods::follow(Arc::clone(&watches), asking, reports, Arc::clone(&status_changed)) => {}
        () = statuses.run(&status_changed) => {}
    }
    // Given back, so that the next one need not wait.
    let _ = lease.await;
}

/// What is kept of a gateway between two rounds.
struct Kept {
    planned: Arc<Planned>,
    stored: Stored,
    fault: Option<(Reason, String)>,
    /// When something of it was written last.
    written: Instant,
    /// Whether all that the plan asks for was written.
    applied: bool,
    /// After a failure that may pass: the wait, and when to try again unless its plan changes.
    retry: Option<(Duration, Instant)>,
}

impl Kept {
    /// Writes what differs from the plan.
    async fn apply(
        &mut self,
        writer: &Writer,
        watches: &Watches,
        key: &ObjectKey,
        changed: bool,
    ) -> Result<(), ApplyError> {
        // Somebody else may have written or deleted what is ours: then what is there is read anew.
        let foreign = self.written.elapsed() > LAG && !self.stored.is_seen(watches, key);
        if foreign || self.retry.is_some() {
            (self.stored, _) = Stored::read(writer, key).await?;
        }
        if changed || foreign {
            self.written = Instant::now();
        }
        let mut written = Ok(());
        if !self.applied || foreign {
            written = self.stored.write(writer, &self.planned).await;
            for _ in 0..MAX_CONFLICTS {
                let Err(ApplyError::Request { error: RequestError::Conflict, .. }) = written else { break };
                (self.stored, _) = Stored::read(writer, key).await?;
                written = self.stored.write(writer, &self.planned).await;
            }
            self.applied = written.is_ok();
        }
        // What stops the one does not stop the other.
        written.and(apply::access(writer, watches, &self.planned.owner).await)
    }
}

/// Brings snapshots to what objects say.
struct Planner<I> {
    watches: Arc<Watches>,
    writer: Writer,
    leadership: Leadership,
    dereferencing: Dereferencing,
    inspect: I,
    metrics: ControllerMetrics,
    planning: watch::Sender<Planning>,
    status_changed: Arc<Notify>,
    lowering: Lowering,
    found: Found,
    gateways: HashMap<ObjectKey, Kept>,
    led: bool,
    /// What could not be watched, as it was told last.
    faults: Vec<String>,
}

impl<I: Inspect> Planner<I> {
    async fn run(mut self, ready: &std::sync::atomic::AtomicBool) {
        self.watches.sight.settled().await;
        loop {
            if self.watches.sight.is_complete() && !ready.swap(true, std::sync::atomic::Ordering::AcqRel) {
                tracing::info!("every kind is watched");
            }
            let again = self.round().await;
            let (changed, led) = (Arc::clone(&self.watches.changed), Arc::clone(&self.leadership.changed));
            tokio::select! {
                () = changed.notified() => tokio::time::sleep(TOGETHER).await,
                () = led.notified() => {}
                () = tokio::time::sleep(again) => {}
            }
        }
    }

    /// Brings everything to what it is to be, as far as that differs. Says when to look again, whatever happens.
    async fn round(&mut self) -> Duration {
        let began = Instant::now();
        let leads = self.writer.leads();
        self.metrics.leader(leads);
        let (objects, edited) = self.lowering.read(self.watches.objects());
        // Most rounds only look: those are not traced.
        let span = if leads && !edited.is_empty() { traced(objects.len(), &edited) } else { Span::none() };
        let changed = self.dereference(&objects, &span).await || !edited.is_empty();
        if !leads {
            // Warm, and silent. What the leader writes meanwhile is read when this process leads.
            self.gateways.clear();
            self.led = false;
            return LONGEST_RETRY;
        }
        if self.is_held(&objects) {
            self.led = false;
            return LONGEST_RETRY;
        }
        let first = !std::mem::replace(&mut self.led, true);
        if !changed && !first {
            return self.apply(false).await;
        }
        let span = if span.is_disabled() { traced(objects.len(), &edited) } else { span };
        let work = async {
            self.planning.send_modify(|planning| planning.cause = Cause::current());
            self.compile(objects).await;
            self.apply(true).await
        };
        let wait = work.instrument(span).await;
        self.metrics.reconciled("MCPGateway", began.elapsed());
        wait
    }

    /// Whether nothing can be planned, since what is not seen would count as deleted. Tells it, and what else fails.
    fn is_held(&mut self, objects: &[super::lowered::Read]) -> bool {
        let faults = self.watches.sight.faults();
        let differs = faults != self.faults;
        self.faults = faults;
        let held = self.watches.sight.unseen(&PLANNED_FROM);
        let is_held = held.is_some();
        if is_held {
            let compiled = Arc::new(Compiled { objects: objects.to_vec(), ..Compiled::default() });
            self.planning.send_replace(Planning { compiled, held, ..Planning::default() });
        }
        if is_held || differs {
            self.status_changed.notify_one();
        }
        is_held
    }

    /// Reads what objects refer to. Says whether any of it changed.
    async fn dereference(&mut self, objects: &[super::lowered::Read], round: &Span) -> bool {
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
    async fn compile(&mut self, objects: Vec<super::lowered::Read>) {
        let mut inputs = compiled::inputs(&objects, &self.found);
        self.dereferencing.inspect(&mut inputs, &self.inspect).await;
        let (own, protocols) = compiled::survey(&mut inputs);
        let code = compiled::applied_code(&inputs);
        let mut before = std::mem::take(&mut self.gateways);
        let mut unread = BTreeMap::new();
        for gateway in objects.iter().filter(|object| object.id.kind == Kind::MCPGateway) {
            let key = &gateway.id.key;
            let kept = before.remove(key).filter(|kept| kept.planned.owner.uid == gateway.uid());
            let fault = kept.as_ref().and_then(|kept| kept.fault.clone());
            let (stored, previous) = match kept {
                Some(kept) => (Ok((kept.stored, None)), Some(kept.planned)),
                None => (Stored::read(&self.writer, key).await, None),
            };
            let (stored, newest) = match stored {
                Ok(stored) => stored,
                Err(error) => {
                    // Without what ran before, an older form could be lost: this gateway waits.
                    tracing::warn!(gateway = %key, "{error}");
                    self.lowering.forget(&gateway.id);
                    unread.insert(key.clone(), error.to_string());
                    continue;
                }
            };
            let previous = previous.as_ref().map(|planned| &planned.plan).or(newest.as_ref());
            let planned = Arc::new(compiled::plan(gateway, &mut inputs, previous));
            let kept = Kept { planned, stored, fault, written: Instant::now(), applied: false, retry: None };
            self.gateways.insert(key.clone(), kept);
        }
        let compiled = Arc::new(Compiled::new(objects, own, protocols, code));
        self.planning.send_modify(|planning| {
            planning.compiled = compiled;
            planning.unread = unread;
            planning.held = None;
        });
    }

    /// Writes what differs. Says when to look again.
    async fn apply(&mut self, changed: bool) -> Duration {
        let mut again = LAG + Duration::from_secs(1);
        let mut told = changed;
        for (key, kept) in &mut self.gateways {
            if let Some((_, when)) = kept.retry.filter(|(_, when)| *when > Instant::now()) {
                again = again.min(when.saturating_duration_since(Instant::now()));
                continue;
            }
            let was = kept.fault.clone();
            let span = match changed {
                true => debug_span!(target: TARGET, "apply", gateway = %key, fault = Empty),
                false => Span::none(),
            };
            let result = kept.apply(&self.writer, &self.watches, key, changed).instrument(span.clone()).await;
            if let Err(error) = &result {
                span.record("fault", error.reason().as_str());
                self.metrics.failed("MCPGateway", error.reason().as_str());
                tracing::warn!(gateway = %key, "{error}");
            }
            kept.fault = result.as_ref().err().map(|error| (error.reason(), error.to_string()));
            told |= kept.fault != was;
            let wait = kept.retry.map_or(FIRST_RETRY, |(wait, _)| (wait * 2).min(LONGEST_RETRY));
            kept.retry = result.err().and_then(|error| error.again(wait)).map(|when| (wait, when));
            if let Some((_, when)) = kept.retry {
                again = again.min(when.saturating_duration_since(Instant::now()));
            }
        }
        if told {
            self.publish();
        }
        again
    }

    /// Tells the loop of statuses.
    fn publish(&self) {
        let state = |kept: &Kept| {
            let index = kept.stored.index.as_ref();
            let current = index.map(|index| index.current.clone());
            let newest = index.and_then(|index| index.revisions.first()).map(|newest| newest.revision.clone());
            GatewayState {
                planned: Arc::clone(&kept.planned),
                pinned: current != newest,
                current,
                revisions: kept.stored.revisions.clone(),
                fault: kept.fault.clone(),
            }
        };
        let states = self.gateways.iter().map(|(key, kept)| (key.clone(), state(kept))).collect();
        self.planning.send_modify(|planning| planning.gateways = states);
        self.status_changed.notify_one();
    }
}
