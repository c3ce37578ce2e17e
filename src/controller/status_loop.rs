//! Writes statuses that differ from what is true, and tells of it in Events.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use super::events::Events;
use super::lowered::Read;
use super::metrics::ControllerMetrics;
use super::operator::Planning;
use super::pods::ByGateway;
use super::status::{self, Truth};
use super::watches::{Watches, resource};
use super::writer::{WriteError, Writer};
use crate::domain::ids::{ObjectId, ObjectKey};

/// Statuses written at once.
const AT_ONCE: usize = 16;
/// How long what was written may be missing in what is seen.
const LAG: Duration = Duration::from_secs(5);
/// How long to wait after a status could not be written.
const RETRY: Duration = Duration::from_secs(2);
/// How often to look whatever happens.
const IDLE: Duration = Duration::from_secs(60);

/// The loop and what it remembers.
pub(super) struct StatusLoop {
    writer: Writer,
    watches: Arc<Watches>,
    plans: watch::Receiver<Planning>,
    reported: watch::Receiver<ByGateway>,
    metrics: ControllerMetrics,
    events: Events,
    /// What was written last, and when.
    written: HashMap<ObjectId, (Arc<Value>, Instant)>,
}

/// A status that is to be written.
struct Wanted {
    object: Read,
    status: Value,
}

impl StatusLoop {
    pub(super) fn new(
        writer: Writer,
        watches: Arc<Watches>,
        plans: watch::Receiver<Planning>,
        reported: watch::Receiver<ByGateway>,
        metrics: ControllerMetrics,
    ) -> Self {
        let events = Events::new(writer.clone());
        Self { writer, watches, plans, reported, metrics, events, written: HashMap::new() }
    }

    /// Runs for ever.
    pub(super) async fn run(mut self, changed: &Notify) {
        loop {
            let failed = self.round().await;
            let wait = if failed { RETRY } else { IDLE };
            tokio::select! {
                () = changed.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Writes what differs. Says whether something could not be written.
    async fn round(&mut self) -> bool {
        if !self.writer.leads() {
            self.written.clear();
            return false;
        }
        let wanted = self.wanted();
        if wanted.is_empty() {
            return false;
        }
        let writes = wanted.into_iter().map(|wanted| {
            let writer = self.writer.clone();
            async move {
                let result = write(&writer, &wanted).await;
                (wanted, result)
            }
        });
        let results: Vec<_> = stream::iter(writes).buffer_unordered(AT_ONCE).collect().await;
        let mut failed = false;
        for (Wanted { object, status }, result) in results {
            let kind = object.id.kind.as_str();
            match result {
                Ok(()) => {
                    self.metrics.reconciled_status(kind);
                    self.events.tell(&object, &status).await;
                    self.written.insert(object.id.clone(), (Arc::new(status), Instant::now()));
                }
                Err(error) => {
                    failed = true;
                    self.metrics.failed(kind, "status");
                    tracing::warn!(object = %object.id, "its status cannot be written: {error}");
                }
            }
        }
        failed
    }

    /// The statuses that are not as they are to be. What was written and is not seen yet counts as seen.
    fn wanted(&mut self) -> Vec<Wanted> {
        let Planning { compiled, gateways } = self.plans.borrow_and_update().clone();
        let pods = self.reported.borrow_and_update().clone();
        let truth = Truth { compiled, gateways, pods, blind: self.watches.faults() };
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let known: HashMap<_, _> = truth.compiled.objects.iter().map(|object| (&object.id, object)).collect();
        self.written.retain(|_, (_, when)| when.elapsed() < LAG);
        let mut wanted = Vec::new();
        for (kind, seen) in self.watches.objects() {
            let (namespace, name) = (seen.metadata.namespace.clone(), seen.metadata.name.clone());
            let id = ObjectId::new(kind, ObjectKey::new(namespace.unwrap_or_default(), name.unwrap_or_default()));
            // What changed since will be compiled, and come back.
            let Some(object) = known.get(&id).filter(|object| is_same(object, &seen)) else { continue };
            let stored = seen.data.get("status").cloned().unwrap_or_default();
            let before = self.written.get(&id).map_or_else(|| Arc::new(stored), |(written, _)| Arc::clone(written));
            let object = Read { status: before, ..(*object).clone() };
            let status = status::of(&truth, &object, &now);
            if status != *object.status {
                wanted.push(Wanted { object, status });
            }
        }
        wanted
    }
}

/// Whether what was compiled is what is seen now.
fn is_same(object: &Read, seen: &DynamicObject) -> bool {
    object.metadata.uid == seen.metadata.uid && object.metadata.generation == seen.metadata.generation
}

async fn write(writer: &Writer, wanted: &Wanted) -> Result<(), WriteError> {
    let id = &wanted.object.id;
    let resource = resource(id.kind);
    let api: Api<DynamicObject> = Api::namespaced_with(writer.client.clone(), &id.key.namespace, &resource);
    let patch = json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": {"name": id.key.name, "namespace": id.key.namespace, "uid": wanted.object.uid()},
        "status": wanted.status,
    });
    let what = format!("{} in {}", resource.plural, id.key.namespace);
    match writer.apply_status(&api, &what, &id.key.name, &patch).await {
        // It is gone, or another of its name is there: neither wants this status.
        Err(WriteError::Api(error)) if matches!(&*error, kube::Error::Api(status) if status.code == 404) => Ok(()),
        Err(WriteError::Conflict) => Ok(()),
        other => other.map(drop),
    }
}
