//! An MCP server of one tool, `whoami`: it says with which `X-Key` it was called.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Starts one on loopback; it lives as long as the test's runtime.
pub async fn start() -> String {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", socket.local_addr().unwrap());
    let router = Router::new().route("/mcp", post(answer));
    tokio::spawn(async move { axum::serve(socket, router).await });
    url
}

/// One that can be out of order: then it answers 503.
pub async fn breakable() -> (String, Arc<AtomicBool>) {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", socket.local_addr().unwrap());
    let broken = Arc::new(AtomicBool::new(true));
    let state = Arc::clone(&broken);
    let respond = move |headers: HeaderMap, body: String| {
        let broken = state.load(Ordering::Relaxed);
        async move { if broken { StatusCode::SERVICE_UNAVAILABLE.into_response() } else { answer(headers, body).await } }
    };
    let router = Router::new().route("/mcp", post(respond));
    tokio::spawn(async move { axum::serve(socket, router).await });
    (url, broken)
}

async fn answer(headers: HeaderMap, body: String) -> Response {
    let message: Value = serde_json::from_str(&body).unwrap();
    let Some(id) = message.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "whoami", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": "whoami", "inputSchema": {"type": "object"}}]}),
        "tools/call" => {
            let key = headers.get("x-key").map_or("nobody", |key| key.to_str().unwrap());
            json!({"content": [{"type": "text", "text": key}]})
        }
        _ => json!({}),
    };
    axum::Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
}
