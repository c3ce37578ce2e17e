//! Sessions: begun, used, ended; calls with progress and cancellation; the stream of what is told unasked.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::json;

use super::gateway::{Gateway, call, initialize, next, plan, post_to, read, request};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[tokio::test]
async fn versions_are_negotiated() {
    let gateway = Gateway::start().await;
    for (asked, agreed) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let answer = gateway.post(&[], &initialize(asked)).await;
        let result = &answer.json()["result"];
        assert_eq!(result["protocolVersion"], agreed, "{asked}");
        assert_eq!(result["serverInfo"]["name"], "hawsepipe");
        assert_eq!(result["capabilities"]["tools"]["listChanged"], true);
        assert!(answer.header("mcp-session-id").bytes().all(|b| b.is_ascii_graphic()));
        assert_eq!(answer.header("mcp-session-id").len(), 32);
    }
    let old = gateway.post(&[], &initialize("2024-11-05")).await;
    assert_eq!((old.status, old.code(), old.header("mcp-session-id")), (StatusCode::OK, -32602, ""));
    assert_eq!(old.json()["error"]["data"]["supported"], json!(["2025-11-25", "2025-06-18", "2025-03-26"]));
}

#[tokio::test]
async fn a_session_is_needed_until_it_ends() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    let (session, version) = (("mcp-session-id", id.as_str()), "mcp-protocol-version");
    for (headers, status) in [
        (vec![session], StatusCode::OK),
        (vec![session, (version, "2025-11-25")], StatusCode::OK),
        (vec![session, (version, "2024-11-05")], StatusCode::BAD_REQUEST),
        (vec![session, (version, "1999-01-01")], StatusCode::BAD_REQUEST),
        (vec![], StatusCode::BAD_REQUEST),
        (vec![("mcp-session-id", "other")], StatusCode::NOT_FOUND),
    ] {
        assert_eq!(gateway.post(&headers, PING).await.status, status, "{headers:?}");
    }
    assert_eq!(gateway.post(&[session], PING).await.text, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let elsewhere = read(gateway.send(post_to("/up/mcp", &[session], PING)).await).await;
    assert_eq!(elsewhere.status, StatusCode::NOT_FOUND);
    let end = || request("DELETE", "/mcp", &[session], "");
    assert_eq!(gateway.send(end()).await.status(), StatusCode::NO_CONTENT);
    assert_eq!(gateway.send(end()).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(gateway.post(&[session], PING).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn tools_are_listed_and_called() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    let session = [("mcp-session-id", id.as_str())];
    let list = gateway.post(&session, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
    assert!(list.text.contains(r#""x-unknown": 1.0"#) || list.text.contains(r#""x-unknown":1.0"#), "{}", list.text);
    let result = &list.json()["result"];
    assert_eq!((&result["tools"][0]["name"], &result["ttlMs"]), (&json!("up__echo"), &json!(null)));
    let cursor = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}"#;
    assert_eq!(gateway.post(&session, cursor).await.code(), -32602);
    // Escapes in names are JSON like any other, and what is passed on keeps its bytes.
    let call = r#"{"jsonrpc":"2.0","id":"\u0061","method":"tools\/call",
        "params":{"name":"up__\u0065cho","arguments":{"b": 1.0, "a":12345678901234567890123}}}"#;
    let answer = gateway.post(&session, call).await;
    let expected = r#"{"content":[], "n": 1.0,"got":{"b": 1.0, "a":12345678901234567890123}}"#;
    assert_eq!(answer.text, format!(r#"{{"jsonrpc":"2.0","id":"\u0061","result":{expected}}}"#));
    assert_eq!(answer.header("content-type"), "application/json");
}

#[tokio::test]
async fn errors_of_methods_are_answers() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    let session = [("mcp-session-id", id.as_str())];
    for (method, params, code) in [
        ("resources/list", json!({}), -32601),
        ("server/discover", json!({}), -32601),
        ("tools/call", json!({}), -32602),
        ("tools/call", json!({"name": 1}), -32602),
        ("tools/call", json!({"name": "up__echo", "arguments": []}), -32602),
        ("tools/call", json!({"name": "nothing"}), -32602),
        ("tools/call", json!({"name": "up__fails"}), -32602),
    ] {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let answer = gateway.post(&session, &body).await;
        assert_eq!((answer.status, answer.code()), (StatusCode::OK, code), "{body}");
    }
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up__fails"}}"#;
    assert!(
        gateway.post(&session, body).await.text.ends_with(r#""error":{"code":-32602,"message":"no","data": 1.0}}"#)
    );
}

#[tokio::test]
async fn notifications_and_answers_are_taken() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    for body in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#,
        r#"{"jsonrpc":"2.0","id":5,"result":{}}"#,
    ] {
        let answer = gateway.post(&[("mcp-session-id", &id)], body).await;
        assert_eq!((answer.status, answer.text.as_str()), (StatusCode::ACCEPTED, ""), "{body}");
    }
}

#[tokio::test]
async fn progress_comes_as_events_before_the_answer() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    let session = ("mcp-session-id", id.as_str());
    let body = call("up__progress", json!({"progressToken": "t"}));
    let answer = gateway.post(&[session], &body).await;
    assert_eq!(answer.header("content-type"), "text/event-stream");
    assert_eq!(answer.header("x-accel-buffering"), "no");
    let events: Vec<_> = answer.text.split("\n\n").filter(|event| !event.is_empty()).collect();
    let progress = r#"event: message
data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1,"total": 2.0}}"#;
    assert_eq!((events.len(), events[0]), (3, progress));
    assert!(events[2].contains(r#""id":7,"result""#));
    // Who takes no events, or gives no token, gets the answer alone.
    for (headers, meta) in
        [(vec![session, ("accept", "application/json")], json!({"progressToken": 1})), (vec![session], json!({}))]
    {
        let answer = gateway.post(&headers, &call("up__progress", meta)).await;
        assert_eq!(answer.header("content-type"), "application/json");
    }
}

#[tokio::test]
async fn a_notification_cancels_and_a_disconnect_does_not() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    let session = [("mcp-session-id", id.as_str())];
    let body = call("up__wait", json!({}));
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    let (answer, ()) = tokio::join!(gateway.post(&session, &body), async {
        gateway.server.began.notified().await;
        gateway.post(&session, cancel).await;
    });
    assert_eq!((answer.status, answer.code()), (StatusCode::OK, -32800));
    gateway.server.dropped.notified().await;
    tokio::select! {
        _ = gateway.post(&session, &body) => panic!("it was to wait"),
        () = gateway.server.began.notified() => {}
    }
    gateway.server.go.notify_one();
    gateway.server.finished.notified().await;
}

#[tokio::test]
async fn a_stream_tells_of_changed_lists_and_closes_with_its_session() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    gateway.post(&[("mcp-session-id", &id)], &call("up__echo", json!({}))).await;
    let open = || gateway.send(request("GET", "/mcp", &[("mcp-session-id", &id)], ""));
    let (mut stream, other) = (open().await, open().await);
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    assert_eq!(open().await.status(), StatusCode::TOO_MANY_REQUESTS);
    drop(other);
    assert_eq!(open().await.status(), StatusCode::OK);
    let mut changed = plan();
    changed.upstreams[0].exclude = vec!["echo".into()];
    gateway.apply(changed).await;
    let event = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";
    assert_eq!(next(&mut stream).await, event);
    gateway.send(request("DELETE", "/mcp", &[("mcp-session-id", &id)], "")).await;
    let end = tokio::time::timeout(Duration::from_secs(5), read(stream)).await.expect("the stream stayed open");
    assert!(end.text.replace(event, "").is_empty(), "{end:?}");
}

#[tokio::test]
async fn streams_want_a_session_and_a_client_that_takes_events() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    for (headers, status) in [
        (vec![], StatusCode::BAD_REQUEST),
        (vec![("mcp-session-id", "other")], StatusCode::NOT_FOUND),
        (vec![("mcp-session-id", id.as_str()), ("accept", "application/json")], StatusCode::NOT_ACCEPTABLE),
    ] {
        assert_eq!(gateway.send(request("GET", "/mcp", &headers, "")).await.status(), status, "{headers:?}");
    }
}
