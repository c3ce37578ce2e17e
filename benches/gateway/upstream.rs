//! The upstream of all measurements: a fast MCP server over Streamable HTTP with three tools.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use http::{HeaderName, StatusCode, Uri, header};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::child::{self, Child};
use crate::client::{Era, LEGACY_VERSION, MODERN_VERSION};

const TOOLS: &str = r#"[{"name":"echo","description":"Echo the text, then the nonce.","inputSchema":{"type":"object","properties":{"text":{"type":"string"},"nonce":{"type":"string"}},"required":["text","nonce"]}},{"name":"blob","description":"Text of so many bytes, then the nonce.","inputSchema":{"type":"object","properties":{"size":{"type":"integer"},"nonce":{"type":"string"}},"required":["size","nonce"]}},{"name":"wait","description":"Waits 50 ms, then the nonce.","inputSchema":{"type":"object","properties":{"nonce":{"type":"string"}},"required":["nonce"]}}]"#;

/// How long a call of `wait` takes.
const WAIT: Duration = Duration::from_millis(50);

/// The number of tools on a page, as many as on a page of the gateway's list.
const PAGE: usize = 200;

/// The largest text that `blob` returns, in bytes.
const MAX_BLOB: usize = 16 << 20;

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Arguments<'a>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    /// Kept as raw JSON, so that it is sent back without being decoded.
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    nonce: &'a RawValue,
    size: Option<usize>,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    cursor: Option<Cow<'a, str>>,
}

struct Server {
    legacy_only: bool,
    /// The pages of the list of tools, each as a JSON array.
    pages: Vec<String>,
    sessions: AtomicU64,
    blobs: Mutex<BTreeMap<usize, Arc<str>>>,
}

/// Starts the server in its own process.
pub fn start(era: Era) -> Result<(Child, Uri)> {
    start_with_tools(era, 0)
}

/// Like [`start`], with a list of this many other tools, if it is not 0.
pub fn start_with_tools(era: Era, tools: usize) -> Result<(Child, Uri)> {
    let tools = tools.to_string();
    let mut words = vec!["serve-upstream", "--tools", &tools];
    words.extend((era == Era::Legacy).then_some("--legacy-only"));
    let mut child = Child::start_role("the upstream", &words)?;
    let endpoint = child::endpoint(child.port()?)?;
    Ok((child, endpoint))
}

/// Serves until the parent is gone.
pub async fn serve(legacy_only: bool, tools: usize) -> Result<()> {
    let pages = if tools == 0 { vec![TOOLS.to_owned()] } else { pages(tools) };
    let server = Arc::new(Server { legacy_only, pages, sessions: AtomicU64::new(1), blobs: Mutex::default() });
    let app = Router::new().route("/mcp", post(answer).delete(async || StatusCode::OK)).with_state(server);
    // Without TCP_NODELAY, the server only becomes slower.
    let listener = child::announce().await?.tap_io(|stream| drop(stream.set_nodelay(true)));
    tokio::select! {
        served = axum::serve(listener, app) => Ok(served?),
        () = child::orphaned() => Ok(()),
    }
}

async fn answer(State(server): State<Arc<Server>>, body: Bytes) -> Response {
    let Ok(message) = serde_json::from_slice::<Message>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let Some(id) = message.id.map(RawValue::get) else {
        return StatusCode::ACCEPTED.into_response();
    };
    let result = server.result(&message.method, message.params.map_or("{}", RawValue::get)).await;
    let body = match result {
        Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        Err((code, text)) => {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{text}"}}}}"#)
        }
    };
    let json = [(header::CONTENT_TYPE, "application/json")];
    if message.method != "initialize" {
        return (json, Body::from(body)).into_response();
    }
    let session = format!("bench-{}", server.sessions.fetch_add(1, Ordering::Relaxed));
    let session = [(HeaderName::from_static("mcp-session-id"), session)];
    (json, session, Body::from(body)).into_response()
}

