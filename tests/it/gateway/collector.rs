//! Receivers of traces: one of the test, which decodes what OTLP defines, and a real collector before it.

use std::io::Read;
use std::net::TcpListener as StdListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use flate2::read::GzDecoder;
use hyper::HeaderMap;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Held;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;

use super::harness::SOON;
use super::parts::until;
use crate::fixtures::python;

/// A receiver of the test, over HTTP.
#[derive(Clone)]
pub struct Receiver {
    pub url: String,
    spans: Arc<Mutex<Vec<Span>>>,
    logs: Arc<Mutex<Vec<LogRecord>>>,
}

impl Receiver {
    /// Starts one; it lives as long as the test's runtime.
    pub async fn start() -> Self {
        let spans = Arc::new(Mutex::new(Vec::new()));
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        let kept = Arc::clone(&spans);
        let logs = Arc::new(Mutex::new(Vec::new()));
        let kept_logs = Arc::clone(&logs);
        let take_logs = move |headers: HeaderMap, body: Bytes| {
            let sent = ExportLogsServiceRequest::decode(&unpacked(&headers, &body)[..]).unwrap();
            let scopes = sent.resource_logs.into_iter().flat_map(|resource| resource.scope_logs);
            kept_logs.lock().unwrap().extend(scopes.flat_map(|scope| scope.log_records));
            async {}
        };
        let take = move |headers: HeaderMap, body: Bytes| {
            let sent = ExportTraceServiceRequest::decode(&unpacked(&headers, &body)[..]).unwrap();
            let scopes = sent.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
            kept.lock().unwrap().extend(scopes.flat_map(|scope| scope.spans));
            async {}
        };
        let router = Router::new().route("/v1/traces", post(take)).route("/v1/logs", post(take_logs));
        tokio::spawn(async move { axum::serve(socket, router).await });
        Self { url, spans, logs }
    }

    /// The log records so far.
    pub fn logs(&self) -> Vec<LogRecord> {
        self.logs.lock().unwrap().clone()
    }

    /// The spans so far.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap().clone()
    }

    /// Waits for the span of a call of this tool, which ends last, and returns all spans so far.
    pub async fn with_call_of(&self, tool: &str) -> Vec<Span> {
        let name = format!("tools/call {tool}");
        until(&name, async || self.spans().iter().any(|span| span.name == name && span.kind == 2)).await;
        self.spans()
    }
}

/// The body of a request, which can be compressed.
fn unpacked(headers: &HeaderMap, body: &Bytes) -> Vec<u8> {
    let mut message = body.to_vec();
    if headers.contains_key("content-encoding") {
        message.clear();
        GzDecoder::new(&body[..]).read_to_end(&mut message).unwrap();
    }
    message
}

/// The text of an attribute.
pub fn text(span: &Span, key: &str) -> Option<String> {
    match span.attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value? {
        Held::StringValue(text) => Some(text),
        other => Some(format!("{other:?}")),
    }
}

/// The lower-case digits of an id.
pub fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A real collector (rotel), which sends on all that it takes.
pub struct Collector {
    child: Child,
    /// What it sends goes there.
    pub receiver: Receiver,
    /// Where it takes OTLP over gRPC.
    pub grpc: String,
    /// Where it takes OTLP over HTTP.
    pub http: String,
}

impl Collector {
    pub async fn start() -> Self {
        let receiver = Receiver::start().await;
        let script = "import os, rotel; print(os.path.dirname(rotel.__file__))";
        let found = Command::new(python()).args(["-c", script]).output().unwrap();
        assert!(found.status.success(), "rotel is not installed: run `make setup`");
        let agent = format!("{}/rotel-agent", String::from_utf8(found.stdout).unwrap().trim());
        // Whatever program takes one of the ports meanwhile makes it end, so that it is started again on others.
        for _ in 0..5 {
            let [grpc, http] = [free_address(), free_address()];
            let mut command = Command::new(&agent);
            command.args(["start", "--otlp-grpc-endpoint", &grpc, "--otlp-http-endpoint", &http]);
            command.args(["--exporter", "otlp", "--otlp-exporter-protocol", "http", "--batch-timeout", "10ms"]);
            command.args(["--otlp-exporter-endpoint", &receiver.url]);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let deadline = Instant::now() + SOON;
            while child.try_wait().unwrap().is_none() {
                if std::net::TcpStream::connect(&grpc).is_ok() {
                    return Self { child, receiver, grpc: format!("http://{grpc}"), http: format!("http://{http}") };
                }
                assert!(Instant::now() < deadline, "the collector does not listen");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        panic!("the collector ends each time");
    }
}

impl Collector {
    /// The port where it takes OTLP over gRPC.
    pub fn port(&self) -> u16 {
        self.grpc.rsplit(':').next().unwrap().parse().unwrap()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> String {
    StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}
