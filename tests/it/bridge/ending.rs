//! How processes end: those of sessions, those that they started, and the bridge itself.

use super::*;
use crate::gateway::http::call_body;

#[tokio::test]
async fn the_whole_group_and_other_descendants_of_a_session_end_with_it() {
    let marker = marker("group");
    let bridge = Bridge::asking(&[], &marker);
    let http = Http::new();
    let session = http.initialize(&bridge.url()).await;
    text_of(&session, "fork", "{}").await;
    until("they run", async || running(&marker) == 4).await;
    assert_eq!(http.send(Method::DELETE, &session.url, &session.headers(), Bytes::new()).await.status, 204);
    until("only the bridge is left", async || running(&marker) == 1).await;
}

#[tokio::test]
async fn what_a_crashed_server_has_started_ends_too() {
    let marker = marker("crash");
    let bridge = Bridge::asking(&["--max-sessions=1"], &marker);
    let http = Http::new();
    let session = http.initialize(&bridge.url()).await;
    let answer = session.call_raw(1, "crash", "{}").await.json();
    assert!(answer["error"]["message"].as_str().unwrap().contains("exit status: 3"), "{answer}");
    until("only the bridge is left", async || running(&marker) == 1).await;
    until("another session begins", async || begin(&http, &bridge.url(), "2025-11-25").await.status == 200).await;
}

#[tokio::test]
async fn orphans_are_reaped() {
    let bridge = Bridge::asking(&[], "orphans");
    let session = Http::new().initialize(&bridge.url()).await;
    let pid = bridge.child.id();
    assert_eq!(children_of(pid).len(), 1);
    text_of(&session, "orphan", "{}").await;
    until("the bridge has it", async || children_of(pid).len() == 2).await;
    let server = text_of(&session, "pid", "{}").await;
    for orphan in children_of(pid).into_iter().filter(|child| child.to_string() != server) {
        kill_process(Pid::from_raw(orphan).unwrap(), Signal::KILL).unwrap();
    }
    until("it is reaped", async || children_of(pid).len() == 1).await;
    text_of(&session, "pid", "{}").await;
}

#[tokio::test]
async fn sigterm_lets_calls_end_and_then_ends_everything() {
    let marker = marker("drain");
    let mut bridge = Bridge::raw(&["--drain-seconds=60"], &["--log", &marker]);
    let http = Http::new();
    let session = http.initialize(&bridge.url()).await;
    let mut stream = Events::of(&session).await;
    let mut call = open_call(
        &session,
        1,
        "chatter",
        json!({"arguments": {"count": 100, "ms": 10}, "_meta": {"progressToken": 1}}),
    )
    .await;
    call.next().await.unwrap();
    bridge.signal(Signal::TERM);
    assert!(stream.next().await.is_none(), "the stream of a session ends at once");
    let mut last = Value::Null;
    while let Some(message) = call.next().await {
        last = message;
    }
    assert_eq!(last["result"]["content"][0]["text"], "said", "{last}");
    assert!(bridge.ended().await);
    until("nothing is left", async || running(&marker) == 0).await;
    let _ = std::fs::remove_file(&marker);
}

#[tokio::test]
async fn a_call_that_waits_for_its_client_can_end_after_sigterm() {
    let mut bridge = Bridge::asking(&["--drain-seconds=60"], "drain-asks");
    let http = Http::new();
    let session = http.initialize(&bridge.url()).await;
    let mut call = open_call(&session, 1, "ask", json!({})).await;
    assert_eq!(call.next().await.unwrap()["id"], "s1");
    bridge.signal(Signal::TERM);
    let health = format!("http://{}/healthz", bridge.address);
    until("it says that it ends", async || http.get(&health).await.body.contains("ending")).await;
    assert_eq!(begin(&http, &bridge.url(), "2025-11-25").await.status, 503);
    assert_eq!(session.send(r#"{"jsonrpc":"2.0","id":"s1","result":{}}"#).await.status, 202);
    assert_eq!(call.next().await.unwrap()["id"], 1);
    assert!(bridge.ended().await);
}

#[tokio::test]
async fn a_subscription_does_not_hold_up_the_end() {
    let script = fixture("servers/raw.mjs");
    let command = ["node", script.to_str().unwrap(), "--stdio", "--modern"];
    let mut bridge = Bridge::start(&["--drain-seconds=3600"], &command);
    let (http, url) = (Http::new(), bridge.url());
    let body = call_body("x", "{}", &json!({})).replace("tools/call", "subscriptions/listen");
    let headers = [JSON[0], JSON[1], ("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
    // Nobody could end a response that is no stream.
    let as_json: Vec<_> =
        headers.iter().map(|&(name, value)| (name, value.replace(", text/event-stream", ""))).collect();
    let as_json: Vec<_> = as_json.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(http.send(Method::POST, &url, &as_json, body.clone()).await.status, 406);
    let listening = tokio::spawn(async move { Events::new(http.open(Method::POST, &url, &headers, body).await) });
    let pid = bridge.child.id();
    until("the server is asked", async || children_of(pid).len() == 1).await;
    bridge.signal(Signal::TERM);
    assert!(bridge.ended().await);
    listening.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_nobody_reads_does_not_hold_up_the_end() {
    let script = fixture("servers/raw.mjs");
    let mut child = Command::new(program())
        .args(["--listen=127.0.0.1:0", "--drain-seconds=1", "--", "node", script.to_str().unwrap(), "--stdio"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::with_capacity(1, child.stderr.take().unwrap());
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    let address = line.split("listening on ").nth(1).unwrap().split(',').next().unwrap().to_owned();
    let mut bridge = Bridge { child, log: Arc::default(), address };
    let session = Http::new().initialize(&bridge.url()).await;
    let flooding = tokio::spawn(async move { session.call_raw(1, "flood", r#"{"lines":100000}"#).await });
    let written = || {
        let io = std::fs::read_to_string(format!("/proc/{}/io", bridge.child.id())).unwrap();
        io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse::<u64>().ok()).unwrap()
    };
    let full = 64 << 10;
    until("the log is full", async || written() > full).await;
    bridge.signal(Signal::TERM);
    assert!(bridge.ended().await);
    flooding.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_the_drain_get_an_error_and_stubborn_processes_are_killed() {
    let marker = marker("stubborn");
    let mut bridge = Bridge::asking(&["--drain-seconds=1"], &marker);
    let session = Http::new().initialize(&bridge.url()).await;
    text_of(&session, "fork", "{}").await;
    let calling = session.clone();
    let waiting = tokio::spawn(async move { calling.call_raw(1, "deaf", "{}").await });
    bridge.logged("deaf from now on");
    bridge.signal(Signal::TERM);
    let answer = waiting.await.unwrap().json();
    assert!(answer["error"]["message"].as_str().unwrap().contains("ending"), "{answer}");
    assert!(bridge.ended().await);
    until("nothing is left", async || running(&marker) == 0).await;
}

#[tokio::test]
async fn servers_do_not_outlive_a_bridge_that_is_killed() {
    let marker = marker("killed");
    let mut bridge = Bridge::asking(&[], &marker);
    Http::new().initialize(&bridge.url()).await;
    assert_eq!(running(&marker), 2);
    bridge.signal(Signal::KILL);
    assert!(!bridge.ended().await);
    until("the server is gone", async || running(&marker) == 0).await;
}
