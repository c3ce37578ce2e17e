//! Limits on calls.

use super::*;
use crate::domain::item::ItemKind;
use crate::domain::log_level::LogLevel;
use crate::engine::access::session_id::{SessionFacts, SessionScope};

fn error(value: &Value) -> (i64, &str, Option<u64>) {
    let error = &value["error"];
    let data = &error["data"];
    (error["code"].as_i64().unwrap(), data["reason"].as_str().unwrap_or_default(), data["retryAfterMs"].as_u64())
}

/// Returns the error of a second call by the same caller while the first is still running.
async fn second(change: impl FnOnce(&mut Inputs)) -> (i64, String, Option<u64>) {
    let mut inputs = bare();
    change(&mut inputs);
    let engine = start(&inputs).await;
    *engine.server.holds.lock().unwrap() = true;
    let caller = caller(Era::Legacy);
    let (first, other) = (engine.clone(), caller.clone());
    let first = tokio::spawn(async move { call_as(&first, &other, "{}", None, &Heard::default()).await });
    until(|| sent(&engine).len() == 1).await;
    let text = call_as(&engine, &caller, "{}", None, &Heard::default()).await;
    engine.server.go.notify_one();
    assert!(first.await.unwrap().contains("hello"));
    assert_eq!((engine.gate.calls.in_flight(), caller.tracker.in_flight()), (0, 0));
    let value = serde_json::from_str(&text).unwrap();
    let (code, reason, wait) = error(&value);
    (code, reason.to_owned(), wait)
}

#[tokio::test]
async fn as_many_as_are_let_in() {
    let full = |reason: &str| (-32000, reason.to_owned(), Some(1000));
    let limits = |i: &mut Inputs| i.gateway.as_mut().map(|g| g.plan.limits.clone()).unwrap();
    let set = |i: &mut Inputs, limits| i.gateway.as_mut().unwrap().plan.limits = limits;
    let session = second(|i| {
        let limits = crate::domain::plan::Limits { session_concurrent_calls: Some(1), ..limits(i) };
        set(i, limits);
    });
    assert_eq!(session.await, full("SessionConcurrentCalls"));
    let all = second(|i| {
        let limits = crate::domain::plan::Limits { concurrent_calls: 1, ..limits(i) };
        set(i, limits);
    });
    assert_eq!(all.await, full("ConcurrentCalls"));
    let total = second(|i| {
        let limits = crate::domain::plan::Limits { session_total_calls: Some(1), ..limits(i) };
        set(i, limits);
    });
    assert_eq!(total.await, (-32000, "SessionTotalCalls".to_owned(), None));
    let upstream = second(|i| i.upstreams[0].plan.concurrent_calls = Some(1));
    assert_eq!(upstream.await, full("UpstreamConcurrentCalls"));
}

#[tokio::test]
async fn an_address_is_limited_only_while_the_gateway_is_crowded() {
    let mut inputs = bare();
    let limits = &mut inputs.gateway.as_mut().unwrap().plan.limits;
    (limits.concurrent_calls, limits.session_concurrent_calls, limits.session_total_calls) = (6, Some(1), Some(1));
    let engine = start(&inputs).await;
    *engine.server.holds.lock().unwrap() = true;
    let from = |address: &str| {
        let tracker = engine.gate.sessions().addresses().of(address.parse().unwrap());
        Caller { by_address: true, tracker, ..caller(Era::Modern) }
    };
    let begin = |caller: Caller| {
        let engine = engine.clone();
        tokio::spawn(async move { call_as(&engine, &caller, "{}", None, &Heard::default()).await })
    };
    // Behind an ingress all clients have the same address, so they can use half of the gateway without a limit per
    // address.
    let mut running: Vec<_> = (0..3).map(|_| begin(from("10.0.0.1"))).collect();
    until(|| sent(&engine).len() == 3).await;
    let refused = begin(from("10.0.0.1")).await.unwrap();
    let refused: Value = serde_json::from_str(&refused).unwrap();
    assert_eq!(error(&refused), (-32000, "AddressConcurrentCalls", Some(1000)));
    assert!(!refused["error"]["message"].as_str().unwrap().contains("session"), "{refused}");
    running.push(begin(from("10.0.0.2")));
    until(|| sent(&engine).len() == 4).await;
    engine.server.go.notify_waiters();
    for call in running {
        assert!(call.await.unwrap().contains("hello"));
    }
}

#[tokio::test]
async fn a_gateway_that_is_stopped_or_refuses_lets_none_in() {
    let mut inputs = bare();
    inputs.gateway.as_mut().unwrap().plan.stopped = true;
    assert_eq!(error(&call(&start(&inputs).await, "{}").await), (-32000, "Stopped", None));
    let mut inputs = bare();
    inputs.gateway.as_mut().unwrap().plan.required = vec![crate::config::compile::tests::key("none")];
    let engine = start(&inputs).await;
    assert_eq!(error(&call(&engine, "{}").await), (-32000, "FailsClosed", None));
    assert!(sent(&engine).is_empty());
    let empty = super::engine(Server::default());
    assert_eq!(error(&call(&empty, "{}").await), (-32000, "FailsClosed", None));
}

