//! An MCP server that gives away the `X-Key` that it was called with, in every way that it can answer.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Its tools. Those of plugins only say the key, as `act` does.
pub const TOOLS: [&str; 6] = ["whoami", "fails", "errs", "locks", "breaks", "tears"];

/// Starts one on loopback. At `/up` it serves; at `/locks`, `/breaks`, `/tears` and `/errs` it only answers so.
pub async fn start() -> String {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let router = Router::new().route("/{way}", post(answer));
    tokio::spawn(async move { axum::serve(socket, router).await });
    url
}

async fn answer(Path(way): Path<String>, headers: HeaderMap, body: String) -> Response {
    let key = headers.get("x-key").map_or("nobody", |key| key.to_str().unwrap()).to_owned();
    let message: Value = serde_json::from_str(&body).unwrap();
    let Some(id) = message.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let result = match message["method"].as_str().unwrap() {
        _ if way != "up" => return badly(&way, id, &key),
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": format!("for {key}"), "version": key},
        }),
        "tools/list" => {
            let names = TOOLS.iter().chain(&["act", "once", "never", "exits"]);
            let tools: Vec<_> = names.map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
            json!({"tools": tools})
        }
        "tools/call" => match message["params"]["name"].as_str().unwrap() {
            "fails" => json!({"content": [{"type": "text", "text": key}], "isError": true}),
            way @ ("errs" | "locks" | "breaks" | "tears") => return badly(way, id, &key),
            _ => json!({"content": [{"type": "text", "text": key}]}),
        },
        _ => json!({}),
    };
    axum::Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
}

fn badly(way: &str, id: &Value, key: &str) -> Response {
    let says =
        |status: StatusCode| (status, [(header::WWW_AUTHENTICATE, format!("Bearer realm=\"{key}\""))], key.to_owned());
    match way {
        "locks" => says(StatusCode::UNAUTHORIZED).into_response(),
        "breaks" => says(StatusCode::INTERNAL_SERVER_ERROR).into_response(),
        "tears" => ([(header::CONTENT_TYPE, "application/json")], format!("{{\"key\": \"{key}")).into_response(),
        _ => {
            let error = json!({"code": -32000, "message": format!("not for {key}"), "data": key});
            axum::Json(json!({"jsonrpc": "2.0", "id": id, "error": error})).into_response()
        }
    }
}
