//! Traces (OpenTelemetry), sent as OTLP over HTTP. Off unless the standard variables name a receiver.
//!
//! Spans are those of `tracing` that name the target [`TARGET`]: a span costs something only while traces are
//! sent. Sending never blocks: spans wait in a bounded queue, and those that the receiver does not take are dropped.

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

/// The target of spans that are traced.
pub const TARGET: &str = "hawsepipe::trace";
/// The name of the service, where `OTEL_SERVICE_NAME` gives no other.
const SERVICE: &str = "hawsepipe";
/// How long what is not sent yet may keep a process that ends.
const LAST_SPANS: Duration = Duration::from_secs(3);
/// How long a receiver may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most of its answer that is read, in bytes.
const MAX_ANSWER: usize = 64 << 10;
/// How often it is said that spans are lost.
const QUIET: Duration = Duration::from_secs(300);

/// The traces of a process. Their end is [`Traces::end`].
#[derive(Default)]
pub struct Traces(Option<SdkTracerProvider>);

impl Traces {
    /// Begins to send traces, if variables say where to: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, or
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`. To be called in a tokio runtime.
    ///
    /// # Errors
    /// What is wrong with the variables; then nothing is sent.
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

    /// What makes spans, while traces are sent.
    pub(super) fn tracer(&self) -> Option<SdkTracer> {
        self.0.as_ref().map(|provider| provider.tracer(SERVICE))
    }

    /// Sends what is left, for a bounded time.
    pub async fn end(self) {
        let Some(provider) = self.0 else { return };
        // It waits for a thread that sends through this runtime.
        let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(LAST_SPANS)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!("the last spans are lost: {error}");
        }
    }
}

/// The id of the trace that the current span is of; none while nothing is traced.
pub fn current_id() -> Option<String> {
    let context = tracing::Span::current().context();
    let id = context.span().span_context().trace_id();
    (id != TraceId::INVALID).then(|| id.to_string())
}

/// A place in a trace that what follows from it elsewhere can be hung on.
#[derive(Clone, Default)]
pub struct Cause(Option<SpanContext>);

impl Cause {
    /// The current span.
    pub fn current() -> Self {
        let context = tracing::Span::current().context();
        Self(Some(context.span().span_context().clone()).filter(SpanContext::is_valid))
    }

    /// Makes a span that has not begun a part of that trace.
    pub fn lead_to(&self, span: &tracing::Span) {
        if let Some(cause) = &self.0 {
            // Where nothing is traced there is nothing to set.
            let _ = span.set_parent(Context::new().with_remote_span_context(cause.clone()));
        }
    }
}

/// Sends for the exporter, whose thread is not one of the runtime's.
#[derive(Debug)]
struct Sending {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Handle,
    /// When it was last said that spans are lost.
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
