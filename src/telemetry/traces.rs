//! OpenTelemetry traces, sent as OTLP over HTTP. Off unless the standard environment variables name a receiver.
//!
//! Only `tracing` spans with the target [`TARGET`] are exported, and they cost nothing while traces are off. Exporting
//! never blocks a call: spans wait in a bounded queue, and are dropped if the receiver does not accept them.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use opentelemetry::trace::{SpanContext, TraceContextExt, TracerProvider};
use opentelemetry::{Context, KeyValue, TraceId};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tokio::runtime::Handle;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The target of spans that are exported.
pub const TARGET: &str = "hawsepipe::trace";
/// The service name, unless `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` sets another.
const SERVICE: &str = "hawsepipe";
/// The maximum time that sending the last spans can delay the end of the process.
const LAST_SPANS: Duration = Duration::from_secs(3);
/// How long the receiver can take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of bytes of a receiver's answer that are read.
const MAX_ANSWER: usize = 64 << 10;
/// The shortest time between two warnings about lost spans.
const QUIET: Duration = Duration::from_secs(300);

/// The trace exporter of a process; by default it is off. Call [`Traces::end`] before the process ends.
#[derive(Default)]
pub struct Traces(Option<SdkTracerProvider>);

impl Traces {
    /// Starts to send traces if `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT` is set. Must be
    /// called in a tokio runtime.
    ///
    /// # Errors
    /// If the variables are not valid; the error says why. No traces are sent in this case.
    pub(super) fn start() -> Result<Self, String> {
        let named = |variable: &str| std::env::var(variable).is_ok_and(|value| !value.is_empty());
        let is = |variable: &str, word: &str| std::env::var(variable).is_ok_and(|value| value == word);
        let off = is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none");
        let anywhere = named("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") || named("OTEL_EXPORTER_OTLP_ENDPOINT");
        if off || !anywhere {
            return Ok(Self::default());
        }
        let exporter = SpanExporter::builder().with_http().with_http_client(Sending::new()?).build();
        let exporter = exporter.map_err(|error| error.to_string())?;
        let mut resource = Resource::builder();
        let attributes = std::env::var("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        if !named("OTEL_SERVICE_NAME") && !attributes.contains("service.name=") {
            resource = resource.with_service_name(SERVICE);
        }
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = resource.with_attribute(version).build();
        Ok(Self(Some(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build())))
    }

    /// Returns the tracer, or `None` if traces are off.
    pub(super) fn tracer(&self) -> Option<SdkTracer> {
        self.0.as_ref().map(|provider| provider.tracer(SERVICE))
    }

    /// Sends the remaining spans, for at most three seconds, and ends the exporter.
    pub async fn end(self) {
        let Some(provider) = self.0 else { return };
        // The shutdown blocks until a thread has sent the spans through this runtime.
        let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(LAST_SPANS)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!("the last spans are lost: {error}");
        }
    }
}

/// Returns the id of the current span's trace, or `None` if there is no trace.
pub fn current_id() -> Option<String> {
    let context = tracing::Span::current().context();
    let id = context.span().span_context().trace_id();
    (id != TraceId::INVALID).then(|| id.to_string())
}

/// A span that can become the parent of spans that start elsewhere, such as in another task.
#[derive(Clone, Default)]
pub struct Cause(Option<SpanContext>);

impl Cause {
    /// Captures the current span.
    pub fn current() -> Self {
        let context = tracing::Span::current().context();
        Self(Some(context.span().span_context().clone()).filter(SpanContext::is_valid))
    }

    /// Makes the captured span the parent of `span`, which must not have been entered yet.
    pub fn lead_to(&self, span: &tracing::Span) {
        if let Some(cause) = &self.0 {
            // An error means that traces are off.
            let _ = span.set_parent(Context::new().with_remote_span_context(cause.clone()));
        }
    }
}

/// The exporter's HTTP client. It sends through the tokio runtime, because the exporter's thread is outside of it.
#[derive(Debug)]
struct Sending {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Handle,
    /// When the last warning about lost spans was logged.
    last_logged: Mutex<Option<Instant>>,
}

impl Sending {
    fn new() -> Result<Self, String> {
        let roots = HttpsConnectorBuilder::new().with_native_roots().map_err(|error| error.to_string())?;
        let client = Client::builder(TokioExecutor::new()).build(roots.https_or_http().enable_http1().build());
        Ok(Self { client, runtime: Handle::current(), last_logged: Mutex::default() })
    }

    fn log_failure(&self, error: &str) {
        let mut last_logged = self.last_logged.lock().unwrap_or_else(PoisonError::into_inner);
        if last_logged.is_none_or(|last_logged| last_logged.elapsed() > QUIET) {
            *last_logged = Some(Instant::now());
            tracing::warn!("traces are not taken: {error}. This is said once in {} minutes", QUIET.as_secs() / 60);
        }
    }
}

#[async_trait]
impl HttpClient for Sending {
    async fn send_bytes(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let exchange = async move {
            let answer = client.request(request.map(Full::new));
            let (head, body) = answer.await.map_err(|error| error.to_string())?.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(|error| error.to_string())?;
            Ok(http::Response::from_parts(head, body.to_bytes()))
        };
        let bounded = self.runtime.spawn(async move { tokio::time::timeout(TIMEOUT, exchange).await });
        let answer: Result<http::Response<Bytes>, String> = match bounded.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(format!("no answer within {TIMEOUT:?}")),
            Err(error) => Err(error.to_string()),
        };
        match &answer {
            Ok(answer) if !answer.status().is_success() => {
                self.log_failure(&format!("the answer is {}", answer.status()))
            }
            Ok(_) => {}
            Err(error) => self.log_failure(error),
        }
        answer.map_err(Into::into)
    }
}
