//! Objects as the compiler reads them. What did not change is not read again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::api::canonical;
use crate::api::lower::{self, Lowered, Place};
use crate::api::status::Condition;
use crate::config::input::InvalidObject;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::problem::Problem;

/// One object, and what came of reading it.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) id: ObjectId,
    pub(super) metadata: Arc<ObjectMeta>,
    /// The spec as it stands.
    pub(super) spec: Arc<Value>,
    pub(super) lowered: Arc<Result<Lowered, InvalidObject>>,
    pub(super) problems: Arc<[Problem]>,
    /// The status as it is stored.
    pub(super) status: Arc<Value>,
}

impl Read {
    pub(super) fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The conditions as they are stored.
    pub(super) fn conditions(&self) -> Vec<Condition> {
        let stored = self.status.get("conditions").cloned().unwrap_or_default();
        serde_json::from_value(stored).unwrap_or_default()
    }
}

/// What an object is lowered from: where none of it changed, neither did the result.
#[derive(PartialEq)]
pub(super) struct Origin {
    uid: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    /// The one annotation that counts: others are somebody else's.
    enable: Option<String>,
}

impl Origin {
    pub(super) fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone(),
            generation: metadata.generation,
            labels: metadata.labels.clone(),
            enable: lower::enable_word(metadata),
        }
    }
}

/// Remembers what objects were lowered to.
#[derive(Default)]
pub(super) struct Lowering {
    known: HashMap<ObjectId, (Origin, Read)>,
}

impl Lowering {
    /// Has an object read anew the next time.
    pub(super) fn forget(&mut self, id: &ObjectId) {
        self.known.remove(id);
    }

    /// Reads every object; in order of creation, then of names, which is the order in which upstreams are routed. Says
    /// which changed, came or went.
    pub(super) fn read(
        &mut self,
        objects: impl Iterator<Item = (Kind, Arc<DynamicObject>)>,
    ) -> (Vec<Read>, Vec<ObjectId>) {
        let mut known = HashMap::with_capacity(self.known.len());
        let mut changed = Vec::new();
        let mut all = Vec::with_capacity(self.known.len());
        for (kind, object) in objects {
            let key = ObjectKey::new(
                object.metadata.namespace.clone().unwrap_or_default(),
                object.metadata.name.clone().unwrap_or_default(),
            );
            let id = ObjectId::new(kind, key);
            let from = Origin::of(&object.metadata);
            let before = self.known.remove(&id).filter(|(before, _)| *before == from);
            let read = match before {
                Some((_, read)) if read.metadata.resource_version == object.metadata.resource_version => read,
                Some((_, read)) => Read {
                    metadata: Arc::new(object.metadata.clone()),
                    status: Arc::new(object.data.get("status").cloned().unwrap_or_default()),
                    ..read
                },
                None => {
                    changed.push(id.clone());
                    read(&id, &object)
                }
            };
            all.push(read.clone());
            known.insert(id, (from, read));
        }
        // Those that are left were deleted.
        changed.extend(self.known.drain().map(|(gone, _)| gone));
        self.known = known;
        let created = |read: &Read| read.metadata.creation_timestamp.as_ref().map(|time| time.0);
        all.sort_by(|a, b| (created(a), &a.id).cmp(&(created(b), &b.id)));
        (all, changed)
    }
}

fn read(id: &ObjectId, object: &DynamicObject) -> Read {
    let spec = object.data.get("spec").cloned().unwrap_or_default();
    let enable = lower::enable_word(&object.metadata).map(|word| (lower::ENABLE, word));
    let metadata = json!({
        "name": object.metadata.name, "namespace": object.metadata.namespace,
        "labels": object.metadata.labels.clone().unwrap_or_default(),
        "annotations": enable.into_iter().collect::<BTreeMap<_, _>>(),
    });
    let whole =
        json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": id.kind.as_str(), "metadata": metadata, "spec": spec});
    let document = canonical(&whole);
    let (lowered, problems) = lower::document(id, &document, None, Place::Cluster);
    Read {
        id: id.clone(),
        metadata: Arc::new(object.metadata.clone()),
        spec: Arc::new(spec),
        lowered: Arc::new(lowered),
        problems: problems.into(),
        status: Arc::new(object.data.get("status").cloned().unwrap_or_default()),
    }
}
