//! An upstream whose tools never answer, or answer too much, too slowly or without end.

use std::borrow::Cow;
use std::convert::Infallible;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::{StreamExt, stream};
use http::{StatusCode, Uri, header};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::child::{self, Child};
use crate::client::LEGACY_VERSION;

/// The names of the tools.
pub const TOOLS: [&str; 4] = ["hang", "endless", "huge", "trickle"];

/// The size of the answer of `huge`, in chunks of 64 KiB.
const CHUNKS: usize = 1024;
/// How long `trickle` waits after each byte.
const BETWEEN_BYTES: Duration = Duration::from_millis(10);

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
}

/// Starts the server in its own process.
pub fn start() -> Result<(Child, Uri)> {
    let mut child = Child::start_role("the hostile upstream", &["serve-hostile"])?;
    let endpoint = child::endpoint(child.port()?)?;
    Ok((child, endpoint))
}

/// Serves until the parent is gone.
pub async fn serve() -> Result<()> {
    let app = Router::new().route("/mcp", post(answer).delete(async || StatusCode::OK));
    let listener = child::announce().await?;
    tokio::select! {
        served = axum::serve(listener, app) => Ok(served?),
        () = child::orphaned() => Ok(()),
    }
}

async fn answer(body: Bytes) -> Response {
    let Ok(message) = serde_json::from_slice::<Message>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let Some(id) = message.id.map(RawValue::get) else {
        return StatusCode::ACCEPTED.into_response();
    };
    let result = match &*message.method {
        "tools/call" => return call(id, &message.params.map(|params| params.name).unwrap_or_default()).await,
        "tools/list" => {
            let tools = TOOLS.map(|name| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#));
            format!(r#"{{"tools":[{}]}}"#, tools.join(","))
        }
        "initialize" => format!(
            r#"{{"protocolVersion":"{LEGACY_VERSION}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"hostile","version":"1"}}}}"#
        ),
        _ => "{}".into(),
    };
    json(Body::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)))
}

async fn call(id: &str, tool: &str) -> Response {
    let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#);
    let tail = r#""}]}}"#;
    match tool {
        "endless" => {
            let params = format!(r#"{{"level":"info","data":"{}"}}"#, "x".repeat(4000));
            let event =
                format!("data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{params}}}\n\n");
            let events = stream::repeat(Ok::<_, Infallible>(Bytes::from(event)));
            ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
        }
        "huge" => {
            let chunk = Bytes::from(vec![b'x'; 64 << 10]);
            let chunks = stream::repeat(chunk).take(CHUNKS);
            let whole = stream::iter([Bytes::from(head)]).chain(chunks).chain(stream::iter([Bytes::from(tail)]));
            json(Body::from_stream(whole.map(Ok::<_, Infallible>)))
        }
        "trickle" => {
            let bytes = stream::iter([Bytes::from(head)]).chain(stream::repeat(Bytes::from_static(b"x")));
            let slow = bytes.then(async |bytes| {
                tokio::time::sleep(BETWEEN_BYTES).await;
                Ok::<_, Infallible>(bytes)
            });
            json(Body::from_stream(slow))
        }
        _ => std::future::pending().await,
    }
}

fn json(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
