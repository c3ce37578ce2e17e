//! Tests of which process leads, and when, with a simulated clock.

use std::sync::atomic::{AtomicBool, Ordering};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use super::*;
use crate::controller::liveness::Liveness;
use crate::controller::rights::RequestError;
use crate::controller::writer::Writer;

fn settings(holder: &str) -> LeaseSettings {
    LeaseSettings { namespace: "ns".into(), name: "lease".into(), holder: holder.into() }
}

/// Returns a client of an API server that stores at most one Lease. While `cut` is set, the requests of this client fail.
/// `asked` is called before each request is served.
fn client(lease: &Arc<Mutex<Value>>, cut: &Arc<AtomicBool>, asked: impl Fn() + Clone + Send + 'static) -> Client {
    let (lease, cut) = (Arc::clone(lease), Arc::clone(cut));
    let server = tower::service_fn(move |request: Request<Body>| {
        let (lease, cut, asked) = (Arc::clone(&lease), Arc::clone(&cut), asked.clone());
        async move {
            asked();
            let reads = request.method() == Method::GET;
            let body = request.into_body().collect().await?.to_bytes();
            if cut.load(Ordering::Relaxed) {
                return Err(BoxError::from("nobody is there"));
            }
            let mut stored = lease.lock().unwrap();
            if reads && stored.is_null() {
                let status = json!({"kind": "Status", "code": 404, "reason": "NotFound"});
                return Ok(Response::builder().status(404).body(Body::from(status.to_string().into_bytes()))?);
            }
            if !reads {
                *stored = serde_json::from_slice(&body)?;
            }
            Ok(Response::new(Body::from(stored.to_string().into_bytes())))
        }
    });
    Client::new(server, "ns")
}

#[tokio::test]
async fn writes_of_a_leader_that_is_cut_off_are_refused_and_over_before_another_leads() {
    let passed = Arc::new(Mutex::new(Duration::ZERO));
    let (start, time) = (Instant::now(), Arc::clone(&passed));
    let clock: MonotonicClock = Arc::new(move || start + *time.lock().unwrap());
    let (lease, cut) = (Arc::new(Mutex::new(json!({"metadata": {"name": "lease"}}))), Arc::new(AtomicBool::new(false)));
    let keeper = |holder, cut| {
        LeaseKeeper::new(client(&lease, cut, || ()), settings(holder), Leadership::by(Arc::clone(&clock)))
    };
    let (mut one, mut other) = (keeper("one", &cut), keeper("other", &Arc::default()));
    let writer = Writer::new(one.api.clone().into_client(), one.leadership.clone(), Liveness::default().pulse("plans"));
    one.look().await;
    other.look().await;
    assert!(!other.leadership.leads());
    cut.store(true, Ordering::Relaxed);
    let mut last_write = Duration::ZERO;
    while !other.leadership.leads() {
        let now = {
            let mut passed = passed.lock().unwrap();
            *passed += Duration::from_millis(500);
            *passed
        };
        match writer.attempt("patch pods in a", "x", async { Ok(()) }).await {
            Ok(()) => last_write = now,
            Err(error) => assert!(matches!(error, RequestError::NotLeading), "{error}"),
        }
        one.look().await;
        other.look().await;
    }
    assert!(last_write > PERIOD + MARGIN, "a renewal that takes its whole time leaves room for the next");
    let taken = *passed.lock().unwrap();
    assert!(last_write + WRITE < taken, "the last write began at {last_write:?}, another led at {taken:?}");
}

#[tokio::test]
async fn a_lease_that_was_deleted_is_created_by_its_holder_and_by_others_once_it_would_be_over() {
    let passed = Arc::new(Mutex::new(Duration::ZERO));
    let (start, time) = (Instant::now(), Arc::clone(&passed));
    let clock: MonotonicClock = Arc::new(move || start + *time.lock().unwrap());
    let (lease, cut) = (Arc::new(Mutex::new(Value::Null)), Arc::new(AtomicBool::new(false)));
    let keeper = |holder, cut| {
        LeaseKeeper::new(client(&lease, cut, || ()), settings(holder), Leadership::by(Arc::clone(&clock)))
    };
    let (mut one, mut other) = (keeper("one", &cut), keeper("other", &Arc::default()));
    one.look().await;
    other.look().await;
    *lease.lock().unwrap() = Value::Null;
    other.look().await;
    assert!(lease.lock().unwrap().is_null(), "the holder may not have seen that it is gone");
    one.look().await;
    assert_eq!((one.leadership.term(), other.leadership.term()), (Some(1), None), "it leads without a gap");

    other.look().await;
    *lease.lock().unwrap() = Value::Null;
    cut.store(true, Ordering::Relaxed);
    other.look().await;
    let mut elapsed = Duration::ZERO;
    while !other.leadership.leads() {
        elapsed += Duration::from_secs(1);
        *passed.lock().unwrap() = elapsed;
        one.look().await;
        other.look().await;
        assert!(!(one.leadership.leads() && other.leadership.leads()), "two lead after {elapsed:?}");
    }
    assert_eq!(elapsed, DURATION + Duration::from_secs(1));
}

