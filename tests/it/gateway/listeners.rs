//! Listeners that come, change and go while a gateway runs.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::harness::{Folder, Gateway, SOON, run};
use super::http::{Http, JSON};
use super::manifests::{gateway, raw_server, yaml};

/// Ports that are free, at least a moment ago.
fn free_ports<const N: usize>() -> [u16; N] {
    let held = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    held.map(|socket| socket.local_addr().unwrap().port())
}

fn manifests(listeners: &Value) -> String {
    yaml(&[gateway(&json!({"listeners": listeners})), raw_server("up", &[])])
}

/// The HTTP status of an `initialize` from a page; none where nobody listens, or the listener closes.
async fn status(port: u16, origin: &str) -> Option<u16> {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    let headers: Vec<_> = JSON.into_iter().chain([("origin", origin)]).collect();
    let url = format!("http://127.0.0.1:{port}/mcp");
    Some(Http::new().try_send(hyper::Method::POST, &url, &headers, body).await.ok()?.status)
}

async fn until(port: u16, origin: &str, wanted: Option<u16>) {
    let deadline = Instant::now() + SOON;
    while status(port, origin).await != wanted {
        assert!(Instant::now() < deadline, "port {port} never answered {origin} with {wanted:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn listeners_follow_the_manifests() {
    let [first, second, third] = free_ports();
    let (page, other) = ("https://page.example", "https://other.example");
    let one = |name: &str, port: u16, origin: &str| json!({"name": name, "port": port, "allowedOrigins": [origin]});
    let folder = Folder::with(&manifests(&json!([one("a", first, page), one("b", second, page)])));
    let running = Gateway::on_listeners(&folder, &[], &[]);
    until(first, page, Some(200)).await;
    until(second, page, Some(200)).await;
    // One goes, one comes, and one stays, with a name and origins of its own.
    folder.write("manifests.yaml", &manifests(&json!([one("c", first, other), one("d", third, page)])));
    until(third, page, Some(200)).await;
    until(second, page, None).await;
    until(first, other, Some(200)).await;
    assert_eq!(status(first, page).await, Some(403));
    // A port that another program holds is had as soon as it is free.
    let held = TcpListener::bind(("127.0.0.1", second)).unwrap();
    folder.write("manifests.yaml", &manifests(&json!([one("c", first, other), one("b", second, page)])));
    until(third, page, None).await;
    running.logged(|line| line["message"].as_str().is_some_and(|text| text.contains("cannot listen on 127.0.0.1")));
    assert_eq!(status(first, other).await, Some(200));
    drop(held);
    until(second, page, Some(200)).await;
}

#[tokio::test]
async fn a_listener_that_cannot_move_stays_where_it_is() {
    let [port] = free_ports();
    let page = "https://page.example";
    let one = |name: &str, port: u16| manifests(&json!([{"name": name, "port": port, "allowedOrigins": [page]}]));
    let folder = Folder::with(&one("a", port));
    let running = Gateway::on_listeners(&folder, &[], &[]);
    until(port, page, Some(200)).await;
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().port();
    folder.write("manifests.yaml", &one("a", taken));
    let waited = run(&["wait", "--admin", &running.admin()]);
    let said = String::from_utf8(waited.stderr).unwrap();
    assert_eq!(waited.status.code(), Some(1), "{said}");
    for wanted in ["MCPGateway", "spec.listeners[0].port", &format!("127.0.0.1:{taken}"), "AddressUnavailable"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert_eq!(status(port, page).await, Some(200));
    let problem = running.logged(|line| line["message"].as_str().is_some_and(|m| m.contains("(AddressUnavailable)")));
    assert_eq!(problem["level"], "ERROR", "{problem}");
    let stays = format!("the listener stays at 127.0.0.1:{port}");
    assert!(problem["message"].as_str().unwrap().contains(&stays), "{problem}");
    // The settings of the listener count where it is.
    let other = json!([{"name": "a", "port": taken, "allowedOrigins": ["https://other.example"]}]);
    folder.write("manifests.yaml", &manifests(&other));
    until(port, page, Some(403)).await;
    drop(held);
    until(taken, "https://other.example", Some(200)).await;
    until(port, page, None).await;
    let waited = run(&["wait", "--admin", &running.admin()]);
    assert_eq!(waited.status.code(), Some(0), "{}", String::from_utf8_lossy(&waited.stderr));
}

#[tokio::test]
async fn a_listener_keeps_its_settings_where_it_stays_whatever_its_name_and_none_stays_that_is_gone() {
    let [first, second] = free_ports();
    let (page, other) = ("https://page.example", "https://other.example");
    let one = |name: &str, port: u16, origin: &str| json!({"name": name, "port": port, "allowedOrigins": [origin]});
    let folder = Folder::with(&manifests(&json!([one("a", first, page), one("command-line", second, other)])));
    let running = Gateway::on_listeners(&folder, &[], &[]);
    until(first, page, Some(200)).await;
    until(second, other, Some(200)).await;
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().port();
    folder.write("manifests.yaml", &manifests(&json!([one("a", first, page), one("command-line", taken, other)])));
    running.logged(|line| line["message"].as_str().is_some_and(|text| text.contains("cannot listen on 127.0.0.1")));
    assert_eq!((status(second, other).await, status(second, page).await), (Some(200), Some(403)));
    // Another listener at the address that is taken: nothing stays for it.
    folder.write("manifests.yaml", &manifests(&json!([one("b", taken, page)])));
    until(first, page, None).await;
    until(second, other, None).await;
    let waited = run(&["wait", "--admin", &running.admin()]);
    let said = String::from_utf8(waited.stderr).unwrap();
    assert!(said.contains("AddressUnavailable") && !said.contains("stays"), "{said}");
}

#[tokio::test]
async fn a_request_names_one_host_and_one_origin() {
    let folder = Folder::new();
    folder.write("manifests.yaml", &yaml(&[raw_server("up", &[])]));
    let gateway = Gateway::start(&folder);
    let (mcp, admin) = (gateway.address().to_string(), gateway.admin());
    for (address, target, headers, status, words) in [
        (&mcp, format!("http://{mcp}/mcp"), "", 400, ""),
        (&mcp, "http://evil.example/mcp".into(), "", 403, "names another host"),
        (&mcp, format!("http://{mcp}@evil.example/mcp"), "", 403, "names another host"),
        (
            &mcp,
            "/mcp".into(),
            "Origin: http://localhost\r\nOrigin: https://evil.example\r\n",
            403,
            "several Origin headers",
        ),
        (&admin, format!("http://{admin}/api/v1/status"), "", 200, ""),
        (&admin, "http://evil.example/api/v1/status".into(), "", 403, "names another host"),
    ] {
        let mut stream = TcpStream::connect(address.as_str()).await.unwrap();
        let head = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(SOON, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        let is_as_expected = answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(words);
        assert!(is_as_expected, "{target} {headers}: {answer:.500}");
    }
}
