//! How long connections stay: while a call may still come for them, and not because they are probed.

use axum::body::Body;
use futures_util::StreamExt;
use hawsepipe::domain::budget::Category;
use hawsepipe::domain::instance::Instance;
use hawsepipe::domain::plan::EraSetting;
use serde_json::json;

use super::fake::{Fake, answer, answer_text, legacy_or, status, typed};
use super::life::{echo, marker, processes};
use super::*;

#[tokio::test]
async fn a_call_keeps_the_connection_of_its_own_target_until_that_is_retired() {
    let fake = Fake::legacy(|seen| answer(seen, &json!({"key": seen.header("authorization")}).to_string())).await;
    let with = |key: &str| {
        let mut target = external(&fake.url);
        target.values = vec![secret("authorization", key)];
        Arc::new(target)
    };
    let (old, new) = (with("old"), with("new"));
    let upstreams = Upstreams::new(
        ServerLauncher::at(fixtures::program()),
        UpstreamMetrics::new().unwrap(),
        &Arc::default(),
        Instance::new("test"),
    );
    let key = async |target: &Target| {
        let answer = upstreams.call(target, &echo("x"), &Listener::default()).await;
        answer.map(|answered| serde_json::to_string(&answer_value(&answered.answer)["key"]).unwrap())
    };
    upstreams.prepare(std::slice::from_ref(&old));
    assert_eq!(key(&old).await.unwrap(), "\"old\"");
    upstreams.prepare(std::slice::from_ref(&new));
    for _ in 0..2 {
        assert_eq!(key(&old).await.unwrap(), "\"old\"");
        assert_eq!(key(&new).await.unwrap(), "\"new\"");
    }
    assert_eq!(fake.seen("initialize").len(), 2, "a connection each");
    upstreams.retire(std::slice::from_ref(&new));
    assert!(matches!(key(&old).await, Err(UpstreamError::Connect(_))));
    assert_eq!(key(&new).await.unwrap(), "\"new\"");
    let ended = || fake.all().iter().any(|s| s.method == "DELETE" && s.header("authorization") == "old");
    until("the old session was ended", ended).await;
}

fn answer_value(answer: &Answer) -> serde_json::Value {
    let (Answer::Result(text) | Answer::Error(text)) = answer;
    serde_json::from_str(text.get()).unwrap()
}

