//! The modern era: checks of the envelope with their statuses and codes, discovery, and calls that end when their
//! client disconnects.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::gateway::{Gateway, call, request};

const VERSION: &str = "2026-07-28";

fn envelope() -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}})
}

/// Returns a request with a valid envelope.
fn modern(method: &str, mut params: Value) -> String {
    params["_meta"] = envelope();
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string()
}

fn headers<'a>(method: &'a str, name: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![("mcp-protocol-version", VERSION), ("mcp-method", method), ("mcp-name", name)]
}

#[tokio::test]
async fn discovery_and_lists_say_how_long_they_may_be_kept() {
    let gateway = Gateway::start().await;
    let answer = gateway.post(&headers("server/discover", ""), &modern("server/discover", json!({}))).await;
    let result = &answer.json()["result"];
    assert_eq!(result["supportedVersions"], json!([VERSION]));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "hawsepipe");
    assert_eq!((&result["resultType"], &result["cacheScope"]), (&json!("complete"), &json!("public")));
    let list = gateway.post(&headers("tools/list", ""), &modern("tools/list", json!({}))).await;
    let result = &list.json()["result"];
    assert_eq!((&result["ttlMs"], &result["tools"][0]["name"]), (&json!(5000), &json!("up__echo")));
    assert_eq!(list.header("mcp-session-id"), "");
}

#[tokio::test]
async fn a_call_is_answered_complete() {
    let gateway = Gateway::start().await;
    for name in ["up__echo", "=?base64?dXBfX2VjaG8=?="] {
        let body = modern("tools/call", json!({"name": "up__echo", "arguments": {"a": 1}}));
        let answer = gateway.post(&headers("tools/call", name), &body).await;
        let expected =
            r#"{"jsonrpc":"2.0","id":7,"result":{"content":[], "n": 1.0,"got":{"a":1},"resultType":"complete"}}"#;
        assert_eq!((answer.status, answer.text.as_str()), (StatusCode::OK, expected));
    }
}

/// The headers and the body of a request, and the expected status and error code of the answer.
type Case = (Vec<(&'static str, &'static str)>, String, u16, i64);

async fn try_all(gateway: &Gateway, cases: Vec<Case>) {
    for (headers, body, status, code) in cases {
        let answer = gateway.post(&headers, &body).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (status, code), "{headers:?} {body}\n{answer:?}");
    }
}

/// Returns a call of `up__echo` whose envelope has this value for `key`; `None` removes the key.
fn echo_with(key: &str, value: Option<Value>) -> String {
    let mut body: Value = serde_json::from_str(&modern("tools/call", json!({"name": "up__echo"}))).unwrap();
    let meta = body["params"]["_meta"].as_object_mut().unwrap();
    match value {
        Some(value) => drop(meta.insert(key.to_owned(), value)),
        None => drop(meta.remove(key)),
    }
    body.to_string()
}

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

#[tokio::test]
async fn the_envelope_is_checked() {
    let gateway = Gateway::start().await;
    let ok = || headers("tools/call", "up__echo");
    let bare = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "up__echo"}});
    let cases = vec![
        (ok(), modern("tools/call", json!({"name": "up__echo"})), 200, 0),
        (ok(), echo_with(VERSION_KEY, None), 400, -32602),
        (ok(), echo_with("io.modelcontextprotocol/clientCapabilities", None), 400, -32602),
        (ok(), echo_with("io.modelcontextprotocol/clientCapabilities", Some(json!([]))), 400, -32602),
        (ok(), echo_with("io.modelcontextprotocol/clientCapabilities", Some(json!({"sampling": 3}))), 400, -32602),
        (ok(), echo_with("io.modelcontextprotocol/clientCapabilities", Some(json!({"sampling": {}}))), 200, 0),
        (ok(), echo_with("io.modelcontextprotocol/logLevel", Some(json!("loud"))), 400, -32602),
        (ok(), echo_with("io.modelcontextprotocol/logLevel", Some(json!("info"))), 200, 0),
        (ok(), echo_with("progressToken", Some(json!({"a": 1}))), 400, -32602),
        (ok(), echo_with("progressToken", Some(json!(7))), 200, 0),
        (ok(), bare.to_string(), 400, -32602),
        (ok(), echo_with(VERSION_KEY, Some(json!("2099-01-01"))), 400, -32020),
        (ok(), echo_with(VERSION_KEY, Some(json!(1))), 400, -32020),
        (ok(), r#"{"jsonrpc":"2.0","id":5,"result":{}}"#.to_owned(), 400, -32600),
    ];
    try_all(&gateway, cases).await;
}

