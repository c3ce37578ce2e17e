//! Custom resources in the form that the compiler reads. Unchanged objects are not lowered again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::dropped;
use super::owner::Owner;
use crate::api::canonical;
use crate::api::lower::{self, Lowered, ManifestSource};
use crate::api::status::Condition;
use crate::config::input::InvalidObject;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::problem::Problem;

/// One object, and the result of lowering it.
#[derive(Clone, Debug)]
pub(super) struct LoweredObject {
    pub(super) id: ObjectId,
    pub(super) metadata: Arc<ObjectMeta>,
    /// The spec as the API server stores it.
    pub(super) spec: Arc<Value>,
    pub(super) lowered: Arc<Result<Lowered, InvalidObject>>,
    pub(super) problems: Arc<[Problem]>,
    /// The stored status, as far as this operator applied it.
    pub(super) status: Arc<Value>,
}

impl LoweredObject {
    pub(super) fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns a gateway as the owner of what belongs to it.
    pub(super) fn as_owner(&self) -> Owner {
        Owner::gateway(self.id.key.clone(), self.uid())
    }

    /// Returns the conditions in the stored status.
    pub(super) fn conditions(&self) -> Vec<Condition> {
        self.status.get("conditions").and_then(|stored| Deserialize::deserialize(stored).ok()).unwrap_or_default()
    }
}

/// The parts of an object that the result of lowering depends on: while they do not change, neither does the result.
#[derive(PartialEq)]
pub(super) struct Origin {
    uid: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    /// The value of the only annotation of users that the operator reads.
    enable: Option<String>,
    /// The fields that the API server dropped.
    dropped: Option<String>,
}

impl Origin {
    pub(super) fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone(),
            generation: metadata.generation,
            labels: metadata.labels.clone(),
            enable: lower::enable_word(metadata),
            dropped: dropped::of(metadata).cloned(),
        }
    }
}

/// All objects, lowered.
pub(super) type Objects = Arc<[LoweredObject]>;

/// Lowers objects, and remembers the results.
pub(super) struct Lowering {
    /// DNS domain of the cluster.
    domain: String,
    known: HashMap<ObjectId, (Origin, LoweredObject)>,
    /// The objects of the last round and their result, because most rounds find the same objects.
    last: Option<(Vec<Arc<DynamicObject>>, Objects)>,
}

impl Lowering {
    /// `domain` is the DNS domain of the cluster.
    pub(super) fn new(domain: impl Into<String>) -> Self {
        Self { domain: domain.into(), known: HashMap::new(), last: None }
    }

    /// Forgets the result for an object, so that the next round lowers the object again.
    pub(super) fn forget(&mut self, id: &ObjectId) {
        self.known.remove(id);
        self.last = None;
    }

    /// Lowers every object. The result is sorted by creation time, then by id; upstreams are routed in this order. Also
    /// returns which objects changed, appeared or disappeared.
    pub(super) fn read(
        &mut self,
        objects: impl Iterator<Item = (Kind, Arc<DynamicObject>)>,
    ) -> (Objects, Vec<ObjectId>) {
        let objects: Vec<_> = objects.collect();
        // Unchanged objects are the same allocations, so comparing addresses suffices.
        let addresses = || objects.iter().map(|(_, object)| Arc::as_ptr(object));
        if let Some((_, all)) = self.last.as_ref().filter(|(before, _)| addresses().eq(before.iter().map(Arc::as_ptr)))
        {
            return (Arc::clone(all), Vec::new());
        }
        let (all, changed) = self.read_all(&objects);
        self.last = Some((objects.into_iter().map(|(_, object)| object).collect(), Arc::clone(&all)));
        (all, changed)
    }

