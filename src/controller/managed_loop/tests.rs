//! Tests of what is written for servers, and when.

mod addresses;
mod faults;
mod hanging;

use std::sync::Mutex;

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::faults::Fault;
use super::*;
use crate::controller::compiled::CompiledObjects;
use crate::controller::lease::Leadership;
use crate::controller::liveness::Liveness;
use crate::controller::managed_state::ManagedServer;
use crate::controller::operator::tests::serve;
use crate::controller::status::tests::read;
use crate::controller::workload::ImagePullPolicy;
use crate::domain::reason::Reason;

/// A loop that uses an API server without objects.
struct Running {
    servers: ManagedLoop,
    leadership: Leadership,
    plans: watch::Sender<PlanningState>,
    managed: watch::Receiver<ManagedServers>,
    /// The paths of all writes.
    written: Arc<Mutex<Vec<String>>>,
    /// Has what is late seen.
    seen: CancellationToken,
}

/// Starts the loop.
async fn running(fault: Fault) -> Running {
    let written = Arc::<Mutex<Vec<String>>>::default();
    let (sent, seen) = (Arc::clone(&written), CancellationToken::new());
    let late = seen.clone();
    let server = tower::service_fn(move |request: Request<Body>| {
        let path = request.uri().path().to_owned();
        if request.method() != Method::GET {
            sent.lock().unwrap().push(path.clone());
        }
        let asked = (path.as_str(), request.uri().query().unwrap_or_default());
        let found = fault.answer(request.method(), asked, &late);
        async move {
            if fault == Fault::Hangs && path.contains("/namespaces/slow/") {
                std::future::pending::<()>().await;
            }
            match found {
                Some(answer) => Ok(answer),
                None => serve(request, json!([]), Arc::default()).await,
            }
        }
    });
    let (client, leadership) = (Client::new(server, "ns"), Leadership::default());
    leadership.set(Some(Instant::now() + Duration::from_secs(600)));
    let watches = Arc::new(Watches::start(&client, Default::default(), true));
    let writer = Writer::new(client, leadership.clone(), Liveness::default().pulse("servers"));
    let (plans, planned) = watch::channel(PlanningState::default());
    let (told, managed) = watch::channel(ManagedServers::default());
    watches.cache_sync.settled().await;
    let pods =
        PodSettings { image: "gateway:1".to_owned(), pull_policy: ImagePullPolicy::IfNotPresent, assigned_ids: false };
    let servers = ManagedLoop::new(writer, watches, (pods, "cluster.local".to_owned()), planned, told);
    Running { servers, leadership, plans, managed, written, seen }
}

impl Running {
    fn plan(&self, term: Option<u64>, upstream: &Value) {
        plan(&self.plans, term, upstream);
    }

    /// Brings all servers up to date.
    async fn bring_up(&mut self) {
        self.servers.begin_round();
        while let Some(ended) = self.servers.running.join_next().await {
            self.servers.note(ended);
        }
    }

    /// Runs a round. Returns the kinds that were written.
    async fn round(&mut self) -> Vec<String> {
        self.bring_up().await;
        self.servers.publish(&Notify::new());
        let paths = std::mem::take(&mut *self.written.lock().unwrap());
        paths.iter().map(|path| path.rsplit('/').nth(1).unwrap().to_owned()).collect()
    }
}

fn plan(plans: &watch::Sender<PlanningState>, term: Option<u64>, upstream: &Value) {
    plan_all(plans, term, &[read(Kind::MCPUpstream, "up", upstream, &json!({}))]);
}

fn plan_all(plans: &watch::Sender<PlanningState>, term: Option<u64>, objects: &[LoweredObject]) {
    let compiled = Arc::new(CompiledObjects { objects: objects.into(), ..CompiledObjects::default() });
    plans.send_replace(PlanningState { compiled, term, ..PlanningState::default() });
}

impl Running {
    /// Returns the state of the server.
    fn server(&self) -> ManagedServer {
        self.managed.borrow().values().next().cloned().unwrap()
    }
}

fn managed_spec() -> Value {
    json!({"managed": {"image": "i", "transport": "StreamableHTTP", "ports": [{"name": "mcp", "port": 1}]}})
}

