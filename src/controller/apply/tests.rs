//! Tests which lost or changed objects are noticed, and when.

mod damaged;
mod lost;
pub(in crate::controller) mod urgent;

use http::{Request, Response};
use kube::Client;
use kube::api::PartialObjectMeta;
use kube::client::Body;
use serde_json::json;
use tower::BoxError;

use super::*;
use crate::api::restrictions;
use crate::api::snapshot::tests::empty_revision;
use crate::config::compile::compile;
use crate::config::compile::tests::folder;
use crate::controller::lease::Leadership;
use crate::controller::liveness::Liveness;
use crate::controller::seen_marks::LAG;
use crate::controller::seen_marks::is_part;
use crate::controller::{GATEWAY_LABEL, MANAGED_BY, PART_LABEL};
use crate::domain::digest::sha256_hex;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::{Restrictions, Revoked};

/// Returns a snapshot owned by the gateway with this uid, as the watch shows it.
fn seen(name: &str, part: &str, uid: &str, generation: i64) -> Arc<PartialObjectMeta<GatewaySnapshot>> {
    let labels = json!({PART_LABEL: part, GATEWAY_LABEL: "main", MANAGED_BY.0: MANAGED_BY.1});
    let owner = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "MCPGateway", "name": "main", "uid": uid});
    let metadata = json!({"name": name, "namespace": "mcp", "generation": generation, "labels": labels,
        "ownerReferences": [owner]});
    let types = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "GatewaySnapshot", "metadata": metadata});
    Arc::new(serde_json::from_value(types).unwrap())
}

fn owner() -> Owner {
    Owner::gateway(ObjectKey::new("mcp", "main"), "one")
}

fn stored() -> SnapshotStore {
    let shards = ["a", "b"].map(|name| (name.to_owned(), StoredShard::of(name)));
    SnapshotStore { generation: Some(3), shards: shards.into(), ..SnapshotStore::default() }
}

#[test]
fn what_was_seen_and_is_gone_is_missed_at_once_and_what_was_just_written_is_not() {
    let owner = owner();
    let [index, a, b] = [seen("main", "index", "one", 3), seen("a", "shard", "one", 1), seen("b", "shard", "one", 1)];
    let mut stored = stored();
    assert!(stored.is_intact(&[], &owner), "nothing is seen yet");
    assert!(stored.is_intact(&[Arc::clone(&index), Arc::clone(&a)], &owner), "b is still to be seen");
    assert!(stored.is_intact(&[index.clone(), a.clone(), b.clone()], &owner));
    assert!(!stored.is_intact(&[index.clone(), a.clone()], &owner), "b is gone");
    let foreign = seen("b", "shard", "other", 1);
    assert!(!stored.is_intact(&[index.clone(), a.clone(), foreign], &owner), "it is another gateway's");
    assert!(!stored.is_intact(&[a.clone(), b.clone()], &owner), "the index is gone");
    assert!(!stored.is_intact(&[seen("main", "index", "one", 4), a.clone(), b.clone()], &owner), "somebody wrote it");
    let more = seen("c", "shard", "one", 1);
    let all = [index.clone(), a.clone(), b.clone(), more];
    assert!(!stored.is_intact(&all, &owner), "a shard that nobody needs");
    stored.deleted.insert("c".into(), Instant::now());
    assert!(stored.is_intact(&all, &owner), "what was just deleted may be seen");
}

#[test]
fn what_is_not_seen_for_long_after_it_was_written_is_gone() {
    let owner = owner();
    let mut stored = stored();
    stored.shards.get_mut("a").unwrap().mark.at = Instant::now().checked_sub(LAG * 2).unwrap();
    assert!(!stored.is_intact(&[seen("main", "index", "one", 2)], &owner));
}

#[test]
fn what_kept_revisions_name_stays_and_the_rest_goes() {
    let shard = |name: &str| json!({"name": name, "kind": "Chains", "sha256": "", "sizeBytes": 1});
    let kept = |revision: &str, shards: &[&str]| {
        let shards: Vec<_> = shards.iter().map(|name| shard(name)).collect();
        json!({"revision": revision, "formatVersion": 1, "shards": shards})
    };
    let index = json!({"current": "new", "revisions": [kept("new", &["one", "two"]), kept("old", &["two", "three"])]});
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let mut stored = SnapshotStore::default();
    stored.shards.extend(["one", "two", "three", "four"].map(|name| (name.to_owned(), StoredShard::of(name))));
    stored.revisions = names(&["new", "old", "older"]).into_iter().map(|name| (name, Arc::default())).collect();
    assert!(stored.forget_revisions().is_empty(), "nothing goes before there is an index");
    stored.index = Some(serde_json::from_value(index).unwrap());
    assert_eq!(stored.forget_revisions(), ["four"]);
    assert_eq!(stored.revisions.into_keys().collect::<BTreeSet<_>>(), names(&["new", "old"]));
}

#[test]
fn an_object_without_one_of_the_labels_is_no_part() {
    let whole = &seen("a", "shard", "one", 1).metadata;
    assert!(is_part(whole, "shard", &owner()) && !is_part(whole, "index", &owner()));
    for label in [PART_LABEL, GATEWAY_LABEL, MANAGED_BY.0] {
        let mut without = whole.clone();
        without.labels.as_mut().unwrap().remove(label);
        assert!(!is_part(&without, "shard", &owner()), "{label}");
    }
}

