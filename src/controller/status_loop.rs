//! Writes the statuses that changed, and publishes Events about the changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tracing::field::Empty;
use tracing::{Instrument, Span, debug_span};

use super::doubling::Doubling;
use super::events::Events;
use super::kinds::resource;
use super::lowered::LoweredObject;
use super::managed_state::{ManagedServer, ManagedServers};
use super::metrics::ControllerMetrics;
use super::planning_state::PlanningState;
use super::pods::ByGateway;
use super::rights::RequestError;
use super::status::{self, StatusInput};
use super::watches::{MANAGED_PODS, Watches};
use super::writer::Writer;
use crate::api::item::Item;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::telemetry::trace_context::{Cause, TARGET};

/// How many statuses are written concurrently.
const AT_ONCE: usize = 16;
/// How long the watch may still show an old status after a write.
const LAG: Duration = Duration::from_secs(5);
/// The first and the longest pause after a status could not be written. If the API server rejects the status as
/// invalid, the longest pause applies from the first failure on.
const RETRY: Duration = Duration::from_secs(2);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// The longest pause between two rounds.
const IDLE: Duration = Duration::from_secs(60);

/// The status loop, and what it remembers between rounds.
pub(super) struct StatusLoop {
    writer: Writer,
    watches: Arc<Watches>,
    plans: watch::Receiver<PlanningState>,
    reported: watch::Receiver<ByGateway>,
    /// The servers that the operator runs for upstreams; `None` if it runs none.
    managed: Option<watch::Receiver<ManagedServers>>,
    metrics: ControllerMetrics,
    events: Events,
    /// The last statuses that were written, and when, by the uids of their objects.
    written: HashMap<String, (Arc<Value>, Instant)>,
    /// Objects whose status could not be written.
    failing: HashMap<ObjectId, Failing>,
    /// Kinds whose status the operator is not permitted to write, with the API server's message.
    refused: BTreeMap<&'static str, String>,
}

/// An object whose status could not be written.
struct Failing {
    /// Uid of the object. The status of a new object of the same name is written without a pause.
    uid: String,
    /// Generation of the object. The status of an edited object is written without a pause.
    generation: i64,
    pauses: Doubling,
    again: Instant,
}

/// A status that must be written.
struct WantedStatus {
    object: LoweredObject,
    status: Value,
    /// Warnings that the message of `Accepted` lists while that condition is true.
    warnings: Vec<Problem>,
}

impl StatusLoop {
    pub(super) fn new(
        writer: Writer,
        watches: Arc<Watches>,
        plans: watch::Receiver<PlanningState>,
        reported: watch::Receiver<ByGateway>,
        managed: Option<watch::Receiver<ManagedServers>>,
        metrics: ControllerMetrics,
    ) -> Self {
        let events = Events::new(writer.clone());
        Self {
            writer,
            watches,
            plans,
            reported,
            managed,
            metrics,
            events,
            written: HashMap::new(),
            failing: HashMap::new(),
            refused: BTreeMap::new(),
        }
    }

    /// Runs forever.
    pub(super) async fn run(mut self, changed: &Notify) {
        loop {
            self.writer.pulse.beats();
            let again = self.round().await;
            self.writer.pulse.rests();
            tokio::select! {
                () = changed.notified() => {}
                () = tokio::time::sleep(again) => {}
            }
        }
    }

    /// Writes the statuses that changed. Returns how long to wait before the next round.
    async fn round(&mut self) -> Duration {
        if !self.writer.leads() {
            self.written.clear();
            return IDLE;
        }
        // A status that follows from a planning round belongs to the trace of that round; one that follows from reports
        // does not.
        let planned = self.plans.has_changed().unwrap_or_default();
        let cause = if planned { self.plans.borrow().cause.clone() } else { Cause::default() };
        let (wanted, paused) = self.wanted();
        let span = match wanted.is_empty() {
            true => Span::none(),
            false => debug_span!(target: TARGET, "status", statuses = wanted.len(), failed = Empty),
        };
        cause.lead_to(&span);
        self.write_all(wanted, paused).instrument(span).await
    }

