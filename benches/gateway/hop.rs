//! A bare hop: the least that an MCP gateway over HTTP can do. It receives with axum and sends with a pooled hyper
//! client. It parses only the envelope and writes it again; arguments and results stay raw JSON.

use std::fmt::Display;

use anyhow::Result;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::any;
use axum::serve::ListenerExt;
use http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::child::{self, Child};

type Pool = Client<HttpConnector, Full<Bytes>>;

/// Headers that belong to one connection or one body, and are not forwarded.
const OF_ONE_HOP: [HeaderName; 4] = [header::HOST, header::CONTENT_LENGTH, header::CONNECTION, header::DATE];

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    name: &'a str,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// Starts the hop in its own process.
pub fn start(upstream: &Uri) -> Result<(Child, Uri)> {
    let mut child = Child::start_role("the hop", &["serve-hop", &upstream.to_string()])?;
    let endpoint = child::endpoint(child.port()?)?;
    Ok((child, endpoint))
}

/// Serves until the parent is gone.
pub async fn serve(upstream: Uri) -> Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let pool: Pool = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(256).build(connector);
    let app = Router::new().fallback(any(pass)).with_state((pool, upstream));
    // Without TCP_NODELAY, the hop only becomes slower.
    let listener = child::announce().await?.tap_io(|stream| drop(stream.set_nodelay(true)));
    tokio::select! {
        served = axum::serve(listener, app) => Ok(served?),
        () = child::orphaned() => Ok(()),
    }
}

async fn pass(State((pool, upstream)): State<(Pool, Uri)>, request: Request) -> Result<Response, (StatusCode, String)> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(bad_gateway)?.to_bytes();
    let body = if parts.method == Method::POST { anew_request(&body).unwrap_or(body) } else { body };
    let mut out = http::Request::new(Full::new(body));
    *out.method_mut() = parts.method;
    *out.uri_mut() = upstream;
    *out.headers_mut() = onward(parts.headers);
    let (parts, body) = pool.request(out).await.map_err(bad_gateway)?.into_parts();
    let body = body.collect().await.map_err(bad_gateway)?.to_bytes();
    let mut back = Response::new(Body::from(anew_answer(&body).unwrap_or(body)));
    *back.status_mut() = parts.status;
    *back.headers_mut() = onward(parts.headers);
    Ok(back)
}

fn bad_gateway(error: impl Display) -> (StatusCode, String) {
    (StatusCode::BAD_GATEWAY, error.to_string())
}

fn onward(mut headers: HeaderMap) -> HeaderMap {
    for name in OF_ONE_HOP {
        headers.remove(name);
    }
    headers
}

fn anew_request(body: &Bytes) -> Option<Bytes> {
    let message: Message = serde_json::from_slice(body).ok()?;
    let (id, method) = (message.id?.get(), message.method?);
    if method != "tools/call" {
        return None;
    }
    let Params { name, arguments, meta } = serde_json::from_str(message.params?.get()).ok()?;
    let arguments = arguments.map_or("{}", RawValue::get);
    let meta = meta.map(|meta| format!(r#","_meta":{meta}"#)).unwrap_or_default();
    let params = format!(r#"{{"name":"{name}","arguments":{arguments}{meta}}}"#);
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#).into())
}

fn anew_answer(body: &Bytes) -> Option<Bytes> {
    let message: Message = serde_json::from_slice(body).ok()?;
    Some(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#, message.id?, message.result?).into())
}
