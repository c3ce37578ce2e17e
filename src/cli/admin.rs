//! A small HTTP client, for the admin API and MCP endpoints.

use anyhow::{Context, bail};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use super::args::Admin;

/// The largest answer that is read.
const MAX_ANSWER: usize = 64 << 20;

/// A client for one command.
pub fn client() -> anyhow::Result<Client<HttpsConnector<HttpConnector>, Full<Bytes>>> {
    let connector = HttpsConnectorBuilder::new()
        .with_native_roots()
        .context("cannot read the system's certificates")?
        .https_or_http()
        .enable_http1()
        .build();
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}

/// Sends a request and reads the whole answer.
pub async fn send(request: Request<Full<Bytes>>) -> anyhow::Result<(StatusCode, String)> {
    let response = client()?.request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("the answer cannot be read: {error}"))?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// Asks the admin API of a running gateway.
pub async fn get(admin: &Admin, path: &str) -> anyhow::Result<Value> {
    let url = format!("http://{}{path}", admin.admin);
    let request = Request::get(&url).body(Full::default())?;
    let answer = send(request).await;
    let (status, body) = answer.with_context(|| {
        format!("no gateway answers at {url}. Start one with `hawsepipe run -f PATH`, or name its admin address: --admin ADDR")
    })?;
    let value: Value = serde_json::from_str(&body).with_context(|| format!("{url} did not answer with JSON"))?;
    if !status.is_success() {
        bail!("{}", value.pointer("/error/message").and_then(Value::as_str).unwrap_or(&body));
    }
    Ok(value)
}

/// `text` as a part of a query.
pub fn encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}
