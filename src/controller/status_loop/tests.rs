//! Tests of what follows from a status that was written, and from a status that was not written because its object is
//! gone.

use std::collections::BTreeSet;
use std::sync::Mutex;

use http::{Method, Request, StatusCode};
use kube::Client;
use kube::client::Body;

use super::*;
use crate::controller::compiled::CompiledObjects;
use crate::controller::lease::Leadership;
use crate::controller::liveness::Liveness;
use crate::controller::lowered::Lowering;
use crate::controller::operator::tests::{answer, gateway, serve};
use crate::controller::status::tests::read;
use crate::telemetry::catalog::Catalog;

/// A status loop that uses an API server with the MCPGateway `other`.
struct Serving {
    statuses: StatusLoop,
    catalog: Catalog,
    plans: watch::Sender<PlanningState>,
    /// The paths of all other writes.
    written: Arc<Mutex<Vec<String>>>,
}

/// Starts the status loop. `answered` is the server's answer to a status; if it is `None`, the server answers with the
/// object that was sent.
async fn serving_with(answered: Option<(u16, Value)>) -> Serving {
    let written = Arc::<Mutex<Vec<String>>>::default();
    let sent = Arc::clone(&written);
    let server = tower::service_fn(move |request: Request<Body>| {
        let (writes, path) = (request.method() != Method::GET, request.uri().path().to_owned());
        let answered = answered.clone().filter(|_| path.ends_with("/status"));
        if writes && !path.ends_with("/status") {
            sent.lock().unwrap().push(path);
        }
        async move {
            match answered {
                Some((code, body)) => Ok(answer(StatusCode::from_u16(code).unwrap(), body.to_string())),
                None => serve(request, json!([gateway("other")]), Arc::default()).await,
            }
        }
    });
    let (client, leadership, catalog) = (Client::new(server, "ns"), Leadership::default(), Catalog::default());
    leadership.set(Some(Instant::now() + Duration::from_secs(600)));
    let watches = Arc::new(Watches::start(&client, BTreeSet::new(), false));
    let writer = Writer::new(client, leadership, Liveness::default().pulse("statuses"));
    let metrics = ControllerMetrics::register(&catalog).unwrap();
    let (plans, planned) = watch::channel(PlanningState::default());
    watches.cache_sync.settled().await;
    let statuses = StatusLoop::new(writer, watches, planned, watch::channel(ByGateway::new()).1, None, metrics);
    Serving { statuses, catalog, plans, written }
}

impl Serving {
    /// Publishes the objects that the watches show, as the planning loop does.
    fn compile(&self) {
        let (objects, _) = Lowering::new("cluster.local").read(self.statuses.watches.objects());
        let compiled = Arc::new(CompiledObjects { objects, ..CompiledObjects::default() });
        self.plans.send_replace(PlanningState { compiled, ..PlanningState::default() });
    }
}

/// Returns a status that leads to an Event.
fn bad_status() -> WantedStatus {
    let object = read(Kind::Plugin, "p", &json!({"source": {"inline": "export default ("}}), &json!({}));
    let condition = json!({
        "type": "Accepted", "status": "False", "reason": "SyntaxError", "message": "line 1",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    WantedStatus { object, status: json!({"conditions": [condition]}), warnings: Vec::new() }
}

#[tokio::test]
async fn an_object_that_is_gone_has_no_event_and_its_status_does_not_count_as_written() {
    // The answers of a real API server if the object was deleted, and if another object of the same name exists. The
    // cluster tests check that they are still the same.
    let not_found = json!({"kind": "Status", "status": "Failure", "code": 404, "message": "\"p\" not found"});
    let other = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "other"}});
    let conflict = json!({"kind": "Status", "status": "Failure", "code": 409, "message": "it has been modified"});
    let answers = [(404, not_found), (200, other), (409, conflict)].map(|answer| (Some(answer), true));
    for (answered, gone) in [(None, false)].into_iter().chain(answers) {
        let mut serving = serving_with(answered.clone()).await;
        serving.statuses.write_all(vec![bad_status()], None).await;
        let events = serving.written.lock().unwrap().iter().filter(|path| path.ends_with("/events")).count();
        assert_eq!(events, usize::from(!gone), "{answered:?}");
        assert_eq!(serving.statuses.written.is_empty(), gone, "{answered:?}");
        let counted = serving.catalog.render().contains("hawsepipe_reconciles_total{");
        assert_eq!(counted, !gone, "{answered:?}");
        assert!(!serving.catalog.render().contains("hawsepipe_reconcile_errors_total{"), "{answered:?}");
    }
}

#[tokio::test]
async fn a_status_that_was_written_to_an_object_is_not_taken_for_that_of_the_next_one_of_its_name() {
    let mut serving = serving_with(None).await;
    serving.compile();
    for (uid, left) in [("before", 1), ("u", 0)] {
        let (mut wanted, _) = serving.statuses.wanted();
        assert_eq!(wanted.len(), 1, "the status of {uid} is not written yet");
        let metadata = Arc::make_mut(&mut wanted[0].object.metadata);
        metadata.uid = Some(uid.to_owned());
        serving.statuses.write_all(wanted, None).await;
        assert_eq!(serving.statuses.wanted().0.len(), left, "after the status of {uid} was written");
    }
}

#[tokio::test]
async fn a_failed_write_is_waited_for_until_it_is_due_and_not_after_its_status_is_stored() {
    let failure = json!({"kind": "Status", "status": "Failure", "code": 504, "message": "timeout"});
    let mut serving = serving_with(Some((504, failure))).await;
    serving.compile();
    let statuses = &mut serving.statuses;
    let (wanted, _) = statuses.wanted();
    let [WantedStatus { object, status, .. }] = &wanted[..] else { panic!("one status is to be written") };
    let (uid, status) = (object.uid().to_owned(), Arc::new(status.clone()));
    let wait = statuses.write_all(wanted, None).await;
    assert!(Duration::ZERO < wait && wait <= RETRY, "{wait:?}");
    let wait = statuses.round().await;
    assert!(Duration::ZERO < wait && wait <= RETRY, "{wait:?}");
    // Its pause is over, and the status was stored although the answer said otherwise.
    statuses.failing.values_mut().for_each(|failing| failing.again = Instant::now());
    statuses.written.insert(uid, (status, Instant::now()));
    assert_eq!(statuses.round().await, IDLE);
    assert!(statuses.failing.is_empty());
}

#[test]
fn a_managed_upstream_has_no_status_before_its_server_was_looked_at() {
    let object = read(Kind::MCPUpstream, "up", &json!({"managed": {"image": "i"}}), &json!({}));
    let server = |uid: &str, generation| ManagedServer { uid: uid.to_owned(), generation, ..ManagedServer::default() };
    let known = |server| ManagedServers::new([(object.id.key.clone(), server)].into());
    assert!(!is_looked_after(&ManagedServers::default(), &object));
    assert!(!is_looked_after(&known(server("before", 3)), &object));
    assert!(!is_looked_after(&known(server("u", 2)), &object));
    assert!(is_looked_after(&known(server("u", 3)), &object));
    let external = read(Kind::MCPUpstream, "up", &json!({"external": {"url": "http://up/mcp"}}), &json!({}));
    assert!(is_looked_after(&ManagedServers::default(), &external));
}
