//! A small HTTP client for the admin API and MCP endpoints.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use futures_util::FutureExt;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::http::request::Builder;
use hyper::{Request, StatusCode};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::Connect;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use serde_json::value::RawValue;

use super::args::AdminArgs;
use super::output::seconds;
use crate::domain::causes::causes;

/// Maximum size of an answer, in bytes.
const MAX_ANSWER: usize = 64 << 20;
/// Maximum number of items on one page of the admin API.
const PAGE: usize = 1000;
/// Maximum number of attempts to read a list that changes between its pages.
const TRIES: usize = 3;

/// Sends a request and returns the status and the body of the answer. Fails if nothing arrives for the duration of
/// `silence`; while a call runs, a gateway sends something every 15 seconds. Errors mention `flag` as the way to choose
/// another server.
///
/// # Errors
/// If the server cannot be reached, stays silent, or answers with more than 64 MiB.
pub async fn send(
    url: &str,
    request: Request<Full<Bytes>>,
    silence: Duration,
    flag: &str,
) -> anyhow::Result<(StatusCode, String)> {
    let is_https = request.uri().scheme_str() == Some("https");
    let builder = Client::builder(TokioExecutor::new());
    let exchange = match is_https {
        false => exchange(builder.build_http(), request, silence).boxed().await,
        true => {
            let tls = HttpsConnectorBuilder::new().with_native_roots();
            let tls = tls.context("cannot read the system's certificates")?.https_only().enable_http1().build();
            exchange(builder.build(tls), request, silence).boxed().await
        }
    };
    exchange.map_err(|fault| match fault {
        ExchangeError::Silent => {
            anyhow!("{url} did not answer within {}. --timeout SECONDS waits longer", seconds(silence))
        }
        ExchangeError::Lost(why) => anyhow!(NoAnswer(no_answer(url, &why, flag, is_in_pod()))),
        ExchangeError::TooLarge => anyhow!("{url} answered with more than {MAX_ANSWER} bytes"),
    })
}

/// Whether this process runs in a pod (Kubernetes sets the variable in every container).
fn is_in_pod() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

/// Says that no gateway answers, and what to do.
fn no_answer(url: &str, why: &str, flag: &str, in_pod: bool) -> String {
    let advice = match in_pod {
        true => format!(
            "Run the command in a gateway's pod, `kubectl exec -n NAMESPACE deployment/NAME-gateway -- hawsepipe ...`; where \
             the MCPGateway sets other ports, name the address: {flag}"
        ),
        false => format!(
            "Start one with `hawsepipe run -f PATH`, or name its address: {flag}. Of a gateway in a cluster: `kubectl exec \
             -n NAMESPACE deployment/NAME-gateway -- hawsepipe ...`"
        ),
    };
    format!("no gateway answers at {url} ({why}). {advice}")
}

/// Why there is no complete answer.
enum ExchangeError {
    /// Nothing arrived in time.
    Silent,
    /// The connection failed or was lost.
    Lost(String),
    /// The answer is larger than [`MAX_ANSWER`].
    TooLarge,
}

async fn exchange<C>(
    client: Client<C, Full<Bytes>>,
    request: Request<Full<Bytes>>,
    silence: Duration,
) -> Result<(StatusCode, String), ExchangeError>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let lost = |error: &(dyn std::error::Error + 'static)| ExchangeError::Lost(causes(error));
    let response = tokio::time::timeout(silence, client.request(request)).await.map_err(|_| ExchangeError::Silent)?;
    let response = response.map_err(|error| lost(&error))?;
    let status = response.status();
    let (mut body, mut read) = (response.into_body(), Vec::new());
    while let Some(frame) = tokio::time::timeout(silence, body.frame()).await.map_err(|_| ExchangeError::Silent)? {
        if let Ok(data) = frame.map_err(|error| lost(&error))?.into_data() {
            read.extend_from_slice(&data);
        }
        if read.len() > MAX_ANSWER {
            return Err(ExchangeError::TooLarge);
        }
    }
    Ok((status, String::from_utf8_lossy(&read).into_owned()))
}

/// The error for an address at which no gateway can be reached.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(String);

/// An error that the admin API returned.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The reason, a single word such as `ToolNotFound`.
    pub reason: String,
    pub message: String,
}

/// Requests a path of the admin API of a running gateway, and returns the JSON of the answer.
///
/// # Errors
/// If the gateway does not answer in time or returns an error.
pub async fn get(admin: &AdminArgs, path: &str) -> anyhow::Result<Value> {
    get_within(admin, path, Duration::from_secs(admin.timeout)).await
}

/// Does the same as [`get`], but within `deadline` instead of `--timeout`.
///
/// # Errors
/// The same as for [`get`].
pub async fn get_within(admin: &AdminArgs, path: &str, deadline: Duration) -> anyhow::Result<Value> {
    let answer = get_raw(admin, path, deadline).await?;
    Ok(serde_json::from_str(answer.get())?)
}

/// Does the same as [`get_within`], and returns the JSON as it came.
///
/// # Errors
/// The same as for [`get`].
pub async fn get_raw(admin: &AdminArgs, path: &str, deadline: Duration) -> anyhow::Result<Box<RawValue>> {
    ask(admin, Request::get(format!("{}{path}", admin.url())), String::new(), deadline).await
}