#[test]
fn a_term_ends_with_a_gap_and_with_nothing_else() {
    let passed = Arc::new(Mutex::new(Duration::ZERO));
    let (start, time) = (Instant::now(), Arc::clone(&passed));
    let leadership = Leadership::by(Arc::new(move || start + *time.lock().unwrap()));
    let at = |seconds| {
        *passed.lock().unwrap() = Duration::from_secs(seconds);
        leadership.term()
    };
    let until = |seconds| leadership.set(Some(start + Duration::from_secs(seconds)));
    assert_eq!(at(0), None);
    until(10);
    let first = at(9);
    assert!(first.is_some());
    until(20);
    assert_eq!(at(19), first, "it was renewed in time");
    assert_eq!(at(20), None);
    until(30);
    let second = at(20);
    assert!(second.is_some() && second != first, "it had expired: {second:?}");
    leadership.set(None);
    assert_eq!(at(20), None);
    until(30);
    let third = at(20);
    assert!(third.is_some() && third != second && third != first, "it was given up: {third:?}");
}

#[tokio::test]
async fn a_lease_that_was_renewed_while_it_was_asked_for_counts_from_the_answer_on() {
    let passed = Arc::new(Mutex::new(Duration::ZERO));
    let (start, time, slow) = (Instant::now(), Arc::clone(&passed), Arc::clone(&passed));
    let clock: MonotonicClock = Arc::new(move || start + *time.lock().unwrap());
    let renewed = LeaseSpec { holder_identity: Some("one".into()), ..held(&settings("one"), None) };
    let lease = Arc::new(Mutex::new(json!({"metadata": {"name": "lease"}, "spec": renewed})));
    // Only the first answer is slow.
    let delayed = move || {
        let mut passed = slow.lock().unwrap();
        *passed = (*passed).max(MARGIN);
    };
    let client = client(&lease, &Arc::default(), delayed);
    let mut other = LeaseKeeper::new(client, settings("other"), Leadership::by(clock));
    other.look().await;
    assert_eq!(*passed.lock().unwrap(), MARGIN);
    for (later, leads) in [(DURATION + MARGIN, false), (DURATION + MARGIN + Duration::from_millis(1), true)] {
        *passed.lock().unwrap() = later;
        other.look().await;
        assert_eq!(other.leadership.leads(), leads, "{later:?} after it was asked for first");
    }
}

#[test]
fn only_its_holder_gives_a_lease_back() {
    let lease = || Lease { spec: Some(held(&settings("one"), None)), ..Lease::default() };
    assert_eq!(released(lease(), &settings("other")), None);
    let spec = released(lease(), &settings("one")).unwrap().spec.unwrap();
    assert_eq!((spec.holder_identity, spec.lease_duration_seconds), (None, Some(15)));
    assert_eq!(released(Lease::default(), &settings("one")), None);
}

#[test]
fn a_change_of_holders_is_counted_and_a_renewal_is_not() {
    let first = held(&settings("one"), None);
    assert_eq!(first.lease_transitions, Some(0));
    let renewed = held(&settings("one"), Some(&first));
    assert_eq!((renewed.lease_transitions, &renewed.acquire_time), (Some(0), &first.acquire_time));
    let taken = held(&settings("other"), Some(&renewed));
    assert_eq!((taken.lease_transitions, taken.holder_identity.as_deref()), (Some(1), Some("other")));
}

#[test]
fn a_lease_is_over_when_it_has_not_changed_for_its_time() {
    let spec = held(&settings("one"), None);
    let mut seen = None;
    let (start, mut later) = (Instant::now(), 0);
    assert!(!is_over(&spec, &mut seen, start), "it was seen for the first time");
    let mut after = |seconds| {
        later += seconds;
        start + Duration::from_secs(later)
    };
    assert!(!is_over(&spec, &mut seen, after(15)));
    assert!(is_over(&spec, &mut seen, after(1)));
    let renewed = LeaseSpec { renew_time: Some(MicroTime(Timestamp::UNIX_EPOCH)), ..spec.clone() };
    assert!(!is_over(&renewed, &mut seen, after(0)), "it was renewed meanwhile");
    assert!(!is_over(&LeaseSpec { holder_identity: None, ..renewed }, &mut seen, after(16)), "another one has it");
}