type RpcError = (i64, &'static str);

impl Server {
    async fn result(&self, method: &str, params: &str) -> Result<String, RpcError> {
        match method {
            "tools/call" => self.call(params).await,
            "tools/list" => self.list(params),
            "initialize" => Ok(format!(
                r#"{{"protocolVersion":"{LEGACY_VERSION}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"bench","version":"1"}}}}"#
            )),
            "server/discover" if !self.legacy_only => Ok(format!(
                r#"{{"resultType":"complete","supportedVersions":["{MODERN_VERSION}","{LEGACY_VERSION}"],"capabilities":{{"tools":{{}}}},"ttlMs":3600000,"cacheScope":"public","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"bench","version":"1"}}}}}}"#
            )),
            "ping" => Ok("{}".into()),
            _ => Err((-32601, "Method not found")),
        }
    }

    /// Returns a page of the list. Its cursor is the number of the page.
    fn list(&self, params: &str) -> Result<String, RpcError> {
        let params: List = serde_json::from_str(params).map_err(|_| (-32602, "Invalid params"))?;
        let number = params.cursor.map_or(Ok(0), |cursor| cursor.parse::<usize>());
        let number = number.map_err(|_| (-32602, "Invalid cursor"))?;
        let page = self.pages.get(number).ok_or((-32602, "Invalid cursor"))?;
        let is_last = number + 1 == self.pages.len();
        let next = if is_last { String::new() } else { format!(r#","nextCursor":"{}""#, number + 1) };
        Ok(format!(r#"{{"resultType":"complete","ttlMs":3600000,"cacheScope":"public","tools":{page}{next}}}"#))
    }

    async fn call(&self, params: &str) -> Result<String, RpcError> {
        let call: Call = serde_json::from_str(params).map_err(|_| (-32602, "Invalid params"))?;
        let nonce = unquoted(call.arguments.nonce);
        match (&*call.name, call.arguments.text, call.arguments.size) {
            ("echo", Some(text), _) => Ok(text_result(unquoted(text), nonce)),
            ("wait", ..) => {
                tokio::time::sleep(WAIT).await;
                Ok(text_result("waited", nonce))
            }
            ("blob", _, Some(size)) if size <= MAX_BLOB => Ok(text_result(&self.blob(size), nonce)),
            _ => Err((-32602, "Invalid params")),
        }
    }

    /// Returns `size` bytes of text that needs no escaping. The texts of recent sizes are cached.
    fn blob(&self, size: usize) -> Arc<str> {
        let mut blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        if blobs.len() > 16 {
            blobs.clear();
        }
        Arc::clone(blobs.entry(size).or_insert_with(|| crate::load::text(size).into()))
    }
}

/// Returns the pages of a list of this many tools, which are as large as those of the gateway.
fn pages(tools: usize) -> Vec<String> {
    let numbers: Vec<usize> = (0..tools).collect();
    let page = |numbers: &[usize]| {
        let tools: Vec<String> = numbers.iter().map(|number| definition(*number)).collect();
        format!("[{}]", tools.join(","))
    };
    numbers.chunks(PAGE).map(page).collect()
}

/// Returns the definition of a tool of about 500 bytes.
fn definition(number: usize) -> String {
    let description = crate::load::text(200);
    let property = |name: &str| format!(r#""{name}":{{"type":"string","description":"{}"}}"#, crate::load::text(40));
    let properties = ["first", "second"].map(property).join(",");
    format!(
        r#"{{"name":"tool_{number:04}","description":"{description}","inputSchema":{{"type":"object","properties":{{{properties}}},"required":["first"]}},"annotations":{{"readOnlyHint":true}}}}"#
    )
}

/// Returns a JSON string without its quotes, but with its escapes.
fn unquoted(raw: &RawValue) -> &str {
    let text = raw.get();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

fn text_result(text: &str, nonce: &str) -> String {
    format!(r#"{{"resultType":"complete","content":[{{"type":"text","text":"{text} {nonce}"}}],"isError":false}}"#)
}
