//! How processes end: those of sessions, those that they started, and the bridge itself.

use super::*;

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
