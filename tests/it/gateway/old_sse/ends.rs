//! When the stream of an old client ends, and what it is used for once.

use http_body_util::BodyExt;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::super::ending::in_flight;
use super::super::manifests::{raw_server, yaml};
use super::{Folder, Gateway, SOON, Stream, main, object, text, tools_of};

async fn started() -> (Folder, Gateway) {
    let folder = Folder::with(&(main("") + &yaml(&[raw_server("up", &[])])));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    (folder, gateway)
}

/// Whether the stream ends without a further message.
async fn ends(stream: &mut Stream) -> bool {
    let frame = async {
        loop {
            match stream.response.body_mut().frame().await {
                Some(Ok(_)) => {}
                _ => return,
            }
        }
    };
    tokio::time::timeout(SOON, frame).await.is_ok()
}

#[tokio::test]
async fn a_stream_has_one_session() {
    let (_folder, gateway) = started().await;
    let mut stream = Stream::open(&gateway, "/sse").await;
    stream.initialize().await;
    let client = json!({"name": "old", "version": "2"});
    let params = json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": client});
    let again = stream.ask(2, "initialize", params).await;
    assert!(again["error"]["message"].as_str().unwrap_or_default().contains("open another"), "{again}");
    let called = stream.ask(3, "tools/call", json!({"name": "up__args", "arguments": {"a": 1}})).await;
    assert_eq!(text(&called), r#"{"a":1}"#, "the first session goes on");
}

#[tokio::test]
async fn a_stream_ends_when_nothing_can_be_posted_any_more() {
    let (folder, gateway) = started().await;
    let mut stream = Stream::open(&gateway, "/sse").await;
    stream.initialize().await;
    let spec = "listeners: [{name: web, port: 8080}], authentication: {anonymous: {}}";
    folder.write("manifests.yaml", &(object("MCPGateway", "main", spec) + &yaml(&[raw_server("up", &[])])));
    assert!(ends(&mut stream).await);
}

#[tokio::test]
async fn calls_of_old_clients_are_answered_before_the_gateway_ends() {
    let (_folder, gateway) = started().await;
    let mut stream = Stream::open(&gateway, "/sse").await;
    stream.initialize().await;
    let params = json!({"name": "up__slow", "arguments": {"ms": 500}});
    let call: Value = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    assert_eq!(stream.post(&call).await, 202);
    in_flight(&gateway, "1").await;
    gateway.signal(Signal::TERM);
    let answer = loop {
        let message = stream.message().await;
        if message["id"] == 1 {
            break message;
        }
    };
    assert!(answer["result"]["content"].is_array(), "{answer}");
    assert!(ends(&mut stream).await && gateway.ended().await);
}
