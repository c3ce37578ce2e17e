//! Servers over HTTP+SSE whose sessions fail in ways that those of the SDKs cannot be told to.

use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::super::asked::answered_in_vain;
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
    /// It asks the client during a call, and sends no response to the POST of the answer.
    Deaf,
    /// It ends the stream once it has listed its tools.
    Ends,
}

struct Session {
    stream: TcpStream,
    fault: Fault,
}

#[derive(Default)]
struct State {
    sessions: HashMap<String, Session>,
    posted: Vec<Value>,
    /// The fault of sessions that are begun.
    next: Option<Fault>,
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

    /// Gives this fault to all sessions that are begun from now on.
    fn fail_next(&self, fault: Fault) {
        self.0.lock().unwrap().next = Some(fault);
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
        let fault = state.next.unwrap_or(Fault::None);
        state.sessions.insert(id, Session { stream: connection, fault });
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
            Fault::Deaf if is_call => {
                let params = json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
                let asked = json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params});
                let _ = write!(session.stream, "event: message\ndata: {asked}\n\n");
                return Some(202);
            }
            Fault::Deaf if message.get("method").is_none() => return None,
            Fault::None | Fault::Withheld | Fault::Deaf | Fault::Ends => {}
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
        if session.fault == Fault::Ends && message["method"] == "tools/list" {
            let _ = session.stream.shutdown(std::net::Shutdown::Both);
        }
        Some(202)
    }
}

/// A gateway with the server as its only upstream, whose calls may take half a second.
async fn gateway(url: &str) -> Gateway {
    gateway_with(url, 500).await
}

async fn gateway_with(url: &str, call_ms: u64) -> Gateway {
    let spec = format!("external: {{url: {url:?}, transport: SSE}}, timeouts: {{callMs: {call_ms}}}");
    let folder = Folder::with(&object("MCPUpstream", "faulty", &spec));
    let gateway = Gateway::start(&folder);
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
    // The stream is replaced beside the calls: the next one may still be refused.
    until("a call has the next stream", async || {
        let next = whoami().await;
        next["result"]["content"][0]["text"]
            .as_str()
            .is_some_and(|said| next["result"]["isError"] != true && said != first)
    })
    .await;
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

#[tokio::test]
async fn a_call_ends_whose_server_does_not_take_the_answer_to_its_question() {
    let (server, url) = Server::start();
    server.fail_next(Fault::Deaf);
    let gateway = gateway_with(&url, 60_000).await;
    let rest = answered_in_vain(&gateway, "faulty__whoami").await;
    assert!(rest.contains("ConnectFailed"), "{rest}");
    gateway.logged(|line| line.to_string().contains("could not be delivered: it did not take it within"));
}

#[tokio::test]
async fn a_server_whose_stream_keeps_ending_is_a_problem() {
    let (server, url) = Server::start();
    server.fail_next(Fault::Ends);
    let gateway = gateway(&url).await;
    gateway.logged(|line| line.to_string().contains("keeps ending"));
    let plan = format!("http://{}/api/v1/plan", gateway.admin());
    until("it is told", async || Http::new().get(&plan).await.body.contains("ConnectionEnds")).await;
    // Calls do not wait for the next attempt.
    let session = Http::new().initialize(&gateway.url()).await;
    let answer = session.call_raw(1, "faulty__whoami", "{}").await.json();
    assert!(text(&answer).starts_with("/m"), "{answer}");
}
