//! A client of the newest protocol that keeps its connections and needs little of a machine: for many calls.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;

use super::process::Gateway;

/// How long an answer may take. No plugin and no upstream of these tests takes nearly as long.
const PATIENCE: Duration = Duration::from_secs(20);

/// Calls one tool of one gateway.
#[derive(Clone)]
pub struct Caller {
    http: Client<HttpConnector, Full<Bytes>>,
    url: String,
    tool: String,
    arguments: Value,
    section: Value,
    token: Option<String>,
}

impl Caller {
    /// Calls `tool` of the gateway where it listens now.
    pub async fn new(gateway: &Gateway, tool: &str) -> Self {
        let url = format!("http://{}/mcp", gateway.endpoint().await);
        let http = Client::builder(TokioExecutor::new()).build_http();
        Self { http, url, tool: tool.to_owned(), arguments: json!({}), section: Value::Null, token: None }
    }

    /// The same with arguments.
    pub fn with(self, arguments: Value) -> Self {
        Self { arguments, ..self }
    }

    /// The same from a section of a document.
    pub fn in_section(self, section: Value) -> Self {
        Self { section, ..self }
    }

    /// The same with a bearer token.
    #[allow(dead_code)] // The benchmark sends none.
    pub fn with_token(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    /// The text of the tool's answer, or what came in its place.
    pub async fn call(&self) -> Result<String, String> {
        let answer: Value = serde_json::from_str(&self.exchange().await?).map_err(|error| error.to_string())?;
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().filter(|_| result["isError"] != true);
        text.map(str::to_owned).ok_or_else(|| answer.to_string())
    }

    /// The answer to a request for the list of tools.
    #[allow(dead_code)] // The benchmark does not ask.
    pub async fn list(&self) -> Result<Value, String> {
        serde_json::from_str(&self.request("tools/list").await?).map_err(|error| error.to_string())
    }

    /// The message that answers a call, as it came.
    pub async fn exchange(&self) -> Result<String, String> {
        self.request("tools/call").await
    }

    async fn request(&self, method: &str) -> Result<String, String> {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}, "hawsepipe.dev/section": self.section});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method,
            "params": {"name": self.tool, "arguments": self.arguments, "_meta": meta}});
        let request = Request::post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method);
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let request = bearer.iter().fold(request, |request, bearer| request.header("authorization", bearer));
        // A list has no name.
        let named = if self.tool.is_empty() { request } else { request.header("mcp-name", &self.tool) };
        let request = named.body(Full::from(body.to_string())).map_err(|error| error.to_string())?;
        let exchange = async {
            let answer = self.http.request(request).await.map_err(|error| error.to_string())?;
            let bytes = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
            String::from_utf8(bytes.into()).map_err(|error| error.to_string())
        };
        tokio::time::timeout(PATIENCE, exchange).await.map_err(|_| format!("no answer within {PATIENCE:?}"))?
    }
}

/// A call: when it ended, and with what.
pub struct Call {
    #[allow(dead_code)] // The benchmark asks.
    pub ended: Instant,
    pub text: Result<String, String>,
}

/// Calls at a steady rate, whatever becomes of them.
pub struct Load {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Vec<Call>>,
}

impl Load {
    /// Calls once in every `period` from now on.
    pub fn start(caller: Caller, period: Duration) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let (mut calls, mut ticks) = (JoinSet::new(), tokio::time::interval(period));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            loop {
                tokio::select! {
                    _ = &mut stopped => return calls.join_all().await,
                    _ = ticks.tick() => {}
                }
                let caller = caller.clone();
                calls.spawn(async move {
                    let text = caller.call().await;
                    Call { ended: Instant::now(), text }
                });
            }
        });
        Self { stop, task }
    }

    /// Ends it, and gives every call that it made.
    pub async fn stop(self) -> Vec<Call> {
        let _ = self.stop.send(());
        self.task.await.unwrap()
    }
}
