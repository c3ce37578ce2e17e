//! Streams of calls that are cut and go on over another connection.

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Response};
use serde_json::{Value, json};

use super::harness::{Folder, Gateway, SOON};
use super::http::{Http, Session};
use super::parts::{SDKS, asking_http, external, tools_of};
use crate::upstream::Running;

/// An event: its id, and its message.
pub(super) type Event = (String, Value);

/// Reads at most `most` events of a stream, and whether it has ended by itself.
pub(super) async fn events(mut stream: Response<Incoming>, most: usize) -> (Vec<Event>, bool) {
    let (mut read, mut heard) = (Vec::new(), String::new());
    while read.len() < most {
        let Some(frame) = tokio::time::timeout(SOON, stream.body_mut().frame()).await.unwrap() else {
            return (read, true);
        };
        heard.push_str(&String::from_utf8_lossy(frame.unwrap().data_ref().unwrap()));
        while let Some((event, rest)) = heard.split_once("\n\n") {
            let field = |name: &str| event.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
            if let (Some(id), Some(data)) = (field("id:"), field("data:").filter(|data| !data.is_empty())) {
                read.push((id, serde_json::from_str(&data).unwrap()));
            }
            heard = rest.to_owned();
        }
    }
    read.truncate(most);
    (read, false)
}

/// A gateway on the server whose tools ask the client, and what must live as long as it.
async fn started() -> (Gateway, (Folder, Running)) {
    let folder = Folder::new();
    let (server, url) = asking_http(&folder.path().join("log"));
    folder.write("manifests.yaml", &external("asking", &url));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["asking"]).await;
    (gateway, (folder, server))
}

pub(super) async fn call(session: &Session, id: u64, count: u64) -> Response<Incoming> {
    let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": "asking__steps", "arguments": {"count": count}, "_meta": {"progressToken": id}}});
    session.http.open(Method::POST, &session.url, &session.headers(), Bytes::from(call.to_string())).await
}

pub(super) async fn go_on(session: &Session, last: &str) -> Response<Incoming> {
    let mut headers = session.headers().to_vec();
    headers.push(("last-event-id", last));
    session.http.open(Method::GET, &session.url, &headers, Bytes::new()).await
}

/// Calls a tool that reports `count` steps and cuts the stream after every `after` events.
async fn cut_call(session: &Session, id: u64, count: u64, after: usize) -> usize {
    let (mut all, ended) = events(call(session, id, count).await, after).await;
    let (mut ended, mut cuts) = (ended, 0);
    while !ended {
        let last = all.last().unwrap().0.clone();
        let stream = go_on(session, &last).await;
        if stream.status() == 204 {
            // The last event was the answer.
            break;
        }
        assert_eq!(stream.status(), 200);
        let (more, done) = events(stream, after).await;
        (ended, cuts) = (done, cuts + 1);
        all.extend(more);
    }
    let (answer, steps) = all.split_last().unwrap();
    assert_eq!(answer.1["result"]["content"][0]["text"], format!("{count} steps"), "{answer:?}");
    let steps: Vec<_> = steps.iter().map(|(_, message)| message["params"]["progress"].as_u64().unwrap()).collect();
    assert!(steps.iter().copied().eq(1..=count), "{steps:?}");
    cuts
}

#[tokio::test]
async fn a_stream_that_was_cut_goes_on_without_loss_or_doubles() {
    let (gateway, _parts) = started().await;
    let http = Http::new();
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..20_u64 {
        let session = http.initialize(&gateway.url()).await;
        calls.spawn(async move {
            let mut cuts = 0;
            for (id, after) in [(1, 1), (2, 1), (3, 2)] {
                cuts += cut_call(&session, number * 10 + id, 20, after).await;
            }
            cuts
        });
    }
    let cuts: usize = calls.join_all().await.into_iter().sum();
    assert!(cuts >= 1_000, "{cuts}");
}