    /// Writes statuses. `paused` is when another one is due. Returns how long to wait before the next round.
    async fn write_all(&mut self, wanted: Vec<WantedStatus>, paused: Option<Instant>) -> Duration {
        let writes = wanted.into_iter().map(|wanted| {
            let writer = self.writer.clone();
            async move {
                let result = write(&writer, &wanted).await;
                (wanted, result)
            }
        });
        let results: Vec<_> = stream::iter(writes).buffer_unordered(AT_ONCE).collect().await;
        let refused = self.refused.clone();
        let mut again = paused;
        for (wanted, result) in results {
            let next = match result {
                Ok(()) => self.succeeded(wanted).await,
                Err(error) => self.failed(&wanted, &error).await,
            };
            again = again.into_iter().chain(next).min();
        }
        if refused != self.refused {
            // The statuses of gateways show which kinds are refused, so they must be written now.
            return Duration::ZERO;
        }
        again.map_or(IDLE, |again| again.saturating_duration_since(Instant::now()).min(IDLE))
    }

    async fn succeeded(&mut self, WantedStatus { object, status, warnings }: WantedStatus) -> Option<Instant> {
        let kind = object.id.kind.as_str();
        self.metrics.reconciled_status(kind);
        self.failing.remove(&object.id);
        self.refused.remove(kind);
        self.events.tell(&object, &status, &warnings).await;
        self.written.insert(object.uid().to_owned(), (Arc::new(status), Instant::now()));
        None
    }

    /// Handles a failed write. Returns when to try again.
    async fn failed(&mut self, wanted: &WantedStatus, error: &RequestError) -> Option<Instant> {
        let (object, kind) = (&wanted.object, wanted.object.id.kind.as_str());
        match error {
            RequestError::NotLeading => return None,
            // The object was deleted: nothing was written, and there is nothing to write any more.
            gone if gone.is_not_found() => return None,
            // The object was changed, or replaced by another one of its name. The object that exists now gets its
            // status once the watch shows it.
            RequestError::Conflict => return Some(Instant::now() + RETRY),
            RequestError::Forbidden(words, again) => {
                if self.refused.insert(kind, words.clone()).is_none() {
                    self.metrics.failed(kind, Reason::Forbidden.as_str());
                    self.events
                        .warn(object, Reason::Forbidden, &format!("its status cannot be written: {words}"))
                        .await;
                }
                return Some(*again);
            }
            RequestError::Api(_) => {}
        }
        Span::current().record("failed", true);
        self.metrics.failed(kind, "status");
        tracing::warn!(object = %object.id, "its status cannot be written: {error}");
        let before = self.failing.get(&object.id).map(|failing| failing.pauses);
        let mut pauses = before.unwrap_or(Doubling::new(RETRY, LONGEST_RETRY));
        let pause = if error.is_wrong() {
            let note = format!("its status cannot be written: {error}");
            self.events.warn(object, Reason::InvalidObject, &note).await;
            pauses.longest()
        } else {
            pauses.pause()
        };
        let again = Instant::now() + pause;
        self.failing.insert(
            object.id.clone(),
            Failing { uid: object.uid().to_owned(), generation: object.generation(), pauses, again },
        );
        Some(again)
    }

    /// Returns the newest input of every status.
    fn input(&mut self) -> StatusInput {
        let PlanningState { compiled, gateways, unread, held, .. } = self.plans.borrow_and_update().clone();
        let pods = self.reported.borrow_and_update().clone();
        let managed = self.managed.as_ref().map(|managed| ManagedServers::clone(&managed.borrow())).unwrap_or_default();
        let cache_sync = &self.watches.cache_sync;
        let (blind, no_pods) = (cache_sync.faults(), cache_sync.unseen(&["pods", MANAGED_PODS]));
        let refused = self.refused.clone();
        StatusInput { compiled, gateways, pods, managed, blind, unread, held, no_pods, refused }
    }

