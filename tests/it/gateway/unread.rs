//! Clients that stop reading, or go, in the middle of the stream that answers their call.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::harness::{Folder, Gateway, SOON};
use super::http::{Http, JSON, call_body, call_headers};
use super::manifests::{chain, plugin, raw_server, yaml};
use super::outcomes::seen::{list, metrics};
use super::parts::{tools_of, until};

/// More than the buffers of both sockets take, in messages that all wait for a client that may come back.
/// The kernel sizes the buffers: with a small one of the client's own, each window waits for a delayed ACK.
const CHATTER: &str = r#"{"count":400,"ms":1,"size":32768}"#;
/// A second of small messages.
const SLOWLY: &str = r#"{"count":20,"ms":50,"size":8}"#;

async fn started() -> (Folder, Gateway) {
    let shout = "export default ({ rawContent }) => ({ text: rawContent.toUpperCase(), continue: true });";
    let folder = Folder::with(&yaml(&[
        raw_server("up", &[]),
        plugin("shout", shout, &json!({})),
        chain("answers", "Response", "chatter", &[json!({"name": "shout"})]),
    ]));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    (folder, gateway)
}

async fn post(stream: &mut TcpStream, headers: &[(&str, &str)], body: &str) {
    let mut head = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
}

/// Reads until `wanted` has come.
async fn read_until(stream: &mut TcpStream, wanted: &str) {
    let reading = async {
        let (mut heard, mut chunk) = (Vec::new(), vec![0; 64 << 10]);
        while memchr::memmem::find(&heard, wanted.as_bytes()).is_none() {
            let read = stream.read(&mut chunk).await.unwrap();
            assert_ne!(read, 0, "the stream ended");
            // Only its end may hold a part of what is looked for.
            heard.drain(..heard.len().saturating_sub(wanted.len()));
            heard.extend_from_slice(&chunk[..read]);
        }
    };
    tokio::time::timeout(SOON, reading).await.unwrap();
}

/// Begins a call that wants progress, and reads the first of it.
async fn begin(gateway: &Gateway, legacy: bool, arguments: &str) -> TcpStream {
    let token = json!({"progressToken": "t"});
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    if legacy {
        let session = Http::new().initialize(&gateway.url()).await;
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let params = json!({"name": "up__chatter", "arguments": arguments, "_meta": token});
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        post(&mut stream, &session.headers(), &body.to_string()).await;
    } else {
        post(&mut stream, &call_headers("up__chatter"), &call_body("up__chatter", arguments, &token)).await;
    }
    // Not its number: a later message may take the place of the first.
    read_until(&mut stream, "\"progress\":").await;
    stream
}

/// Waits until a call was written down, and gives how it ended.
async fn recorded(gateway: &Gateway, calls: usize) -> Value {
    until("the call is written down", async || list(gateway, "calls").await.len() == calls).await;
    list(gateway, "calls").await[0]["outcome"].clone()
}

async fn until_shown(gateway: &Gateway, line: &str) {
    until(line, async || metrics(gateway).await.lines().any(|shown| shown == line)).await;
}

#[tokio::test]
async fn a_client_that_stops_reading_does_not_hold_up_its_call() {
    let (_folder, gateway) = started().await;
    for (calls, legacy) in [(1, true), (2, false)] {
        let mut stream = begin(&gateway, legacy, CHATTER).await;
        assert_eq!(recorded(&gateway, calls).await, "ok", "legacy: {legacy}");
        assert_eq!(list(&gateway, "executions").await.len(), calls);
        for line in ["hawsepipe_calls_in_flight 0", "hawsepipe_plugin_permits_in_use 0"] {
            until_shown(&gateway, line).await;
        }
        // It is still connected, and what waited for it comes when it reads on.
        let era = if legacy { "legacy" } else { "modern" };
        until_shown(&gateway, &format!("hawsepipe_streams{{era=\"{era}\"}} 1")).await;
        read_until(&mut stream, "\"SAID\"").await;
        drop(stream);
        until_shown(&gateway, &format!("hawsepipe_streams{{era=\"{era}\"}} 0")).await;
    }
}

#[tokio::test]
async fn a_client_that_goes_in_the_middle_of_a_stream_cancels_in_the_modern_era_only() {
    let (_folder, gateway) = started().await;
    for (calls, legacy, outcome) in [(1, true, "ok"), (2, false, "cancelled")] {
        drop(begin(&gateway, legacy, SLOWLY).await);
        assert_eq!(recorded(&gateway, calls).await, outcome, "legacy: {legacy}");
        until_shown(&gateway, "hawsepipe_calls_in_flight 0").await;
    }
}

#[tokio::test]
async fn a_client_that_takes_no_stream_gets_the_answer_alone() {
    let (_folder, gateway) = started().await;
    let session = Http::new().initialize(&gateway.url()).await;
    let headers: Vec<_> = session.headers().into_iter().filter(|header| *header != JSON[1]).collect();
    let headers = [&headers[..], &[("accept", "application/json")]].concat();
    let params = json!({"name": "up__chatter", "arguments": {"count": 3}, "_meta": {"progressToken": 1}});
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
    let answer = session.http.send(hyper::Method::POST, &session.url, &headers, body).await;
    assert_eq!(answer.headers["content-type"], "application/json", "{}", answer.body);
    assert_eq!(answer.json()["result"]["content"][0]["text"], "SAID", "{}", answer.body);
}
