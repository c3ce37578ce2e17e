//! An MCP server that restarts and speaks another era of the protocol afterwards. Its only tool, `whoami`, answers with
//! the `X-Key` that it was called with.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The era that it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// MCP 2025-11-25: sessions.
    Legacy,
    /// MCP 2026-07-28: stateless.
    Modern,
}

/// A running server.
pub struct ChangingServer {
    address: SocketAddr,
    era: Era,
    /// Dropped, the listener and all connections are closed.
    connections: JoinSet<()>,
}

impl ChangingServer {
    /// Starts it on a free port of loopback, in the legacy era.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let era = Era::Legacy;
        Self { address, era, connections: serve(listener, era) }
    }

    /// Its URL, the same after each restart.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Ends it with all its connections and sessions, and starts it in the other era.
    pub async fn restart_in_other_era(&mut self) {
        self.connections.shutdown().await;
        self.era = if self.era == Era::Legacy { Era::Modern } else { Era::Legacy };
        self.connections = serve(bind_again(self.address).await, self.era);
    }
}

/// Listens on an address that an outgoing connection can have for a moment.
async fn bind_again(address: SocketAddr) -> TcpListener {
    for _ in 0..200 {
        if let Ok(listener) = TcpListener::bind(address).await {
            return listener;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{address} is not free");
}

fn serve(listener: TcpListener, era: Era) -> JoinSet<()> {
    let sessions = Arc::<Sessions>::default();
    let answer = move |headers: HeaderMap, body: String| {
        let sessions = Arc::clone(&sessions);
        async move { answer(era, &sessions, &headers, &body) }
    };
    let router = Router::new().route("/mcp", post(answer));
    let mut accepting = JoinSet::new();
    accepting.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(router.clone());
            connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    accepting
}

#[derive(Default)]
struct Sessions(Mutex<HashSet<String>>);

impl Sessions {
    fn begin(&self) -> String {
        let id = uuid::Uuid::new_v4().to_string();
        self.0.lock().unwrap().insert(id.clone());
        id
    }

    fn has(&self, id: &str) -> bool {
        self.0.lock().unwrap().contains(id)
    }
}

fn answer(era: Era, sessions: &Sessions, headers: &HeaderMap, body: &str) -> Response {
    let message: Value = serde_json::from_str(body).unwrap();
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or_default();
    match era {
        Era::Modern if header("mcp-protocol-version") != "2026-07-28" => unsupported(&message["id"]),
        Era::Legacy if method == "initialize" => {
            let mut response = result(&message["id"], method, header("x-key"));
            response.headers_mut().insert("mcp-session-id", sessions.begin().parse().unwrap());
            response
        }
        Era::Legacy if header("mcp-session-id").is_empty() => (StatusCode::BAD_REQUEST, "no session").into_response(),
        Era::Legacy if !sessions.has(header("mcp-session-id")) => (StatusCode::NOT_FOUND, "ended").into_response(),
        _ if message.get("id").is_none() => StatusCode::ACCEPTED.into_response(),
        _ => result(&message["id"], method, header("x-key")),
    }
}

/// MCP 2026-07-28, versioning: what a modern server answers a client of another version.
fn unsupported(id: &Value) -> Response {
    let data = json!({"supported": ["2026-07-28"]});
    let error = json!({"code": -32022, "message": "Unsupported protocol version", "data": data});
    (StatusCode::BAD_REQUEST, axum::Json(json!({"jsonrpc": "2.0", "id": id, "error": error}))).into_response()
}

fn result(id: &Value, method: &str, key: &str) -> Response {
    let tools = json!({"tools": {}});
    let result = match method {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": tools}),
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": tools,
            "serverInfo": {"name": "changing", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": "whoami", "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true}}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": key}], "_meta": {"key": key}}),
        _ => json!({}),
    };
    axum::Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
}
