//! Lists and watches that parse each object separately, so that an object that cannot be parsed does not hide the
//! others.

use std::borrow::Cow;
use std::fmt::Debug;

use futures_util::{Stream, TryStreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::api::check::MAX_DEPTH;
use crate::domain::tokens::{JsonToken, JsonTokens, deeper_than};

/// Maximum depth of an object as it is read; values that nest deeper are replaced by null. The limit is higher than
/// [`MAX_DEPTH`], so that the check still reports such an object as too deep, and lower than the depth at which
/// `serde_json` rejects a text.
const READ_DEPTH: usize = MAX_DEPTH + 10;

/// Seconds after which a watch is restarted. This bounds how long a dead connection goes unnoticed.
pub const WATCH_SECONDS: u32 = 30;

/// An object of a list or a watch.
///
/// Deserializing first copies the object from the response as raw text, because the recursion limit of `serde_json`
/// applies to the whole response. Values that nest too deep are replaced by null, and metadata fields that cannot be
/// parsed are dropped.
#[derive(Clone, Debug)]
pub struct Item<K>(pub K);

impl<'de, K: DeserializeOwned> Deserialize<'de> for Item<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        read(text.get()).map(Self).map_err(D::Error::custom)
    }
}

impl<K: Resource> Resource for Item<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

/// Returns the settings that every watch uses; they restart the watch after [`WATCH_SECONDS`].
pub fn watch_config() -> watcher::Config {
    watcher::Config::default().timeout(WATCH_SECONDS)
}

/// Like [`watcher`], but parses each object separately.
pub fn watch<K>(api: Api<Item<K>>, config: watcher::Config) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watcher(api, config).map_ok(|event| match event {
        Event::Init => Event::Init,
        Event::InitApply(Item(object)) => Event::InitApply(object),
        Event::InitDone => Event::InitDone,
        Event::Apply(Item(object)) => Event::Apply(object),
        Event::Delete(Item(object)) => Event::Delete(object),
    })
}

/// Parses as much of an object as possible. It tries the whole object, then the object without the metadata fields that
/// cannot be parsed, and finally only the metadata.
fn read<K: DeserializeOwned>(text: &str) -> serde_json::Result<K> {
    let text = without_deeper_than(READ_DEPTH, text);
    let whole = serde_json::from_str(&text);
    whole.or_else(|error| {
        let mut object: Value = serde_json::from_str(&text)?;
        let Some(members) = object.as_object_mut() else { return Err(error) };
        if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
            if let Some(Value::Array(managed)) = metadata.get_mut("managedFields") {
                // The operator needs to know who owns which fields, but not when they were written.
                managed.iter_mut().filter_map(Value::as_object_mut).for_each(|entry| drop(entry.remove("time")));
                managed.retain(|entry| ManagedFieldsEntry::deserialize(entry).is_ok());
            }
            metadata.retain(|name, value| {
                let alone = Value::from_iter([(name.clone(), value.clone())]);
                ObjectMeta::deserialize(alone).is_ok()
            });
        }
        K::deserialize(&object).or_else(|_| {
            if let Some(members) = object.as_object_mut() {
                members.retain(|name, _| matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
            }
            K::deserialize(object).map_err(|_| error)
        })
    })
}

