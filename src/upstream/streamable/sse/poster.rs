//! Posts messages to the URI that the server named.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use hyper::body::Bytes;
use tracing::Span;

use crate::domain::upstream::UpstreamError;
use crate::domain::version::has_version_header;
use crate::telemetry::trace_context::members_of;
use crate::transport::retry_after::retry_after;
use crate::upstream::duplex::Outgoing;
use crate::upstream::request_failure::RequestFailure;
use crate::upstream::streamable::client::same_origin_redirect;
use crate::upstream::streamable::connection::{HttpEndpoint, PROTOCOL_VERSION, SMALL};
use crate::upstream::streamable::paced_body::PacedBody;
use crate::upstream::streamable::response_body::whole;

/// The maximum number of bytes of a response that are read. What it says is ignored.
const MAX_RESPONSE: u64 = 64 << 10;

/// The messages to a server.
#[derive(Clone, Debug)]
pub(super) struct Poster {
    endpoint: Arc<HttpEndpoint>,
    /// Where messages are posted; empty until the server has named it.
    uri: Arc<OnceLock<Uri>>,
    /// The version of the protocol, once it is known and if it has the header.
    version: Arc<OnceLock<HeaderValue>>,
}

impl Poster {
    pub(super) fn new(endpoint: &Arc<HttpEndpoint>) -> Self {
        Self { endpoint: Arc::clone(endpoint), uri: Arc::default(), version: Arc::default() }
    }

    pub(super) fn set_uri(&self, uri: Uri) {
        self.uri.get_or_init(|| uri);
    }

    pub(super) fn set_version(&self, version: &str) {
        if let Ok(value) = HeaderValue::from_str(version)
            && has_version_header(version)
        {
            self.version.get_or_init(|| value);
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = self.endpoint.client.headers().clone();
        if let Some(version) = self.version.get() {
            headers.insert(PROTOCOL_VERSION, version.clone());
        }
        for (name, value) in members_of(&Span::current()) {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        headers
    }

    /// Posts a message, following at most one redirect.
    async fn post(&self, message: Bytes) -> Result<Response<PacedBody>, UpstreamError> {
        let uri = self.uri.get().ok_or_else(|| UpstreamError::Lost("it named no URI to post to".into()))?;
        let response = self.endpoint.client.send(Method::POST, uri, self.headers(), message.clone()).await?;
        match same_origin_redirect(uri, response.status(), response.headers()) {
            Some(to) => self.endpoint.client.send(Method::POST, &to, self.headers(), message).await,
            None => Ok(response),
        }
    }
}

impl Poster {
    /// Reads a response to its end, so that the connection can be used again. If it does not end immediately, a background
    /// task waits for its end.
    fn finish(&self, body: PacedBody) {
        let reservation = self.endpoint.reservation();
        let mut reading = Box::pin(async move {
            let _ = tokio::time::timeout(SMALL, whole(body, MAX_RESPONSE, &reservation)).await;
        });
        if (&mut reading).now_or_never().is_none() {
            // If too many such tasks are running, the connection is closed instead.
            let _ = self.endpoint.shared.spawn_small(&self.endpoint.target.plan.key, reading);
        }
    }
}

#[async_trait]
impl Outgoing for Poster {
    async fn send(&self, message: Vec<u8>) -> Result<(), RequestFailure> {
        let response = match self.post(message.into()).await {
            Ok(response) => response,
            // Nothing was executed. Over a new stream it may succeed.
            Err(error @ UpstreamError::Connect(_)) => return Err(RequestFailure::Stale(error)),
            Err(error) => return Err(error.into()),
        };
        let (status, wait) = (response.status(), retry_after(response.headers()));
        let words = format!("HTTP {}", status.as_u16());
        if status.is_success() {
            self.finish(response.into_body());
            return Ok(());
        }
        Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                UpstreamError::Unauthorized { status: status.as_u16(), said: String::new() }.into()
            }
            StatusCode::TOO_MANY_REQUESTS => {
                UpstreamError::RateLimited { said: String::new(), retry_after: wait }.into()
            }
            // The server does not know the session any more, and has executed nothing.
            StatusCode::NOT_FOUND | StatusCode::GONE => RequestFailure::Stale(UpstreamError::Protocol(words)),
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                UpstreamError::Lost(words).into()
            }
            _ => UpstreamError::Protocol(words).into(),
        })
    }

    fn takes_answers_within(&self) -> Option<Duration> {
        Some(SMALL)
    }

    /// The server may execute a request while it keeps the response back.
    fn arrives_early(&self) -> bool {
        true
    }

    fn offer(&self, message: String) {
        let poster = self.clone();
        self.endpoint.shared.notify_later(&self.endpoint.target.plan.key, async move {
            if !matches!(tokio::time::timeout(SMALL, poster.send(message.into_bytes())).await, Ok(Ok(()))) {
                tracing::debug!(upstream = %poster.endpoint.target.plan.key, "a message could not be sent");
            }
        });
    }
}
