//! What clients see of a gateway that a supervisor ends: it serves on for a while, and has them connect again.

use std::io::Write;
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use hyper::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::ending::{descendants, in_flight, left};
use super::harness::{Folder, Gateway};
use super::http::{Answer, Http, JSON};
use super::manifests::{chain, plugin, raw_server, yaml};
use super::parts::until;

const MODULE: &str = "export default ({ rawContent: text }) => ({ text, continue: true });";

/// A gateway whose answers pass through a plugin, ready to be called.
async fn started(arguments: &[&str]) -> (Folder, Gateway) {
    let folder = Folder::with(&yaml(&[
        raw_server("up", &[]),
        plugin("module", MODULE, &json!({"pool": {"size": 2}})),
        chain("answers", "Response", "*", &[json!({"name": "module"})]),
    ]));
    let gateway = Gateway::start_with(&folder, arguments);
    gateway.until_answer("up__args", &json!({"m": 1}), "/result/content/0/text", &json!(r#"{"m":1}"#)).await;
    (folder, gateway)
}

async fn told_to_end(gateway: &Gateway) {
    gateway.signal(Signal::TERM);
    gateway.logged(|line| line["message"].as_str().is_some_and(|m| m.starts_with("ending")));
}

fn closes(answer: &Answer) -> bool {
    answer.headers.get("connection").is_some_and(|value| value == "close")
}

async fn slow(http: Http, url: String, ms: u64) -> (u64, Answer) {
    let answer = http.call_raw(&url, "up__slow", &json!({ "ms": ms }).to_string(), &json!({})).await;
    (ms, answer)
}

#[tokio::test]
async fn of_a_stream_of_calls_none_is_lost() {
    let (_folder, gateway) = started(&[]).await;
    let (http, mut calls) = (Http::new(), JoinSet::new());
    let children = descendants(gateway.pid());
    for n in 0..100 {
        if n == 50 {
            told_to_end(&gateway).await;
        }
        let call = slow(http.clone(), gateway.url(), 200 + n * 7919 % 1800);
        calls.spawn(async move { (n, call.await) });
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    while let Some(answered) = calls.join_next().await {
        let (n, (ms, answer)) = answered.unwrap();
        assert_eq!(answer.json()["result"]["content"][0]["text"], format!(r#"{{"ms":{ms}}}"#), "{n}: {}", answer.body);
        assert!(n < 50 || closes(&answer), "call {n} came after the signal: {:?}", answer.headers);
    }
    assert!(gateway.ended().await);
    assert_eq!(left(&children).await, Vec::<u32>::new());
}

#[tokio::test]
async fn what_begins_is_sent_elsewhere_and_what_runs_goes_on() {
    let (_folder, gateway) = started(&[]).await;
    let http = Http::new();
    let session = http.initialize(&gateway.url()).await;
    let headers = [("accept", "text/event-stream"), session.headers()[2], session.headers()[3]];
    let stream = http.open(Method::GET, &gateway.url(), &headers, "").await;
    assert_eq!(stream.status(), 200);
    told_to_end(&gateway).await;

    let ready = http.get(&format!("http://{}/readyz", gateway.admin())).await;
    assert_eq!((ready.status, &*ready.body), (503, "not ready: this gateway is about to end\n"));
    assert_eq!(http.get(&format!("http://{}/healthz", gateway.admin())).await.status, 200);
    let body = json!({"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let refused = Http::new().send(Method::POST, &gateway.url(), &JSON, body.to_string()).await;
    let error = &refused.json()["error"];
    assert_eq!((refused.status, closes(&refused), &refused.json()["id"]), (503, true, &json!(5)), "{}", refused.body);
    assert_eq!(error["data"], json!({"reason": "Draining", "retryAfterMs": 1000}), "{}", refused.body);
    let called = session.call_raw(6, "up__args", r#"{"m":2}"#).await;
    assert_eq!(called.json()["result"]["content"][0]["text"], r#"{"m":2}"#, "{}", called.body);
    assert!(closes(&called), "{:?}", called.headers);

    // A stream that is cut off in the middle is an error here.
    let rest = stream.into_body().collect().await.expect("the stream ends in order").to_bytes();
    assert!(rest.is_empty(), "{rest:?}");
    assert!(gateway.ended().await);
}

#[tokio::test]
async fn a_call_that_takes_too_long_gets_an_error_and_a_record() {
    let (_folder, gateway) = started(&["--drain-seconds", "1"]).await;
    let (http, url) = (Http::new(), gateway.url());
    let session = http.initialize(&url).await;
    let modern = tokio::spawn(slow(http.clone(), url, 600_000));
    let legacy = tokio::spawn(async move { session.call_raw(8, "up__slow", r#"{"ms":600000}"#).await });
    in_flight(&gateway, "2").await;
    let children = descendants(gateway.pid());
    told_to_end(&gateway).await;
    for answer in [modern.await.unwrap().1, legacy.await.unwrap()] {
        let error = &answer.json()["error"];
        assert_eq!(error["data"]["reason"], "Draining", "{}", answer.body);
        assert!(error["message"].as_str().unwrap().contains("may be done"), "{}", answer.body);
    }
    let is_record = |line: &str| {
        serde_json::from_str::<Value>(line).is_ok_and(|line| line["message"] == "call" && line["reason"] == "Draining")
    };
    until("both are recorded", async || gateway.log().iter().filter(|line| is_record(line)).count() == 2).await;
    assert!(gateway.ended().await);
    assert_eq!(left(&children).await, Vec::<u32>::new());
}

#[tokio::test]
async fn a_logger_that_runs_beside_its_call_ends_well() {
    let logs = "export default async ({ rawContent: text }) => {
        await new Promise((done) => setTimeout(done, 1500)); return { text, continue: true }; };";
    let folder = Folder::with(&yaml(&[
        raw_server("up", &[]),
        plugin("logger", logs, &json!({"role": "Observe"})),
        chain("answers", "Response", "args", &[json!({"name": "logger"})]),
    ]));
    let gateway = Gateway::start(&folder);
    gateway.until_answer("up__args", &json!({"m": 1}), "/result/content/0/text", &json!(r#"{"m":1}"#)).await;
    gateway.signal(Signal::INT);
    gateway.logged(|line| line["message"] == "call" && line["ran"] == "default/logger ran");
    assert!(gateway.ended().await);
}

#[tokio::test]
async fn a_second_signal_ends_it_while_it_still_takes_connections() {
    let (_folder, gateway) = started(&[]).await;
    // Without clients it would end at once.
    let _session = Http::new().initialize(&gateway.url()).await;
    told_to_end(&gateway).await;
    assert!(std::net::TcpStream::connect(gateway.address()).is_ok());
    let began = Instant::now();
    gateway.signal(Signal::TERM);
    assert!(gateway.ended().await);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn requests_that_never_arrive_do_not_hold_the_end_up() {
    let (_folder, gateway) = started(&["--drain-seconds", "15"]).await;
    let halves = [
        "POST /mcp HTTP/1.1\r\nHost: 127.0",
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\
        Content-Type: application/json\r\nAccept: application/json\r\nContent-Length: 100\r\n\r\n{",
    ];
    let _clients = halves.map(|half| {
        let mut client = std::net::TcpStream::connect(gateway.address()).unwrap();
        client.write_all(half.as_bytes()).unwrap();
        client
    });
    // Both have arrived.
    tokio::time::sleep(Duration::from_millis(200)).await;
    gateway.signal(Signal::INT);
    let log = gateway.lines();
    assert!(gateway.ended().await);
    assert!(
        !log.lock().unwrap().iter().any(|line| line.contains("still in flight")),
        "they were waited for until the deadline"
    );
}
