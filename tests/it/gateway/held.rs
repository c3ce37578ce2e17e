//! What clients make a gateway hold is bounded in bytes, not only in connections.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::harness::{Folder, Gateway, HEAVY, SOON};
use super::http::Http;
use super::manifests::{raw_server, yaml};
use super::outcomes::seen::metrics;

const CONNECTIONS: usize = 500;
const BODY: usize = 4 << 20;
const MOST: u64 = 300 << 20;

/// Sends all of a body but its last byte, for as long as somebody takes it.
async fn hold(gateway: &Gateway, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n").as_bytes()).await.unwrap();
    let chunk = vec![b' '; 64 << 10];
    let mut left = length - 1;
    while left > 0 {
        let piece = &chunk[..left.min(chunk.len())];
        if stream.write_all(piece).await.is_err() {
            break;
        }
        left -= piece.len();
    }
    stream
}

/// The most memory that the gateway ever had, in bytes.
pub(super) fn peak(gateway: &Gateway) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

async fn metric(gateway: &Gateway, name: &str) -> u64 {
    let (metrics, start) = (metrics(gateway).await, format!("{name}{{what=\"request\"}} "));
    metrics.lines().find_map(|line| line.strip_prefix(&start)).unwrap().parse().unwrap()
}

#[tokio::test]
async fn clients_that_hold_4_mib_each_leave_the_gateway_below_300_mb_and_small_calls_alone() {
    let _alone = HEAVY.lock().await;
    let folder = Folder::with(&yaml(&[raw_server("up", &[])]));
    let gateway = Gateway::start(&folder);
    gateway.until_answer("up__args", &json!({}), "/result/content/0/text", &json!("{}")).await;
    let mut holding = JoinSet::new();
    let gateway = std::sync::Arc::new(gateway);
    for _ in 0..CONNECTIONS {
        let gateway = std::sync::Arc::clone(&gateway);
        holding.spawn(async move { hold(&gateway, BODY).await });
    }
    let mut held = holding.join_all().await;
    assert!(peak(&gateway) < MOST, "{} bytes", peak(&gateway));
    assert!(metric(&gateway, "hawsepipe_held_refused_total").await > 400);
    // Those that were turned away left room for some more.
    for _ in 0..20 {
        held.push(hold(&gateway, BODY).await);
    }
    // Who sends much is told to come again, who sends little is served.
    let mut refused = hold(&gateway, BODY).await;
    let mut answer = vec![0; 4096];
    let read = tokio::time::timeout(SOON, refused.read(&mut answer)).await.expect("no answer").unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]);
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.contains("NoRoom") && answer.contains("retryAfterMs"),
        "{answer}"
    );
    let small = Http::new().call(&gateway.url(), "up__args", &json!({}), &json!({})).await;
    assert_eq!(small["result"]["content"][0]["text"], "{}", "{small}");
    // What they held is free when they are gone.
    drop((held, refused));
    let deadline = Instant::now() + SOON;
    while metric(&gateway, "hawsepipe_held_bytes").await > 0 {
        assert!(Instant::now() < deadline, "bytes of clients that are gone are held");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let large = json!({"m": "x".repeat(2 << 20)});
    let answer = Http::new().call(&gateway.url(), "up__args", &large, &json!({})).await;
    assert!(answer["result"].is_object(), "{:.300}", answer.to_string());
    assert!(peak(&gateway) < MOST, "{} bytes", peak(&gateway));
}
