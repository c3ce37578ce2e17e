//! Connections to other replicas, as servers of all kinds take them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::http::{StatusCode, Uri};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use tower::Service;

use super::gateway::Gateway;
use crate::domain::secret::SecretText;
use crate::engine::SealKeys;
use crate::web::forward_token::{ANSWERED, AnswerScope};
use crate::web::replica_connector::{NotConnected, ReplicaConnector};

/// A server that answers the first request with what `answer` makes of it, and keeps the connection open.
async fn server(answer: impl FnOnce(String) -> Option<String> + Send + 'static) -> (SocketAddr, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
        }
        if let Some(answer) = answer(String::from_utf8(request).unwrap()) {
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        std::future::pending().await
    };
    (address, AbortOnDropHandle::new(tokio::spawn(serve)))
}

/// Connects to a server that answers the challenge with its seal and this header, or not at all.
async fn connected(gateway: &Gateway, header: Option<&'static str>) -> Result<(), NotConnected> {
    let engine = Arc::clone(&gateway.engine);
    let answer = move |request: String| {
        let token = request.lines().find_map(|line| line.strip_prefix("hawsepipe-forwarded: ")).unwrap();
        let (snapshot, status) = (engine.in_force.snapshot(), StatusCode::NO_CONTENT);
        let scope = AnswerScope { gateway: &snapshot.plan().gateway.key, token, status, channel: None };
        let seal = scope.seal(engine.gate.sessions().seals()).unwrap();
        header.map(|more| format!("HTTP/1.1 204 No Content\r\n{ANSWERED}: {}\r\n{more}\r\n", seal.to_str().unwrap()))
    };
    let (address, _server) = server(answer).await;
    let mut connector = ReplicaConnector { engine: Arc::clone(&gateway.engine), tls: None };
    connector.call(format!("http://{address}/").parse::<Uri>().unwrap()).await.map(drop)
}

#[tokio::test]
async fn a_replica_that_closes_the_connection_or_is_slow_is_no_server_that_is_none() {
    let gateway = Gateway::start().await;
    let key = SecretText::new("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=");
    gateway.engine.gate.sessions().share(SealKeys::parse(&key).unwrap_or_else(|why| panic!("{why}")));
    assert!(connected(&gateway, Some("")).await.is_ok());
    let ending = connected(&gateway, Some("connection: close\r\n")).await;
    assert!(matches!(ending, Err(NotConnected::Ending)), "{ending:?}");
    let slow = connected(&gateway, None).await;
    assert!(matches!(slow, Err(NotConnected::Late)), "{slow:?}");
}
