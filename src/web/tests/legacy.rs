//! The legacy era: sessions, calls with progress and cancellation, and the stream of notifications.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::json;

use super::gateway::{Gateway, call, initialize, next, plan, post_to, read, request};
use crate::engine::access::session_id::SessionScope;

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[tokio::test]
async fn versions_are_negotiated() {
    let gateway = Gateway::start().await;
    for (asked, agreed) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2026-07-28", "2025-11-25"),
        ("2024-11-05", "2024-11-05"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let answer = gateway.post(&[], &initialize(asked)).await;
        let result = &answer.json()["result"];
        assert_eq!(result["protocolVersion"], agreed, "{asked}");
        assert_eq!(result["serverInfo"]["name"], "hawsepipe");
        let [prompts, tools] = [(); 2].map(|()| json!({"listChanged": true}));
        let resources = json!({"listChanged": true, "subscribe": true});
        let expected =
            json!({"completions": {}, "logging": {}, "prompts": prompts, "resources": resources, "tools": tools});
        assert_eq!(result["capabilities"], expected);
        assert!(answer.header("mcp-session-id").bytes().all(|b| b.is_ascii_graphic()));
        assert_eq!(answer.header("mcp-session-id").len(), 32);
    }
    // During the negotiation, the header with the version does not matter.
    for (version, agreed) in [("2024-11-05", "2024-11-05"), ("2099-01-01", "2025-11-25")] {
        let answer = gateway.post(&[("mcp-protocol-version", version)], &initialize(version)).await;
        assert_eq!(answer.json()["result"]["protocolVersion"], agreed, "{version}");
    }
}

#[tokio::test]
async fn a_session_says_which_log_messages_it_wants() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    let level = |level: serde_json::Value| json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": level}});
    for (level, code) in [(level(json!("warning")), 0), (level(json!("loud")), -32602), (level(json!(null)), -32602)] {
        let answer = gateway.post(&[("mcp-session-id", &id)], &level.to_string()).await;
        assert_eq!((answer.status, answer.code()), (StatusCode::OK, code), "{answer:?}");
    }
    let snapshot = gateway.engine.in_force.snapshot();
    let scope = SessionScope { gateway: &snapshot.plan().gateway.key, principal: "anonymous", upstream: None };
    let session = gateway.engine.gate.sessions().find(&id, scope, 0).unwrap();
    assert_eq!(session.log_level(), crate::domain::log_level::LogLevel::Warning);
}

#[tokio::test]
async fn headers_that_repeat_the_body_must_agree_with_it() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    let (session, call) = (("mcp-session-id", id.as_str()), call("up__echo", json!({})));
    let (method, name) = ("mcp-method", "mcp-name");
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    for (headers, body, status, code) in [
        (vec![], call.as_str(), 200, 0),
        (vec![(method, "tools/call"), (name, "up__echo")], &call, 200, 0),
        (vec![(name, "=?base64?dXBfX2VjaG8=?=")], &call, 200, 0),
        (vec![(method, "tools/list")], &call, 400, -32020),
        (vec![(name, "up__other")], &call, 400, -32020),
        (vec![(name, "=?base64?!?=")], &call, 400, -32020),
        (vec![(name, "\u{e9}")], &call, 400, -32020),
        (vec![(method, "tools/list")], PING, 400, -32020),
        (vec![(method, "tools/list")], &initialize("2025-11-25"), 400, -32020),
        (vec![(method, "notifications/initialized")], cancel, 400, -32020),
        (vec![(method, "notifications/cancelled")], cancel, 202, 0),
    ] {
        let headers: Vec<_> = headers.into_iter().chain([session]).collect();
        let answer = gateway.post(&headers, body).await;
        let code_sent = if answer.text.is_empty() { 0 } else { answer.code() };
        assert_eq!((answer.status.as_u16(), code_sent), (status, code), "{headers:?} {body} {answer:?}");
    }
    let mut twice = post_to("/mcp", &[session, (method, "tools/call")], &call);
    twice.headers_mut().append(method, "tools/list".parse().unwrap());
    assert_eq!(gateway.send(twice).await.status(), StatusCode::BAD_REQUEST);
    assert!(gateway.calls.all().len() == 3, "only calls whose headers agree were made");
}

