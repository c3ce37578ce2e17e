//! One process for all sessions.

use super::*;

#[tokio::test]
async fn equal_ids_and_tokens_of_two_clients_do_not_cross() {
    let bridge = Bridge::raw(&["--session=Shared"], &[]);
    let http = Http::new();
    let (one, other) = (http.initialize(&bridge.url()).await, http.initialize(&bridge.url()).await);
    assert_ne!(one.id, other.id);
    let said =
        |size: usize| json!({"arguments": {"count": 3, "ms": 20, "size": size}, "_meta": {"progressToken": "t"}});
    let (mut first, mut second) =
        tokio::join!(open_call(&one, 7, "chatter", said(1)), open_call(&other, 7, "chatter", said(2)));
    for (call, length) in [(&mut first, 1), (&mut second, 2)] {
        for step in 1..=3 {
            let progress = call.next().await.unwrap();
            let params = &progress["params"];
            assert_eq!((&params["progressToken"], &params["progress"]), (&json!("t"), &json!(step)), "{progress}");
            assert_eq!(params["message"].as_str().unwrap().len(), length);
        }
        assert_eq!(call.next().await.unwrap()["id"], 7);
        assert!(call.next().await.is_none());
    }
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..20 {
        let session = if number % 2 == 0 { one.clone() } else { other.clone() };
        calls.spawn(async move {
            let arguments = format!(r#"{{"ms":{},"number":{number}}}"#, number % 3 * 10);
            let answer = session.call_raw(7, "slow", &arguments).await.json();
            assert_eq!(answer["result"]["content"][0]["text"], arguments);
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn the_process_is_one_and_is_started_again() {
    let marker = marker("shared");
    let bridge = Bridge::asking(&["--session=Shared"], &marker);
    until("the process is there before anybody asks", async || running(&marker) == 2).await;
    let http = Http::new();
    let (one, other) = (http.initialize(&bridge.url()).await, http.initialize(&bridge.url()).await);
    let pid = text_of(&one, "pid", "{}").await;
    assert_eq!(text_of(&other, "pid", "{}").await, pid);
    // A session's end leaves the process to the others.
    assert_eq!(http.send(Method::DELETE, &one.url, &one.headers(), Bytes::new()).await.status, 204);
    assert_eq!(text_of(&other, "pid", "{}").await, pid);

    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    until("its sessions end", async || other.call_raw(1, "pid", "{}").await.status == 404).await;
    until("it runs again", async || bridge.health().await == 200).await;
    let third = http.initialize(&bridge.url()).await;
    assert_ne!(text_of(&third, "pid", "{}").await, pid);
}

#[tokio::test]
async fn whom_a_shared_server_asks_must_be_clear() {
    let bridge = Bridge::asking(&["--session=Shared"], "asks-shared");
    let http = Http::new();
    let (one, _other) = (http.initialize(&bridge.url()).await, http.initialize(&bridge.url()).await);
    let mut call = open_call(&one, 1, "ask", json!({})).await;
    assert_eq!(call.next().await.unwrap()["id"], "s1", "the only call");
    one.send(r#"{"jsonrpc":"2.0","id":"s1","result":{}}"#).await;
    assert_eq!(call.next().await.unwrap()["id"], 1);
    // A call that takes JSON only cannot be asked, and there are two sessions.
    let body = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask"}}"#;
    let headers = [JSON[0], ("accept", "application/json"), ("mcp-session-id", one.id.as_str())];
    let answer = http.send(Method::POST, &one.url, &headers, body).await.json();
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("not clear"), "{answer}");
}

#[tokio::test]
async fn a_command_that_is_not_there_is_named() {
    for mode in ["Shared", "PerSession"] {
        let bridge = Bridge::start(&[&format!("--session={mode}")], &["no-such-server"]);
        bridge.logged("cannot start no-such-server");
        assert_eq!(bridge.health().await, 503);
        let refused = begin(&Http::new(), &bridge.url(), "2025-11-25").await;
        assert_eq!(refused.status, 503, "{}", refused.body);
        assert!(refused.body.contains("no-such-server"), "{}", refused.body);
    }
    let usage = Command::new(program()).args(["--path=/mcp", "--"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(2));
    assert!(String::from_utf8(usage.stderr).unwrap().contains("Usage: "));
}

#[tokio::test]
async fn log_messages_of_a_process_of_several_sessions_are_dropped() {
    let bridge = Bridge::asking(&["--session=Shared"], "logs-shared");
    let http = Http::new();
    let (one, other) = (http.initialize(&bridge.url()).await, http.initialize(&bridge.url()).await);
    let (mut first, mut second) = (Events::of(&one).await, Events::of(&other).await);
    // The process has no way to say that the message is of this call.
    let answer = one.call_raw(1, "log", r#"{"text":"a secret"}"#).await;
    assert!(answer.json()["result"].is_object() && !answer.body.contains("a secret"), "{}", answer.body);
    for stream in [&mut first, &mut second] {
        assert_eq!(stream.next().await.unwrap()["method"], "notifications/tools/list_changed");
    }
}
