//! Servers over HTTP+SSE whose sessions fail in ways that those of the SDKs cannot be told to.

use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Folder, Gateway, Http, object, text, tools_of, until};

/// What a server does with what is posted to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It answers on the stream of the session.
    None,
    /// It knows the session no more, whose stream stays open.
    Forgotten,
    /// It takes the message, and its stream brings nothing any more.
    Silent,
    /// It takes a call, and sends no response to the POST.
    Withheld,
}

struct Session {
    stream: TcpStream,
    fault: Fault,
}

#[derive(Default)]
struct State {
    sessions: HashMap<String, Session>,
    posted: Vec<Value>,
}

/// A server with one tool, `whoami`, which says the id of the session.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

impl Server {
    fn start() -> (Self, String) {
        let (server, listener) = (Self::default(), TcpListener::bind("127.0.0.1:0").unwrap());
        let (address, serving) = (listener.local_addr().unwrap(), server.clone());
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let serving = serving.clone();
                std::thread::spawn(move || serving.serve(connection));
            }
        });
        (server, format!("http://{address}/old/sse"))
    }

    /// Gives this fault to all sessions that there are.
    fn fail(&self, fault: Fault) {
        self.0.lock().unwrap().sessions.values_mut().for_each(|session| session.fault = fault);
    }

    fn posted(&self, method: &str) -> Vec<Value> {
        let state = self.0.lock().unwrap();
        state.posted.iter().filter(|message| message["method"] == method).cloned().collect()
    }

    fn serve(&self, mut connection: TcpStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(connection.try_clone()?);
        loop {
            let (head, length) = super::read_head(&mut lines)?;
            let mut body = vec![0; length];
            lines.read_exact(&mut body)?;
            let uri = head.split(' ').nth(1).unwrap_or_default().to_owned();
            match head.split(' ').next().unwrap_or_default() {
                "GET" => return self.open(connection),
                "POST" => match self.take(&uri, &serde_json::from_slice(&body)?) {
                    Some(status) => write!(connection, "HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n")?,
                    None => std::thread::sleep(Duration::from_secs(60)),
                },
                _ => return Ok(()),
            }
        }
    }

    /// Opens a session. Its URI has dot segments, its stream a mark of the byte order and ends of lines of each kind.
    fn open(&self, mut connection: TcpStream) -> std::io::Result<()> {
        let mut state = self.0.lock().unwrap();
        let id = format!("/m{}", state.sessions.len());
        write!(connection, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")?;
        write!(connection, "\u{FEFF}event: endpoint\rdata: ../old/..{id}\r\r")?;
        state.sessions.insert(id, Session { stream: connection, fault: Fault::None });
        Ok(())
    }

    /// Returns the status of the response; `None` if there is none.
    fn take(&self, uri: &str, message: &Value) -> Option<u16> {
        let mut state = self.0.lock().unwrap();
        state.posted.push(message.clone());
        let Some(session) = state.sessions.get_mut(uri) else { return Some(404) };
        let is_call = message["method"] == "tools/call";
        match session.fault {
            Fault::Forgotten => return Some(404),
            Fault::Silent => return Some(202),
            Fault::Withheld if is_call => return None,
            Fault::None | Fault::Withheld => {}
        }
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                "serverInfo": {"name": "faulty", "version": "1"},
            }),
            Some("tools/list") => json!({"tools": [{"name": "whoami", "inputSchema": {"type": "object"}}]}),
            Some("tools/call") => json!({"content": [{"type": "text", "text": uri}]}),
            _ => json!({}),
        };
        if message.get("id").is_some() {
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            let _ = write!(session.stream, "event: message\rdata: {answer}\r\n\r\n");
        }
        Some(202)
    }
}

/// A gateway with the server as its only upstream.
async fn gateway(url: &str) -> Gateway {
    let spec = format!("external: {{url: {url:?}, transport: SSE}}, timeouts: {{callMs: 500}}");
    let gateway = Gateway::start(&Folder::with(&object("MCPUpstream", "faulty", &spec)));
    tools_of(&gateway, &["faulty"]).await;
    gateway
}

#[tokio::test]
async fn a_session_that_its_server_forgot_is_begun_again() {
    let (server, url) = Server::start();
    let gateway = gateway(&url).await;
    let session = Http::new().initialize(&gateway.url()).await;
    let whoami = async || session.call_raw(1, "faulty__whoami", "{}").await.json();
    let first = text(&whoami().await).to_owned();
    server.fail(Fault::Forgotten);
    let second = text(&whoami().await).to_owned();
    assert_ne!(first, second);
    assert_eq!(text(&whoami().await), second, "it is kept");
}

#[tokio::test]
async fn a_stream_that_brings_nothing_any_more_is_replaced_after_a_call_was_late() {
    let (server, url) = Server::start();
    let gateway = gateway(&url).await;
    let session = Http::new().initialize(&gateway.url()).await;
    let whoami = async || session.call_raw(1, "faulty__whoami", "{}").await.json();
    let first = text(&whoami().await).to_owned();
    server.fail(Fault::Silent);
    let late = whoami().await;
    assert!(late["error"].is_object() || late["result"]["isError"] == true, "{late}");
    assert_ne!(text(&whoami().await), first);
}

#[tokio::test]
async fn a_call_is_cancelled_though_its_post_has_no_response() {
    let (server, url) = Server::start();
    let gateway = gateway(&url).await;
    let session = Http::new().initialize(&gateway.url()).await;
    server.fail(Fault::Withheld);
    let late = session.call_raw(1, "faulty__whoami", "{}").await.json();
    assert!(late["error"].is_object() || late["result"]["isError"] == true, "{late}");
    until("the call is cancelled", async || {
        let call = server.posted("tools/call").remove(0);
        server.posted("notifications/cancelled").iter().any(|message| message["params"]["requestId"] == call["id"])
    })
    .await;
}
