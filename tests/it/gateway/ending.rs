//! How a gateway ends: calls in flight end well, nothing is left behind.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::harness::{Folder, Gateway, SOON};
use super::http::Http;
use super::manifests::{chain, plugin, raw_server, yaml};

const MODULE: &str = "export default ({ rawContent: text }) => ({ text, continue: true });";
const ONCE: &str = "const { rawContent: text } = JSON.parse(require('fs').readFileSync(0, 'utf8'));
console.log(JSON.stringify({ text, continue: true }));";

/// A gateway with two servers and workers of both protocols, all of them running.
async fn started() -> (Folder, Gateway) {
    let folder = Folder::with(&yaml(&[
        raw_server("up", &[]),
        raw_server("other", &[]),
        plugin("module", MODULE, &json!({"pool": {"size": 2}})),
        plugin("once", ONCE, &json!({})),
        chain("both", "Response", "*", &[json!({"name": "module"}), json!({"name": "once"})]),
    ]));
    let gateway = Gateway::start(&folder);
    for upstream in ["up", "other"] {
        gateway
            .until_answer(
                &format!("{upstream}__args"),
                &json!({"m": 1}),
                "/result/content/0/text",
                &json!(r#"{"m":1}"#),
            )
            .await;
    }
    (folder, gateway)
}

fn slow_call(gateway: &Gateway, ms: u64) -> JoinHandle<Value> {
    let url = gateway.url();
    tokio::spawn(async move { Http::new().call(&url, "up__slow", &json!({ "ms": ms }), &json!({})).await })
}

/// Waits until so many calls are in flight.
pub async fn in_flight(gateway: &Gateway, wanted: &str) {
    let deadline = Instant::now() + SOON;
    let line = format!("hawsepipe_calls_in_flight {wanted}");
    while !Http::new().get(&format!("http://{}/metrics", gateway.admin())).await.body.contains(&line) {
        assert!(Instant::now() < deadline, "never: {line}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Processes that descend from `root`, with what each was started as and when.
pub fn descendants(root: u32) -> BTreeMap<u32, String> {
    let processes: Vec<_> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| Some((pid, parent_and_start(pid)?)))
        .collect();
    let mut found = BTreeMap::from([(root, String::new())]);
    loop {
        let before = found.len();
        for (pid, (parent, start)) in &processes {
            if found.contains_key(parent) && !found.contains_key(pid) {
                found.insert(*pid, start.clone());
            }
        }
        if found.len() == before {
            found.remove(&root);
            return found;
        }
    }
}

/// Parent and start time of a process that is no zombie.
fn parent_and_start(pid: u32) -> Option<(u32, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    (fields[0] != "Z").then(|| (fields[1].parse().unwrap_or(0), fields[19].to_owned()))
}

/// Those of them that still run. Killed processes need a moment to be gone.
pub async fn left(children: &BTreeMap<u32, String>) -> Vec<u32> {
    let mut left = Vec::new();
    for _ in 0..100 {
        left = children
            .iter()
            .filter(|(pid, start)| parent_and_start(**pid).is_some_and(|(_, now)| now == **start))
            .map(|(pid, _)| *pid)
            .collect();
        if left.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    left
}

#[tokio::test]
async fn a_call_in_flight_ends_well_and_no_process_is_left() {
    let (_folder, gateway) = started().await;
    let call = slow_call(&gateway, 1500);
    in_flight(&gateway, "1").await;
    let children = descendants(gateway.pid());
    // Two servers and a worker at least; the script that has just answered may still have to be replaced.
    assert!(children.len() >= 3, "{children:?}");
    gateway.signal(Signal::INT);
    assert!(gateway.ended().await);
    let answer = call.await.unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"ms":1500}"#, "{answer}");
    assert_eq!(left(&children).await, Vec::<u32>::new());
}

#[tokio::test]
async fn what_changes_once_the_end_has_begun_is_not_read() {
    let (folder, gateway) = started().await;
    let call = slow_call(&gateway, 1500);
    in_flight(&gateway, "1").await;
    gateway.signal(Signal::INT);
    gateway.logged(|line| line["message"].as_str().is_some_and(|m| m.starts_with("ending")));
    // Far longer than it takes a change to show.
    folder.write("more.yaml", &yaml(&[raw_server("more", &[])]));
    let answer = call.await.unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"ms":1500}"#, "{answer}");
    let plans = gateway.log().iter().filter(|line| line.contains("plan in force")).count();
    assert_eq!(plans, 1, "{}", gateway.log().join("\n"));
    assert!(gateway.ended().await);
}

#[tokio::test]
async fn an_idle_gateway_ends_at_once() {
    let (_folder, gateway) = started().await;
    let children = descendants(gateway.pid());
    let (took, well) = gateway.end();
    assert!(well && took < Duration::from_secs(3), "{well}, {took:?}");
    assert_eq!(left(&children).await, Vec::<u32>::new());
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let (_folder, gateway) = started().await;
    let call = slow_call(&gateway, 60_000);
    in_flight(&gateway, "1").await;
    let children = descendants(gateway.pid());
    gateway.signal(Signal::INT);
    gateway.logged(|line| line["message"].as_str().is_some_and(|m| m.starts_with("ending")));
    // It waits for the call, and takes no other.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(std::path::Path::new(&format!("/proc/{}", gateway.pid())).exists());
    assert!(std::net::TcpStream::connect(gateway.address()).is_err());
    let began = Instant::now();
    gateway.signal(Signal::INT);
    gateway.ended().await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(left(&children).await, Vec::<u32>::new());
    call.abort();
}