#[tokio::test]
async fn only_what_was_planned_in_this_term_is_written() {
    let mut running = running(Fault::None).await;
    let term = running.leadership.term();
    for other in [None, term.map(|term| term + 1)] {
        running.plan(other, &managed_spec());
        assert_eq!(running.round().await, [""; 0], "{other:?}");
        assert!(running.managed.borrow().is_empty(), "no status is written of what was not looked at");
    }
    running.plan(term, &managed_spec());
    let all = ["serviceaccounts", "networkpolicies", "services", "deployments"];
    assert_eq!(running.round().await, all, "pods come last");
    let server = running.managed.borrow().values().next().cloned().unwrap();
    assert_eq!((server.kind, server.fault, server.generation), (Some("Deployment"), None, 3));
    assert_eq!(server.not_ready.as_deref(), Some("no pod of Deployment up-mcp is ready"));
    running.leadership.set(None);
    running.plan(None, &managed_spec());
    assert_eq!(running.round().await, [""; 0]);
}

#[tokio::test]
async fn no_pods_start_without_their_account_and_their_policy() {
    for (taken, others) in
        [("serviceaccounts", ["networkpolicies", "services"]), ("networkpolicies", ["serviceaccounts", "services"])]
    {
        let mut running = running(Fault::Taken(taken)).await;
        running.plan(running.leadership.term(), &managed_spec());
        assert_eq!(running.round().await, others, "{taken}");
        let fault = running.managed.borrow().values().next().and_then(|server| server.fault.clone());
        assert_eq!(fault.map(|(reason, _)| reason), Some(Reason::NameTaken), "{taken}");
    }
}

#[tokio::test]
async fn a_workload_that_cannot_be_deleted_stays_the_only_one() {
    let mut running = running(Fault::Kept).await;
    let mut spec = managed_spec();
    spec["managed"]["volumes"] =
        json!([{"name": "data", "mountPath": "/data", "persistentVolumeClaim": {"claimName": "data"}}]);
    running.plan(running.leadership.term(), &spec);
    assert_eq!(running.round().await, ["serviceaccounts", "networkpolicies", "deployments", "services"]);
    let fault = running.managed.borrow().values().next().and_then(|server| server.fault.clone());
    assert_eq!(fault.map(|(reason, _)| reason), Some(Reason::Forbidden));
}

#[tokio::test]
async fn what_is_left_of_an_earlier_server_goes_even_if_it_is_seen_late() {
    let mut running = running(Fault::Late).await;
    running.plan(running.leadership.term(), &json!({"external": {"url": "http://up/mcp"}}));
    assert_eq!(running.round().await, [""; 0]);
    running.seen.cancel();
    let is_seen = async || {
        while running.servers.around.watches.owned("services", "ns", "up-mcp").is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), is_seen()).await.expect("in time");
    assert_eq!(running.round().await, ["services"]);
}

#[tokio::test]
async fn the_policy_and_the_account_stay_as_long_as_there_are_pods() {
    let external = json!({"external": {"url": "http://up/mcp"}});
    const ALL: &[&str] = &["serviceaccounts", "networkpolicies", "services", "deployments", "pods"];
    for (there, deleted) in [
        (ALL, &["deployments", "services"][..]),
        (&ALL[..4], &["deployments", "services"]),
        (&["serviceaccounts", "networkpolicies", "pods"], &[]),
        (&ALL[..2], &["networkpolicies", "serviceaccounts"]),
    ] {
        let mut running = running(Fault::Existing(there)).await;
        running.plan(running.leadership.term(), &external);
        assert_eq!(running.round().await, deleted, "{there:?}");
    }
    let mut named = managed_spec();
    named["managed"]["serviceAccountName"] = json!("other");
    for (there, is_deleted) in [(&["serviceaccounts", "pods"][..], false), (&["serviceaccounts"], true)] {
        let mut running = running(Fault::Existing(there)).await;
        running.plan(running.leadership.term(), &named);
        let written = running.round().await;
        assert_eq!(written.last().map(String::as_str) == Some("serviceaccounts"), is_deleted, "{there:?} {written:?}");
        assert!(written.contains(&"deployments".to_owned()), "{written:?}");
    }
}

