//! Metrics at an address of their own (`run --metrics`).

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use hyper::Method;
use hyper::body::Bytes;

use super::harness::{Folder, Gateway, run};
use super::http::Http;
use super::parts::{modern_stdio, tools_of, until};
use crate::prometheus::Prometheus;

/// An address of this machine that others reach, or loopback if it has none. Nothing is sent.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let found = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    found.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
}

#[tokio::test]
async fn a_prometheus_elsewhere_gets_the_metrics_and_nothing_else() {
    let folder = Folder::with(&modern_stdio("up"));
    let gateway = Gateway::start_with(&folder, &["--metrics", "0.0.0.0:0"]);
    tools_of(&gateway, &["up"]).await;
    let line = gateway.logged(|line| line["message"] == "metrics");
    let port = line["address"].as_str().unwrap().parse::<SocketAddr>().unwrap().port();
    let outside = SocketAddr::new(own_address(), port);
    let here = format!("http://127.0.0.1:{port}/metrics");
    let http = Http::new();
    let answer = http.get(&format!("http://{outside}/metrics")).await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("hawsepipe_upstream_state"), "{}", answer.body);
    for path in ["/api/v1/status", "/api/v1/report", "/healthz", "/mcp", "/"] {
        assert_eq!(http.get(&format!("http://{outside}{path}")).await.status, 404, "{path}");
    }
    let none = Bytes::new();
    for (method, headers, status) in [
        (Method::POST, &[][..], 405),
        (Method::GET, &[("origin", "https://evil.example")], 403),
        (Method::GET, &[("host", "evil.example")], 403),
        (Method::GET, &[], 200),
    ] {
        assert_eq!(
            http.send(method.clone(), &here, headers, none.clone()).await.status,
            status,
            "{method} {headers:?}"
        );
    }
    let prometheus = Prometheus::start(&[outside.to_string()]).await;
    until("it is scraped", async || prometheus.value("hawsepipe_build_info").await == Some(1.0)).await;

    let path = folder.path().to_str().unwrap();
    let admin = run(&["run", "-f", path, "--admin", "0.0.0.0:0"]);
    let error = String::from_utf8_lossy(&admin.stderr).into_owned();
    assert!(!admin.status.success() && error.contains("--metrics ADDR"), "{error}");
}