#[tokio::test]
async fn a_call_that_waited_for_its_upstream_is_let_in_by_the_newest_plan() {
    type Change = fn(&mut Inputs);
    let stop: Change = |inputs| inputs.gateway.as_mut().unwrap().plan.stopped = true;
    let delete: Change = |inputs| inputs.chains.clear();
    for (change, reason) in [(stop, "Stopped"), (delete, "FailsClosed")] {
        let mut inputs = bare();
        scripts(&mut inputs, "c", Phase::Response, &[(Role::Guard, "same")]);
        inputs.gateway.as_mut().unwrap().plan.required = vec![crate::config::compile::tests::key("c")];
        let engine = engine(Server { starting: AtomicBool::new(true), ..Server::default() });
        apply(&engine, &inputs).await;
        let waiting = engine.clone();
        let waiting = tokio::spawn(async move { call(&waiting, "{}").await });
        until(|| engine.gate.calls.in_flight() == 1).await;
        change(&mut inputs);
        apply(&engine, &inputs).await;
        engine.server.started.notify_one();
        assert_eq!(error(&waiting.await.unwrap()), (-32000, reason, None));
        assert!(sent(&engine).is_empty());
    }
}

#[tokio::test]
async fn a_call_does_not_wait_for_an_upstream_that_was_deleted_meanwhile() {
    let mut inputs = bare();
    let engine = engine(Server { starting: AtomicBool::new(true), ..Server::default() });
    apply(&engine, &inputs).await;
    let waiting = engine.clone();
    let waiting = tokio::spawn(async move { call(&waiting, "{}").await });
    until(|| engine.gate.calls.in_flight() == 1).await;
    inputs.upstreams.clear();
    apply(&engine, &inputs).await;
    let answer = tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("it waits on").unwrap();
    assert_eq!(error(&answer).0, -32602, "{answer}");
}

#[tokio::test]
async fn the_stop_switch_lets_running_calls_end_or_cancels_them() {
    for cancels in [false, true] {
        let mut inputs = bare();
        let engine = start(&inputs).await;
        *engine.server.holds.lock().unwrap() = true;
        let running = engine.clone();
        let running = tokio::spawn(async move { call(&running, "{}").await });
        until(|| sent(&engine).len() == 1).await;
        let gateway = &mut inputs.gateway.as_mut().unwrap().plan;
        (gateway.stopped, gateway.stop_cancels) = (true, cancels);
        apply(&engine, &inputs).await;
        if !cancels {
            engine.server.go.notify_one();
        }
        let value = running.await.unwrap();
        match cancels {
            true => assert_eq!(error(&value).1, "Stopped"),
            false => assert_eq!(value["result"]["content"][0]["text"], "hello"),
        }
        assert_eq!(engine.gate.calls.in_flight(), 0);
    }
}

#[tokio::test]
async fn a_tool_that_is_not_there_is_invalid_params() {
    let engine = start(&bare()).await;
    let client = Client::new(&engine, caller(Era::Legacy));
    for (endpoint, name) in [(Endpoint::All, "up__none"), (Endpoint::All, "read"), (Endpoint::One("up"), "up__read")] {
        let request = CallRequest { endpoint, ..client.request(ItemKind::Tool, name) };
        let Reply::Error(error) = engine.calls.call(request).await else { panic!("{name} is known") };
        assert_eq!(error.code, -32602);
        assert!(error.message.contains(&format!("Unknown tool: {name}")), "{}", error.message);
    }
}

#[tokio::test]
async fn a_gateway_that_is_stopped_sets_no_level_of_log_messages() {
    let mut inputs = bare();
    let engine = start(&inputs).await;
    let facts = SessionFacts {
        version: "2025-11-25".into(),
        client: "test".into(),
        capabilities: ClientCapabilities::default(),
        created_at: engine.now(),
        replica: None,
    };
    let snapshot = engine.in_force.snapshot();
    let scope = SessionScope { gateway: &snapshot.plan().gateway.key, principal: "anonymous", upstream: None };
    let (session, caller) = (engine.gate.sessions().open(facts, scope).unwrap(), caller(Era::Legacy));
    let set = |level| engine.gate.set_log_level(&caller, &session, level);
    assert!(set(LogLevel::Warning).is_ok());
    inputs.gateway.as_mut().unwrap().plan.stopped = true;
    apply(&engine, &inputs).await;
    let refused = set(LogLevel::Debug).unwrap_err();
    assert_eq!(refused.data.unwrap()["reason"], "Stopped");
    assert_eq!((session.log_level(), caller.tracker.total()), (LogLevel::Warning, 0));
}
