//! Pods that never answer, and who waits for them.

use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tower::BoxError;

use super::*;
use crate::controller::lease::Leadership;
use crate::controller::liveness::Liveness;

/// What listens and never answers.
async fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// What answers each request with an empty report.
async fn answering() -> String {
    let (listener, address) = silent().await;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                    stream.write_all(answer).await.unwrap();
                }
            });
        }
    });
    address
}

fn asking() -> Asking {
    let refuse = |_: Request<Body>| async { Err::<Response<Body>, BoxError>("nobody is there".into()) };
    let client = kube::Client::new(tower::service_fn(refuse), "mcp");
    Asking::new(Writer::new(client, Leadership::default(), Liveness::default().pulse("pods")))
}

fn pod(gateway: &str, name: &str, address: &str) -> Ready {
    Ready {
        gateway: ObjectKey::new("mcp", gateway),
        uid: gateway.to_owned(),
        pod_uid: format!("{gateway}-{name}"),
        name: name.to_owned(),
        address: address.to_owned(),
    }
}

/// Whether this pod's report counts.
fn reports(found: &ByGateway, gateway: &str, name: &str) -> bool {
    let pods = found.get(&ObjectKey::new("mcp", gateway));
    pods.and_then(|pods| pods.ready.get(name)).is_some_and(Result::is_ok)
}

#[tokio::test]
async fn no_report_waits_for_pods_that_never_answer() {
    let ((_listener, nobody), somebody) = (silent().await, answering().await);
    let mut asking = asking();
    asking.ready = vec![pod("main", "good", &somebody)];
    asking.ask(&HashMap::new(), None);
    assert!(asking.hear().await && reports(&asking.found(&ByGateway::new()), "main", "good"));

    // Far more of them than are asked at once, before the others.
    asking.ready.splice(0..0, (0..100).map(|n| pod("main", &n.to_string(), &nobody)));
    asking.ready.push(pod("other", "good", &somebody));
    let began = Instant::now();
    asking.ask(&HashMap::new(), None);
    let waits =
        |asking: &Asking| asking.asked["main-good"].is_waited_for() || asking.asked["other-good"].is_waited_for();
    while waits(&asking) {
        asking.hear().await;
    }
    assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
    let found = asking.found(&ByGateway::new());
    assert!(reports(&found, "other", "good"));
    assert!(!found.contains_key(&ObjectKey::new("mcp", "main")), "its new pods are waited for, for a moment");
}
