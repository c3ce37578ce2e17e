//! What clients are refused because there is no place for it: the answer has the reason, or its status says it, and it is
//! counted.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use hyper::Response;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};

use super::gateway::{Gateway, call, initialize, next, plan, post_to, read, request};
use crate::domain::budget::ByteBudget;
use crate::domain::capabilities::ClientCapabilities;
use crate::domain::identity::Identity;
use crate::domain::item::ItemKind;
use crate::domain::method::Method;
use crate::domain::plan::Plan;
use crate::domain::question::Question;
use crate::engine::access::session_id::{SessionFacts, SessionScope};
use crate::engine::in_flight::parked_call::{Binding, ParkedCall};
use crate::web::continued::run_or_park;
use crate::web::exchange::RunningMessage;
use crate::web::forward::Forwarding;
use crate::web::listener_context::PathEndpoint;
use crate::web::parking::Parking;
use crate::web::requester::Requester;

/// How often something was refused for this reason, by the metrics.
async fn refused(gateway: &Gateway, reason: &str) -> Option<u64> {
    let admin = TowerToHyperService::new(gateway.admin.clone());
    let metrics = read(admin.call(request("GET", "/metrics", &[], "")).await.unwrap()).await.text;
    let start = format!("hawsepipe_calls_refused_total{{reason=\"{reason}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&start)).map(|count| count.parse().unwrap())
}

async fn started(change: impl FnOnce(&mut Plan)) -> Gateway {
    let (gateway, mut plan) = (Gateway::idle(), plan());
    change(&mut plan);
    gateway.apply(plan).await;
    gateway
}

/// Opens the stream of a session.
async fn open(gateway: &Gateway, session: &str) -> Response<Body> {
    gateway.send(request("GET", "/mcp", &[("mcp-session-id", session)], "")).await
}

#[tokio::test]
async fn streams_beyond_those_of_the_listener() {
    let gateway = started(|plan| plan.gateway.limits.max_streams = 2).await;
    let (one, other) = (gateway.session().await, gateway.session().await);
    let first = open(&gateway, &one).await;
    assert_eq!((first.status(), refused(&gateway, "Streams").await), (StatusCode::OK, None));
    assert_eq!(
        open(&gateway, &other).await.status(),
        StatusCode::TOO_MANY_REQUESTS,
        "an address leaves a half to others"
    );
    assert_eq!(refused(&gateway, "Streams").await, Some(1));
    let version = "2026-07-28";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"notifications": {}, "_meta": meta});
    let listen = json!({"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": params});
    let headers = [("mcp-protocol-version", version), ("mcp-method", "subscriptions/listen")];
    let answer = gateway.post(&headers, &listen.to_string()).await;
    assert_eq!(answer.json()["error"]["data"], json!({"reason": "Streams", "retryAfterMs": 1000}), "{answer:?}");
    assert_eq!(refused(&gateway, "Streams").await, Some(2));
}

#[tokio::test]
async fn streams_beyond_those_of_a_session() {
    let gateway = Gateway::start().await;
    let session = gateway.session().await;
    let _open = (open(&gateway, &session).await, open(&gateway, &session).await);
    assert_eq!(refused(&gateway, "SessionStreams").await, None);
    assert_eq!(open(&gateway, &session).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!((refused(&gateway, "SessionStreams").await, refused(&gateway, "Streams").await), (Some(1), None));
}

#[tokio::test]
async fn streams_of_calls_that_are_continued_too_often() {
    let gateway = Gateway::start().await;
    let session = gateway.session().await;
    let of_session = ("mcp-session-id", session.as_str());
    let mut stream = gateway.send(post_to("/mcp", &[of_session], &call("up__wait", json!({})))).await;
    let priming = next(&mut stream).await;
    let id = priming.lines().find_map(|line| line.strip_prefix("id: ")).unwrap_or_else(|| panic!("{priming}"));
    let again = || gateway.send(request("GET", "/mcp", &[of_session, ("last-event-id", id)], ""));
    let mut continued = Vec::new();
    for _ in 0..32 {
        continued.push(again().await);
    }
    assert!(continued.iter().all(|stream| stream.status() == StatusCode::OK));
    assert_eq!(refused(&gateway, "ContinuedStreams").await, None);
    assert_eq!(again().await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused(&gateway, "ContinuedStreams").await, Some(1));
}

#[tokio::test]
async fn sessions_while_all_are_in_use() {
    let gateway = Gateway::start().await;
    let snapshot = gateway.engine.in_force.snapshot();
    let scope = SessionScope { gateway: &snapshot.plan().gateway.key, principal: "anonymous", upstream: None };
    let facts = || SessionFacts {
        version: "2025-11-25".into(),
        client: String::new(),
        capabilities: ClientCapabilities::default(),
        created_at: 1,
        replica: None,
    };
    let mut count = 0;
    while let Some(session) = gateway.engine.gate.sessions().open(facts(), scope) {
        session.streams.enter(None, None).unwrap();
        session.set_ready();
        count += 1;
    }
    assert_eq!(count, 10_000);
    let answer = gateway.post(&[], &initialize("2025-11-25")).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.json()["error"]["data"], json!({"reason": "Sessions", "retryAfterMs": 1000}), "{answer:?}");
    assert_eq!(refused(&gateway, "Sessions").await, Some(1));
}