#[tokio::test]
async fn headers_must_say_what_the_body_says() {
    let gateway = Gateway::start().await;
    for (with, lacks) in [("mcp-name", "mcp-method"), ("mcp-method", "mcp-name")] {
        let value = if with == "mcp-name" { "up__echo" } else { "tools/call" };
        let sent = [("mcp-protocol-version", VERSION), (with, value)];
        let answer = gateway.post(&sent, &modern("tools/call", json!({"name": "up__echo"}))).await;
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with(&format!("the {lacks} header is missing")), "{message}");
    }
    let (m, name) = ("tools/call", "up__echo");
    let of_version = |version| vec![("mcp-protocol-version", version), ("mcp-method", m), ("mcp-name", name)];
    let good = || modern(m, json!({"name": name}));
    let cases = vec![
        (of_version(""), good(), 400, -32020),
        (of_version("2025-11-25"), good(), 400, -32020),
        (headers("", name), good(), 400, -32020),
        (headers("tools/list", name), good(), 400, -32020),
        (headers(m, ""), good(), 400, -32020),
        (headers(m, "up__other"), good(), 400, -32020),
        (headers(m, "=?base64?!?="), good(), 400, -32020),
        (headers("ping", ""), modern("ping", json!({})), 404, -32601),
        (headers("tasks/list", ""), modern("tasks/list", json!({})), 404, -32601),
        (headers(m, "gone"), modern(m, json!({"name": "gone"})), 400, -32602),
        (headers(m, "up__fails"), modern(m, json!({"name": "up__fails"})), 200, -32602),
    ];
    try_all(&gateway, cases).await;
    let unspoken = echo_with(VERSION_KEY, Some(json!("2099-01-01")));
    let answer = gateway.post(&of_version("2099-01-01"), &unspoken).await;
    assert_eq!((answer.status, answer.code()), (StatusCode::BAD_REQUEST, -32022), "{answer:?}");
    assert_eq!(answer.json()["error"]["data"], json!({"supported": [VERSION], "requested": "2099-01-01"}));
    let mut twice = super::gateway::post_to("/mcp", &headers(m, name), &good());
    twice.headers_mut().append("mcp-method", m.parse().unwrap());
    assert_eq!(gateway.send(twice).await.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn mirrored_arguments_must_match() {
    let gateway = Gateway::start().await;
    let (region, n) = ("mcp-param-region", "mcp-param-n");
    for (arguments, sent, status) in [
        (json!({"region": "eu", "n": 42}), vec![(region, "eu"), (n, "42")], 200),
        (json!({"region": "eu"}), vec![(region, "=?base64?ZXU=?=")], 200),
        (json!({"n": 42}), vec![(n, "42.0")], 200),
        (json!({"region": null}), vec![], 200),
        (json!({}), vec![], 200),
        (json!({"region": "eu"}), vec![], 400),
        (json!({"region": "eu"}), vec![(region, "us")], 400),
        (json!({"region": "eu"}), vec![(region, "=?base64?!?=")], 400),
        (json!({}), vec![(region, "eu")], 400),
        (json!({"n": 42}), vec![(n, "43")], 400),
    ] {
        let body = modern("tools/call", json!({"name": "up__region", "arguments": arguments}));
        let mut all = headers("tools/call", "up__region");
        all.extend(&sent);
        let answer = gateway.post(&all, &body).await;
        let code = if status == 200 { 0 } else { -32020 };
        assert_eq!((answer.status.as_u16(), answer.code()), (status, code), "{arguments} {sent:?} {answer:?}");
    }
}

#[tokio::test]
async fn mirrored_arguments_are_compared_once_an_upstream_that_was_never_tried_has_been() {
    let gateway = Gateway::start().await;
    let body = modern("tools/call", json!({"name": "up__region", "arguments": {"region": "eu"}}));
    let mut headers = headers("tools/call", "up__region");
    headers.push(("mcp-param-region", "us"));
    let answer = gateway.post(&headers, &body).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (400, -32020), "{answer:?}");
    assert_eq!(gateway.calls.all()[0].reason.as_deref(), Some("HeaderMismatch"));
}

#[tokio::test]
async fn only_posts_are_served_and_notifications_taken() {
    let gateway = Gateway::start().await;
    for method in ["GET", "DELETE", "PUT"] {
        let response = gateway.send(request(method, "/mcp", &[("mcp-protocol-version", VERSION)], "")).await;
        assert_eq!(
            (response.status(), &response.headers()["allow"]),
            (StatusCode::METHOD_NOT_ALLOWED, &"POST".parse().unwrap())
        );
    }
    let body = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    assert_eq!(gateway.post(&[("mcp-protocol-version", VERSION)], body).await.status, StatusCode::ACCEPTED);
    let other = [("mcp-protocol-version", VERSION), ("mcp-method", "notifications/initialized")];
    assert_eq!(gateway.post(&other, body).await.code(), -32020);
    let unknown = gateway.post(&[("mcp-protocol-version", "2099-01-01")], body).await;
    assert_eq!((unknown.status, unknown.code()), (StatusCode::BAD_REQUEST, -32022));
}

#[tokio::test]
async fn a_client_that_goes_cancels() {
    let gateway = Gateway::start().await;
    let mut meta = envelope();
    meta["progressToken"] = json!(1);
    for body in [call("up__wait", meta), call("up__wait", envelope())] {
        let headers = headers("tools/call", "up__wait");
        tokio::select! {
            _ = gateway.post(&headers, &body) => panic!("it was to wait"),
            () = gateway.server.began.notified() => {}
        }
        gateway.server.dropped.notified().await;
    }
}

#[tokio::test]
async fn progress_is_streamed() {
    let gateway = Gateway::start().await;
    let mut meta = envelope();
    meta["progressToken"] = json!(1);
    let answer = gateway.post(&headers("tools/call", "up__progress"), &call("up__progress", meta)).await;
    assert_eq!(answer.text.matches("notifications/progress").count(), 2);
    assert!(answer.text.contains(r#""resultType":"complete""#));
}
