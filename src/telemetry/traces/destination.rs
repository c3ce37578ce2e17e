//! Where traces are sent: from the standard environment variables or from the plan to an exporter.

use opentelemetry::KeyValue;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, TracerProviderBuilder};

use super::dropped::DroppedSpans;
use super::otlp_client::OtlpClient;
use crate::domain::plan::{OtlpProtocol, TracingPlan};

/// The service name, unless `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` sets another.
pub(super) const SERVICE: &str = "hawsepipe";
/// The path of traces in OTLP over HTTP.
const HTTP_PATH: &str = "/v1/traces";
/// The path of traces in OTLP over gRPC.
const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// What the environment says about traces.
pub(super) enum Environment {
    /// Nothing.
    Silent,
    /// That they are off.
    Off,
    /// Where to send them.
    Receiver(OtlpProtocol),
}

impl Environment {
    pub(super) fn read() -> Self {
        let is = |variable: &str, word: &str| value(variable).is_some_and(|value| value == word);
        if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Self::Off;
        }
        if endpoint_of_environment().is_none() {
            return Self::Silent;
        }
        let protocol = value("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL").or_else(|| value("OTEL_EXPORTER_OTLP_PROTOCOL"));
        Self::Receiver(match protocol.as_deref() {
            Some("grpc") => OtlpProtocol::Grpc,
            _ => OtlpProtocol::Http,
        })
    }
}

/// The value of a variable; one that is empty counts as not set.
pub(super) fn value(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

/// The receiver that the environment names.
fn endpoint_of_environment() -> Option<String> {
    value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| value("OTEL_EXPORTER_OTLP_ENDPOINT"))
}

/// Makes an exporter as the environment says.
pub(super) fn of_environment(protocol: OtlpProtocol, dropped: &DroppedSpans) -> Result<SdkTracerProvider, String> {
    let endpoint = endpoint_of_environment();
    endpoint.as_deref().map_or(Ok(()), without_user)?;
    let to = match protocol {
        // The exporter reads the variables itself.
        OtlpProtocol::Http => None,
        OtlpProtocol::Grpc => endpoint.map(|endpoint| url(&endpoint, GRPC_PATH)),
    };
    Ok(provider(to, protocol, dropped)?.build())
}

/// Makes an exporter as the plan says.
pub(super) fn of_plan(plan: &TracingPlan, dropped: &DroppedSpans) -> Result<SdkTracerProvider, String> {
    let path = match plan.protocol {
        OtlpProtocol::Http => HTTP_PATH,
        OtlpProtocol::Grpc => GRPC_PATH,
    };
    without_user(&plan.endpoint).map_err(|why| format!("spec.telemetry.tracing: {why}"))?;
    let share = f64::from(plan.sample_percent.min(100)) / 100.0;
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(share)));
    let builder = provider(Some(url(&plan.endpoint, path)), plan.protocol, dropped);
    builder.map(|builder| builder.with_sampler(sampler).build()).map_err(|why| format!("spec.telemetry.tracing: {why}"))
}

/// Refuses an endpoint with a user or a password, which would not be sent.
fn without_user(endpoint: &str) -> Result<(), String> {
    let authority = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest).split(['/', '?', '#']).next();
    match authority.is_some_and(|authority| authority.contains('@')) {
        true => Err("the endpoint has a user or a password: send a header with OTEL_EXPORTER_OTLP_HEADERS".to_owned()),
        false => Ok(()),
    }
}

/// Adds the path to an endpoint that does not have it yet.
fn url(endpoint: &str, path: &str) -> String {
    let endpoint = endpoint.trim_end_matches('/');
    if endpoint.ends_with(path) { endpoint.to_owned() } else { format!("{endpoint}{path}") }
}

/// Makes an exporter to this URL, or to the one that the exporter reads from the environment.
fn provider(
    to: Option<String>,
    protocol: OtlpProtocol,
    dropped: &DroppedSpans,
) -> Result<TracerProviderBuilder, String> {
    let receiver = to.clone().or_else(endpoint_of_environment).unwrap_or_default();
    let needs_tls = receiver.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
    let exporter = SpanExporter::builder().with_http().with_http_client(OtlpClient::new(protocol, needs_tls)?);
    let exporter = match to {
        Some(url) => exporter.with_endpoint(url),
        None => exporter,
    };
    let exporter = exporter.build().map_err(|error| error.to_string())?;
    let mut resource = Resource::builder();
    let attributes = value("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    if value("OTEL_SERVICE_NAME").is_none() && !attributes.contains("service.name=") {
        resource = resource.with_service_name(SERVICE);
    }
    let resource = resource.with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))).build();
    let queue = dropped.queue(exporter, value("OTEL_BSP_MAX_QUEUE_SIZE").and_then(|size| size.parse().ok()));
    Ok(SdkTracerProvider::builder().with_resource(resource).with_span_processor(queue))
}

#[cfg(test)]
mod tests {
    use super::{GRPC_PATH, HTTP_PATH, url, without_user};

    #[test]
    fn a_password_that_would_not_be_sent_is_refused_and_not_repeated() {
        for endpoint in ["http://user:hunter2@c:4318/base", "https://user@c", "user:hunter2@c"] {
            let why = without_user(endpoint).unwrap_err();
            assert!(why.contains("OTEL_EXPORTER_OTLP_HEADERS") && !why.contains("hunter2"), "{why}");
        }
        for endpoint in ["http://c:4318", "http://c/a@b", "http://c?a@b"] {
            assert_eq!(without_user(endpoint), Ok(()));
        }
    }

    #[test]
    fn the_path_of_traces_is_added_once() {
        assert_eq!(url("http://c:4318", HTTP_PATH), "http://c:4318/v1/traces");
        assert_eq!(url("http://c:4318/", HTTP_PATH), "http://c:4318/v1/traces");
        assert_eq!(url("http://c:4318/otlp", HTTP_PATH), "http://c:4318/otlp/v1/traces");
        assert_eq!(url("http://c:4318/v1/traces", HTTP_PATH), "http://c:4318/v1/traces");
        assert_eq!(url("http://c:4317", GRPC_PATH), format!("http://c:4317{GRPC_PATH}"));
    }
}