/// Sends a change to a path of the admin API, and returns the JSON of the answer.
///
/// # Errors
/// The same as for [`get`].
pub async fn post(admin: &AdminArgs, path: &str, body: String) -> anyhow::Result<Box<RawValue>> {
    let request = Request::post(format!("{}{path}", admin.url())).header("content-type", "application/json");
    ask(admin, request, body, Duration::from_secs(admin.timeout)).await
}

async fn ask(admin: &AdminArgs, request: Builder, body: String, deadline: Duration) -> anyhow::Result<Box<RawValue>> {
    let request = request.body(Full::from(body));
    let mut request = request.with_context(|| format!("{} is not a URL", admin.url()))?;
    request.headers_mut().extend(admin.headers()?);
    let url = request.uri().to_string();
    let answer = tokio::time::timeout(deadline, send(&url, request, deadline, "--admin ADDR")).await;
    let (status, body) = answer.unwrap_or_else(|_| {
        bail!("{url} did not answer within {}. --timeout SECONDS waits longer", seconds(deadline))
    })?;
    let not_admin = || format!("{url} did not answer with JSON: the admin API of a gateway is at another address");
    let answer: Box<RawValue> = serde_json::from_str(&body).with_context(not_admin)?;
    if !status.is_success() {
        let value: Value = serde_json::from_str(&body)?;
        let said = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
        let message = said("/error/message").unwrap_or(&body).to_owned();
        match said("/error/reason") {
            Some(reason) => bail!(ApiError { reason: reason.to_owned(), message }),
            None => bail!("{url} is not the admin API of a gateway ({message}). Name its address: --admin ADDR"),
        }
    }
    Ok(answer)
}

/// Returns the error for an answer that no admin API gives, although it is JSON.
pub fn not_admin(admin: &AdminArgs, lacks: &str) -> anyhow::Error {
    anyhow!(
        "{} is not the admin API of a gateway: its answer has no {lacks}. Name its address: --admin ADDR",
        admin.url()
    )
}

/// Returns the first `limit` items of a list in the admin API, and requests as many pages as this takes. `query`
/// contains the filters; filters with the value `None` are left out.
///
/// # Errors
/// If the gateway does not answer in time or returns an error.
pub async fn list(
    admin: &AdminArgs,
    path: &str,
    query: &[(&str, Option<&str>)],
    limit: usize,
) -> anyhow::Result<Vec<Value>> {
    list_noted(admin, path, query, limit).await.map(|(items, _)| items)
}

/// Does the same as [`list`]. Also returns why older items can be missing, if the gateway says so.
///
/// # Errors
/// The same as for [`list`].
pub async fn list_noted(
    admin: &AdminArgs,
    path: &str,
    query: &[(&str, Option<&str>)],
    limit: usize,
) -> anyhow::Result<(Vec<Value>, Option<String>)> {
    let deadline = Duration::from_secs(admin.timeout);
    let query: String =
        query.iter().filter_map(|(name, value)| Some(format!("&{name}={}", encode((*value)?)))).collect();
    let whole = async {
        let mut tries = 1;
        loop {
            match pages(admin, path, &query, limit).await {
                // The item after which the next page starts no longer exists, so the list is read again from the start.
                Err(error) if tries < TRIES && is_cursor_gone(&error) => tries += 1,
                listed => return listed,
            }
        }
    };
    let listed = tokio::time::timeout(deadline, whole).await;
    listed.unwrap_or_else(|_| {
        let within = seconds(deadline);
        bail!("{} did not list everything within {within}; --timeout SECONDS waits longer", admin.url())
    })
}

fn is_cursor_gone(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ApiError>().is_some_and(|refused| refused.reason == "InvalidCursor")
}

async fn pages(
    admin: &AdminArgs,
    path: &str,
    query: &str,
    limit: usize,
) -> anyhow::Result<(Vec<Value>, Option<String>)> {
    let (mut items, mut cursor, mut note) = (Vec::new(), String::new(), None);
    while items.len() < limit {
        let size = PAGE.min(limit - items.len());
        let mut page = get(admin, &format!("{path}?limit={size}{query}{cursor}")).await?;
        if let Value::Array(found) = page["items"].take() {
            items.extend(found);
        }
        note = note.or_else(|| page["incomplete"].as_str().map(str::to_owned));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={}", encode(next)),
            None => break,
        }
    }
    items.truncate(limit);
    Ok((items, note))
}

/// Percent-encodes `text` for use in a query.
pub fn encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::no_answer;

    #[test]
    fn what_does_not_work_in_a_pod_is_not_advised_there() {
        let advice = |in_pod| no_answer("http://127.0.0.1:9090", "refused", "--admin ADDR", in_pod);
        assert!(advice(false).contains("`hawsepipe run -f PATH`") && !advice(true).contains("hawsepipe run"));
        for told in [advice(false), advice(true)] {
            let starts = told.starts_with("no gateway answers at http://127.0.0.1:9090 (refused). ");
            assert!(starts && told.contains("--admin ADDR") && told.contains("kubectl exec"), "{told}");
        }
    }
}
