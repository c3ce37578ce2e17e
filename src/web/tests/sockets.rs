//! Tests on real sockets: bodies that are refused early, and a graceful shutdown.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::gateway::Gateway;
use crate::transport::{MAX_CONNECTIONS, serve};

async fn connect(gateway: &Gateway) -> (TcpStream, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(serve(listener, gateway.mcp.clone(), || MAX_CONNECTIONS, gateway.shutdown.clone()));
    (TcpStream::connect(address).await.unwrap(), served)
}

async fn read_some(stream: &mut TcpStream) -> String {
    let mut buffer = vec![0; 64 * 1024];
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut buffer)).await;
    let length = read.expect("no answer").unwrap();
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}

#[tokio::test]
async fn a_large_body_gets_an_answer_that_can_be_read() {
    let gateway = Gateway::start().await;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let chunk = vec![b'x'; 1 << 20];
    for length in ["Content-Length: 16777216\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"] {
        let (mut stream, served) = connect(&gateway).await;
        stream.write_all(format!("{head}{length}").as_bytes()).await.unwrap();
        for _ in 0..16 {
            if length.starts_with('T') {
                stream.write_all(b"100000\r\n").await.unwrap();
            }
            stream.write_all(&chunk).await.unwrap();
            if length.starts_with('T') {
                stream.write_all(b"\r\n").await.unwrap();
            }
        }
        let answer = read_some(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains("maxRequestSize"), "{answer}");
        served.abort();
    }
}

#[tokio::test]
async fn at_the_end_streams_are_closed_and_calls_are_answered() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    let (mut stream, served) = connect(&gateway).await;
    let get =
        format!("GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: {id}\r\n\r\n");
    stream.write_all(get.as_bytes()).await.unwrap();
    assert!(read_some(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
    gateway.shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(5), served).await.expect("the stream was not closed").unwrap();
}

#[tokio::test]
async fn at_the_end_a_connection_that_is_new_is_served_once_and_a_silent_one_is_closed() {
    let gateway = Gateway::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(serve(listener, gateway.mcp.clone(), || MAX_CONNECTIONS, gateway.shutdown.clone()));
    let [mut new, mut silent, mut last] =
        [connected(address).await, connected(address).await, connected(address).await];
    // Connections are accepted in order, so once the last one is answered, all of them have been accepted.
    let get = b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n";
    last.write_all(get).await.unwrap();
    assert!(read_some(&mut last).await.starts_with("HTTP/1.1 4"));
    gateway.engine.gate.drain();
    gateway.shutdown.cancel();
    new.write_all(get).await.unwrap();
    let answer = read_some(&mut new).await;
    assert!(answer.starts_with("HTTP/1.1 4") && answer.contains("connection: close"), "{answer}");
    for idle in [&mut new, &mut silent, &mut last] {
        assert_eq!(read_some(idle).await, "", "what is idle is closed");
    }
    tokio::time::timeout(Duration::from_secs(5), served).await.expect("a connection was not closed").unwrap();
}

async fn connected(address: std::net::SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}
