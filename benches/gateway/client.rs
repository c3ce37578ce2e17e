//! An MCP client with one keep-alive connection, and in the legacy era its own session.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use axum::body::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::{Value, json};

use crate::child::Child;

/// The MCP version of clients and upstream in the legacy era.
pub const LEGACY_VERSION: &str = "2025-11-25";
/// The MCP version in the modern era.
pub const MODERN_VERSION: &str = "2026-07-28";

/// How long an answer can take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a system can take to start.
const START: Duration = Duration::from_secs(60);

/// The MCP era of a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Era {
    Legacy,
    Modern,
}

impl Era {
    /// Returns the name in the report.
    pub fn word(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// A client that is ready to call.
pub struct Client {
    endpoint: Uri,
    era: Era,
    connection: SendRequest<Full<Bytes>>,
    /// The headers of every request. Opening a session adds to them.
    headers: HeaderMap,
    answer: Vec<u8>,
}

/// A client that only hears what the server says outside of calls.
pub struct Listening {
    pub body: Incoming,
    _client: Client,
}

impl Client {
    /// Connects, and opens a session in the legacy era.
    pub async fn open(endpoint: &Uri, era: Era) -> Result<Self> {
        Self::open_as(endpoint, era, None).await
    }

    /// Does the same with a value of `Authorization` on every request.
    pub async fn open_as(endpoint: &Uri, era: Era, authorization: Option<&HeaderValue>) -> Result<Self> {
        let address = endpoint.authority().context("an endpoint without a host")?.as_str();
        let stream = tokio::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (connection, driver) = handshake(TokioIo::new(stream)).await?;
        // If the connection fails, the next request on it reports that.
        tokio::spawn(async move { drop(driver.await) });
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(address)?);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.extend(authorization.map(|value| (header::AUTHORIZATION, value.clone())));
        let mut client = Self { endpoint: endpoint.clone(), era, connection, headers, answer: Vec::new() };
        match era {
            Era::Legacy => client.initialize().await?,
            Era::Modern => client.set_header("mcp-protocol-version", HeaderValue::from_static(MODERN_VERSION)),
        }
        Ok(client)
    }

    async fn initialize(&mut self) -> Result<()> {
        let info = json!({"name": "bench", "version": "1"});
        let params = json!({"protocolVersion": LEGACY_VERSION, "capabilities": {}, "clientInfo": info});
        let result = self.request("initialize", params).await?;
        let version = result["protocolVersion"].as_str().context("no version was agreed on")?;
        self.set_header("mcp-protocol-version", HeaderValue::from_str(version)?);
        let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        self.post("notifications/initialized", None, initialized.into()).await
    }

    fn set_header(&mut self, name: &'static str, value: HeaderValue) {
        self.headers.insert(name, value);
    }

    /// Sends a request with this body, which is JSON, and returns the body of its answer.
    pub async fn send_body(&mut self, method: &str, body: Bytes) -> Result<&[u8]> {
        self.post(method, None, body).await?;
        Ok(&self.answer)
    }

    /// Returns the name under which the endpoint lists the upstream's tool `tool`.
    pub async fn find_tool(&mut self, tool: &str) -> Result<Option<String>> {
        let list = self.request("tools/list", json!({})).await?;
        let mut names = list["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str());
        Ok(names.find(|name| name.ends_with(tool)).map(str::to_owned))
    }

    /// Sends a request and returns its result.
    pub async fn request(&mut self, method: &str, mut params: Value) -> Result<Value> {
        if self.era == Era::Modern {
            params["_meta"] = modern_meta();
        }
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": method, "params": params}).to_string();
        self.post(method, None, body.into()).await?;
        let mut message = message(&self.answer).with_context(|| format!("{method}: {}", excerpt(&self.answer)))?;
        ensure!(message.get("result").is_some(), "{method}: {message}");
        Ok(message["result"].take())
    }

    /// Makes the body of a `tools/call` with these arguments, which are JSON text.
    pub fn call_body(&self, id: u64, tool: &str, arguments: &str) -> Bytes {
        let meta = match self.era {
            Era::Legacy => String::new(),
            Era::Modern => format!(r#","_meta":{}"#, modern_meta()),
        };
        let params = format!(r#"{{"name":"{tool}","arguments":{arguments}{meta}}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#).into()
    }

    /// Sends a call and returns the body of its answer.
    pub async fn call(&mut self, tool: &str, body: Bytes) -> Result<&[u8]> {
        self.post("tools/call", Some(tool), body).await?;
        Ok(&self.answer)
    }

    /// Opens a stream of notifications: with a GET in the legacy era, with `subscriptions/listen` in the modern one.
    pub async fn listen(mut self) -> Result<Listening> {
        let (method, body) = match self.era {
            Era::Legacy => (Method::GET, String::new()),
            Era::Modern => {
                self.set_header("mcp-method", HeaderValue::from_static("subscriptions/listen"));
                let params = json!({"notifications": {"toolsListChanged": true}, "_meta": modern_meta()});
                let request = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
                (Method::POST, request.to_string())
            }
        };
        let request = self.http_request(method, self.headers.clone(), body.into())?;
        let opened = async {
            self.connection.ready().await?;
            self.connection.send_request(request).await
        };
        let (parts, body) = tokio::time::timeout(TIMEOUT, opened).await.context("no stream in 30 s")??.into_parts();
        ensure!(parts.status.is_success(), "no stream: {}", parts.status);
        Ok(Listening { body, _client: self })
    }

    /// Ends the session, if there is one.
    pub async fn close(mut self) {
        if self.headers.contains_key("mcp-session-id") {
            // A failure to end the session does not matter to the measurement.
            let _ = self.send(Method::DELETE, self.headers.clone(), Bytes::new()).await;
        }
    }

    async fn post(&mut self, method: &str, tool: Option<&str>, body: Bytes) -> Result<()> {
        let mut headers = self.headers.clone();
        if self.era == Era::Modern {
            headers.insert("mcp-method", HeaderValue::from_str(method)?);
            if let Some(tool) = tool {
                headers.insert("mcp-name", HeaderValue::from_str(tool)?);
            }
        }
        let answered = self.send(Method::POST, headers, body).await?;
        if let Some(session) = answered.get("mcp-session-id").filter(|_| method == "initialize") {
            self.set_header("mcp-session-id", session.clone());
        }
        Ok(())
    }

    fn http_request(&self, method: Method, headers: HeaderMap, body: Bytes) -> Result<Request<Full<Bytes>>> {
        let path = self.endpoint.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::new(Full::new(body));
        *request.uri_mut() = path.parse()?;
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        Ok(request)
    }

    async fn send(&mut self, method: Method, headers: HeaderMap, body: Bytes) -> Result<HeaderMap> {
        let request = self.http_request(method, headers, body)?;
        tokio::time::timeout(TIMEOUT, self.exchange(request)).await.context("no answer in 30 s")?
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<HeaderMap> {
        self.connection.ready().await?;
        let (parts, mut body) = self.connection.send_request(request).await?.into_parts();
        self.answer.clear();
        while let Some(frame) = body.frame().await {
            if let Some(data) = frame?.data_ref() {
                self.answer.extend_from_slice(data);
            }
        }
        ensure!(parts.status.is_success(), "{} {}", parts.status, excerpt(&self.answer));
        Ok(parts.headers)
    }
}

/// Waits until a system lists the tool, and returns the name that it has there.
pub async fn wait_for_tool(endpoint: &Uri, era: Era, tool: &str, process: Option<&Child>) -> Result<String> {
    wait_for_tool_as(endpoint, era, tool, process, None).await
}

/// Does the same with a value of `Authorization`.
pub async fn wait_for_tool_as(
    endpoint: &Uri,
    era: Era,
    tool: &str,
    process: Option<&Child>,
    authorization: Option<&HeaderValue>,
) -> Result<String> {
    let until = Instant::now() + START;
    loop {
        if let Some(process) = process {
            process.check()?;
        }
        let attempt = async {
            let mut client = Client::open_as(endpoint, era, authorization).await?;
            let found = client.find_tool(tool).await;
            client.close().await;
            found
        };
        match attempt.await {
            Ok(Some(name)) => return Ok(name),
            Ok(None) if Instant::now() > until => bail!("{endpoint} lists no {tool}"),
            Err(error) if Instant::now() > until => return Err(error.context(format!("{endpoint} does not serve"))),
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Parses the JSON-RPC answer in a body, which is JSON or an event stream.
pub fn message(body: &[u8]) -> Option<Value> {
    if let Ok(message) = serde_json::from_slice(body) {
        return Some(message);
    }
    let events = std::str::from_utf8(body).ok()?.lines().filter_map(|line| line.strip_prefix("data:"));
    events.filter_map(|data| serde_json::from_str(data).ok()).find(|message: &Value| message.get("id").is_some())
}

/// Returns the start of a body, for error messages.
pub fn excerpt(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned()
}
