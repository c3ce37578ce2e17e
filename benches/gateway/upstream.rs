//! The upstream of all measurements: a fast MCP server over Streamable HTTP with two tools.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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

const TOOLS: &str = r#"[{"name":"echo","description":"Echo the text, then the nonce.","inputSchema":{"type":"object","properties":{"text":{"type":"string"},"nonce":{"type":"string"}},"required":["text","nonce"]}},{"name":"blob","description":"Text of so many bytes, then the nonce.","inputSchema":{"type":"object","properties":{"size":{"type":"integer"},"nonce":{"type":"string"}},"required":["size","nonce"]}}]"#;

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

struct Server {
    legacy_only: bool,
    sessions: AtomicU64,
    blobs: Mutex<BTreeMap<usize, Arc<str>>>,
}

/// Starts the server in its own process.
pub fn start(era: Era) -> Result<(Child, Uri)> {
    let words: &[&str] = match era {
        Era::Legacy => &["serve-upstream", "--legacy-only"],
        Era::Modern => &["serve-upstream"],
    };
    let mut child = Child::start_role("the upstream", words)?;
    let endpoint = child::endpoint(child.port()?)?;
    Ok((child, endpoint))
}

/// Serves until the parent is gone.
pub async fn serve(legacy_only: bool) -> Result<()> {
    let server = Arc::new(Server { legacy_only, sessions: AtomicU64::new(1), blobs: Mutex::default() });
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
    let result = server.result(&message.method, message.params.map_or("{}", RawValue::get));
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
    fn result(&self, method: &str, params: &str) -> Result<String, RpcError> {
        match method {
            "tools/call" => self.call(params),
            "tools/list" => {
                Ok(format!(r#"{{"resultType":"complete","ttlMs":3600000,"cacheScope":"public","tools":{TOOLS}}}"#))
            }
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

    fn call(&self, params: &str) -> Result<String, RpcError> {
        let call: Call = serde_json::from_str(params).map_err(|_| (-32602, "Invalid params"))?;
        let nonce = unquoted(call.arguments.nonce);
        match (&*call.name, call.arguments.text, call.arguments.size) {
            ("echo", Some(text), _) => Ok(text_result(unquoted(text), nonce)),
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

/// Returns a JSON string without its quotes, but with its escapes.
fn unquoted(raw: &RawValue) -> &str {
    let text = raw.get();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

fn text_result(text: &str, nonce: &str) -> String {
    format!(r#"{{"resultType":"complete","content":[{{"type":"text","text":"{text} {nonce}"}}],"isError":false}}"#)
}