#[tokio::test]
async fn a_subscription_whose_session_ends_meanwhile_is_not_one_too_many() {
    let gateway = Arc::new(Gateway::start().await);
    let session = gateway.session().await;
    let (subscriber, of_session) = (Arc::clone(&gateway), session.clone());
    let subscribe = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "file:///a"}});
    let answer =
        tokio::spawn(async move { subscriber.post(&[("mcp-session-id", &of_session)], &subscribe.to_string()).await });
    gateway.server.began.notified().await;
    gateway.send(request("DELETE", "/mcp", &[("mcp-session-id", &session)], "")).await;
    gateway.server.go.notify_one();
    let answer = answer.await.unwrap();
    assert_eq!(answer.json()["error"]["data"], json!({"reason": "SessionEnded"}), "{answer:?}");
    assert_eq!(refused(&gateway, "Subscriptions").await, None);
}

#[tokio::test]
async fn calls_that_are_to_wait_for_their_clients_when_as_many_do_as_may() {
    let (gateway, budget) = (Gateway::start().await, Arc::new(ByteBudget::default()));
    let binding = Binding::new("anonymous", None, ItemKind::Tool, "t", None);
    let gate = &gateway.gate;
    let park = |handle: &u64| {
        let running = RunningMessage::new(std::future::pending(), false);
        let call = Parking::new(&budget, &Arc::default()).beside(running);
        let call = ParkedCall { call, binding, task: None, mirrored: Vec::new() };
        gate.engine.gate.in_flight.parked.add(*handle, &Arc::new(call), u64::MAX).is_ok()
    };
    let parked = (0..).take_while(park).count();
    assert_eq!(parked, 256);
    let parking = Arc::new(Parking::new(&budget, &Arc::default()));
    parking.allow("7", binding);
    let _waits = parking.pending.ask(Question { method: Method::Elicit, params: None }).unwrap();
    let running = RunningMessage::new(std::future::pending(), false);
    let answer = run_or_park(Arc::clone(gate), running, parking).await.into_answer();
    let answer: Value = serde_json::from_str(&answer.message).unwrap();
    assert_eq!(answer["error"]["data"], json!({"reason": "ParkedCalls", "retryAfterMs": 1000}), "{answer}");
    assert_eq!(refused(&gateway, "ParkedCalls").await, Some(1));
}

#[tokio::test]
async fn requests_that_are_to_be_forwarded_when_as_many_are_as_may() {
    let gateway = Gateway::start().await;
    let (gate, address) = (&gateway.gate, "10.0.0.1".parse().unwrap());
    let client = Requester { address, identity: Identity::anonymous(), token: None };
    let forwarding = || {
        let (method, headers) = (axum::http::Method::GET, axum::http::HeaderMap::new());
        Forwarding::request(method, &PathEndpoint::All, &headers, bytes::Bytes::new(), &client)
    };
    let share = crate::web::replicas::ForwardingQuota::Calls;
    let _under_way: Vec<_> = std::iter::from_fn(|| gate.replicas.shares.enter(share, address, None)).collect();
    let nobody = "127.0.0.1:1".parse().unwrap();
    let why = gate.forward(nobody, forwarding(), Duration::from_secs(5)).await.err().unwrap();
    assert_eq!(why.reason().as_str(), "ForwardedRequests");
    assert_eq!(refused(&gateway, "ForwardedRequests").await, Some(1));
}