#[test]
fn an_index_that_is_gone_is_as_it_was_without_the_revisions_that_are_gone_too() {
    let kept = |revision: &str, shard: &str| {
        let shard = json!({"name": shard, "kind": "Chains", "sha256": "", "sizeBytes": 1});
        json!({"revision": revision, "formatVersion": 1, "shards": [shard]})
    };
    let index =
        json!({"current": "pinned", "revisions": [kept("new", "a"), kept("old", "gone"), kept("pinned", "gone")]});
    let before = || SnapshotStore {
        index: Some(serde_json::from_value(index.clone()).unwrap()),
        plans: [("pinned".to_owned(), Err("damaged".to_owned()))].into(),
        ..SnapshotStore::default()
    };
    let mut gone = stored();
    gone.keep_from(before());
    let found = gone.index.unwrap();
    let revisions: Vec<_> = found.revisions.iter().map(|known| known.revision.as_str()).collect();
    assert_eq!((found.current.as_str(), revisions), ("pinned", vec!["new", "pinned"]));
    assert!(gone.disturbed && gone.plans.contains_key("pinned"), "it is written again, and its plans are known");

    let there = json!({"current": "new", "revisions": [kept("new", "a")]});
    let mut stored = SnapshotStore { index: Some(serde_json::from_value(there).unwrap()), ..stored() };
    stored.keep_from(before());
    assert_eq!((stored.index.unwrap().current.as_str(), stored.disturbed), ("new", false), "what is there counts");
}

#[test]
fn upstreams_that_the_index_revokes_in_any_revision_are_known() {
    let revoking = |names: &[&str]| {
        let revoked = names.iter().map(|name| Revoked::Upstream(ObjectKey::new("ns", *name)));
        restrictions::written(&Restrictions { revoked: revoked.collect(), ..Restrictions::default() })
    };
    let older = SnapshotRevision { restrictions: Some(revoking(&["old", "up"])), ..empty_revision("a") };
    let index = SnapshotIndex {
        current: "b".to_owned(),
        revisions: vec![empty_revision("b"), older],
        restrictions: Some(revoking(&["up"])),
        not_loaded: None,
        seen_names: None,
    };
    let stored = SnapshotStore { index: Some(index), ..SnapshotStore::default() };
    assert_eq!(stored.revoked_upstreams(), ["old", "up"].map(|name| ObjectKey::new("ns", name)).into());
    assert!(SnapshotStore::default().revoked_upstreams().is_empty());
}

#[test]
fn what_cannot_be_stored_is_not_packed_again_until_something_else_is_wanted() {
    let (fits, _) = compile(&folder(), None);
    let noise: String = (0..60_000_u32).map(|n| sha256_hex(&n.to_le_bytes())).collect();
    let mut large = fits.clone();
    large.code.insert("aa".repeat(32), noise);
    let mut stored = stored();
    assert!(matches!(stored.built(&owner(), "large", &large), Err(BuildError::TooLarge(_))));
    // `fits` could be stored, so the error shows that the result is remembered and the plan not examined.
    assert!(matches!(stored.built(&owner(), "large", &fits), Err(BuildError::TooLarge(_))));
    assert!(stored.built(&owner(), "fits", &fits).is_ok());
    assert!(stored.built(&owner(), "large", &fits).is_ok(), "what fits is not remembered");
}

#[test]
fn a_refusal_outlives_a_reading_unless_an_index_came_or_went() {
    let refused = |index: Option<SnapshotIndex>| {
        let why = BuildError::NotKept("0123456789ab".into());
        SnapshotStore { refused: Some(Refused { wanted: "one".into(), why }), index, ..SnapshotStore::default() }
    };
    let mut read = SnapshotStore::default();
    read.keep_from(refused(None));
    assert!(read.refused.is_some());
    let index = SnapshotIndex {
        current: "a".into(),
        revisions: Vec::new(),
        restrictions: None,
        not_loaded: None,
        seen_names: None,
    };
    let mut read = SnapshotStore { index: Some(index), ..SnapshotStore::default() };
    read.keep_from(refused(None));
    assert!(read.refused.is_none(), "what is pinned may be there now");
}

#[test]
fn names_that_pods_reported_outlive_an_index_that_somebody_changed() {
    let mut before = stored();
    before.seen_names.add(&ObjectKey::new("mcp", "up"), ["read"]);
    let expected = before.seen_names.clone();
    let mut stored = stored();
    stored.keep_from(before);
    assert_eq!(stored.seen_names, expected);
}

#[tokio::test]
async fn what_is_stored_is_read_in_pages() {
    let answer = |request: Request<Body>| async move {
        let query = request.uri().query().unwrap_or_default().to_owned();
        assert!(query.contains("limit=32"), "{query}");
        let place = ["", "continue=1", "continue=2"].iter().rposition(|page| query.contains(page)).unwrap();
        let (name, next) = [("main", "1"), ("a", "2"), ("b", "")][place];
        let part = if name == "main" { "index" } else { "shard" };
        let mut object = serde_json::to_value(&*seen(name, part, "one", 1)).unwrap();
        object["spec"] = match part {
            "index" => json!({"gateway": "main", "index": {"current": "r", "revisions": []}}),
            _ => json!({"gateway": "main", "shard": {
                "kind": "Chains", "encoding": "JSONZstd", "sha256": name, "sizeBytes": 1, "data": "",
            }}),
        };
        let list = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "GatewaySnapshotList",
            "metadata": {"continue": next}, "items": [object]});
        Ok::<_, BoxError>(Response::new(Body::from(list.to_string().into_bytes())))
    };
    let client = Client::new(tower::service_fn(answer), "mcp");
    let writer = Writer::new(client, Leadership::default(), Liveness::default().pulse("plans"));
    let (read, _) = SnapshotStore::read(&writer, &owner(), None).await.unwrap();
    assert_eq!(read.shards.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(read.index.unwrap().current, "r");
}
