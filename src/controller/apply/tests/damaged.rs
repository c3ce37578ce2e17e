//! A revision whose shards cannot be read.

use std::sync::Mutex;

use http::StatusCode;
use serde_json::Value;

use super::*;

/// The status and the snapshots with which an API server answers, and how many requests it received.
type Stored = Arc<Mutex<(StatusCode, Vec<Value>, usize)>>;

fn writer(stored: &Stored) -> Writer {
    let stored = Arc::clone(stored);
    let server = tower::service_fn(move |_: Request<Body>| {
        let stored = Arc::clone(&stored);
        async move {
            let mut stored = stored.lock().unwrap();
            stored.2 += 1;
            let (status, items, _) = &*stored;
            let answer = match status.is_success() {
                true => json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "GatewaySnapshotList",
                    "metadata": {}, "items": items}),
                false => json!({"kind": "Status", "code": status.as_u16(), "message": "busy"}),
            };
            let body = Body::from(answer.to_string().into_bytes());
            Ok::<_, BoxError>(Response::builder().status(*status).body(body).unwrap())
        }
    });
    Writer::new(Client::new(server, "mcp"), Leadership::default(), Liveness::default().pulse("plans"))
}

/// Returns the stored form of one plan's revision: its shards and an index.
fn snapshots() -> Vec<Value> {
    let (plan, _) = compile(&folder(), None);
    let revision = build::revision(&owner(), &plan, |_| false, &[], String::new()).unwrap();
    let index = SnapshotIndex {
        current: revision.entry.revision.clone(),
        revisions: vec![revision.entry],
        restrictions: None,
        not_loaded: None,
        seen_names: None,
    };
    let objects = revision.lacking.into_iter().chain([build::index_object(&owner(), index)]);
    objects.map(|object| serde_json::to_value(object).unwrap()).collect()
}

#[tokio::test]
async fn a_damaged_revision_is_read_again_when_one_of_its_shards_changed_and_a_failed_request_at_once() {
    let whole = snapshots();
    let mut items = whole.clone();
    items[0]["spec"]["shard"]["data"] = json!("");
    let name = items[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let server: Stored = Arc::new(Mutex::new((StatusCode::OK, items, 0)));
    let (writer, owner) = (writer(&server), owner());
    let (mut stored, _) = SnapshotStore::read(&writer, &owner, None).await.unwrap();
    let asked = || std::mem::take(&mut server.lock().unwrap().2);
    assert!(asked() > 0);
    let shard = |generation| vec![seen(&name, "shard", "one", generation), seen("other", "shard", "one", generation)];

    for expected in [1, 0] {
        let running = stored.running(&writer, &owner, None, &shard(1)).await.unwrap().unwrap();
        assert!(running.unwrap_err().contains("cannot be read from its GatewaySnapshots"));
        assert_eq!(asked(), expected);
    }
    let other = [seen(&name, "shard", "one", 1), seen("other", "shard", "one", 2)];
    assert!(stored.is_damaged() && !stored.may_be_repaired(&other, &owner), "another shard says nothing of it");
    stored.refresh(&writer, &owner).await.unwrap();
    assert!(
        stored.may_be_repaired(&shard(2), &owner) && !stored.may_be_repaired(&shard(1), &owner),
        "it outlives a reading"
    );

    let unlabelled = {
        let mut shard = shard(1);
        Arc::make_mut(&mut shard[0]).metadata.labels = None;
        shard
    };
    assert!(stored.may_be_repaired(&unlabelled, &owner), "it is read by its labels");

    asked();
    *server.lock().unwrap() = (StatusCode::SERVICE_UNAVAILABLE, whole, 0);
    for _ in 0..2 {
        assert!(stored.running(&writer, &owner, None, &shard(2)).await.is_err());
        assert_eq!(asked(), 1);
    }
    server.lock().unwrap().0 = StatusCode::OK;
    assert!(stored.running(&writer, &owner, None, &shard(2)).await.unwrap().unwrap().is_ok());
    assert!(!stored.is_damaged());
}
