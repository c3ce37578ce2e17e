//! Traces of calls, sent by the real exporter.

use std::sync::{Arc, Mutex};

use axum::routing::post;
use axum::{Json, Router};
use hyper::{HeaderMap, StatusCode};
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::collector::{Collector, Receiver, hex, text};
use super::harness::{Folder, Gateway, run};
use super::http::{Http, call_body, call_headers};
use super::parts::{ECHO_MODULE, chain, object, plugin, raw_stdio, tools_of, until};
use crate::upstream::tls;

/// The context of a client's span that is sampled, and of one that is not.
const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const NOT_SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
/// The trace that both belong to, and their span.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// An MCPGateway whose traces are sent as `tracing` says.
fn gateway(tracing: &Value) -> String {
    object("MCPGateway", "main", &format!("authentication: {{anonymous: {{}}}}, telemetry: {{tracing: {tracing}}}"))
}

/// A gateway with one upstream, one guard on what it answers, and one observer.
fn parts(folder: &Folder) -> String {
    let upstream = raw_stdio("raw", &folder.path().join("log"));
    let plugins = plugin("echo", ECHO_MODULE, "") + &plugin("seen", ECHO_MODULE, "role: Observe");
    upstream + &plugins + &chain("answers", "Response", &["raw"], &["echo", "seen"])
}

/// Spans are sent soon after they end.
const SOON_SENT: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "50");

fn named<'a>(spans: &'a [Span], name: &str, kind: i32) -> &'a Span {
    let found = spans.iter().find(|span| span.name == name && span.kind == kind);
    found.unwrap_or_else(|| panic!("{name}: {spans:#?}"))
}

#[tokio::test]
async fn a_call_is_one_trace_of_the_server_and_the_plugins_that_ran() {
    let receiver = Receiver::start().await;
    let folder = Folder::new();
    folder.write("manifests.yaml", &parts(&folder));
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.as_str()), SOON_SENT];
    let gateway = Gateway::start_in(&folder, &[], &variables);
    tools_of(&gateway, &["raw"]).await;
    let secret = r#"{"a": "swordfish"}"#;
    assert!(run(&["call", "raw__args", secret, "--url", &gateway.url()]).status.success());
    let spans = receiver.with_call_of("raw__args").await;
    let call = named(&spans, "tools/call raw__args", 2);
    assert_eq!(call.parent_span_id.len(), 0, "{spans:#?}");
    assert_eq!(text(call, "hawsepipe.outcome").as_deref(), Some("ok"), "{call:#?}");
    assert_eq!(text(call, "mcp.protocol.version").as_deref(), Some("2026-07-28"));
    assert_eq!(text(call, "network.transport").as_deref(), Some("tcp"));
    assert!(text(call, "jsonrpc.request.id").is_some_and(|id| !id.is_empty()), "{call:#?}");
    let to_server = named(&spans, "tools/call args", 3);
    assert_eq!(to_server.parent_span_id, call.span_id);
    let attributes = [
        ("mcp.method.name", "tools/call"),
        ("mcp.protocol.version", "2025-11-25"),
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "args"),
        ("network.transport", "pipe"),
        ("hawsepipe.upstream", "raw"),
    ];
    for (key, value) in attributes {
        assert_eq!(text(to_server, key).as_deref(), Some(value), "{key}");
    }
    for name in ["plugin default/echo", "plugin default/seen"] {
        until(name, async || receiver.spans().iter().any(|span| span.name == name)).await;
        let spans = receiver.spans();
        let plugin = named(&spans, name, 1);
        assert_eq!((&plugin.trace_id, &plugin.parent_span_id), (&call.trace_id, &call.span_id), "{name}");
        assert_eq!(text(plugin, "hawsepipe.outcome").as_deref(), Some("ran"));
    }
    assert!(!format!("{:?}", receiver.spans()).contains("swordfish"), "{spans:#?}");
}

