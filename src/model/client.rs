//! The HTTP client for endpoints of models.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::{Map, Value};
use tracing::Span;

use crate::domain::budget::NoRoom;
use crate::domain::causes::causes;
use crate::domain::model::ModelRequest;
use crate::telemetry::trace_context::members_of;
use crate::transport::outbound::{
    AddressGuard, Connector, OutboundSettings, TlsNames, TlsSettings, authorization, connector, tls_advice,
};
use crate::transport::retry_after::retry_after;

/// How long an endpoint has to take a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection is kept that nothing uses.
const IDLE: Duration = Duration::from_secs(30);
/// The longest answer that is read, in bytes.
const MAX_ANSWER: usize = 16 << 20;

type HttpClient = Client<Connector, Full<Bytes>>;

/// The clients for endpoints without and with TLS, each made when it is first used.
#[derive(Default)]
pub(super) struct Clients {
    plain: OnceLock<Result<HttpClient, String>>,
    tls: OnceLock<Result<HttpClient, String>>,
}

/// An answer of an endpoint.
pub(super) struct HttpAnswer {
    pub(super) status: StatusCode,
    /// How long the endpoint asks to wait.
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Vec<u8>,
}

/// Why there is no answer.
pub(super) enum NoAnswer {
    /// The endpoint gave none, in words.
    Failed(String),
    /// The gateway has no room for it.
    NoRoom(NoRoom),
}

impl From<String> for NoAnswer {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<NoRoom> for NoAnswer {
    fn from(no_room: NoRoom) -> Self {
        Self::NoRoom(no_room)
    }
}

impl Clients {
    /// Sends a request. Redirects are not followed.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(super) async fn post(
        &self,
        request: &ModelRequest<'_>,
        body: &Map<String, Value>,
    ) -> Result<HttpAnswer, NoAnswer> {
        let url = format!("{}/chat/completions", request.base_url.trim_end_matches('/'));
        let uri: Uri = url.parse().map_err(|_| "baseURL of the model is not valid".to_owned())?;
        let (client, tls) = match uri.scheme_str() {
            Some("https") => (&self.tls, Some(TlsSettings::default())),
            _ => (&self.plain, None),
        };
        let client = client.get_or_init(|| new_client(tls)).as_ref().map_err(Clone::clone)?;
        let mut sent = Request::new(Full::from(Value::from(body.clone()).to_string()));
        *sent.method_mut() = Method::POST;
        let headers = sent.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(authorization(&uri).map(|value| (header::PROXY_AUTHORIZATION, value)));
        for (name, value) in ["x-hawsepipe-run", "x-hawsepipe-step"].into_iter().zip(request.step) {
            headers.extend(HeaderValue::from_str(value).map(|value| (header::HeaderName::from_static(name), value)));
        }
        // Gateways of models read the context of a trace here. While traces are off there is none.
        for (name, value) in members_of(&Span::current()) {
            headers.extend(HeaderValue::from_str(&value).map(|value| (header::HeaderName::from_static(name), value)));
        }
        if let Some(key) = request.key {
            let value = HeaderValue::from_str(&format!("Bearer {}", key.expose().trim()));
            let mut value = value.map_err(|_| "no header can have the value of the key".to_owned())?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        *sent.uri_mut() = uri;
        let answer = client.request(sent).await;
        let answer = answer.map_err(|error| unreachable(&(causes(&error) + &tls_advice(&error, TlsNames::SYSTEM))));
        let (head, body) = answer?.into_parts();
        let body = read(Limited::new(body, MAX_ANSWER), request.reserve).await?;
        Ok(HttpAnswer { status: head.status, retry_after: retry_after(&head.headers), body })
    }
}

/// Reads an answer. Its memory is reserved before: as far as its length is known at once, or else as it arrives.
async fn read(
    mut body: Limited<Incoming>,
    reserve: &(dyn Fn(u64) -> Result<(), NoRoom> + Sync),
) -> Result<Vec<u8>, NoAnswer> {
    let known = body.size_hint().lower().min(MAX_ANSWER as u64);
    reserve(known)?;
    let (mut read, mut reserved) = (Vec::new(), known);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("the answer cannot be read: {}", causes(&*error)))?;
        let Ok(data) = frame.into_data() else { continue };
        read.extend_from_slice(&data);
        if read.len() as u64 > reserved {
            reserved = read.len() as u64;
            reserve(reserved)?;
        }
    }
    Ok(read)
}

fn unreachable(why: &str) -> String {
    format!("the endpoint cannot be reached: {why}")
}

fn new_client(tls: Option<TlsSettings<'_>>) -> Result<HttpClient, String> {
    // The author of a pipeline chooses the URL.
    let (connect_timeout, guard) = (Some(CONNECT), Some(AddressGuard::default()));
    let connector = connector(OutboundSettings { tls, connect_timeout, guard, ..OutboundSettings::default() })?;
    let mut builder = Client::builder(TokioExecutor::new());
    Ok(builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE).build(connector))
}
