//! Objects of somebody else, and objects that should not be there.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tower::BoxError;

use super::*;
use crate::controller::lease::Leadership;
use crate::controller::liveness::Liveness;
use crate::domain::ids::ObjectKey;

/// Simulates an API server in which someone else has an object of every name, without the operator's label. Counts
/// the requests for such objects.
async fn serve(
    request: Request<Body>,
    asked: Arc<AtomicUsize>,
) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
    assert_eq!(request.method(), Method::GET, "what is somebody else's is not written");
    if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
        let nothing = futures_util::stream::pending::<Result<Frame<Bytes>, BoxError>>();
        return Ok(Response::new(StreamBody::new(nothing).boxed_unsync()));
    }
    let answer = if request.uri().path().ends_with("/main-gateway") {
        asked.fetch_add(1, Ordering::Relaxed);
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"name": "main-gateway", "namespace": "mcp", "uid": "theirs"}})
    } else {
        json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []})
    };
    Ok(Response::new(Full::from(answer.to_string()).map_err(BoxError::from).boxed_unsync()))
}

/// Returns the watches and the writer of an operator that leads, once the watches have read everything.
async fn leading(client: Client) -> (Watches, Writer) {
    let watches = Watches::start(&client, BTreeSet::new(), false);
    watches.cache_sync.settled().await;
    let leadership = Leadership::default();
    leadership.set(Some(Instant::now() + Duration::from_secs(600)));
    (watches, Writer::new(client, leadership, Liveness::default().pulse("plans")))
}

#[tokio::test]
async fn what_somebody_else_has_is_asked_for_less_and_less_often() {
    let asked = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&asked);
    let client = Client::new(tower::service_fn(move |request| serve(request, Arc::clone(&counted))), "mcp");
    let (watches, writer) = leading(client).await;
    let owner = Owner::gateway(ObjectKey::new("mcp", "main"), "u");
    let mut owned = OwnedObjects::default();
    let round = async |owned: &mut OwnedObjects, expected: usize| {
        let desired = Desired::of_gateway(&owner, None);
        let error = owned.apply(&writer, &watches, &owner, &desired).await.unwrap_err();
        assert!(error.to_string().contains("ServiceAccount mcp/main-gateway that this operator"), "{error}");
        assert_eq!(asked.swap(0, Ordering::Relaxed), expected);
    };
    round(&mut owned, 1).await;
    round(&mut owned, 0).await;
    let now = Instant::now();
    for taken in owned.taken.values_mut() {
        taken.again = now;
    }
    round(&mut owned, 1).await;
    let pause = |taken: &ForeignObject| taken.again.duration_since(now);
    assert!(owned.taken.values().all(|taken| pause(taken) >= Duration::from_secs(1)), "the pause grows");
    let account = owned.taken.get_mut("serviceaccounts").unwrap();
    account.seen = Some(("theirs".into(), Vec::new()));
    round(&mut owned, 1).await;
}

/// Simulates an API server with a Role that belongs to the gateway with the uid `u`, and a RoleBinding that belongs
/// to another gateway. Records what is written.
async fn serve_owned(
    request: Request<Body>,
    written: Arc<Mutex<Vec<String>>>,
) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
    if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
        let nothing = futures_util::stream::pending::<Result<Frame<Bytes>, BoxError>>();
        return Ok(Response::new(StreamBody::new(nothing).boxed_unsync()));
    }
    let path = request.uri().path().to_owned();
    let object = |owner: &str| {
        json!({"metadata": {"name": "main-gateway", "namespace": "mcp", "uid": "seen", "ownerReferences": [
            {"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "MCPGateway", "name": "main", "uid": owner}]}})
    };
    let items = match path.rsplit('/').next() {
        Some("roles") => vec![object("u")],
        Some("rolebindings") => vec![object("other")],
        _ => Vec::new(),
    };
    if request.method() != Method::GET {
        let method = request.method().clone();
        let body = request.into_body().collect_bytes().await?;
        let body: serde_json::Value = serde_json::from_slice(&body)?;
        written.lock().unwrap().push(format!("{method} {path} {}", body["preconditions"]["uid"]));
        let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
        return Ok(Response::new(Full::from(done.to_string()).map_err(BoxError::from).boxed_unsync()));
    }
    let answer = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items});
    Ok(Response::new(Full::from(answer.to_string()).map_err(BoxError::from).boxed_unsync()))
}

#[tokio::test]
async fn what_should_not_be_there_is_deleted_where_it_is_ours() {
    let written = Arc::<Mutex<Vec<_>>>::default();
    let noted = Arc::clone(&written);
    let client = Client::new(tower::service_fn(move |request| serve_owned(request, Arc::clone(&noted))), "mcp");
    let (watches, writer) = leading(client).await;
    let owner = Owner::gateway(ObjectKey::new("mcp", "main"), "u");
    let nothing = Desired { account: None, role: None, binding: None, workload: None };
    OwnedObjects::default().apply(&writer, &watches, &owner, &nothing).await.unwrap();
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/mcp/roles/main-gateway";
    assert_eq!(*written.lock().unwrap(), [format!("DELETE {roles} \"seen\"")]);
}
