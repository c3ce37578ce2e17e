//! Tests that loops report progress while they work and rest while they are idle, and that the health check names a
//! loop that hangs.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use super::*;
use crate::domain::ports::{CodeFacts, Unavailable};
use crate::telemetry::catalog::Catalog;

pub(in crate::controller) struct NoCode;

impl Inspect for NoCode {
    async fn inspect(&self, _: &str, _: &str) -> Result<CodeFacts, Unavailable> {
        Ok(CodeFacts::default())
    }
}

pub(in crate::controller) type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

pub(in crate::controller) fn answer(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let body = Full::new(body.into()).map_err(BoxError::from);
    Response::builder().status(status).body(body.boxed_unsync()).unwrap()
}

/// Simulates an API server with these MCPGateways and nothing else. Requests for the snapshots of the gateway `main`
/// are never answered, and notify `hangs`. With a real API server, the client's deadlines would end such requests.
pub(in crate::controller) async fn serve(
    request: Request<Body>,
    gateways: Value,
    hangs: Arc<Notify>,
) -> Result<Answer, BoxError> {
    let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
    let kind = path.rsplit('/').next().unwrap_or_default();
    if kind == "gatewaysnapshots" && query.contains("gateway%3Dmain") {
        hangs.notify_one();
        std::future::pending::<()>().await;
    }
    if query.contains("watch=true") {
        let nothing = futures_util::stream::pending::<Result<Frame<Bytes>, BoxError>>();
        return Ok(Response::new(StreamBody::new(nothing).boxed_unsync()));
    }
    let is_absent = path.contains("/leases/") || path.ends_with("/gateway.networking.k8s.io/v1");
    if request.method() == Method::GET && is_absent {
        let status = json!({"kind": "Status", "code": 404, "reason": "NotFound"});
        return Ok(answer(StatusCode::NOT_FOUND, status.to_string()));
    }
    if request.method() != Method::GET {
        return Ok(answer(StatusCode::OK, request.into_body().collect().await?.to_bytes()));
    }
    let items = if kind == "mcpgateways" { gateways } else { json!([]) };
    let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items});
    Ok(answer(StatusCode::OK, list.to_string()))
}

fn settings() -> Settings {
    let lease = LeaseSettings { namespace: "ns".into(), name: "lease".into(), holder: "this".into() };
    Settings { namespaces: BTreeSet::new(), lease, pods: None, cluster_domain: "cluster.local".into() }
}

pub(in crate::controller) fn gateway(name: &str) -> Value {
    let metadata = json!({"name": name, "namespace": "ns", "uid": "u", "generation": 1});
    json!({"metadata": metadata, "spec": {"authentication": {"anonymous": {}}}})
}

/// Runs an operator in a cluster with these MCPGateways until `check` returns. `check` gets the operator's health, and
/// a `Notify` for requests that hang.
async fn run_until(gateways: Value, check: impl AsyncFnOnce(&OperatorHealth, &Notify)) {
    let (health, hangs) = (OperatorHealth::default(), Arc::new(Notify::new()));
    let told = Arc::clone(&hangs);
    let server = tower::service_fn(move |request| serve(request, gateways.clone(), Arc::clone(&told)));
    let metrics = ControllerMetrics::register(&Catalog::default()).unwrap();
    let (client, stop) = (Client::new(server, "ns"), CancellationToken::new());
    tokio::select! {
        () = run(client, settings(), NoCode, metrics, health.clone(), stop) => panic!("it ended"),
        checked = tokio::time::timeout(Duration::from_secs(30), check(&health, &hangs)) => checked.expect("in time"),
    }
}

#[tokio::test]
async fn a_loop_that_hangs_is_named() {
    run_until(json!([gateway("main")]), async |health, hangs| {
        hangs.notified().await;
        let named = health.liveness.check_at(Instant::now() + Duration::from_secs(60)).unwrap_err();
        assert!(named.starts_with("the loop of plans has made no step"), "{named}");
    })
    .await;
}

#[tokio::test]
async fn an_operator_that_has_nothing_to_do_is_healthy_for_as_long_as_that_lasts() {
    run_until(json!([]), async |health, _| {
        while health.ready().is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // A loop that is in a round right now rests soon.
        while health.liveness.check_at(Instant::now() + Duration::from_secs(3600)).is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// A simulated API server that records, in order, when writes begin and end and when the lease is given back.
#[derive(Default)]
struct Writes {
    lease: Mutex<Value>,
    heard: Mutex<Vec<&'static str>>,
    /// Notified when a write begins.
    began: Notify,
    /// Writes wait until this is cancelled.
    go: CancellationToken,
}

impl Writes {
    fn hear(&self, what: &'static str) {
        self.heard.lock().unwrap().push(what);
    }

    /// Serves one MCPGateway and a Lease. Writes wait for `go`, except those of the Lease.
    async fn serve(self: Arc<Self>, request: Request<Body>) -> Result<Answer, BoxError> {
        if !request.uri().path().contains("/leases") {
            let writes = request.method() == Method::PATCH;
            if writes {
                self.hear("a write begins");
                self.began.notify_one();
                self.go.cancelled().await;
            }
            let answer = serve(request, json!([gateway("other")]), Arc::default()).await;
            if writes {
                self.hear("a write ends");
            }
            return answer;
        }
        let reads = request.method() == Method::GET;
        let body = request.into_body().collect().await?.to_bytes();
        let mut lease = self.lease.lock().unwrap();
        if reads && lease.is_null() {
            let status = json!({"kind": "Status", "code": 404, "reason": "NotFound"});
            return Ok(answer(StatusCode::NOT_FOUND, status.to_string()));
        }
        if !reads {
            *lease = serde_json::from_slice(&body)?;
            if lease["spec"]["holderIdentity"].is_null() {
                self.hear("the lease is given back");
            }
        }
        Ok(answer(StatusCode::OK, lease.to_string()))
    }
}

#[tokio::test]
async fn the_lease_is_given_back_after_the_last_write() {
    let writes = Arc::<Writes>::default();
    let served = Arc::clone(&writes);
    let client = Client::new(tower::service_fn(move |request| Arc::clone(&served).serve(request)), "ns");
    let (metrics, stop) = (ControllerMetrics::register(&Catalog::default()).unwrap(), CancellationToken::new());
    let operator = run(client, settings(), NoCode, metrics, OperatorHealth::default(), stop.clone());
    let stops = async {
        writes.began.notified().await;
        stop.cancel();
        // Long enough to notice a lease that is given back too early.
        tokio::time::sleep(Duration::from_millis(100)).await;
        writes.go.cancel();
    };
    tokio::join!(operator, stops);
    let heard = writes.heard.lock().unwrap();
    let count = |what| heard.iter().filter(|heard| **heard == what).count();
    assert_eq!(heard.last(), Some(&"the lease is given back"), "{heard:?}");
    assert!(count("a write begins") == count("a write ends") && count("a write ends") > 0, "{heard:?}");
}
