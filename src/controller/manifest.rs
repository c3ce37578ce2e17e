//! A desired object, in the form in which it is applied.

use std::fmt;
use std::marker::PhantomData;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::strip::strip;
use crate::api::canonical;
use crate::domain::digest::sha256_hex;

/// The annotation that contains a digest of the object as it was applied. Digests are compared instead of values,
/// because the API server can rewrite values: it normalises quantities and sets defaults.
pub(super) const APPLIED: &str = "hawsepipe.dev/applied";
/// Number of hexadecimal characters of the digest.
const DIGITS: usize = 16;

/// A desired object of kind `K`.
#[derive(Clone)]
pub(super) struct Manifest<K> {
    body: Value,
    /// `body` without the fields that identify the object, because no field manager owns those.
    owned: Value,
    digest: String,
    kind: PhantomData<fn() -> K>,
}

impl<K: Serialize> Manifest<K> {
    /// Creates the manifest of an object whose fields are all known to `K`.
    pub(super) fn of(object: &K) -> Self {
        Self::from_json(serde_json::to_value(object).unwrap_or_default())
    }
}

impl<K> Manifest<K> {
    /// Creates the manifest of an object that can have fields unknown to `K`, because users can write fields of a newer
    /// version of Kubernetes.
    pub(super) fn from_json(mut body: Value) -> Self {
        strip(&mut body);
        let mut digest = sha256_hex(canonical(&body).to_string().as_bytes());
        digest.truncate(DIGITS);
        let annotations = member(&mut body, "metadata").and_then(|metadata| member(metadata, "annotations"));
        if let Some(Value::Object(annotations)) = annotations {
            annotations.insert(APPLIED.to_owned(), digest.clone().into());
        }
        let mut owned = body.clone();
        remove(&mut owned, &["apiVersion", "kind"]);
        owned.get_mut("metadata").into_iter().for_each(|metadata| remove(metadata, &["name", "namespace"]));
        Self { body, owned, digest, kind: PhantomData }
    }

    /// Returns this object with another `spec.replicas`; `None` leaves the field to other clients.
    pub(super) fn with_replicas(&self, replicas: Option<u32>) -> Self {
        self.edited(|body| {
            if let Some(Value::Object(spec)) = body.get_mut("spec") {
                spec.insert("replicas".to_owned(), replicas.into());
            }
        })
    }

    /// Returns this object after an edit.
    pub(super) fn edited(&self, edit: impl FnOnce(&mut Value)) -> Self {
        let mut body = self.body.clone();
        remove_digest(&mut body);
        edit(&mut body);
        Self::from_json(body)
    }

    /// Returns this object with a version. The API server refuses to apply it if the stored object has another one.
    /// With `None`, it is applied in any case.
    pub(super) fn at_version(mut self, version: Option<String>) -> Self {
        if let (Some(Value::Object(metadata)), Some(version)) = (self.body.get_mut("metadata"), version) {
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
        self
    }

    /// Returns the fields that this operator's field manager owns once the object is applied.
    pub(super) fn owned(&self) -> &Value {
        &self.owned
    }

    /// Returns the value of [`APPLIED`].
    pub(super) fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the object to apply.
    #[cfg(test)]
    pub(super) fn body(&self) -> &Value {
        &self.body
    }
}

fn remove(value: &mut Value, names: &[&str]) {
    value.as_object_mut().into_iter().for_each(|members| members.retain(|name, _| !names.contains(&name.as_str())));
}

/// Removes what [`Manifest::from_json`] added.
fn remove_digest(body: &mut Value) {
    let Some(metadata) = body.get_mut("metadata") else { return };
    metadata.get_mut("annotations").into_iter().for_each(|annotations| remove(annotations, &[APPLIED]));
    if metadata.get("annotations").and_then(Value::as_object).is_some_and(Map::is_empty) {
        remove(metadata, &["annotations"]);
    }
}

/// Returns a member of an object. A missing member is inserted as an empty object.
fn member<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    value.as_object_mut().map(|members| members.entry(name).or_insert_with(|| Value::Object(Map::new())))
}

impl<K> Serialize for Manifest<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.body.serialize(serializer)
    }
}

impl<K> fmt::Debug for Manifest<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.body)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_digest_is_of_what_is_applied_but_itself() {
        let manifest = |body: Value| Manifest::<()>::from_json(body);
        let plain = json!({"metadata": {"name": "x"}, "spec": {"volumes": [{"emptyDir": {}}]}});
        let made = manifest(plain.clone());
        let annotations = json!({APPLIED: made.digest()});
        assert_eq!(made.body()["metadata"], json!({"name": "x", "annotations": annotations}));
        assert_eq!(made.body()["spec"], plain["spec"], "an empty map says something");
        assert_eq!(made.digest().len(), DIGITS);
        let mut empty = plain.clone();
        empty["spec"]["args"] = json!([]);
        empty["spec"]["replicas"] = Value::Null;
        assert_eq!(manifest(empty).body(), made.body(), "empty lists have no owner");
        let mut annotated = plain.clone();
        annotated["metadata"]["annotations"] = json!({"team": "a"});
        let annotated = manifest(annotated);
        assert_ne!(annotated.digest(), made.digest());
        assert_eq!(annotated.body()["metadata"]["annotations"]["team"], "a");
        assert_eq!(made.owned(), &json!({"metadata": {"annotations": annotations}, "spec": plain["spec"]}));
        assert_eq!(serde_json::to_value(&annotated).unwrap(), *annotated.body());
    }

    #[test]
    fn another_number_of_pods_is_another_object_and_a_version_is_not() {
        let manifest = |replicas: u32| {
            Manifest::<()>::from_json(json!({"metadata": {"name": "x"}, "spec": {"replicas": replicas, "a": 1}}))
        };
        let three = manifest(3);
        assert_eq!(manifest(2).with_replicas(Some(3)).body(), three.body());
        let none = three.with_replicas(None);
        assert_eq!(none.body()["spec"], json!({"a": 1}));
        assert_ne!(none.digest(), three.digest());
        let versioned = three.clone().at_version(Some("7".into()));
        assert_eq!(versioned.body()["metadata"]["resourceVersion"], "7");
        assert_eq!((versioned.digest(), versioned.owned()), (three.digest(), three.owned()));
        assert_eq!(three.clone().at_version(None).body(), three.body());
    }
}