#[tokio::test]
async fn a_collector_gets_the_trace_of_the_client_over_grpc_and_the_server_is_told_of_it() {
    let collector = Collector::start().await;
    let folder = Folder::new();
    let tracing = json!({"endpoint": collector.grpc, "samplePercent": 0});
    folder.write("manifests.yaml", &(gateway(&tracing) + &parts(&folder)));
    let gateway = Gateway::start_in(&folder, &[], &[SOON_SENT]);
    tools_of(&gateway, &["raw"]).await;
    let (http, url) = (Http::new(), gateway.url());
    // Not one of a hundred is traced, but for those whose client says so.
    http.call(&url, "raw__args", &json!({}), &json!({})).await;
    let meta = json!({"traceparent": SAMPLED, "tracestate": "vendor=1", "mine": 2});
    let failed = http.call(&url, "raw__error", &json!({}), &meta).await;
    assert!(failed["error"].is_object(), "{failed}");
    let spans = collector.receiver.with_call_of("raw__error").await;
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE), "{spans:#?}");
    let call = named(&spans, "tools/call raw__error", 2);
    assert_eq!((hex(&call.parent_span_id).as_str(), call.trace_state.as_str()), (SPAN, "vendor=1"), "{call:#?}");
    assert_eq!(text(call, "error.type").as_deref(), Some("rpc_error"));
    let to_server = named(&spans, "tools/call error", 3);
    assert_eq!(to_server.parent_span_id, call.span_id);
    let code = failed["error"]["code"].to_string();
    assert_eq!(text(to_server, "rpc.response.status_code"), Some(code.clone()), "{to_server:#?}");
    assert_eq!((text(to_server, "error.type"), to_server.status.as_ref().unwrap().code), (Some(code), 2));

    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let sent: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_tool = |name: &str| {
        let found = sent.iter().find(|message| message["params"]["name"] == name);
        found.map(|message| message["params"]["_meta"].clone()).unwrap()
    };
    let told = format!("00-{TRACE}-{}-01", hex(&to_server.span_id));
    assert_eq!(of_tool("error"), json!({"mine": 2, "traceparent": told, "tracestate": "vendor=1"}));
    let untraced = of_tool("args")["traceparent"].as_str().unwrap().to_owned();
    assert!(untraced.ends_with("-00"), "{untraced}");
}

#[tokio::test]
async fn a_collector_gets_traces_over_grpc_with_tls_if_the_machine_trusts_its_certificate() {
    let collector = Collector::start().await;
    let (_running, certificate, port) = tls::terminator(collector.port());
    let tracing = json!({"endpoint": format!("https://127.0.0.1:{port}"), "samplePercent": 100});
    let manifests = |folder: &Folder| gateway(&tracing) + &parts(folder);
    let trusted = certificate.path().join("cert.pem").to_string_lossy().into_owned();
    let folder = Folder::new();
    folder.write("manifests.yaml", &manifests(&folder));
    let running = Gateway::start_in(&folder, &[], &[SOON_SENT, ("SSL_CERT_FILE", &trusted)]);
    tools_of(&running, &["raw"]).await;
    Http::new().call(&running.url(), "raw__args", &json!({}), &json!({})).await;
    let spans = collector.receiver.with_call_of("raw__args").await;
    assert_eq!(text(named(&spans, "tools/call raw__args", 2), "hawsepipe.outcome").as_deref(), Some("ok"));

    let folder = Folder::new();
    folder.write("manifests.yaml", &manifests(&folder));
    let distrusting = Gateway::start_in(&folder, &[], &[SOON_SENT]);
    tools_of(&distrusting, &["raw"]).await;
    Http::new().call(&distrusting.url(), "raw__exact", &json!({}), &json!({})).await;
    let said = format!("traces are not taken by https://127.0.0.1:{port}/");
    until("it is said that traces are not taken", async || {
        distrusting.log().iter().any(|line| line.contains(&said) && line.contains("certificate"))
    })
    .await;
    let sent = collector.receiver.spans();
    assert!(sent.iter().all(|span| span.name != "tools/call raw__exact"), "{sent:#?}");
}

