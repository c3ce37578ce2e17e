//! Batches of 2025-03-26: arrays of messages in one POST.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::gateway::{Gateway, call, initialize};
use crate::domain::budget::{Category, FREE, LIMIT};

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A gateway, and the id of a session of this version.
async fn started(version: &str) -> (Gateway, String) {
    let gateway = Gateway::start().await;
    let answer = gateway.post(&[], &initialize(version)).await;
    let id = answer.header("mcp-session-id").to_owned();
    (gateway, id)
}

fn ping(id: u64) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string()
}

fn ids(answers: &Value) -> Vec<Value> {
    let mut ids: Vec<_> = answers.as_array().unwrap().iter().map(|answer| answer["id"].clone()).collect();
    ids.sort_by_key(ToString::to_string);
    ids
}

#[tokio::test]
async fn each_message_of_a_batch_is_handled_and_the_answers_are_an_array() {
    let (gateway, id) = started("2025-03-26").await;
    let bad = r#"{"jsonrpc":"2.0","id":3,"method":"nonsense"}"#;
    let batch = format!("[{}, {INITIALIZED}, {}, {bad}, 5]", ping(1), call("up__echo", json!({})));
    let answer = gateway.post(&[("mcp-session-id", &id)], &batch).await;
    let answers = answer.json();
    assert_eq!((answer.status, answer.header("content-type")), (StatusCode::OK, "application/json"));
    assert_eq!(ids(&answers), [json!(1), json!(3), json!(7), json!(null)], "{answers}");
    let of = |id: Value| answers.as_array().unwrap().iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!((&of(json!(1))["result"], &of(json!(3))["error"]["code"]), (&json!({}), &json!(-32601)));
    assert_eq!(of(json!(null))["error"]["code"], -32600);
    assert_eq!(gateway.engine.records().recent_calls(9).len(), 1);
    // Without requests there is nothing to answer.
    let quiet = gateway.post(&[("mcp-session-id", &id)], &format!("[{INITIALIZED},{INITIALIZED}]")).await;
    assert_eq!((quiet.status, &*quiet.text), (StatusCode::ACCEPTED, ""));
}

#[tokio::test]
async fn requests_that_wait_in_a_batch_can_be_cancelled() {
    let (gateway, id) = started("2025-03-26").await;
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    let batch = format!("[{cancel}, {}, {}]", ping(1), call("up__echo", json!({})));
    let answers = gateway.post(&[("mcp-session-id", &id)], &batch).await.json();
    let of = |id: u64| answers.as_array().unwrap().iter().find(|answer| answer["id"] == id).unwrap().clone();
    assert_eq!((&of(1)["result"], &of(7)["error"]["code"]), (&json!({}), &json!(-32800)), "{answers}");
    assert!(gateway.engine.records().recent_calls(9).is_empty(), "the call was not begun");
    // Nothing is left of it.
    let again = gateway.post(&[("mcp-session-id", &id)], &call("up__echo", json!({}))).await.json();
    assert!(again["result"].is_object(), "{again}");
}

#[tokio::test]
async fn answers_that_come_after_progress_are_events_of_one_stream() {
    let (gateway, id) = started("2025-03-26").await;
    let batch = format!("[{}, {}]", ping(1), call("up__progress", json!({"progressToken": "t"})));
    let answer = gateway.post(&[("mcp-session-id", &id)], &batch).await;
    assert_eq!(answer.header("content-type"), "text/event-stream");
    let events: Vec<Value> = answer
        .text
        .lines()
        .filter_map(|line| Some(serde_json::from_str(line.strip_prefix("data: ")?).unwrap()))
        .collect();
    let (answers, progress): (Vec<_>, Vec<_>) = events.into_iter().partition(|event| event.get("id").is_some());
    assert!(!progress.is_empty() && ids(&json!(answers)) == [json!(1), json!(7)], "{answer:?}");
    // The id that a client comes back with belongs to the last event.
    let (before, last) = answer.text.trim_end().rsplit_once("\n\n").unwrap();
    assert!(last.contains("\nid: ") && before.matches("id: ").count() == progress.len(), "{answer:?}");
}