    /// Returns the statuses that must be written now, and when the first of those is due that failed before. A status that
    /// was written but that the watch does not show yet counts as stored.
    fn wanted(&mut self) -> (Vec<WantedStatus>, Option<Instant>) {
        let input = self.input();
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let known: HashMap<_, _> = input.compiled.objects.iter().map(|object| (&object.id, object)).collect();
        self.written.retain(|_, (_, when)| when.elapsed() < LAG);
        self.failing.retain(|id, failing| {
            known.get(id).is_some_and(|o| o.generation() == failing.generation && o.uid() == failing.uid)
        });
        let (mut wanted, mut paused) = (Vec::new(), None::<Instant>);
        for (kind, seen) in self.watches.objects() {
            let (namespace, name) = (seen.metadata.namespace.clone(), seen.metadata.name.clone());
            let id = ObjectId::new(kind, ObjectKey::new(namespace.unwrap_or_default(), name.unwrap_or_default()));
            // An object that has changed since is compiled first, and gets its status afterwards.
            let Some(object) = known.get(&id).filter(|object| is_same(object, &seen)) else { continue };
            if self.managed.is_some() && input.held.is_none() && !is_looked_after(&input.managed, object) {
                continue;
            }
            let object = LoweredObject { status: self.stored(object, &seen), ..(*object).clone() };
            let status = status::of(&input, &object, &now);
            if status == *object.status {
                // The write of a failing one may have succeeded although its answer came too late.
                self.failing.remove(&object.id);
                continue;
            }
            let again = self.failing.get(&object.id).map(|failing| failing.again);
            if let Some(again) = again.filter(|again| Instant::now() < *again) {
                paused = Some(paused.map_or(again, |paused| paused.min(again)));
                continue;
            }
            let warnings = status::warnings(&input, &object);
            wanted.push(WantedStatus { object, status, warnings });
        }
        (wanted, paused)
    }

    /// Returns the status that the object has now.
    fn stored(&self, object: &LoweredObject, seen: &DynamicObject) -> Arc<Value> {
        match self.written.get(object.uid()) {
            Some((written, _)) => Arc::clone(written),
            None if object.metadata.resource_version == seen.metadata.resource_version => Arc::clone(&object.status),
            None => Arc::new(seen.data.get("status").cloned().unwrap_or_default()),
        }
    }
}

/// Whether the object that was compiled is the one that the watch shows now.
fn is_same(object: &LoweredObject, seen: &DynamicObject) -> bool {
    object.metadata.uid == seen.metadata.uid && object.metadata.generation == seen.metadata.generation
}

/// Whether the state of the upstream's server is known, if it is to have one. Its status would otherwise be written twice.
fn is_looked_after(servers: &ManagedServers, object: &LoweredObject) -> bool {
    let is_managed = object.id.kind == Kind::MCPUpstream && object.spec.get("managed").is_some_and(Value::is_object);
    let is_current = |server: &ManagedServer| server.uid == object.uid() && server.generation == object.generation();
    !is_managed || servers.get(&object.id.key).is_some_and(is_current)
}

async fn write(writer: &Writer, wanted: &WantedStatus) -> Result<(), RequestError> {
    let id = &wanted.object.id;
    let resource = resource(id.kind);
    let api: Api<Item<DynamicObject>> = Api::namespaced_with(writer.client.clone(), &id.key.namespace, &resource);
    let patch = json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": {"name": id.key.name, "namespace": id.key.namespace, "uid": wanted.object.uid()},
        "status": wanted.status,
    });
    let what = format!("{} in {}", resource.plural, id.key.namespace);
    let Item(stored) = writer.apply_status(&api, &what, &id.key.name, &patch).await?;
    // When the status of a custom resource is applied, the API server does not compare uids: it writes to the object
    // that has the name now, and answers with that object.
    if stored.metadata.uid.as_deref() == Some(wanted.object.uid()) { Ok(()) } else { Err(RequestError::Conflict) }
}

#[cfg(test)]
mod tests;