/// Returns `json` with null in place of objects and lists that are more than `most` levels deep.
fn without_deeper_than(most: usize, json: &str) -> Cow<'_, str> {
    if !deeper_than(most, json.as_bytes()) {
        return Cow::Borrowed(json);
    }
    let mut kept = String::with_capacity(json.len());
    let (mut tokens, mut depth, mut from) = (JsonTokens(json), 0, 0);
    while let Some(token) = tokens.next() {
        let end = json.len() - tokens.0.len();
        match token {
            JsonToken::Object | JsonToken::Array => {
                depth += 1;
                if depth == most + 1 {
                    kept.push_str(&json[from..end - 1]);
                    kept.push_str("null");
                }
            }
            JsonToken::Close => {
                if depth == most + 1 {
                    from = end;
                }
                depth = depth.saturating_sub(1);
            }
            JsonToken::String(_) | JsonToken::Other(_) => {}
        }
    }
    kept.push_str(&json[from..]);
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{DynamicObject, ObjectList, WatchEvent};
    use kube::core::DeserializeGuard;
    use serde_json::json;

    use super::*;
    use crate::api::snapshot::GatewaySnapshot;

    /// Returns the JSON of an object as the API server sends it, with lists in the spec that nest `depth` levels deep.
    fn nested(name: &str, depth: usize) -> String {
        let inner = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let metadata = format!(r#"{{"name":"{name}","resourceVersion":"7"}}"#);
        format!(r#"{{"apiVersion":"v1","kind":"K","metadata":{metadata},"spec":{{"a":["]\"[",{inner}]}}}}"#)
    }

    fn list<K: DeserializeOwned + Clone>(items: &[String]) -> Vec<K> {
        let text = format!(
            r#"{{"kind":"KList","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{}]}}"#,
            items.join(",")
        );
        let list: ObjectList<Item<K>> = serde_json::from_str(&text).unwrap();
        assert_eq!(list.metadata.resource_version.as_deref(), Some("9"));
        list.items.into_iter().map(|Item(object)| object).collect()
    }

    #[test]
    fn an_object_that_nests_too_deep_does_not_hide_the_others_of_its_list() {
        let items = [nested("a", 1), nested("b", 119), nested("c", 100_000)];
        let objects: Vec<DynamicObject> = list(&items);
        let names: Vec<_> = objects.iter().map(|object| object.metadata.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(objects[0].data["spec"], json!({"a": ["]\"[", [1]]}));
        for deep in &objects[1..] {
            let text = deep.data["spec"].to_string();
            assert!(deeper_than(MAX_DEPTH - 1, text.as_bytes()) && !deeper_than(READ_DEPTH, text.as_bytes()));
            assert!(text.starts_with(r#"{"a":["]\"[",[["#) && text.contains("[null]"), "{text}");
        }
    }

    #[test]
    fn an_object_that_nests_too_deep_is_an_event_like_any_other() {
        let line = format!(r#"{{"type":"MODIFIED","object":{}}}"#, nested("deep", 5000));
        let event: WatchEvent<Item<DynamicObject>> = serde_json::from_str(&line).unwrap();
        let WatchEvent::Modified(Item(object)) = event else { panic!("{event:?}") };
        assert_eq!(
            (object.metadata.name.as_deref(), object.metadata.resource_version.as_deref()),
            (Some("deep"), Some("7"))
        );
    }

    #[test]
    fn a_snapshot_is_read_whatever_its_metadata_holds_and_one_that_is_wrong_hides_no_other() {
        let snapshot = |name: &str, spec: &str, managed: &str| {
            format!(
                r#"{{"apiVersion":"hawsepipe.dev/v1alpha1","kind":"GatewaySnapshot","spec":{spec},
                "metadata":{{"name":"{name}","managedFields":[{{"manager":"m","fieldsV1":{managed}}}]}}}}"#
            )
        };
        let managed = format!(r#"{}{{}}{}"#, r#"{"f:a":"#.repeat(500), "}".repeat(500));
        let items = [snapshot("good", r#"{"gateway":"main"}"#, &managed), snapshot("bad", r#"{"gateway":7}"#, "{}")];
        let objects: Vec<DeserializeGuard<GatewaySnapshot>> = list(&items);
        assert_eq!(objects[0].0.as_ref().unwrap().spec.gateway, "main");
        assert_eq!(objects[1].0.as_ref().unwrap_err().metadata.name.as_deref(), Some("bad"));
    }

    #[test]
    fn what_cannot_be_read_of_an_object_is_left_out() {
        let managed = json!([{"manager": "m", "time": "9999-12-31T23:59:59Z"}]);
        let pod = |name: &str, labels: &Value, spec: &Value| {
            json!({"metadata": {"name": name, "labels": labels, "managedFields": managed}, "spec": spec}).to_string()
        };
        let pods: Vec<Pod> = list(&[
            pod("a", &json!({"l": "1"}), &json!({"nodeName": "n", "containers": []})),
            pod("b", &json!({"l": 1}), &json!({"containers": "none"})),
        ]);
        assert_eq!(pods[0].metadata.labels.as_ref().unwrap()["l"], "1");
        assert_eq!(pods[0].spec.as_ref().unwrap().node_name.as_deref(), Some("n"));
        assert_eq!(pods[1].metadata.name.as_deref(), Some("b"));
        assert!(pods[1].metadata.labels.is_none() && pods[1].spec.is_none());
    }
}
