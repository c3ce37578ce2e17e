//! Traces of the operator, sent by the real exporter to a receiver of the test. No collector can be had where tests run,
//! so the receiver only decodes what OTLP defines.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value as Held};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::harness::{Operated, gateway, object};
use crate::harness::{Cluster, until};

/// What was received.
type Received = Arc<Mutex<Vec<ExportTraceServiceRequest>>>;

/// Starts a receiver; it lives as long as the test's runtime.
async fn receiver() -> (&'static str, Received) {
    let received = Received::default();
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let kept = Arc::clone(&received);
    let take = move |body: Bytes| {
        kept.lock().unwrap().push(ExportTraceServiceRequest::decode(body).unwrap());
        async {}
    };
    let router = Router::new().route("/v1/traces", post(take));
    tokio::spawn(async move { axum::serve(socket, router).await });
    (url.leak(), received)
}

fn spans(received: &Received) -> Vec<Span> {
    let received = received.lock().unwrap();
    let scopes = received.iter().flat_map(|request| &request.resource_spans).flat_map(|r| &r.scope_spans);
    scopes.flat_map(|scope| scope.spans.clone()).collect()
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let value = attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value?;
    Some(match value {
        Held::StringValue(text) => text,
        Held::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

#[tokio::test]
async fn one_apply_is_one_trace_and_the_last_spans_are_sent_at_the_end() {
    let (url, received) = receiver().await;
    // So long that only the end of the process sends.
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", url), ("OTEL_BSP_SCHEDULE_DELAY", "3600000")];
    let operated = Operated::with(Cluster::shared().await, &[], &variables).await;
    operated.apply(&[gateway("main")]).await;
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;
    let plugin = object("Plugin", "say", &json!({"source": {"inline": "export default () => ({});"}}));
    operated.apply(&[plugin]).await;
    operated.until_condition("plugins", "say", "Ready", "True Ready").await;
    assert!(spans(&received).is_empty(), "they are sent one by one");
    operated.operator.signal("TERM");
    let all = until("the spans are sent", async || Some(spans(&received)).filter(|all| !all.is_empty())).await;

    let named = format!("Plugin {}/say", operated.namespace);
    let is_it =
        |span: &&Span| span.name == "reconcile" && text(&span.attributes, "names").is_some_and(|n| n.contains(&named));
    let round = all.iter().find(is_it).unwrap_or_else(|| panic!("no round of {named}: {all:#?}"));
    assert!(round.parent_span_id.is_empty(), "{round:#?}");
    assert_eq!(text(&round.attributes, "objects").as_deref(), Some("2"));
    let parts: Vec<_> = all.iter().filter(|span| span.trace_id == round.trace_id).collect();
    let part = |name: &str| {
        let found = parts.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name}: {parts:#?}"));
        assert_eq!(found.parent_span_id, round.span_id, "{name}");
        found
    };
    let (apply, status) = (part("apply"), part("status"));
    part("dereference");
    part("compile");
    assert_eq!(text(&apply.attributes, "gateway"), Some(format!("{}/main", operated.namespace)));
    assert!(status.start_time_unix_nano >= apply.end_time_unix_nano, "statuses are told of what was applied");
    let resource = received.lock().unwrap()[0].resource_spans[0].resource.clone().unwrap();
    assert_eq!(text(&resource.attributes, "service.name").as_deref(), Some("hawsepipe"));
}

#[tokio::test]
async fn lines_of_the_log_name_their_trace_and_a_dead_receiver_is_told_once() {
    // Bound and not listened on: whoever connects is refused.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoint: &'static str = format!("http://{nobody}").leak();
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint), ("OTEL_BSP_SCHEDULE_DELAY", "50")];
    let operated = Operated::with(Cluster::shared().await, &[], &variables).await;
    // Somebody else's account of this name: the round that finds it says so.
    operated.cluster.make_account(&operated.namespace, "main-gateway").await;
    operated.apply(&[gateway("main")]).await;
    operated.until_condition("mcpgateways", "main", "Programmed", "False NameTaken").await;
    let lines =
        |log: String| -> Vec<Value> { log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect() };
    let log = lines(operated.operator.log());
    let told = |line: &&Value| line["message"].as_str().is_some_and(|message| message.contains("did not make"));
    let told = log.iter().find(told).unwrap_or_else(|| panic!("{log:#?}"));
    assert_eq!(told["trace_id"].as_str().map(str::len), Some(32), "{told}");

    let lost = || {
        let log = lines(operated.operator.log());
        let said = |line: &&Value| line["message"].as_str().is_some_and(|m| m.contains("traces are not taken"));
        log.iter().filter(said).count()
    };
    until("it is said that traces are lost", async || (lost() > 0).then_some(())).await;
    for n in 0..3 {
        let plugin = object("Plugin", &format!("p{n}"), &json!({"source": {"inline": "export default () => ({});"}}));
        operated.apply(&[plugin]).await;
        operated.until_condition("plugins", &format!("p{n}"), "Ready", "True Ready").await;
    }
    assert_eq!(lost(), 1, "once in a while is enough");
}

#[tokio::test]
async fn a_gateway_sends_its_traces_where_its_mcpgateway_says_and_follows_an_edit() {
    let ((first, at_first), (second, at_second)) = (receiver().await, receiver().await);
    let operated = Operated::with(Cluster::shared().await, &[], &[("OTEL_BSP_SCHEDULE_DELAY", "50")]).await;
    let traced = |endpoint: &str| {
        let mut gateway = gateway("main");
        gateway["spec"]["telemetry"] =
            json!({"tracing": {"endpoint": endpoint, "protocol": "HTTP", "samplePercent": 100}});
        gateway
    };
    operated.apply(&[traced(first)]).await;
    let served = operated.serve("main", &[]).await;
    let arrives = async |received: &Received| {
        until("the call's span arrives", async || {
            // Even a call of a tool that there is not is a call.
            assert!(served.gateway.call("nothing").await.is_err());
            spans(received).iter().any(|span| span.name == "tools/call nothing").then_some(())
        })
        .await;
    };
    arrives(&at_first).await;
    assert!(spans(&at_second).is_empty());
    operated.apply(&[traced(second)]).await;
    arrives(&at_second).await;
    assert!(spans(&at_first).iter().all(|span| span.name != "reconcile"), "the operator has no receiver");
}