    fn read_all(&mut self, objects: &[(Kind, Arc<DynamicObject>)]) -> (Objects, Vec<ObjectId>) {
        let mut known = HashMap::with_capacity(self.known.len());
        let mut changed = Vec::new();
        let mut all = Vec::with_capacity(self.known.len());
        for (kind, object) in objects {
            let key = ObjectKey::new(
                object.metadata.namespace.clone().unwrap_or_default(),
                object.metadata.name.clone().unwrap_or_default(),
            );
            let id = ObjectId::new(*kind, key);
            let from = Origin::of(&object.metadata);
            let before = self.known.remove(&id).filter(|(before, _)| *before == from);
            let read = match before {
                Some((_, read)) if read.metadata.resource_version == object.metadata.resource_version => read,
                Some((_, read)) => LoweredObject {
                    metadata: Arc::new(object.metadata.clone()),
                    status: Arc::new(object.data.get("status").cloned().unwrap_or_default()),
                    ..read
                },
                None => {
                    changed.push(id.clone());
                    read(&id, object, &self.domain)
                }
            };
            all.push(read.clone());
            known.insert(id, (from, read));
        }
        // The objects that are still in `self.known` were deleted.
        changed.extend(self.known.drain().map(|(gone, _)| gone));
        self.known = known;
        let created = |read: &LoweredObject| read.metadata.creation_timestamp.as_ref().map(|time| time.0);
        all.sort_by(|a, b| (created(a), &a.id).cmp(&(created(b), &b.id)));
        (all.into(), changed)
    }
}

fn read(id: &ObjectId, object: &DynamicObject, domain: &str) -> LoweredObject {
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
    let (lowered, mut problems) = lower::document(id, &document, None, ManifestSource::Cluster { domain });
    problems.extend(dropped::problems(id, &object.metadata));
    LoweredObject {
        id: id.clone(),
        metadata: Arc::new(object.metadata.clone()),
        spec: Arc::new(spec),
        lowered: Arc::new(lowered),
        problems: problems.into(),
        status: Arc::new(object.data.get("status").cloned().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, generation: i64) -> (Kind, Arc<DynamicObject>) {
        let object = json!({
            "apiVersion": "hawsepipe.dev/v1alpha1", "kind": "Plugin", "spec": {"source": {"inline": "1;"}},
            "metadata": {"name": name, "namespace": "ns", "uid": name, "generation": generation},
        });
        (Kind::Plugin, Arc::new(serde_json::from_value(object).unwrap()))
    }

    #[test]
    fn what_did_not_change_is_not_read_again() {
        let mut lowering = Lowering::new("cluster.local");
        let mut read = |objects: &[(Kind, Arc<DynamicObject>)]| {
            let (all, changed) = lowering.read(objects.iter().cloned());
            (all, changed.into_iter().map(|id| id.key.name).collect::<Vec<_>>())
        };
        let (a, b) = (object("a", 1), object("b", 1));
        let (first, changed) = read(&[a.clone(), b.clone()]);
        assert_eq!(changed, ["a", "b"]);
        let (again, changed) = read(&[a.clone(), b.clone()]);
        assert!(Arc::ptr_eq(&first, &again) && changed.is_empty());
        let (edited, changed) = read(&[a.clone(), object("b", 2)]);
        assert!(changed == ["b"] && Arc::ptr_eq(&edited[0].lowered, &first[0].lowered));
        let (left, changed) = read(&[a]);
        assert!(left.len() == 1 && changed == ["b"]);
        assert_eq!(read(&[]).1, ["a"]);
    }

    #[test]
    fn what_was_forgotten_is_read_again_or_gone() {
        let mut lowering = Lowering::new("cluster.local");
        let a = object("a", 1);
        let (all, _) = lowering.read([a.clone()].into_iter());
        lowering.forget(&all[0].id);
        assert_eq!(lowering.read([a].into_iter()).1.len(), 1);
        lowering.forget(&ObjectId::new(Kind::Plugin, ObjectKey::new("ns", "other")));
        let (all, changed) = lowering.read([].into_iter());
        assert!(all.is_empty() && changed.len() == 1);
    }
}
