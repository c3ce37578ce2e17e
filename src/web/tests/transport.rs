//! The checks of HTTP requests: hosts, origins, paths, bodies and content types.

use axum::http::StatusCode;
use serde_json::json;

use super::gateway::{Gateway, initialize, listener, plan, post_to, read, request};

/// A page of another site reached a server on loopback by DNS rebinding (CVE-2026-42559).
#[tokio::test]
async fn hosts_and_origins_are_those_of_the_plan_in_force() {
    let gateway = Gateway::start().await;
    for (headers, status) in [
        (vec![("host", "127.0.0.1:8080")], 200),
        (vec![("host", "mcp.example:443")], 200),
        (vec![("host", "evil.example")], 403),
        (vec![("host", "")], 403),
        (vec![("origin", "https://page.example")], 200),
        (vec![("origin", "https://page.example.evil")], 403),
        (vec![("origin", "null")], 403),
        (vec![("host", "localhost:8080"), ("origin", "http://localhost:8080")], 200),
        (vec![("host", "mcp.example"), ("origin", "https://MCP.example")], 200),
        (vec![("host", "localhost:8080"), ("origin", "http://localhost:3000")], 403),
        (vec![("host", "localhost:8080"), ("origin", "localhost:8080")], 403),
        (vec![("host", "evil.example"), ("origin", "http://evil.example")], 403),
    ] {
        let answer = gateway.post(&headers, &initialize("2025-11-25")).await;
        assert_eq!(answer.status.as_u16(), status, "{headers:?}");
    }
    let page = gateway.post(&[("origin", "https://page.example")], &initialize("2025-11-25")).await;
    assert_eq!(page.header("access-control-allow-origin"), "https://page.example");
    assert_eq!(page.header("access-control-expose-headers"), "Mcp-Session-Id, WWW-Authenticate");
    let asked = [
        ("origin", "https://page.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "mcp-session-id"),
    ];
    let preflight = gateway.send(request("OPTIONS", "/mcp", &asked, "")).await;
    assert_eq!(preflight.status(), StatusCode::NO_CONTENT);
    assert_eq!(preflight.headers()["access-control-allow-headers"], "mcp-session-id");
    let mut changed = plan();
    changed.gateway.listeners[0].allowed_origins.clear();
    gateway.apply(changed).await;
    let page = gateway.post(&[("origin", "https://page.example")], &initialize("2025-11-25")).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn paths() {
    let gateway = Gateway::start().await;
    let at = async |path: &str| read(gateway.send(post_to(path, &[], &initialize("2025-11-25"))).await).await;
    for (path, status) in [
        ("/mcp", 200),
        ("/up/mcp", 200),
        ("/other/mcp", 404),
        ("/mcp/", 200),
        ("/up/mcp/", 200),
        ("/mcp//", 404),
        ("/", 404),
        ("/a/up/mcp", 404),
        ("/up", 404),
    ] {
        assert_eq!(at(path).await.status.as_u16(), status, "{path}");
    }
    let id = at("/up/mcp").await.header("mcp-session-id").to_owned();
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let own = read(gateway.send(post_to("/up/mcp", &[("mcp-session-id", &id)], list)).await).await;
    assert_eq!(own.json()["result"]["tools"][0]["name"], "echo");
    let mut moved = plan();
    moved.gateway.listeners = vec![crate::domain::plan::ListenerPlan { path: "/tools/mcp".into(), ..listener() }];
    gateway.apply(moved).await;
    assert_eq!(at("/mcp").await.status, StatusCode::NOT_FOUND);
    assert_eq!(at("/tools/mcp").await.status, StatusCode::OK);
    assert_eq!(at("/tools/up/mcp").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_request_that_this_process_sent_is_not_answered_and_one_of_another_gateway_is() {
    let gateway = Gateway::start().await;
    for (sender, status) in [("this", 508), ("other", 200)] {
        let answer = gateway.post(&[("hawsepipe-instance", sender)], &initialize("2025-11-25")).await;
        assert_eq!(answer.status.as_u16(), status, "{sender}");
    }
}

#[tokio::test]
async fn bodies_that_are_no_message() {
    let gateway = Gateway::start().await;
    let large = format!("\"{}\"", "x".repeat(64 * 1024));
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{}{}}}}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    for (body, status, code) in [
        ("", 400, -32700),
        ("{", 400, -32700),
        ("\u{1}", 400, -32700),
        ("1", 400, -32600),
        ("{}", 400, -32600),
        ("[]", 400, -32600),
        (r#" [{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, 400, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, 400, -32600),
        (r#"{"id":1,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, 400, -32602),
        (deep.as_str(), 400, -32600),
        (large.as_str(), 413, -32600),
    ] {
        let answer = gateway.post(&[], body).await;
        let shown: String = body.chars().take(80).collect();
        assert_eq!((answer.status.as_u16(), answer.code()), (status, code), "{shown} {answer:?}");
    }
    let id_kept = gateway.post(&[], r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#).await;
    assert_eq!(id_kept.json()["id"], json!("a"));
}

#[tokio::test]
async fn kinds_of_content() {
    let gateway = Gateway::start().await;
    for (header, value, status) in [
        ("content-type", "application/json; charset=utf-8", 200),
        ("content-type", "Application/JSON", 200),
        ("content-type", "", 415),
        ("content-type", "text/plain", 415),
        ("accept", "", 200),
        ("accept", "*/*", 200),
        ("accept", "application/*;q=0.5", 200),
        ("accept", "application/json", 200),
        ("accept", "text/event-stream", 406),
        ("accept", "text/html", 406),
    ] {
        let answer = gateway.post(&[(header, value)], &initialize("2025-11-25")).await;
        assert_eq!(answer.status.as_u16(), status, "{header}: {value}");
    }
    let put = gateway.send(request("PUT", "/mcp", &[], "")).await;
    assert_eq!((put.status().as_u16(), &put.headers()["allow"]), (405, &"GET, POST, DELETE".parse().unwrap()));
}

#[tokio::test]
async fn a_body_that_is_encoded_is_refused() {
    let gateway = Gateway::start().await;
    for (coding, status) in [("gzip", 415), ("identity, BR", 415), ("identity", 200), ("", 200)] {
        let answer = gateway.post(&[("content-encoding", coding)], &initialize("2025-11-25")).await;
        assert_eq!(answer.status.as_u16(), status, "{coding} {answer:?}");
        if status == 415 {
            assert_eq!(answer.header("accept-encoding"), "identity");
            assert!(answer.text.contains("Content-Encoding"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn an_id_has_at_most_1024_characters() {
    let gateway = Gateway::start().await;
    let session = gateway.session().await;
    for (length, status) in [(1024, 200), (1025, 400)] {
        let id = "x".repeat(length);
        let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
        let answer = gateway.post(&[("mcp-session-id", &session)], &ping).await;
        assert_eq!(answer.status.as_u16(), status, "{answer:?}");
        assert_eq!(answer.json()["id"], if status == 200 { json!(id) } else { json!(null) });
    }
}
