//! The HTTP client of the exporter, for OTLP over HTTP and over gRPC.
//!
//! The exporter makes the same message for both. A unary call of gRPC is that message behind five bytes, in a POST over
//! HTTP/2 whose trailers hold the status: that is little enough to do here, without a second client and its TLS.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;

use crate::domain::causes::causes;
use crate::domain::plan::OtlpProtocol;
use crate::transport::outbound::{
    Connector, HttpVersion, OutboundSettings, TlsNames, TlsSettings, authorization, connector, tls_advice,
};

/// How long the receiver can take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest answer of the receiver that is read, in bytes.
const MAX_ANSWER: usize = 64 << 10;
/// The shortest time between two warnings about lost spans.
const QUIET: Duration = Duration::from_secs(300);
/// The length of what precedes a message in gRPC: whether it is compressed, and how long it is.
const GRPC_PREFIX: usize = 5;
/// The status codes of gRPC after which OTLP allows another try: CANCELLED, DEADLINE_EXCEEDED, ABORTED, OUT_OF_RANGE,
/// UNAVAILABLE and DATA_LOSS.
const GRPC_RETRYABLE: [&str; 6] = ["1", "4", "10", "11", "14", "15"];

/// Sends through the tokio runtime, because the exporter's thread is outside of it.
#[derive(Debug)]
pub(super) struct OtlpClient {
    client: Client<Connector, Full<Bytes>>,
    protocol: OtlpProtocol,
    runtime: Handle,
    /// When the last warning about lost spans was logged.
    last_logged: Mutex<Option<Instant>>,
}

impl OtlpClient {
    /// Makes a client. If `needs_tls` is set, it trusts the machine's root certificates, otherwise none, so that a machine
    /// without them can send traces over plain HTTP.
    pub(super) fn new(protocol: OtlpProtocol, needs_tls: bool) -> Result<Self, String> {
        let version = match protocol {
            OtlpProtocol::Http => HttpVersion::Http1,
            OtlpProtocol::Grpc => HttpVersion::Http2,
        };
        let tls = needs_tls.then(TlsSettings::default);
        let connector = connector(OutboundSettings { version, tls, ..OutboundSettings::default() })?;
        let mut builder = Client::builder(TokioExecutor::new());
        let client = builder.http2_only(protocol == OtlpProtocol::Grpc).build(connector);
        Ok(Self { client, protocol, runtime: Handle::current(), last_logged: Mutex::default() })
    }

    fn log_failure(&self, to: &str, error: &str) {
        let mut last_logged = self.last_logged.lock().unwrap_or_else(PoisonError::into_inner);
        if last_logged.is_none_or(|last_logged| last_logged.elapsed() > QUIET) {
            *last_logged = Some(Instant::now());
            tracing::warn!(
                "traces are not taken by {to}: {error}. This is said once in {} minutes",
                QUIET.as_secs() / 60
            );
        }
    }
}

#[async_trait]
impl HttpClient for OtlpClient {
    async fn send_bytes(&self, mut request: http::Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let to = receiver(request.uri());
        let client = self.client.clone();
        let protocol = self.protocol;
        if let Some(value) = authorization(request.uri()).filter(|_| protocol == OtlpProtocol::Http) {
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, value);
        }
        let exchange = async move {
            let request = if protocol == OtlpProtocol::Grpc { grpc_request(request) } else { request };
            let answer = client.request(request.map(Full::new));
            let answer = answer.await.map_err(|error| causes(&error) + &tls_advice(&error, TlsNames::SYSTEM));
            let (head, body) = answer?.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await;
            let body = body.map_err(|error| format!("the answer cannot be read: {}", causes(&*error)))?;
            match protocol {
                OtlpProtocol::Http => Ok(Response::from_parts(head, body.to_bytes())),
                OtlpProtocol::Grpc => {
                    let trailers = body.trailers().cloned();
                    grpc_answer(&head, trailers.as_ref(), body.to_bytes())
                }
            }
        };
        let bounded = self.runtime.spawn(async move { tokio::time::timeout(TIMEOUT, exchange).await });
        let answer: Result<Response<Bytes>, String> = match bounded.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(format!("no answer within {TIMEOUT:?}")),
            Err(_) => Err("the process ended meanwhile".to_owned()),
        };
        match &answer {
            Ok(answer) if !answer.status().is_success() => {
                self.log_failure(&to, &format!("the answer is {}", answer.status()))
            }
            Ok(_) => {}
            Err(error) => self.log_failure(&to, error),
        }
        answer.map_err(|error| format!("{to}: {error}").into())
    }
}

/// Returns the scheme, host, port and path of a URL: what is confidential can be in the rest.
fn receiver(url: &http::Uri) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}", url.scheme_str().unwrap_or("http"), url.host().unwrap_or_default(), url.path())
}

/// Makes a unary call of gRPC of a message.
fn grpc_request(request: http::Request<Bytes>) -> http::Request<Bytes> {
    let (mut head, message) = request.into_parts();
    head.version = http::Version::HTTP_2;
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    head.headers.insert(header::TE, HeaderValue::from_static("trailers"));
    let mut body = BytesMut::with_capacity(GRPC_PREFIX + message.len());
    body.put_u8(0);
    body.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    body.extend_from_slice(&message);
    http::Request::from_parts(head, body.freeze())
}

/// Makes an answer of HTTP of the answer to a unary call.
///
/// # Errors
/// If it is not an answer of gRPC.
fn grpc_answer(
    head: &http::response::Parts,
    trailers: Option<&HeaderMap>,
    body: Bytes,
) -> Result<Response<Bytes>, String> {
    // An answer without a message has the status in its only headers.
    let status = trailers.and_then(|trailers| trailers.get("grpc-status")).or_else(|| head.headers.get("grpc-status"));
    let Some(status) = status.and_then(|status| status.to_str().ok()) else {
        return Err(format!("the answer, HTTP {}, is not one of gRPC", head.status));
    };
    let (code, body) = match status {
        "0" => (StatusCode::OK, body.get(GRPC_PREFIX..).map(|message| body.slice_ref(message)).unwrap_or_default()),
        _ if GRPC_RETRYABLE.contains(&status) => (StatusCode::SERVICE_UNAVAILABLE, Bytes::new()),
        _ => (StatusCode::BAD_REQUEST, Bytes::new()),
    };
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failure_says_where_to_and_why() {
        // Nobody listens on a port that was just given up.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let client = OtlpClient::new(OtlpProtocol::Http, false).unwrap();
        let url = format!("http://127.0.0.1:{port}/v1/traces?key=hunter2");
        let error = client.send_bytes(http::Request::post(url).body(Bytes::new()).unwrap()).await.unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with(&format!("http://127.0.0.1:{port}/v1/traces: ")), "{said}");
        assert!(said.contains("Connection refused") && !said.contains("hunter2"), "{said}");
    }
}
