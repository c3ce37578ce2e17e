//! Pods that never answer, and which others they delay.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tower::BoxError;

use super::*;
use crate::controller::lease::Leadership;
use crate::controller::liveness::Liveness;

/// Returns a listener that never answers, and its address.
async fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// Returns the address of a server that answers each request with an empty report.
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

/// Returns a poller whose requests for tokens fail. Those for the gateway `silent` are never answered.
fn asking() -> PodPoller {
    let account = json!({"status": {"userInfo": {"username": "system:serviceaccount:system:operator"}}});
    let answer = move |request: Request<Body>| {
        let account = account.to_string().into_bytes();
        async move {
            if !request.uri().path().ends_with("/token") {
                return Ok(Response::new(Body::from(account)));
            }
            let asked = request.into_body().collect().await?.to_bytes();
            if String::from_utf8_lossy(&asked).contains("gateway/silent") {
                std::future::pending::<()>().await;
            }
            Err::<Response<Body>, BoxError>("nobody is there".into())
        }
    };
    let client = kube::Client::new(tower::service_fn(answer), "mcp");
    PodPoller::new(Writer::new(client, Leadership::default(), Liveness::default().pulse("pods")))
}

fn pod(gateway: &str, name: &str, address: &str) -> ReadyPod {
    ReadyPod {
        gateway: ObjectKey::new("mcp", gateway),
        uid: gateway.to_owned(),
        pod_uid: format!("{gateway}-{name}"),
        name: name.to_owned(),
        address: address.to_owned(),
    }
}

/// Returns gateways with these pods.
fn found(ready: Vec<ReadyPod>) -> GatewayPods {
    let gateways = ready.iter().map(|pod| (pod.gateway.clone(), pod.uid.clone())).collect();
    GatewayPods { gateways, pods: ByGateway::new(), ready }
}

fn is_waited_for(asking: &PodPoller, gateway: &str, name: &str) -> bool {
    asking.asked[&(gateway.to_owned(), format!("{gateway}-{name}"))].is_waited_for()
}

/// Processes answers until one of them is new.
async fn hear(asking: &mut PodPoller) {
    while !asking.hear().await {}
}

/// Whether this pod's report is published.
fn reports(found: &ByGateway, gateway: &str, name: &str) -> bool {
    let pods = found.get(&ObjectKey::new("mcp", gateway));
    pods.and_then(|pods| pods.ready.get(name)).is_some_and(Result::is_ok)
}

#[tokio::test]
async fn no_report_waits_for_pods_that_never_answer() {
    let ((_listener, nobody), somebody) = (silent().await, answering().await);
    let mut asking = asking();
    asking.look(found(vec![pod("main", "good", &somebody)]));
    hear(&mut asking).await;
    assert!(reports(&asking.tell(), "main", "good"));

    // Far more silent pods than are polled concurrently, placed before the others.
    let mut ready: Vec<_> = (0..100).map(|n| pod("main", &n.to_string(), &nobody)).collect();
    ready.extend([pod("main", "good", &somebody), pod("other", "good", &somebody)]);
    let began = Instant::now();
    asking.told.clear();
    asking.look(found(ready));
    let reports_other = |asking: &mut PodPoller| reports(&asking.tell(), "other", "good");
    while is_waited_for(&asking, "main", "good") || !reports_other(&mut asking) {
        asking.hear().await;
    }
    assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
    assert!(!asking.tell().contains_key(&ObjectKey::new("mcp", "main")), "its new pods are waited for, for a moment");
}

#[tokio::test]
async fn pods_of_a_gateway_whose_token_does_not_come_delay_no_others() {
    let (address, mut asking) = (answering().await, asking());
    asking.look(found(vec![pod("silent", "good", &address), pod("main", "good", &address)]));
    hear(&mut asking).await;
    let told = asking.tell();
    assert!(reports(&told, "main", "good") && !told.contains_key(&ObjectKey::new("mcp", "silent")));
    assert!(!is_waited_for(&asking, "silent", "good"), "it is not asked before there is a token, or none to be had");
}

#[tokio::test]
async fn what_a_pod_said_to_a_gateway_is_not_told_of_another_of_its_name() {
    let (address, mut asking) = (answering().await, asking());
    asking.look(found(vec![pod("main", "good", &address)]));
    hear(&mut asking).await;
    assert!(reports(&asking.tell(), "main", "good"));
    let next = |name| ReadyPod { uid: "next".into(), ..pod("main", name, &address) };
    asking.look(found(vec![next("good")]));
    assert!(!asking.tell().contains_key(&ObjectKey::new("mcp", "main")), "it was not asked for this one yet");
    hear(&mut asking).await;
    assert!(reports(&asking.tell(), "main", "good"));
    asking.look(found(vec![next("good"), next("more")]));
    assert!(reports(&asking.tell(), "main", "good"), "it is as it was told while a new pod is asked");
}
