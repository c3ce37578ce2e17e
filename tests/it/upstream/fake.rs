//! A fake HTTP server: no real one misbehaves on demand. The test says how it answers each request.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Response};
use axum::serve::ListenerExt;
use serde_json::{Value, json};

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Seen {
    /// The JSON-RPC method; empty where there is none.
    pub fn rpc(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    /// A header's text; empty where it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }
}

/// A running fake.
#[derive(Clone)]
pub struct Fake {
    pub url: String,
    pub connections: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Fake {
    /// Answers every request with what `handler` makes of it.
    pub async fn start(handler: impl Fn(&Seen) -> Response<Body> + Clone + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let fake = Self { url, connections: Arc::default(), seen: Arc::default() };
        let (connections, seen) = (Arc::clone(&fake.connections), Arc::clone(&fake.seen));
        let app =
            Router::new().fallback(move |method: Method, uri: axum::http::Uri, headers: HeaderMap, body: Bytes| {
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let request = Seen { method, path: uri.path().to_owned(), headers, body };
                seen.lock().unwrap().push(request.clone());
                let response = handler(&request);
                async move { response }
            });
        let listener = listener.tap_io(move |_| {
            connections.fetch_add(1, Ordering::SeqCst);
        });
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        fake
    }

    /// A legacy server with sessions and without a stream, whose tool calls `handler` answers.
    pub async fn legacy(handler: impl Fn(&Seen) -> Response<Body> + Clone + Send + Sync + 'static) -> Self {
        Self::start(move |seen| legacy_or(seen, &handler)).await
    }

    /// All requests so far with this JSON-RPC method.
    pub fn seen(&self, rpc: &str) -> Vec<Seen> {
        self.all().into_iter().filter(|s| s.rpc() == rpc).collect()
    }

    /// All requests so far.
    pub fn all(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

/// What a well-behaved legacy server says to all but tool calls.
pub fn legacy_or(seen: &Seen, handler: &impl Fn(&Seen) -> Response<Body>) -> Response<Body> {
    match (seen.method.as_str(), seen.rpc()) {
        ("GET", _) => status(405),
        ("DELETE", _) => status(200),
        (_, "server/discover") => status(400),
        (_, "initialize") => {
            let info = json!({"name": "fake", "version": "1"});
            let tools = json!({"tools": {"listChanged": true}});
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": tools, "serverInfo": info});
            let mut response = answer(seen, &result.to_string());
            response.headers_mut().insert("mcp-session-id", "s1".parse().unwrap());
            response
        }
        (_, "ping") => answer(seen, "{}"),
        (_, "tools/call") => handler(seen),
        _ => status(202),
    }
}

/// An empty response.
pub fn status(code: u16) -> Response<Body> {
    Response::builder().status(code).body(Body::empty()).unwrap()
}

/// A response with a body.
pub fn typed(code: u16, kind: &str, body: impl Into<Body>) -> Response<Body> {
    Response::builder().status(code).header("content-type", kind).body(body.into()).unwrap()
}

/// A JSON answer to the request.
pub fn answer(seen: &Seen, result: &str) -> Response<Body> {
    typed(200, "application/json", answer_text(seen, result))
}

/// Its text.
pub fn answer_text(seen: &Seen, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, seen.body["id"])
}

/// An event stream of these messages that ends after them.
pub fn events(messages: &[String]) -> Response<Body> {
    let text: String = messages.iter().map(|m| format!("event: message\ndata: {m}\n\n")).collect();
    typed(200, "text/event-stream", text)
}

/// A body of this piece again and again.
pub fn endless(piece: &'static str) -> Body {
    Body::from_stream(futures_util::stream::repeat_with(move || Ok::<_, std::io::Error>(piece)))
}