#[tokio::test]
async fn a_stream_goes_on_for_its_own_session_while_it_is_kept() {
    let (gateway, _parts) = started().await;
    let http = Http::new();
    let (own, other) = (http.initialize(&gateway.url()).await, http.initialize(&gateway.url()).await);
    let (first, _) = events(call(&own, 1, 3).await, 1).await;
    let (id, _) = first.last().unwrap();
    assert_eq!(go_on(&other, id).await.status(), 400, "the stream is of another session");
    let (all, ended) = events(go_on(&own, id).await, 9).await;
    assert!(ended && all.len() == 3, "{all:?}");
    // The answer too is given again, while it is kept.
    let (again, ended) = events(go_on(&own, &all[1].0).await, 9).await;
    assert!(ended && again == all[2..], "{again:?}");
    assert_eq!(go_on(&own, &all[2].0).await.status(), 204, "nothing comes after the answer");
    let forged = format!("{}.1", "A".repeat(72));
    let refused = go_on(&own, &forged).await;
    assert_eq!(refused.status(), 400);
    for of_no_event in ["7", "garbage", ".-1"] {
        assert_eq!(go_on(&own, of_no_event).await.status(), 400, "a client must not wait for what never comes");
    }
}

/// Reads a stream to its end: the text, and the id and the data of its last event that has an id.
async fn whole(stream: Response<Incoming>) -> (String, String, String) {
    assert_eq!(stream.status(), 200);
    let read = tokio::time::timeout(SOON, stream.into_body().collect()).await.unwrap().unwrap().to_bytes();
    let text = String::from_utf8(read.to_vec()).unwrap();
    let last = text.split("\n\n").filter(|event| event.contains("id: ")).last().unwrap_or_default();
    let field =
        |name: &str| last.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned();
    (text.clone(), field("id:"), field("data:"))
}

#[tokio::test]
async fn a_server_ends_the_stream_of_a_call_and_its_client_comes_back_for_the_answer() {
    let (gateway, _parts) = started().await;
    let session = Http::new().initialize(&gateway.url()).await;
    for times in [1, 3] {
        let call = json!({"jsonrpc": "2.0", "id": times, "method": "tools/call",
            "params": {"name": "asking__leaves", "arguments": {"times": times}}});
        let body = Bytes::from(call.to_string());
        let stream = session.http.open(Method::POST, &session.url, &session.headers(), body).await;
        let (text, mut last, data) = whole(stream).await;
        let first: Vec<_> = text.lines().take(3).collect();
        assert!(first[0].starts_with("id: ") && first[1..] == ["retry: 1000", "data: "], "{text}");
        // The server says 20 ms, which is less than clients are told.
        assert!(
            data.is_empty() && text.contains("retry: 100\n"),
            "it ends before the answer, as the server's does: {text}"
        );
        let mut answer = String::new();
        while answer.is_empty() {
            let (_, id, data) = whole(go_on(&session, &last).await).await;
            (last, answer) = (if id.is_empty() { last } else { id }, data);
        }
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], format!("left {times} times"), "{answer}");
    }
}

#[tokio::test]
async fn clients_of_the_sdks_come_back_to_a_stream_that_the_server_ended() {
    let (gateway, _parts) = started().await;
    for sdk in SDKS {
        let lines = sdk.run(&gateway.url(), &["call", "asking__leaves", r#"{"times":2}"#], "");
        assert_eq!(lines[0]["result"]["content"][0]["text"], "left 2 times", "{sdk:?} {lines:?}");
    }
}

#[tokio::test]
async fn a_call_that_takes_a_while_tells_its_client_where_to_come_back() {
    let (gateway, _parts) = started().await;
    let session = Http::new().initialize(&gateway.url()).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "asking__waits", "arguments": {"ms": 600}}});
    let body = Bytes::from(call.to_string());
    let mut stream = session.http.open(Method::POST, &session.url, &session.headers(), body).await;
    let first = tokio::time::timeout(SOON, stream.body_mut().frame()).await.unwrap().unwrap().unwrap();
    let first = String::from_utf8(first.into_data().unwrap().to_vec()).unwrap();
    let id = first.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    drop(stream);
    let (_, _, answer) = whole(go_on(&session, id).await).await;
    assert!(answer.contains("waited"), "{answer}");
}
