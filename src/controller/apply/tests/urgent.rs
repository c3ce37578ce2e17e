//! Restrictions are written before anything slow, and even if the cluster's CRD does not know the optional fields.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::super::*;
use crate::controller::compiled;
use crate::controller::dereference::Dereferenced;
use crate::controller::lease::Leadership;
use crate::controller::liveness::Liveness;
use crate::controller::load_reports::LoadReports;
use crate::controller::status::tests::read;
use crate::domain::ids::{Kind, ObjectKey};

/// The objects that an API server received.
pub(in crate::controller) type Sent = Arc<Mutex<Vec<Value>>>;

/// Returns a writer to an API server, and the objects that the server received. The server accepts every object, except
/// one whose index has the field `unknown`.
pub(in crate::controller) fn api_server(unknown: Option<&'static str>) -> (Writer, Sent) {
    let leadership = Leadership::default();
    leadership.set(Some(Instant::now() + Duration::from_secs(60)));
    let sent = Sent::default();
    let seen = Arc::clone(&sent);
    let server = tower::service_fn(move |request: Request<Body>| {
        let seen = Arc::clone(&seen);
        async move {
            let body = request.into_body().collect().await?.to_bytes();
            let object: Value = serde_json::from_slice(&body).unwrap();
            let refused = unknown.filter(|field| !object["spec"]["index"][*field].is_null());
            seen.lock().unwrap().push(object);
            let Some(field) = refused else {
                return Ok::<_, kube::Error>(Response::new(Body::from(body.to_vec())));
            };
            // The message of a real API server; the cluster tests check that it is still the same.
            let message = format!(
                "failed to create typed patch object (mcp/main; hawsepipe.dev/v1alpha1, Kind=GatewaySnapshot): \
                 .spec.index.{field}: field not declared in schema"
            );
            let status =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": 500});
            Ok(Response::builder().status(500).body(Body::from(status.to_string().into_bytes())).unwrap())
        }
    });
    (Writer::new(Client::new(server, "mcp"), leadership, Liveness::default().pulse("plans")), sent)
}

fn planned(prefix: &str, stopped: bool) -> PlannedGateway {
    let spec = json!({"authentication": {"anonymous": {}}, "upstreams": {"prefix": prefix}, "stopped": stopped});
    let gateway = read(Kind::MCPGateway, "main", &spec, &json!({}));
    let mut inputs = compiled::inputs(&[], &Dereferenced::default());
    compiled::plan(&gateway, &mut inputs, None, None, &BTreeMap::new(), &mut LoadReports::default())
}

#[tokio::test]
async fn a_stop_does_not_wait_for_the_shards_of_a_new_plan() {
    let (writer, sent) = api_server(None);
    let mut stored = SnapshotStore::default();
    stored.write(&writer, &planned("Always", false)).await.unwrap();
    let kinds = |sent: &Sent| {
        let sent = std::mem::take(&mut *sent.lock().unwrap());
        sent.iter().map(|object| object["spec"]["index"]["acts"]["stopped"].as_bool()).collect::<Vec<_>>()
    };
    let first = kinds(&sent);
    assert!(first.len() > 1 && first.last() == Some(&Some(false)), "{first:?}");
    stored.write(&writer, &planned("Never", false)).await.unwrap();
    assert_eq!(kinds(&sent), [None, Some(false)], "the index is last where nothing else is said");
    stored.write(&writer, &planned("OnConflict", true)).await.unwrap();
    assert_eq!(kinds(&sent), [Some(true), None, Some(true)]);
}

#[tokio::test]
async fn a_stop_is_written_where_the_definition_lacks_a_field_that_is_not_needed() {
    let (writer, sent) = api_server(Some("seenNames"));
    let mut seen_names = SeenNames::default();
    let plan = planned("Always", true);
    seen_names.add(&ObjectKey::new("mcp", "up"), ["read"]);
    let mut stored = SnapshotStore::default();
    stored.write(&writer, &plan).await.unwrap();
    sent.lock().unwrap().clear();
    let index = SnapshotIndex { seen_names: crate::api::seen::written(&seen_names), ..stored.index.clone().unwrap() };
    let api: Api<GatewaySnapshot> = Api::namespaced(writer.client.clone(), "mcp");
    stored.write_index(&writer, &api, &plan.owner, &index).await.unwrap();
    let sent = sent.lock().unwrap();
    assert_eq!(sent.len(), 2);
    assert!(sent[1]["spec"]["index"]["seenNames"].is_null() && sent[1]["spec"]["index"]["acts"]["stopped"] == true);
    assert_eq!(stored.index.unwrap().seen_names, None, "it is tried again with the next write");
}