#[tokio::test]
async fn a_failure_of_one_object_does_not_keep_the_others_from_being_written() {
    let mut running = running(Fault::Unwritten).await;
    running.plan(running.leadership.term(), &managed_spec());
    assert_eq!(running.round().await.last().map(String::as_str), Some("deployments"));
    running.servers.taking.insert(ObjectKey::new("ns", "up"), [ObjectKey::new("ns", "main")].into());
    assert_eq!(running.round().await, ["networkpolicies"], "the Deployment waits for its next try");
    assert_eq!(running.server().fault.map(|(reason, _)| reason), Some(Reason::Pending));
}

#[tokio::test]
async fn what_is_wrong_now_is_told_and_not_what_was_wrong_before() {
    let mut running = running(Fault::UnwrittenThenForbidden).await;
    running.plan(running.leadership.term(), &managed_spec());
    running.round().await;
    assert_eq!(running.server().fault.map(|(reason, _)| reason), Some(Reason::Pending));
    running.seen.cancel();
    // What was written is not written again before this pause is over.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    running.round().await;
    assert_eq!(running.server().fault.map(|(reason, _)| reason), Some(Reason::Forbidden));
}

#[tokio::test]
async fn a_gateway_that_cannot_be_read_leaves_a_policy_as_it_is_and_stops_nothing_else() {
    let others = ["serviceaccounts", "services", "deployments"];
    let all = ["serviceaccounts", "networkpolicies", "services", "deployments"];
    for (there, written) in [(&[][..], &all[..]), (&["networkpolicies"], &others)] {
        let mut running = running(Fault::Existing(there)).await;
        running.plan(running.leadership.term(), &managed_spec());
        let unread = [(ObjectKey::new("a", "x"), "no".to_owned())].into();
        running.plans.send_modify(|planned| planned.unread = unread);
        assert_eq!(running.round().await, written, "{there:?}");
        assert_eq!(running.server().fault, None, "it has nothing to do with it");
    }
}

#[tokio::test]
async fn news_of_servers_wake_the_status_loop_even_if_plans_may_change() {
    let mut running = running(Fault::None).await;
    running.plan(running.leadership.term(), &managed_spec());
    running.bring_up().await;
    let status_changed = Notify::new();
    running.servers.publish(&status_changed);
    let is_woken = |notify: &Notify| futures_util::FutureExt::now_or_never(notify.notified()).is_some();
    assert!(is_woken(&status_changed) && is_woken(&running.servers.around.watches.changed));
    running.servers.publish(&status_changed);
    assert!(!is_woken(&status_changed), "nothing is new");
}

#[tokio::test]
async fn of_pods_that_cannot_be_listed_nothing_is_said() {
    let mut running = running(Fault::NoPods).await;
    running.plan(running.leadership.term(), &managed_spec());
    running.round().await;
    let server = running.managed.borrow().values().next().cloned().unwrap();
    assert_eq!((server.fault, server.not_ready), (None, None));
}

#[tokio::test]
async fn an_upstream_without_a_server_has_none_and_an_invalid_one_is_left_alone() {
    let mut running = running(Fault::None).await;
    let term = running.leadership.term();
    for spec in [json!({"external": {"url": "http://up/mcp"}}), json!({"managed": {"image": 7}})] {
        running.plan(term, &spec);
        assert_eq!(running.round().await, [""; 0], "{spec}");
    }
}

#[tokio::test]
async fn each_new_plan_is_taken_in() {
    let Running { servers, leadership, plans, mut managed, written, .. } = running(Fault::None).await;
    let (term, changed) = (leadership.term(), Arc::<Notify>::default());
    let _loop = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(servers.run(changed)));
    // After the first, the loop waits for nothing but the next.
    for (spec, count) in [(managed_spec(), 1), (json!({"external": {"url": "http://up/mcp"}}), 0), (managed_spec(), 1)]
    {
        plan(&plans, term, &spec);
        let is_told = managed.wait_for(|servers| servers.len() == count);
        tokio::time::timeout(Duration::from_secs(30), is_told).await.expect("in time").unwrap();
    }
    assert!(!written.lock().unwrap().is_empty());
}
