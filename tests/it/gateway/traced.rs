//! Traces of calls, sent by the real exporter to a receiver of the test, which decodes what OTLP defines.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Held;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;

use super::harness::{Folder, Gateway, run};
use super::parts::{ECHO_MODULE, chain, plugin, raw_stdio, tools_of, until};

type Received = Arc<Mutex<Vec<Span>>>;

/// Starts a receiver, and says where it is.
async fn receiver() -> (String, Received) {
    let received = Received::default();
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let kept = Arc::clone(&received);
    let take = move |body: Bytes| {
        let sent = ExportTraceServiceRequest::decode(body).unwrap();
        let scopes = sent.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        kept.lock().unwrap().extend(scopes.flat_map(|scope| scope.spans));
        async {}
    };
    tokio::spawn(async move { axum::serve(socket, Router::new().route("/v1/traces", post(take))).await });
    (url, received)
}

fn text(span: &Span, key: &str) -> Option<String> {
    match span.attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value? {
        Held::StringValue(text) => Some(text),
        other => Some(format!("{other:?}")),
    }
}

#[tokio::test]
async fn a_call_is_one_trace_of_the_server_and_the_plugins_that_ran() {
    let (url, received) = receiver().await;
    let folder = Folder::new();
    let parts = [
        raw_stdio("raw", &folder.path().join("log")),
        plugin("echo", ECHO_MODULE, ""),
        chain("answers", "Response", &["raw"], &["echo"]),
    ];
    folder.write("manifests.yaml", &parts.concat());
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "50")];
    let gateway = Gateway::start_in(&folder, &[], &variables);
    tools_of(&gateway, &["raw"]).await;
    let secret = r#"{"a": "swordfish"}"#;
    assert!(run(&["call", "raw__args", secret, "--url", &gateway.url()]).status.success());
    until("the call's spans are sent", async || received.lock().unwrap().iter().any(|span| span.kind == 2)).await;
    let spans = received.lock().unwrap().clone();
    let call = spans.iter().find(|span| span.kind == 2).unwrap();
    assert_eq!((call.name.as_str(), call.parent_span_id.len()), ("tools/call raw__args", 0), "{spans:#?}");
    assert_eq!(text(call, "hawsepipe.outcome").as_deref(), Some("ok"), "{call:#?}");
    let inside: Vec<_> = spans.iter().filter(|span| span.parent_span_id == call.span_id).collect();
    let named =
        |name: &str| *inside.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name}: {spans:#?}"));
    assert_eq!(text(named("tools/call args"), "hawsepipe.upstream").as_deref(), Some("raw"));
    assert_eq!(text(named("plugin default/echo"), "hawsepipe.outcome").as_deref(), Some("ran"));
    assert!(!format!("{spans:?}").contains("swordfish"), "{spans:#?}");
}
