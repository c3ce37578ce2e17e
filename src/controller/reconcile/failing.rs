//! Tests of what is written if the API server refuses some writes, or the objects are gone.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use super::*;
use crate::controller::lease::Leadership;
use crate::controller::liveness::Liveness;
use crate::domain::ids::ObjectKey;
use crate::domain::reason::Reason;

/// Answers a write of an object of this kind. The number counts the writes from 1.
type Answer = fn(&str, &Value, usize) -> (u16, Value);

/// A gateway, an API server whose watches show nothing, and the paths and bodies that were written.
struct Fixture {
    writer: Writer,
    watches: Watches,
    owner: Owner,
    written: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Fixture {
    async fn start(answer: Answer) -> Self {
        let written = Arc::<Mutex<Vec<_>>>::default();
        let (noted, count) = (Arc::clone(&written), Arc::<AtomicUsize>::default());
        let served = tower::service_fn(move |request| serve(request, answer, Arc::clone(&noted), Arc::clone(&count)));
        let client = Client::new(served, "mcp");
        let watches = Watches::start(&client, BTreeSet::new(), true);
        watches.cache_sync.settled().await;
        let leadership = Leadership::default();
        leadership.set(Some(Instant::now() + Duration::from_secs(600)));
        let writer = Writer::new(client, leadership, Liveness::default().pulse("plans"));
        Self { writer, watches, owner: Owner::gateway(ObjectKey::new("mcp", "main"), "u"), written }
    }

    /// Returns the bodies of the objects of this kind that were written since the last call.
    fn written(&self, plural: &str) -> Vec<Value> {
        let written = std::mem::take(&mut *self.written.lock().unwrap());
        written.into_iter().filter(|(known, _)| known == plural).map(|(_, body)| body).collect()
    }
}

async fn serve(
    request: Request<Body>,
    answer: Answer,
    written: Arc<Mutex<Vec<(String, Value)>>>,
    count: Arc<AtomicUsize>,
) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
    if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
        let nothing = futures_util::stream::pending::<Result<Frame<Bytes>, BoxError>>();
        return Ok(Response::new(StreamBody::new(nothing).boxed_unsync()));
    }
    let path = request.uri().path().to_owned();
    let (code, answer) = if request.method() == Method::PATCH {
        let plural = path.rsplit('/').nth(1).unwrap_or_default().to_owned();
        let body: Value = serde_json::from_slice(&request.into_body().collect_bytes().await?)?;
        let answer = answer(&plural, &body, count.fetch_add(1, Ordering::Relaxed) + 1);
        written.lock().unwrap().push((plural, body));
        answer
    } else if path == "/apis/gateway.networking.k8s.io/v1" {
        let kind =
            json!({"name": "httproutes", "kind": "HTTPRoute", "namespaced": true, "singularName": "", "verbs": []});
        let served = json!({"kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": "gateway.networking.k8s.io/v1", "resources": [kind]});
        (200, served)
    } else if path.ends_with("/main-gateway") {
        failure(404, "it does not exist")
    } else {
        (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}))
    };
    let body = Full::from(answer.to_string()).map_err(BoxError::from).boxed_unsync();
    Ok(Response::builder().status(code).body(body)?)
}

fn failure(code: u16, message: &str) -> (u16, Value) {
    let reason = if code == 404 { "NotFound" } else { "" };
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code,
        "reason": reason});
    (code, status)
}

/// The answer to a write that creates an object.
fn created(body: &Value, count: usize) -> (u16, Value) {
    let mut body = body.clone();
    body["metadata"]["uid"] = format!("uid-{count}").into();
    (200, body)
}

/// Returns a workload of a Deployment and a NetworkPolicy.
fn workload() -> Workload {
    let object = |version: &str, kind: &str, spec: Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "main-gateway"}, "spec": spec});
    let policy = object("networking.k8s.io/v1", "NetworkPolicy", json!({"podSelector": {}}));
    Workload {
        service: None,
        deployment: Some(Manifest::from_json(object("apps/v1", "Deployment", json!({"replicas": 1})))),
        budget: None,
        autoscaler: None,
        route: None,
        network_policy: Ok(Some(Manifest::from_json(policy))),
        seals: false,
    }
}

#[tokio::test]
async fn pods_are_not_created_while_somebody_deletes_their_policy() {
    let fixture = Fixture::start(|plural, body, count| match plural {
        "deployments" => failure(503, "not now"),
        _ => created(body, count),
    })
    .await;
    let Fixture { writer, watches, owner, .. } = &fixture;
    let desired = Desired::of_gateway(owner, Some(workload()));
    let mut owned = OwnedObjects::default();
    owned.apply(writer, watches, owner, &desired).await.unwrap_err();
    assert_eq!(fixture.written("deployments").len(), 1);
    owned.apply(writer, watches, owner, &desired).await.unwrap();
    assert_eq!(fixture.written("deployments").len(), 0, "the policy does not exist, and may not be written yet");
}

#[tokio::test]
async fn a_client_that_keeps_deleting_an_object_is_told() {
    let fixture = Fixture::start(|_, body, count| created(body, count)).await;
    let Fixture { writer, watches, owner, .. } = &fixture;
    let policy = workload().network_policy.unwrap();
    let mut owned = OwnedObjects::default();
    let round = Round { writer, watches, owner };
    for _ in 0..4 {
        owned.contests.check(Instant::now()).unwrap();
        owned.contests.elapse();
        owned.bring(&round, "main-gateway", policy.as_ref()).await.unwrap();
    }
    let error = owned.contests.check(Instant::now()).unwrap_err();
    let told = "another client keeps deleting NetworkPolicy mcp/main-gateway, which";
    assert!(error.reason() == Reason::Contested && error.to_string().starts_with(told), "{error}");
}

/// Returns a route with a timeout.
fn route() -> Manifest<HTTPRoute> {
    let rule = json!({"backendRefs": [{"name": "main-gateway", "port": 8080}], "timeouts": {"request": "0s"}});
    Manifest::from_json(json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "main-gateway"}, "spec": {"rules": [rule]}}))
}

#[tokio::test]
async fn a_route_has_no_timeouts_where_gateway_api_does_not_have_them() {
    let fixture = Fixture::start(|_, body, count| {
        let unknown = "failed to create typed patch object (mcp/main-gateway; gateway.networking.k8s.io/v1, \
             Kind=HTTPRoute): .spec.rules[0].timeouts: field not declared in schema";
        if body["spec"]["rules"][0]["timeouts"].is_null() { created(body, count) } else { failure(500, unknown) }
    })
    .await;
    let Fixture { writer, watches, owner, .. } = &fixture;
    let (mut owned, round) = (OwnedObjects::default(), Round { writer, watches, owner });
    let timeouts = || {
        let written = fixture.written("httproutes");
        written.iter().map(|route| !route["spec"]["rules"][0]["timeouts"].is_null()).collect::<Vec<_>>()
    };
    owned.bring_route(&round, "main-gateway", Some(&route())).await.unwrap();
    assert_eq!(timeouts(), [true, false]);
    owned.contests.elapse();
    owned.bring_route(&round, "main-gateway", Some(&route())).await.unwrap();
    assert_eq!(timeouts(), [false], "it is known");
    owned.forget_pauses();
    owned.contests.elapse();
    owned.bring_route(&round, "main-gateway", Some(&route())).await.unwrap();
    assert_eq!(timeouts(), [true, false], "the gateway was edited: Gateway API may be newer now");
}
