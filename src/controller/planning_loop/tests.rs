//! Tests of which rounds plan and write, and of what is read again for them.

use std::sync::atomic::AtomicUsize;

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::*;
use crate::controller::lease::Leadership;
use crate::controller::liveness::Liveness;
use crate::controller::operator::tests::{NoCode, gateway, serve};
use crate::telemetry::catalog::Catalog;

#[test]
fn only_a_leader_that_sees_everything_writes() {
    for (led, changed) in [(false, false), (false, true), (true, false), (true, true)] {
        assert_eq!(step(false, led, changed, || panic!("it tells what it does not see")), Step::StandBy);
        assert_eq!(step(true, led, changed, || true), Step::Hold);
    }
    assert_eq!(step(true, true, false, || false), Step::Apply);
    assert_eq!(step(true, true, true, || false), Step::Compile);
    // A new leader compiles again, because the previous leader may have stored something newer.
    assert_eq!(step(true, false, false, || false), Step::Compile);
}

/// Whether a request lists the snapshots of the gateway `other`. A leader lists them before its first plan.
fn lists_snapshots(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let is_list = request.method() == Method::GET && !query.contains("watch=true");
    is_list && request.uri().path().ends_with("/gatewaysnapshots") && query.contains("gateway%3Dother")
}

#[tokio::test]
async fn what_is_stored_is_read_again_after_every_lapse_of_leadership() {
    let lists = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&lists);
    let server = tower::service_fn(move |request| {
        counted.fetch_add(usize::from(lists_snapshots(&request)), Ordering::Relaxed);
        serve(request, json!([gateway("other")]), Arc::default())
    });
    let client = Client::new(server, "ns");
    let watches = Arc::new(Watches::start(&client, Default::default(), false));
    let leadership = Leadership::default();
    let writer = Writer::new(client, leadership.clone(), Liveness::default().pulse("plans"));
    let mut planning = PlanningLoop::new(
        Arc::clone(&watches),
        writer.clone(),
        Workloads::new(None, "cluster.local", writer),
        (Lowering::new("cluster.local"), NoCode),
        ControllerMetrics::register(&Catalog::default()).unwrap(),
        (
            watch::channel(PlanningState::default()).0,
            watch::channel(ByGateway::new()).1,
            watch::channel(ManagedServers::default()).1,
        ),
        Arc::default(),
    );
    watches.cache_sync.settled().await;
    for lapse in 0..3 {
        // No round takes place while this process does not lead.
        leadership.set(None);
        leadership.set(Some(Instant::now() + Duration::from_secs(600)));
        let before = lists.load(Ordering::Relaxed);
        planning.round().await;
        assert!(lists.load(Ordering::Relaxed) > before, "nothing was read after lapse {lapse}");
        assert_eq!(planning.gateways.len(), 1);
    }
}