#[tokio::test]
async fn headers_tell_the_parent_where_meta_does_not_and_one_that_is_not_sampled_is_not_traced() {
    let receiver = Receiver::start().await;
    let folder = Folder::new();
    let tracing = json!({"endpoint": receiver.url, "protocol": "HTTP", "samplePercent": 100});
    folder.write("manifests.yaml", &(gateway(&tracing) + &parts(&folder)));
    // The machine has no root certificates, and plain HTTP needs none.
    let (file, folder_of_roots) = (("SSL_CERT_FILE", "/nonexistent/roots.pem"), ("SSL_CERT_DIR", "/nonexistent"));
    let gateway = Gateway::start_in(&folder, &[], &[SOON_SENT, file, folder_of_roots]);
    tools_of(&gateway, &["raw"]).await;
    let (http, url) = (Http::new(), gateway.url());
    let call = async |tool: &str, header: &str, meta: &Value| {
        let headers = [&call_headers(tool)[..], &[("traceparent", header)]].concat();
        let answer = http.send(hyper::Method::POST, &url, &headers, call_body(tool, "{}", meta)).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    call("raw__args", NOT_SAMPLED, &json!({})).await;
    call("raw__error", SAMPLED, &json!({"traceparent": NOT_SAMPLED})).await;
    call("raw__broken", "this is not a context", &json!({"traceparent": 7})).await;
    call("raw__exact", SAMPLED, &json!({})).await;
    let spans = receiver.with_call_of("raw__exact").await;
    let exact = named(&spans, "tools/call raw__exact", 2);
    assert_eq!((hex(&exact.trace_id).as_str(), hex(&exact.parent_span_id).as_str()), (TRACE, SPAN));
    let broken = named(&spans, "tools/call raw__broken", 2);
    assert_eq!(broken.parent_span_id.len(), 0, "{broken:#?}");
    let calls: Vec<_> = spans.iter().filter(|span| span.kind == 2).map(|span| span.name.as_str()).collect();
    assert_eq!(calls, ["tools/call raw__broken", "tools/call raw__exact"], "{spans:#?}");
}

#[tokio::test]
async fn changed_settings_take_effect_without_a_restart_and_lost_spans_are_counted() {
    let (first, second) = (Receiver::start().await, Receiver::start().await);
    let folder = Folder::new();
    let at = |url: &str| gateway(&json!({"endpoint": url, "protocol": "HTTP", "samplePercent": 100}));
    folder.write("manifests.yaml", &parts(&folder));
    folder.write("gateway.yaml", &at(&first.url));
    let running = Gateway::start_in(&folder, &[], &[SOON_SENT]);
    tools_of(&running, &["raw"]).await;
    let http = Http::new();
    let call = async || drop(http.call(&running.url(), "raw__args", &json!({}), &json!({})).await);
    let dropped = async || {
        let metrics = http.get(&format!("http://{}/metrics", running.admin())).await.body;
        let series = r#"hawsepipe_trace_spans_dropped_total{reason="not_taken"} "#;
        let line = metrics.lines().find_map(|line| line.strip_prefix(series)).unwrap_or_else(|| panic!("{metrics}"));
        line.parse::<u64>().unwrap()
    };
    call().await;
    first.with_call_of("raw__args").await;

    folder.write("gateway.yaml", &at(&second.url));
    until("traces go to the second receiver", async || {
        call().await;
        second.spans().iter().any(|span| span.kind == 2)
    })
    .await;
    assert_eq!(dropped().await, 0);
    // Bound and not listened on: whoever connects is refused.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    folder.write("gateway.yaml", &at(&format!("http://{nobody}")));
    until("spans are lost", async || {
        call().await;
        dropped().await > 0
    })
    .await;

    folder.write("gateway.yaml", &object("MCPGateway", "main", "authentication: {anonymous: {}}"));
    let log = folder.path().join("log");
    until("the server is told of no trace", async || {
        call().await;
        let log = std::fs::read_to_string(&log).unwrap();
        log.lines().next_back().is_some_and(|line| !line.contains("traceparent"))
    })
    .await;
}

/// A server of MCP over HTTP without tools but `t`, which keeps the headers of calls of it.
async fn recording() -> (String, Arc<Mutex<Vec<HeaderMap>>>) {
    let seen = Arc::<Mutex<Vec<HeaderMap>>>::default();
    let kept = Arc::clone(&seen);
    let answer = async move |headers: HeaderMap, Json(request): Json<Value>| {
        let tool = json!({"name": "t", "inputSchema": {"type": "object"}});
        let result = match request["method"].as_str() {
            Some("initialize") => {
                let info = json!({"name": "recording", "version": "1"});
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
            }
            Some("tools/list") => json!({"tools": [tool]}),
            Some("tools/call") => {
                kept.lock().unwrap().push(headers);
                json!({"content": []})
            }
            Some("ping") => json!({}),
            _ if request["id"].is_null() => return (StatusCode::ACCEPTED, Json(Value::Null)),
            _ => {
                let error = json!({"code": -32601, "message": "Method not found"});
                return (StatusCode::OK, Json(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})));
            }
        };
        (StatusCode::OK, Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})))
    };
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", socket.local_addr().unwrap());
    let router = Router::new().route("/mcp", post(answer));
    tokio::spawn(async move { axum::serve(socket, router).await });
    (url, seen)
}

#[tokio::test]
async fn a_server_over_http_has_the_context_in_its_headers_while_traces_are_on() {
    let (receiver, (server, seen)) = (Receiver::start().await, recording().await);
    let folder = Folder::new();
    folder.write("upstream.yaml", &object("MCPUpstream", "rec", &format!("external: {{url: {server:?}}}")));
    folder.write("gateway.yaml", &object("MCPGateway", "main", "authentication: {anonymous: {}}"));
    let running = Gateway::start_in(&folder, &[], &[SOON_SENT]);
    tools_of(&running, &["rec"]).await;
    let http = Http::new();
    http.call(&running.url(), "rec__t", &json!({}), &json!({"traceparent": SAMPLED})).await;
    assert!(!seen.lock().unwrap()[0].contains_key("traceparent"), "traces are off");
    folder.write("gateway.yaml", &gateway(&json!({"endpoint": receiver.url, "protocol": "HTTP", "samplePercent": 0})));
    until("a traced call", async || {
        http.call(&running.url(), "rec__t", &json!({}), &json!({"traceparent": SAMPLED, "tracestate": "vendor=1"}))
            .await;
        receiver.spans().iter().any(|span| span.kind == 3)
    })
    .await;
    let spans = receiver.spans();
    let sent = named(&spans, "tools/call t", 3);
    let told = format!("00-{TRACE}-{}-01", hex(&sent.span_id));
    let headers = seen.lock().unwrap().clone();
    let of_span = headers.iter().find(|headers| headers.get("traceparent").is_some_and(|value| *value == *told));
    assert_eq!(of_span.expect("it has the span's context")["tracestate"], "vendor=1");
}
