//! How connections begin, are shared, renewed and ended.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::body::Body;
use axum::http::Response;
use hawsepipe::domain::plan::EraSetting;
use hawsepipe::domain::upstream::UpstreamEvent;
use hawsepipe::domain::version::Era;
use serde_json::json;

use super::fake::{Fake, Seen, answer, answer_text, events, legacy_or, status, typed};
use super::*;

/// Processes whose command line has `marker`, of this machine.
pub fn processes(marker: &str) -> Vec<u32> {
    let is_it = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        memchr::memmem::find(&line, marker.as_bytes()).is_some()
    };
    let names = std::fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).filter(|pid| *pid != std::process::id()).filter(is_it).collect()
}

pub fn marker(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

pub fn echo(text: &str) -> OutCall {
    out("echo", &format!(r#"{{"message":"{text}"}}"#))
}

#[tokio::test]
async fn a_process_that_dies_is_told_of_and_started_again() {
    let marker = marker("dies");
    let upstreams = started(everything(&marker));
    result_of(&upstreams, echo("one")).await;
    let [pid] = processes(&marker)[..] else { panic!("not one process") };
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    // The server tells of its tools when it starts.
    while upstreams.next_event().await != UpstreamEvent::Disconnected(key()) {}
    assert!(result_of(&upstreams, echo("two")).await.contains("Echo: two"));
    while upstreams.next_event().await != UpstreamEvent::ListStale(key(), ItemKind::Tool) {}
    upstreams.shutdown().await;
    until("the process ended", || processes(&marker).is_empty()).await;
}

#[tokio::test]
async fn targets_that_did_not_change_keep_their_process() {
    let marker = marker("keeps");
    let upstreams = started(everything(&marker));
    result_of(&upstreams, echo("x")).await;
    let before = processes(&marker);
    let mut other = everything(&marker);
    other.plan.labels.insert("team".into(), "a".into());
    upstreams.replace(other.clone());
    result_of(&upstreams, echo("x")).await;
    assert_eq!(processes(&marker), before);
    other.values = vec![secret("KEY", "new")];
    upstreams.replace(other);
    result_of(&upstreams, echo("x")).await;
    until("the old process ended", || processes(&marker).len() == 1).await;
    assert_ne!(processes(&marker), before);
    upstreams.retire(&[]);
    let gone = call(&upstreams, echo("x")).await;
    assert!(matches!(gone, Err(UpstreamError::Connect(_))), "{gone:?}");
    until("every process ended", || processes(&marker).is_empty()).await;
    upstreams.shutdown().await;
}

#[tokio::test]
async fn calls_in_flight_end_before_their_process() {
    let marker = marker("in-flight");
    let upstreams = started(everything(&marker));
    result_of(&upstreams, echo("x")).await;
    let long = result_of(&upstreams, out("trigger-long-running-operation", r#"{"duration":0.5,"steps":1}"#));
    let (result, ()) = tokio::join!(long, async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        upstreams.retire(&[]);
    });
    assert!(result.contains("completed"), "{result}");
    until("the process ended", || processes(&marker).is_empty()).await;
}

#[tokio::test]
async fn shutdown_ends_what_does_not_want_to_end_and_what_it_started() {
    let marker = marker("stubborn");
    let script = r#"trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & 
        read -r _; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}'; while :; do sleep 1; done"#;
    let mut target = process("sh", &["-c", script, &marker]);
    target.plan.era = EraSetting::Legacy;
    let upstreams = started(target);
    assert!(!upstreams.probe(PATIENCE).await.unwrap().has_tools);
    assert!(upstreams.list_tools(PATIENCE).await.unwrap().is_empty(), "not asked: it offers none");
    // Besides the two there may be one on its way to become `sleep`.
    assert!(processes(&marker).len() >= 2);
    upstreams.shutdown().await;
    until("every process ended", || processes(&marker).is_empty()).await;
}

#[tokio::test]
async fn a_server_that_ends_when_probed_is_started_without_the_probe() {
    let script = r#"read -r l; case "$l" in *discover*) exit 1;; esac
        echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-03-26"}}'; read -r _; read -r _"#;
    let upstreams = started(process("sh", &["-c", script]));
    let facts = upstreams.probe(PATIENCE).await.unwrap();
    assert_eq!((facts.era, facts.version.as_str()), (Era::Legacy, "2025-03-26"));
    upstreams.shutdown().await;
}

#[tokio::test]
async fn a_process_that_hangs_is_ended_by_a_probe() {
    let script = r#"read -r _; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}'; sleep 60"#;
    let mut target = process("sh", &["-c", script]);
    target.plan.era = EraSetting::Legacy;
    let upstreams = started(target);
    upstreams.probe(PATIENCE).await.unwrap();
    let limit = Duration::from_millis(50);
    assert_eq!(upstreams.probe(limit).await.unwrap_err(), UpstreamError::Timeout(limit));
    upstreams.probe(PATIENCE).await.unwrap();
    upstreams.shutdown().await;
}

#[tokio::test]
async fn giving_up_cancels_on_stdio_and_legacy_http() {
    let folder = std::env::temp_dir().join(marker("hawsepipe-cancel"));
    std::fs::create_dir_all(&folder).unwrap();
    let log = folder.join("log");
    let script = fixtures::fixture("servers/modern.py");
    let args = [&script.to_string_lossy(), "--stdio", "--log", &log.to_string_lossy()];
    let upstreams = started(process(fixtures::python().to_string_lossy(), &args));
    result_of(&upstreams, echo("x")).await;
    let limit = Duration::from_millis(100);
    let slow = call(&upstreams, out("slow", r#"{"seconds":20}"#));
    assert!(tokio::time::timeout(limit, slow).await.is_err());
    let said = || std::fs::read_to_string(&log).unwrap();
    until("stdio cancelled", || said().contains("notifications/cancelled")).await;
    upstreams.shutdown().await;
    std::fs::remove_dir_all(&folder).unwrap();

    let never = futures_util::stream::pending::<std::io::Result<&str>>;
    let fake = Fake::legacy(move |_| typed(200, "text/event-stream", Body::from_stream(never()))).await;
    let upstreams = started(external(&fake.url));
    upstreams.probe(PATIENCE).await.unwrap();
    assert!(tokio::time::timeout(limit, call(&upstreams, echo("x"))).await.is_err());
    until("http cancelled", || !fake.seen("notifications/cancelled").is_empty()).await;
    let (called, cancelled) = (&fake.seen("tools/call")[0], &fake.seen("notifications/cancelled")[0]);
    assert_eq!(cancelled.body["params"]["requestId"], called.body["id"]);
    assert_eq!(cancelled.header("mcp-session-id"), "s1");
}

#[tokio::test]
async fn connections_are_used_again() {
    let fake = Fake::legacy(|seen| match seen.body["params"]["name"].as_str() {
        Some("events") => events(&[answer_text(seen, "{}")]),
        _ => answer(seen, &json!({"text": "x".repeat(300_000)}).to_string()),
    })
    .await;
    let upstreams = started(external(&fake.url));
    upstreams.probe(PATIENCE).await.unwrap();
    for _ in 0..10 {
        result_of(&upstreams, out("events", "{}")).await;
        result_of(&upstreams, out("json", "{}")).await;
    }
    let connections = fake.connections.load(Ordering::SeqCst);
    assert!(connections <= 3, "{connections} connections for 24 requests one after another");
}

#[tokio::test]
async fn a_lost_session_is_renewed_once_within_the_call() {
    for lost in [
        || status(404),
        || {
            typed(
                400,
                "application/json",
                r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"No valid session ID"}}"#,
            )
        },
    ] {
        let refusals = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&refusals);
        let fake = Fake::legacy(move |seen| {
            let refuse = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
            if refuse { lost() } else { answer(seen, "{}") }
        })
        .await;
        let upstreams = started(external(&fake.url));
        result_of(&upstreams, echo("x")).await;
        refusals.store(1, Ordering::SeqCst);
        result_of(&upstreams, echo("x")).await;
        assert_eq!(fake.seen("initialize").len(), 2);
        assert_eq!(fake.seen("server/discover").len(), 1, "the era is remembered");
        refusals.store(9, Ordering::SeqCst);
        assert_eq!(call(&upstreams, echo("x")).await.unwrap_err().reason().as_str(), "ProtocolError");
        assert_eq!(fake.seen("initialize").len(), 3);
    }
}

#[tokio::test]
async fn the_stream_brings_changes_and_questions() {
    let fake = Fake::start(|seen| {
        if seen.method != "GET" {
            return legacy_or(seen, &|seen| answer(seen, "{}"));
        }
        let said = [
            "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"roots/list\"}",
        ];
        let changed = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}";
        let text = format!("data: {}\n\ndata: {}\n\ndata: {changed}\n\n", said[0], said[1]);
        let once = futures_util::stream::once(async move { std::io::Result::Ok(text) });
        let stay = futures_util::stream::pending();
        typed(200, "text/event-stream", Body::from_stream(futures_util::StreamExt::chain(once, stay)))
    })
    .await;
    let upstreams = started(external(&fake.url));
    upstreams.probe(PATIENCE).await.unwrap();
    assert_eq!(upstreams.next_event().await, UpstreamEvent::ListChanged(key(), ItemKind::Tool));
    let replies = || fake.all().into_iter().filter(|s| s.rpc().is_empty() && s.method == "POST").collect::<Vec<_>>();
    until("both questions were answered", || replies().len() == 2).await;
    let to = |id: u64| replies().into_iter().find(|s| s.body["id"] == id).unwrap().body;
    assert_eq!(to(7)["result"], json!({}));
    assert_eq!(to(8)["error"]["code"], -32601);
    upstreams.shutdown().await;
}

/// A stateless server that lives at another path than the one that is asked, and has a tool that mirrors an argument. A
/// call of `never` waits until it is closed, which `closed` tells.
fn moved(seen: &Seen, closed: &Arc<AtomicBool>) -> Response<Body> {
    let tool = json!({"name": "t", "inputSchema": {"type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}});
    match seen.rpc() {
        _ if seen.path == "/mcp" => {
            let mut response = status(307);
            response.headers_mut().insert("location", "/mcp/".parse().unwrap());
            response
        }
        "server/discover" => answer(seen, r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#),
        "tools/list" => answer(seen, &json!({"tools": [tool], "ttlMs": 1000}).to_string()),
        "tools/call" if seen.body["params"]["name"] == "never" => {
            let guard = AtClose(Arc::clone(closed));
            let never = futures_util::stream::poll_fn(move |_| {
                let _held = &guard;
                std::task::Poll::<Option<std::io::Result<&str>>>::Pending
            });
            typed(200, "text/event-stream", Body::from_stream(never))
        }
        _ => answer(seen, "{}"),
    }
}

#[tokio::test]
async fn headers_of_both_eras() {
    let closed = Arc::new(AtomicBool::new(false));
    let at_close = Arc::clone(&closed);
    let fake = Fake::start(move |seen| moved(seen, &at_close)).await;
    let mut target = external(&fake.url);
    target.values = vec![secret("authorization", "Bearer swordfish")];
    let upstreams = started(target);
    assert_eq!(upstreams.list_tools(PATIENCE).await.unwrap().len(), 1);
    result_of(&upstreams, out("t", r#"{"region":"eu west "}"#)).await;
    let called = &fake.seen("tools/call")[0];
    for (name, value) in [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "t"),
        ("mcp-param-region", "=?base64?ZXUgd2VzdCA=?="),
        ("authorization", "Bearer swordfish"),
        ("mcp-session-id", ""),
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(called.header(name), value, "{name}");
    }
    assert_eq!(called.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    let limit = Duration::from_millis(100);
    assert!(tokio::time::timeout(limit, call(&upstreams, out("never", "{}"))).await.is_err());
    until("the response was closed", || closed.load(Ordering::SeqCst)).await;
    assert!(fake.seen("notifications/cancelled").is_empty(), "closing is cancelling");
}

struct AtClose(Arc<AtomicBool>);

impl Drop for AtClose {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn calls_that_come_together_share_one_connection() {
    let fake = Fake::legacy(|seen| answer(seen, "{}")).await;
    let upstreams = started(external(&fake.url));
    futures_util::future::join_all((0..20).map(|_| result_of(&upstreams, echo("x")))).await;
    assert_eq!(fake.seen("initialize").len(), 1);
    assert_eq!(fake.seen("tools/call").len(), 20);
}

#[tokio::test]
async fn one_who_gives_up_does_not_end_what_others_wait_for() {
    let script = r#"read -r _; sleep 0.3; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}'
        read -r _; read -r _; echo '{"jsonrpc":"2.0","id":2,"result":{}}'; read -r _"#;
    let mut target = process("sh", &["-c", script]);
    target.plan.era = EraSetting::Legacy;
    let upstreams = started(target);
    let hasty = OutCall { timeout: Duration::from_millis(50), ..echo("x") };
    let late = call(&upstreams, hasty).await.unwrap_err();
    assert!(matches!(late, UpstreamError::Late { .. }), "{late:?}");
    let said = late.to_client();
    assert!(said.contains("not connected within the 50ms") && said.contains("spec.timeouts.connectMs is"), "{said}");
    assert_eq!(result_of(&upstreams, echo("x")).await, "{}");
    upstreams.shutdown().await;
}

#[tokio::test]
async fn a_process_that_cannot_start_is_not_started_for_each_call() {
    let log = std::env::temp_dir().join(marker("hawsepipe-starts"));
    let mut target = process("sh", &["-c", "echo start >> \"$LOG\"; exit 1"]);
    target.values = vec![secret("LOG", &log.to_string_lossy())];
    target.plan.era = EraSetting::Legacy;
    let upstreams = started(target);
    for _ in 0..10 {
        assert!(matches!(call(&upstreams, echo("x")).await, Err(UpstreamError::Exited { .. })));
    }
    let starts = || std::fs::read_to_string(&log).unwrap().lines().count();
    assert_eq!(starts(), 1);
    assert!(upstreams.probe(PATIENCE).await.is_err());
    assert_eq!(starts(), 2, "a probe insists");
    std::fs::remove_file(&log).unwrap();
}

#[tokio::test]
async fn whatever_is_no_modern_answer_leads_to_initialize() {
    for code in [400, 401, 403, 404, 405, 406, 415, 421, 500, 501, 502, 503] {
        let fake = Fake::start(move |seen| match seen.rpc() {
            "server/discover" => status(code),
            _ => legacy_or(seen, &|seen| answer(seen, "{}")),
        })
        .await;
        let facts = started(external(&fake.url)).probe(PATIENCE).await.unwrap();
        assert_eq!(facts.era, Era::Legacy, "HTTP {code}");
    }
    for code in [401, 403] {
        let fake = Fake::start(move |_| status(code)).await;
        let error = started(external(&fake.url)).probe(PATIENCE).await.unwrap_err();
        assert_eq!(error, UpstreamError::Unauthorized { status: code, said: String::new() });
        assert_eq!(fake.seen("initialize").len(), 1);
    }
}

fn listing(seen: &Seen, names: &[&str], next: Option<&str>) -> Response<Body> {
    let tools: Vec<_> = names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    answer(seen, &json!({"tools": tools, "nextCursor": next}).to_string())
}

#[tokio::test]
async fn every_page_of_a_list_is_read() {
    let fake = Fake::start(|seen| match (seen.rpc(), seen.body["params"]["cursor"].as_str()) {
        ("tools/list", None) => listing(seen, &["a"], Some("2 \"of\" 3")),
        ("tools/list", Some("2 \"of\" 3")) => listing(seen, &["b", "no good"], Some("")),
        ("tools/list", Some("")) => listing(seen, &["c"], None),
        _ => legacy_or(seen, &|seen| answer(seen, "{}")),
    })
    .await;
    let tools = started(external(&fake.url)).list_tools(PATIENCE).await.unwrap();
    assert_eq!(tools.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
}
