//! Raw requests, where a test needs to see the bytes.

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{HeaderMap, Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// An answer as it came.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    /// Its body as JSON; of an event stream, that of its last event.
    pub fn json(&self) -> Value {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data:")).next_back();
        serde_json::from_str(data.unwrap_or(&self.body)).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }
}

/// A client that keeps its connections.
#[derive(Clone)]
pub struct Http(Client<HttpConnector, Full<Bytes>>);

impl Http {
    pub fn new() -> Self {
        Self(Client::builder(TokioExecutor::new()).build_http())
    }

    /// Sends a request.
    pub async fn send(&self, method: Method, url: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.0.request(request.body(Full::new(body.into())).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    /// A GET.
    pub async fn get(&self, url: &str) -> Answer {
        self.send(Method::GET, url, &[], Bytes::new()).await
    }

    /// A stateless `tools/call`, its arguments as raw JSON text.
    pub async fn call_raw(&self, url: &str, tool: &str, arguments: &str, meta: &Value) -> Answer {
        let mut all = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        for (key, value) in meta.as_object().unwrap() {
            all[key] = value.clone();
        }
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":{},"arguments":{arguments},"_meta":{all}}}}}"#,
            json!(tool)
        );
        let headers = [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", tool),
        ];
        self.send(Method::POST, url, &headers, body).await
    }

    /// A stateless `tools/call`; what came back as JSON.
    pub async fn call(&self, url: &str, tool: &str, arguments: &Value, meta: &Value) -> Value {
        self.call_raw(url, tool, &arguments.to_string(), meta).await.json()
    }
}
