//! What is refused, and what cannot hold up others.

use super::*;

#[tokio::test]
async fn what_is_not_a_request_of_a_session_is_refused() {
    let bridge = Bridge::asking(&[], "refuses");
    let (http, url) = (Http::new(), bridge.url());
    let session = http.initialize(&url).await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let known = ("mcp-session-id", session.id.as_str());
    let unknown = ("mcp-session-id", "0123456789abcdef");
    for (headers, body, status, says) in [
        (vec![JSON[0], JSON[1]], ping, 400, "Mcp-Session-Id"),
        (vec![JSON[0], JSON[1], unknown], ping, 404, "Session not found"),
        (vec![JSON[0], JSON[1], known], "{", 400, "not valid JSON"),
        (vec![JSON[0], JSON[1], known], "7", 400, "JSON object"),
        (vec![JSON[0], JSON[1], known], &format!("[{ping}]"), 400, "batches"),
        (vec![JSON[0], JSON[1], known, ("origin", "http://localhost")], ping, 403, "Origin"),
        (vec![JSON[0], JSON[1], known, ("mcp-protocol-version", "1999-01-01")], ping, 400, "MCP-Protocol-Version"),
        (vec![JSON[1], known, ("content-type", "text/plain")], ping, 415, "Content-Type"),
        (vec![JSON[0], known, ("accept", "text/html")], ping, 406, "Accept"),
    ] {
        let answer = http.send(Method::POST, &url, &headers, body.to_owned()).await;
        assert!(answer.status == status && answer.body.contains(says), "{says}: {} {}", answer.status, answer.body);
        let message: Value = serde_json::from_str(&answer.body).unwrap();
        assert!(message["error"]["code"].is_number(), "{message}");
    }
    let put = http.send(Method::PUT, &url, &[known], Bytes::new()).await;
    assert_eq!((put.status, put.headers["allow"].to_str().unwrap()), (405, "POST, GET, DELETE"));
    assert_eq!(http.get(&url).await.status, 400);
    assert_eq!(http.get(&format!("http://{}/other", bridge.address)).await.status, 404);
    assert_eq!(session.send(ping).await.json()["result"], json!({}), "the session goes on");
}

#[tokio::test]
async fn calls_that_take_long_hold_no_memory_of_requests() {
    let bridge = Bridge::raw(&[], &[]);
    let session = Http::new().initialize(&bridge.url()).await;
    let mut waiting = tokio::task::JoinSet::new();
    let headers = [JSON[0], ("accept", "application/json"), ("mcp-session-id", session.id.as_str())];
    let large = |id: u64, tool: &str| {
        let arguments = json!({"text": "x".repeat(10 << 20)});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
            .to_string()
    };
    for id in 1..=3 {
        let (calling, body) = (session.clone(), large(id, "silent"));
        waiting.spawn(async move {
            let headers = [JSON[0], ("accept", "application/json"), ("mcp-session-id", calling.id.as_str())];
            calling.http.send(Method::POST, &calling.url, &headers, body).await
        });
        // The next one begins once this one is at the server.
        until("there is room again", async || {
            let answer = session.http.send(Method::POST, &session.url, &headers, large(9, "nothing")).await;
            answer.status == 200
        })
        .await;
    }
}