#[tokio::test]
async fn a_call_in_flight_keeps_its_connection_whatever_a_probe_finds() {
    let go = Arc::new(tokio::sync::Notify::new());
    let goes = Arc::clone(&go);
    let fake = Fake::start(move |seen| match seen.rpc() {
        "ping" => {
            let never = futures_util::stream::pending::<std::io::Result<&str>>();
            typed(200, "text/event-stream", Body::from_stream(never))
        }
        "tools/call" => {
            let (goes, text) = (Arc::clone(&goes), answer_text(seen, r#"{"late":true}"#));
            let late = futures_util::stream::once(async move {
                goes.notified().await;
                std::io::Result::Ok(text)
            });
            typed(200, "application/json", Body::from_stream(late))
        }
        _ => legacy_or(seen, &|_| status(500)),
    })
    .await;
    let upstreams = started(external(&fake.url));
    upstreams.probe(PATIENCE).await.unwrap();
    let ended = || fake.all().iter().any(|seen| seen.method == "DELETE");
    let (result, ()) = tokio::join!(result_of(&upstreams, echo("x")), async {
        until("the call is on its way", || fake.seen("tools/call").len() == 1).await;
        let limit = Duration::from_millis(50);
        assert_eq!(upstreams.probe(limit).await.unwrap_err(), UpstreamError::Timeout(limit));
        upstreams.probe(PATIENCE).await.unwrap();
        assert_eq!(fake.seen("initialize").len(), 2, "the next one begins anew");
        assert!(!ended());
        go.notify_one();
    });
    assert_eq!(result, r#"{"late":true}"#);
    until("the old session is ended", ended).await;
}

/// Probes all the time, until one finds that it rests.
async fn rests(upstreams: &Adapter) {
    let deadline = Instant::now() + PATIENCE;
    while upstreams.found(PATIENCE).await.unwrap() != Probed::Resting {
        assert!(Instant::now() < deadline, "it does not rest");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn idle_sessions_are_ended_whatever_is_probed_and_opened_again_by_a_call() {
    let fake = Fake::legacy(|seen| answer(seen, "{}")).await;
    let mut target = external(&fake.url);
    target.plan.idle_timeout_ms = 100;
    let upstreams = started(target);
    result_of(&upstreams, echo("x")).await;
    rests(&upstreams).await;
    let deleted = || fake.all().iter().any(|s| s.method == "DELETE" && s.header("mcp-session-id") == "s1");
    until("the session was ended", deleted).await;
    assert_eq!(fake.seen("initialize").len(), 1, "a probe opens none");
    result_of(&upstreams, echo("x")).await;
    assert_eq!(fake.seen("initialize").len(), 2);
}

#[tokio::test]
async fn idle_processes_end_whatever_is_probed_and_start_again_with_a_call() {
    let marker = marker("idle");
    let mut target = everything(&marker);
    target.plan.idle_timeout_ms = 200;
    let upstreams = started(target);
    // A call in flight is no idleness.
    let long = out("trigger-long-running-operation", r#"{"duration":0.6,"steps":1}"#);
    assert!(result_of(&upstreams, long).await.contains("completed"));
    rests(&upstreams).await;
    until("the process ended", || processes(&marker).is_empty()).await;
    assert!(result_of(&upstreams, echo("again")).await.contains("Echo: again"));
    upstreams.shutdown().await;
}

#[tokio::test]
async fn a_process_that_works_on_a_call_is_busy_and_not_down() {
    let folder = std::env::temp_dir().join(marker("hawsepipe-busy"));
    std::fs::create_dir_all(&folder).unwrap();
    let script = r#"read -r _; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}'
        read -r _; read -r _; : > called; while [ ! -e go ]; do sleep 0.05; done
        echo '{"jsonrpc":"2.0","id":2,"result":{}}'; cat > /dev/null"#;
    let mut target = process("sh", &["-c", script]);
    let TransportPlan::Process { cwd, .. } = &mut target.plan.transport else { panic!("a process") };
    cwd.clone_from(&folder);
    target.plan.era = EraSetting::Legacy;
    let upstreams = started(target);
    let (said, ()) = tokio::join!(result_of(&upstreams, echo("x")), async {
        until("it was called", || folder.join("called").exists()).await;
        assert_eq!(upstreams.found(Duration::from_millis(50)).await, Ok(Probed::Busy));
        std::fs::write(folder.join("go"), "").unwrap();
    });
    assert_eq!(said, "{}");
    upstreams.shutdown().await;
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_message_holds_room_only_while_it_is_read() {
    let fake = Fake::legacy(|seen| {
        let (token, words) = (&seen.body["params"]["_meta"]["progressToken"], "x".repeat(300_000));
        let params = json!({"progressToken": token, "progress": 1, "message": words});
        let text =
            format!("data: {}\n\n", json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
        let once = futures_util::stream::once(async move { std::io::Result::Ok(text) });
        typed(200, "text/event-stream", Body::from_stream(once.chain(futures_util::stream::pending())))
    })
    .await;
    let budget = Arc::new(ByteBudget::default());
    let upstreams = started_within(external(&fake.url), &budget);
    let (client, wants_progress) = (Listener::default(), true);
    tokio::select! {
        answer = call_heard(&upstreams, OutCall { wants_progress, ..echo("x") }, &client) => panic!("{answer:?}"),
        () = until("its room was given back", || {
            !client.0.lock().unwrap().is_empty() && budget.held(Category::Answer) == 0
        }) => {}
    }
}