/// A policy read `name` and the server `Name` (GHSA-4gph-2hhr-5mwg).
#[tokio::test]
async fn parameters_that_readers_take_in_different_ways_are_refused() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    let twice = |place: &str| format!("{place}: this key stands twice in its object: send it once");
    let no_object = |name: &str| format!("`{name}` must be an object");
    let answer = gateway.post(&[], r#"{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/call"}"#).await;
    assert_eq!((answer.code(), &answer.json()["error"]["message"]), (-32600, &json!(twice("/method"))));
    let members: Vec<_> = (0..257).map(|n| format!("\"{n}\":0")).collect();
    let many = format!(r#"{{"name":"up__echo","_meta":{{{}}}}}"#, members.join(","));
    for (params, message) in [
        (r#"{"name":"up__echo","name":"up__other"}"#, twice("params/name")),
        (r#"{"name":"up__echo","_meta":{},"_meta":{}}"#, twice("params/_meta")),
        (r#"{"name":"up__echo","_meta":{"progressToken":1,"progressToken":2}}"#, twice("params/_meta/progressToken")),
        (r#"{"name":"up__echo","_meta":{"a":[{"b":1,"\u0062":2}]}}"#, twice("params/_meta/a/0/b")),
        (r#"{"name":"up__echo","_meta":[]}"#, no_object("params/_meta")),
        (r#"{"name":"up__echo","_meta":"x"}"#, no_object("params/_meta")),
        (&*many, "`params/_meta` has more than 256 members".to_owned()),
        ("[]", no_object("params")),
    ] {
        for method in ["tools/call", "tools/list", "ping"] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#);
            let answer = gateway.post(&[("mcp-session-id", &id)], &body).await;
            assert_eq!((answer.code(), &answer.json()["id"]), (-32602, &json!(7)), "{body} {answer:?}");
            assert_eq!(answer.json()["error"]["message"], message, "{body}");
        }
    }
    let absent = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"up__echo","_meta":null}}"#;
    assert_eq!(gateway.post(&[("mcp-session-id", &id)], absent).await.code(), 0);
    assert_eq!(gateway.calls.all().len(), 1, "a refused request is not a call");
}

#[tokio::test]
async fn a_call_that_panics_is_answered_and_recorded() {
    let gateway = Gateway::start().await;
    gateway.server.panics.store(true, Ordering::Relaxed);
    let id = gateway.session().await;
    // One tool panics before anything was sent, the other within a stream of events.
    for (tool, meta, kind) in [
        ("up__echo", json!({}), "application/json"),
        ("up__progress", json!({"progressToken": 1}), "text/event-stream"),
    ] {
        let answer = gateway.post(&[("mcp-session-id", &id)], &call(tool, meta)).await;
        assert_eq!((answer.status, answer.header("content-type")), (StatusCode::OK, kind));
        assert!(answer.text.contains(r#""id":7,"error":{"code":-32603"#), "{answer:?}");
    }
    let calls = gateway.calls.all();
    assert_eq!(calls.iter().map(|c| c.reason.as_deref()).collect::<Vec<_>>(), [Some("Panicked"); 2]);
    gateway.server.panics.store(false, Ordering::Relaxed);
    let next = gateway.post(&[("mcp-session-id", &id)], &call("up__echo", json!({}))).await;
    assert_eq!((next.status, next.code()), (StatusCode::OK, 0));
}

#[tokio::test]
async fn whatever_panics_is_answered() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    gateway.clock.break_it();
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    for (body, status, id_sent) in [(PING, 200, json!(1)), (initialized, 500, json!(null))] {
        let answer = gateway.post(&[("mcp-session-id", &id)], body).await;
        assert_eq!((answer.status.as_u16(), answer.code(), &answer.json()["id"]), (status, -32603, &id_sent), "{body}");
    }
}

#[tokio::test]
async fn a_session_is_needed_until_it_ends() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    let (session, version) = (("mcp-session-id", id.as_str()), "mcp-protocol-version");
    for (headers, status) in [
        (vec![session], StatusCode::OK),
        (vec![session, (version, "2025-11-25")], StatusCode::OK),
        (vec![session, (version, "2024-10-07")], StatusCode::BAD_REQUEST),
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
    // Names may contain JSON escapes, and forwarded values keep their exact bytes.
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
        ("resources/subscribe", json!({}), -32602),
        ("resources/nothing", json!({}), -32601),
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
    // The first event has only an id to come back with, and a time.
    let (id, retry) = events[0].split_once('\n').unwrap();
    let exchange = id.strip_prefix("id: ").and_then(|id| id.strip_suffix(".0")).unwrap();
    assert_eq!(retry, "retry: 1000\ndata: ");
    let progress = r#"event: message
data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1,"total": 2.0}}"#;
    assert_eq!((events.len(), events[1]), (4, &*format!("id: {exchange}.1\n{progress}")));
    assert!(events[3].contains(r#""id":7,"result""#) && events[3].ends_with(&format!("\nid: {exchange}.3")));
    // A client that accepts no events, or sends no token, gets only the answer.
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
async fn a_session_is_not_idle_before_its_stream_has_ended() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    gateway.post(&[("mcp-session-id", &id)], r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    let stream = gateway.send(request("GET", "/mcp", &[("mcp-session-id", &id)], "")).await;
    let idle_ms = u64::from(plan().gateway.session_idle_seconds) * 1000;
    let sessions_after = |millis| {
        gateway.clock.pass(millis);
        gateway.engine.expire();
        gateway.engine.gate.sessions().count()
    };
    assert_eq!(sessions_after(idle_ms), 1, "its stream is open");
    drop(stream);
    assert_eq!((sessions_after(idle_ms - 1), sessions_after(1)), (1, 0), "its time begins with the end of the stream");
}

#[tokio::test]
async fn a_client_that_takes_no_events_is_sent_no_messages_before_its_answer() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    let params = json!({"name": "up__progress", "_meta": {"progressToken": 1}});
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
    for (accept, wanted) in [("application/json", false), ("application/json, text/event-stream", true)] {
        let answer = gateway.post(&[("mcp-session-id", &id), ("accept", accept)], &body).await;
        assert_eq!((answer.status, answer.text.contains("event:")), (StatusCode::OK, wanted), "{answer:?}");
        assert_eq!(gateway.server.wanted.lock().unwrap().pop(), Some((wanted, wanted)));
    }
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

#[tokio::test]
async fn a_version_header_that_a_proxy_doubled_or_a_newer_client_sends_is_taken_in_a_session() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    for (version, status) in [
        ("2025-11-25", 200),
        ("2025-11-25, 2025-11-25", 200),
        ("2025-11-25,2025-11-25,2025-11-25", 200),
        ("2099-01-01", 200),
        ("2025-11-25, 2025-06-18", 400),
        ("2024-10-07", 400),
        ("newest", 400),
    ] {
        let answer = gateway.post(&[("mcp-session-id", &id), ("mcp-protocol-version", version)], PING).await;
        assert_eq!(answer.status.as_u16(), status, "{version}");
    }
}

#[tokio::test]
async fn a_client_that_first_asks_what_the_server_is_goes_on_with_a_session() {
    let gateway = Gateway::start().await;
    let discover = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#;
    let answer = gateway.post(&[], discover).await;
    assert_eq!((answer.status, answer.code()), (StatusCode::BAD_REQUEST, -32601), "{answer:?}");
    let id = gateway.session().await;
    let answer = gateway.post(&[("mcp-session-id", &id)], discover).await;
    assert_eq!((answer.status, answer.code()), (StatusCode::OK, -32601), "{answer:?}");
    assert_eq!(gateway.post(&[("mcp-session-id", &id)], PING).await.code(), 0);
}

#[tokio::test]
async fn capabilities_that_are_no_objects_begin_no_session() {
    let gateway = Gateway::start().await;
    for (capabilities, named) in [
        (json!({"sampling": 3}), Some("`capabilities.sampling` must be an object")),
        (json!({"elicitation": []}), Some("`capabilities.elicitation` must be an object")),
        (json!("all"), Some("`capabilities` must be an object")),
        (json!({"sampling": null, "elicitation": {"form": {}}, "experimental": {}}), None),
    ] {
        let mut body: serde_json::Value = serde_json::from_str(&initialize("2025-11-25")).unwrap();
        body["params"]["capabilities"] = capabilities;
        let answer = gateway.post(&[], &body.to_string()).await;
        assert_eq!(answer.headers.contains_key("mcp-session-id"), named.is_none(), "{}", answer.text);
        let answer = answer.json();
        if let Some(named) = named {
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
            assert!(answer["error"]["message"].as_str().unwrap().starts_with(named), "{answer}");
        }
    }
}
