//! A process for each session: whose it is, and when it ends.

use super::*;

#[tokio::test]
async fn each_session_has_its_process_until_it_ends() {
    let marker = marker("own");
    let bridge = Bridge::asking(&["--max-sessions=2"], &marker);
    let (http, url) = (Http::new(), bridge.url());
    assert_eq!((bridge.health().await, running(&marker)), (200, 1), "the bridge alone");
    let (one, other) = (http.initialize(&url).await, http.initialize(&url).await);
    assert!(one.id.len() >= 32 && one.id != other.id);
    assert_ne!(text_of(&one, "pid", "{}").await, text_of(&other, "pid", "{}").await);
    assert_eq!(running(&marker), 3);

    let third = begin(&http, &url, "2025-11-25").await;
    assert_eq!((third.status, third.headers["retry-after"].to_str().unwrap()), (503, "5"), "{}", third.body);
    assert!(third.json()["error"]["message"].as_str().unwrap().contains("--max-sessions"));

    let mut stream = Events::of(&one).await;
    let ended = http.send(Method::DELETE, &url, &one.headers(), Bytes::new()).await;
    assert_eq!(ended.status, 204);
    assert_eq!(one.call_raw(2, "pid", "{}").await.status, 404);
    assert_eq!(http.send(Method::DELETE, &url, &one.headers(), Bytes::new()).await.status, 404);
    assert!(stream.next().await.is_none(), "its stream ends");
    until("its process is gone", async || running(&marker) == 2).await;
    text_of(&other, "pid", "{}").await;
    // Its place is free again once its process has ended.
    until("another session begins", async || begin(&http, &url, "2025-11-25").await.status == 200).await;
}

#[tokio::test]
async fn a_session_that_nobody_uses_ends() {
    let marker = marker("idle");
    let bridge = Bridge::asking(&["--idle-seconds=5"], &marker);
    let http = Http::new();
    let (idle, listened) = (http.initialize(&bridge.url()).await, http.initialize(&bridge.url()).await);
    let _stream = Events::of(&listened).await;
    until("the process is gone", async || running(&marker) == 2).await;
    assert_eq!(idle.call_raw(1, "pid", "{}").await.status, 404);
    text_of(&listened, "pid", "{}").await;
}

#[tokio::test]
async fn a_server_that_ends_fails_its_calls_at_once_and_ends_the_session() {
    let bridge = Bridge::raw(&[], &[]);
    let session = Http::new().initialize(&bridge.url()).await;
    let (waiting, dying) = tokio::join!(session.call_raw(1, "silent", "{}"), session.call_raw(2, "die", "{}"));
    for (id, answer) in [(1, waiting), (2, dying)] {
        let answer = answer.json();
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(answer["id"] == id && message.contains("exit status: 3"), "{answer}");
    }
    assert_eq!(session.call_raw(3, "args", "{}").await.status, 404);
    let next = Http::new().initialize(&bridge.url()).await;
    assert_eq!(text_of(&next, "args", "{}").await, "{}");
}

#[tokio::test]
async fn a_server_asks_its_client_on_the_stream_of_the_call() {
    let bridge = Bridge::asking(&[], "asks");
    let session = Http::new().initialize(&bridge.url()).await;
    let mut call = open_call(&session, 7, "ask", json!({})).await;
    let asked = call.next().await.unwrap();
    assert_eq!((&asked["id"], &asked["method"]), (&json!("s1"), &json!("sampling/createMessage")));
    // Another session cannot answer in this one's place.
    let other = Http::new().initialize(&bridge.url()).await;
    assert_eq!(other.send(r#"{"jsonrpc":"2.0","id":"s1","result":{"of":"other"}}"#).await.status, 202);
    assert_eq!(session.send(r#"{"jsonrpc":"2.0","id":"s1","result":{"of":"own"}}"#).await.status, 202);
    let answer = call.next().await.unwrap();
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(7), &json!(r#"{"of": "own"}"#)));
    assert!(call.next().await.is_none());

    let mut stream = Events::of(&session).await;
    let body = r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"log","arguments":{"text":"hello"}}}"#;
    assert_eq!(session.send(body).await.json()["id"], 8);
    assert_eq!(stream.next().await.unwrap()["params"]["data"], "hello", "the process is of this session");
    assert_eq!(stream.next().await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn cancelled_calls_are_answered_and_taken_back_under_the_server_s_own_ids() {
    let folder = crate::gateway::harness::Folder::new();
    let log = folder.path().join("log");
    let bridge = Bridge::raw(&[], &["--log", log.to_str().unwrap()]);
    let session = Http::new().initialize(&bridge.url()).await;
    let calling = session.clone();
    let waiting = tokio::spawn(async move { calling.call_raw(41, "silent", "{}").await });
    let logged = |wanted: &str| crate::gateway::parts::logged(&log, wanted);
    until("the call is at the server", async || logged(r#""silent""#) > 0).await;
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":41}}"#;
    assert_eq!(session.send(cancel).await.status, 202);
    until("the server hears of it", async || logged("notifications/cancelled") > 0).await;
    let text = std::fs::read_to_string(&log).unwrap();
    let of = |wanted: &str, pointer: &str| {
        let line = text.lines().find(|line| line.contains(wanted)).unwrap();
        serde_json::from_str::<Value>(line).unwrap().pointer(pointer).unwrap().clone()
    };
    assert_eq!(of("notifications/cancelled", "/params/requestId"), of(r#""silent""#, "/id"));
    let answer = tokio::time::timeout(SOON, waiting).await.expect("its POST is not answered").unwrap().json();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(41), &json!(-32800)), "{answer}");
}

#[tokio::test]
async fn the_log_names_neither_ids_nor_messages() {
    let bridge = Bridge::asking(&[], "log");
    let session = Http::new().initialize(&bridge.url()).await;
    text_of(&session, "say", r#"{"text":"spoken","more":"unspoken"}"#).await;
    let line = bridge.logged("spoken");
    assert!(line.starts_with('[') && line.find("] spoken") == Some(9), "{line}");
    text_of(&session, "say", &json!({"text": "x".repeat(20_000)}).to_string()).await;
    assert_eq!(bridge.logged("xxx").len(), "[01234567] ".len() + 8192);
    let log = bridge.log().concat();
    assert!(!log.contains(&session.id) && !log.contains("unspoken"), "{log}");
}

#[tokio::test]
async fn a_session_has_the_version_that_its_server_chose() {
    let (python, script) = (python(), fixture("servers/asking.py"));
    let bridge = Bridge::start(&[], &[python.to_str().unwrap(), script.to_str().unwrap(), "--version", "2024-11-05"]);
    let http = Http::new();
    let begun = begin(&http, &bridge.url(), "2025-11-25").await;
    let id = begun.headers["mcp-session-id"].to_str().unwrap();
    for (version, status) in [("2024-11-05", 200), ("2024-10-07", 400)] {
        let headers = [JSON[0], JSON[1], ("mcp-session-id", id), ("mcp-protocol-version", version)];
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let answer = http.send(Method::POST, &bridge.url(), &headers, ping).await;
        assert_eq!(answer.status, status, "{version}: {}", answer.body);
    }
}