#[tokio::test]
async fn all_calls_of_a_batch_are_made_and_none_is_refused_for_the_others() {
    let (gateway, id) = started("2025-03-26").await;
    let calls: Vec<_> = (0..100).map(|_| call("up__echo", json!({}))).collect();
    let answers = gateway.post(&[("mcp-session-id", &id)], &format!("[{}]", calls.join(","))).await.json();
    let answers = answers.as_array().unwrap();
    assert!(answers.len() == 100 && answers.iter().all(|answer| answer.get("result").is_some()), "{answers:?}");
    assert_eq!(gateway.engine.records().recent_calls(200).len(), 100);
}

#[tokio::test]
async fn a_batch_that_cannot_be_handled_is_refused_as_a_whole() {
    let (gateway, id) = started("2025-03-26").await;
    let (ping, newer) = (ping(1), gateway.session().await);
    let many = format!("[{}]", vec![&*ping; 101].join(","));
    for (headers, batch, code, message) in [
        (vec![("mcp-session-id", &*id)], "[]".to_owned(), -32600, "1 to 100 messages"),
        (vec![("mcp-session-id", &id)], many, -32600, "1 to 100 messages"),
        (vec![("mcp-session-id", &id)], format!("[{ping}"), -32700, "not valid JSON"),
        (vec![("mcp-session-id", &id)], format!("[{ping},{}]", initialize("2025-03-26")), -32600, "`initialize`"),
        (vec![], format!("[{}]", initialize("2025-03-26")), -32600, "`initialize`"),
        (vec![], format!("[{ping}]"), -32600, "begin with initialize"),
        (vec![("mcp-session-id", &newer)], format!("[{ping}]"), -32600, "only version 2025-03-26"),
        (vec![("mcp-protocol-version", "2026-07-28")], format!("[{ping}]"), -32600, "not spoken in this version"),
        (vec![("mcp-session-id", &id), ("mcp-method", "tools/call")], format!("[{ping}]"), -32020, "mcp-method"),
    ] {
        let answer = gateway.post(&headers, &batch).await;
        assert_eq!((answer.status, answer.code()), (StatusCode::BAD_REQUEST, code), "{batch:.60} {answer:?}");
        assert!(answer.text.contains(message), "{answer:?}");
    }
    assert_eq!(gateway.engine.records().recent_calls(9).len(), 0);
}

/// As many pings as there are ids, each with an id of the longest size.
fn pings() -> (Vec<String>, String) {
    let ids: Vec<_> = (0..20).map(|n| format!("{n:x<1024}")).collect();
    let pings: Vec<_> =
        ids.iter().map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string()).collect();
    (ids, format!("[{}]", pings.join(",")))
}

#[tokio::test]
async fn a_batch_that_finds_no_room_is_answered_with_an_error_for_each_request() {
    let (gateway, session) = started("2025-03-26").await;
    let (wanted, batch) = pings();
    let post = async || gateway.post(&[("mcp-session-id", &session)], &batch).await;
    let ids_of = |answers: &Value| ids(answers).iter().map(|id| id.as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let sorted = {
        let mut sorted = wanted.clone();
        sorted.sort();
        sorted
    };
    let answered = post().await;
    assert_eq!((answered.status, ids_of(&answered.json())), (StatusCode::OK, sorted.clone()));
    // The room for answers is taken: each alone would find some.
    let others = gateway.engine.budget().reservation(Category::Answer);
    others.resize(LIMIT / 4 * 3 + FREE).unwrap();
    let unanswered = post().await;
    assert_eq!((unanswered.status, ids_of(&unanswered.json())), (StatusCode::OK, sorted.clone()));
    let refused =
        |answers: &Value| answers.as_array().unwrap().iter().all(|one| one["error"]["data"]["reason"] == "NoRoom");
    assert!(refused(&unanswered.json()), "{unanswered:?}");
    drop(others);
    // The room for requests is taken once the body was read.
    let others = gateway.engine.budget().reservation(Category::Request);
    others.resize(LIMIT / 4 + FREE - 8 * 1024).unwrap();
    let unread = post().await;
    assert_eq!((unread.status, ids_of(&unread.json())), (StatusCode::SERVICE_UNAVAILABLE, sorted));
    assert!(refused(&unread.json()), "{unread:?}");
    let alone = json!({"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"x": "x".repeat(20 << 10)}}).to_string();
    let alone = gateway.post(&[("mcp-session-id", &session)], &alone).await;
    assert_eq!((alone.status, &alone.json()["id"]), (StatusCode::SERVICE_UNAVAILABLE, &json!(5)), "{alone:?}");
}