#[tokio::test]
async fn messages_are_bounded_in_both_directions() {
    let bridge = Bridge::raw(&["--max-message-bytes=100000"], &[]);
    let session = Http::new().initialize(&bridge.url()).await;
    let large = json!({"text": "x".repeat(200_000)}).to_string();
    let refused = session.call_raw(1, "args", &large).await;
    assert!(refused.status == 413 && refused.body.contains("100000 bytes"), "{}", refused.body);
    let other = session.clone();
    let waiting = tokio::spawn(async move { text_of(&other, "slow", r#"{"ms":300}"#).await });
    let answer = session.call_raw(2, "huge", r#"{"size":200000}"#).await.json();
    assert!(answer["error"]["message"].as_str().unwrap().contains("larger than 100000 bytes"), "{answer}");
    assert_eq!(waiting.await.unwrap(), r#"{"ms":300}"#, "the calls beside it go on");
    assert_eq!(text_of(&session, "garbage", "{}").await, "after garbage");
    let fits = json!({"text": "x".repeat(90_000)}).to_string();
    assert_eq!(text_of(&session, "args", &fits).await, fits);
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_fails_its_call_and_no_other() {
    let bridge = Bridge::raw(&["--max-message-bytes=100000"], &[]);
    let session = Http::new().initialize(&bridge.url()).await;
    let odd = async |kind: &str| {
        let arguments = json!({"kind": kind, "size": 200_000}).to_string();
        let answer = tokio::time::timeout(SOON, session.call_raw(1, "odd", &arguments)).await;
        answer.unwrap_or_else(|_| panic!("{kind}: the call waits")).json()
    };
    for kind in ["null beside it", "batch"] {
        let answer = odd(kind).await;
        assert_eq!(answer["result"]["content"][0]["text"], "odd", "{answer}");
        assert!(answer.get("error").is_none(), "{answer}");
    }
    let mut other = open_call(&session, 2, "silent", json!({})).await;
    for (kind, says) in [
        ("id behind", "larger than 100000 bytes"),
        ("twice", "not a valid message"),
        ("no version", "not a valid message"),
        ("two on a line", "not a valid message"),
        ("not UTF-8", "not a valid message"),
        ("many members", "not a valid message"),
    ] {
        let answer = odd(kind).await;
        assert!(answer["error"]["message"].as_str().unwrap_or_default().contains(says), "{kind}: {answer}");
        assert_eq!(answer["id"], 1);
    }
    // An answer that names no call may be that to any of them.
    assert!(odd("no id").await["error"].is_object());
    assert!(other.next().await.unwrap()["error"]["message"].as_str().unwrap().contains("100000"));
}

#[tokio::test]
async fn a_server_that_does_not_read_holds_up_nobody_else() {
    let bridge = Bridge::asking(&[], "deaf");
    let http = Http::new();
    let (deaf, other) = (http.initialize(&bridge.url()).await, http.initialize(&bridge.url()).await);
    let mut waiting = tokio::task::JoinSet::new();
    let first = deaf.clone();
    waiting.spawn(async move { first.call_raw(0, "deaf", "{}").await });
    let arguments = json!({"text": "x".repeat(1 << 20)}).to_string();
    for id in 1..=20 {
        let (session, arguments) = (deaf.clone(), arguments.clone());
        waiting.spawn(async move { session.call_raw(id, "pid", &arguments).await });
    }
    for _ in 0..20 {
        text_of(&other, "pid", "{}").await;
    }
    // To end the session ends its calls too.
    assert_eq!(http.send(Method::DELETE, &deaf.url, &deaf.headers(), Bytes::new()).await.status, 204);
    while let Some(answer) = tokio::time::timeout(SOON, waiting.join_next()).await.unwrap() {
        let answer = answer.unwrap();
        assert!(answer.status == 404 || answer.json()["error"].is_object(), "{} {}", answer.status, answer.body);
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_makes_nothing_grow() {
    let bridge = Bridge::raw(&[], &[]);
    let http = Http::new();
    let session = http.initialize(&bridge.url()).await;
    let params = json!({"arguments": {"count": 3000, "ms": 0, "size": 30_000}, "_meta": {"progressToken": 1}});
    let unread = open_call(&session, 1, "chatter", params).await;
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", bridge.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap().to_owned();
        line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    // Its 90 MB have been read from the server once a later call is answered behind them.
    let answered = text_of(&session, "chatter", r#"{"count":3000,"ms":1}"#).await;
    assert_eq!(answered, "said");
    assert!(resident() < 60_000, "{} KiB", resident());
    drop(unread);
}
