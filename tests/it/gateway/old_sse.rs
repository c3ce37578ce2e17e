//! HTTP+SSE of 2024-11-05: old clients, and old servers.

mod ends;
mod faulty;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Response};
use serde_json::{Value, json};

use super::harness::{Folder, Gateway, SOON};
use super::http::{Http, JSON};
use super::outcomes::seen::metrics;
use super::parts::{
    SDKS, SSE_SDKS, Sdk, asking_http, asking_sse, everything, external, modern_sse, object, tools_of, until,
};

const ANSWERS: &str = r#"{
    "sampling": {"role": "assistant", "content": {"type": "text", "text": "forty-two"}, "model": "m"},
    "elicitation": {"action": "accept", "content": {"name": "Ada"}},
    "roots": {"roots": [{"uri": "file:///work", "name": "work"}]}
}"#;

/// A gateway with HTTP+SSE on its listener.
fn main(more: &str) -> String {
    let listeners =
        format!("listeners: [{{name: web, port: 8080, legacySSE: true}}], authentication: {{anonymous: {{}}}}{more}");
    object("MCPGateway", "main", &listeners)
}

fn text(line: &Value) -> &str {
    line["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{line}"))
}

/// Whether a client was told of five steps. The TypeScript SDK loses the last ones if they arrive together with the answer: it
/// takes the answer at once, and progress in a task of its own.
fn has_five_steps(sdk: &Sdk, line: &Value) -> bool {
    let steps: Vec<_> =
        line["progress"].as_array().into_iter().flatten().map(|step| step["progress"].as_f64()).collect();
    [1.0, 2.0, 3.0, 4.0, 5.0].map(Some).starts_with(&steps) && (steps.len() == 5 || !sdk.python)
}

/// A stream of a client without an SDK.
struct Stream {
    http: Http,
    response: Response<Incoming>,
    heard: String,
    /// Where messages are posted.
    url: String,
}

impl Stream {
    async fn open(gateway: &Gateway, path: &str) -> Self {
        let (http, base) = (Http::new(), format!("http://{}", gateway.address()));
        let response =
            http.open(Method::GET, &format!("{base}{path}"), &[("accept", "text/event-stream")], Bytes::new()).await;
        assert_eq!(response.status(), 200);
        let mut stream = Self { http, response, heard: String::new(), url: String::new() };
        let first = stream.event().await;
        let uri = first.strip_prefix("event: endpoint\ndata: ").unwrap_or_else(|| panic!("{first}"));
        stream.url = format!("{base}{uri}");
        stream
    }

    async fn event(&mut self) -> String {
        loop {
            if let Some((event, rest)) = self.heard.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.heard = rest;
                return event;
            }
            let frame = tokio::time::timeout(SOON, self.response.body_mut().frame()).await.unwrap();
            self.heard.push_str(&String::from_utf8_lossy(frame.expect("it ended").unwrap().data_ref().unwrap()));
        }
    }

    async fn message(&mut self) -> Value {
        let event = self.event().await;
        let data = event.strip_prefix("event: message\ndata: ").unwrap_or_else(|| panic!("{event}"));
        serde_json::from_str(data).unwrap()
    }

    async fn post(&self, message: &Value) -> u16 {
        self.http.send(Method::POST, &self.url, &JSON[..1], message.to_string()).await.status
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        let sent = self.post(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        assert_eq!(sent, 202);
        loop {
            // Changes of lists come between.
            let message = self.message().await;
            if message.get("method").is_none() {
                assert_eq!(message["id"], id, "{message}");
                return message;
            }
        }
    }

    async fn initialize(&mut self) -> Value {
        let client = json!({"name": "old", "version": "1"});
        let params = json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": client});
        let answer = self.ask(0, "initialize", params).await;
        assert_eq!(self.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await, 202);
        answer
    }
}

/// The progress of a call arrives whole and before the answer.
async fn every_step_is_told(gateway: &Gateway) {
    let mut stream = Stream::open(gateway, "/sse").await;
    stream.initialize().await;
    let params = json!({"name": "asking__steps", "arguments": {"count": 5}, "_meta": {"progressToken": "p"}});
    assert_eq!(stream.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await, 202);
    let mut progress = Vec::new();
    loop {
        let message = stream.message().await;
        match message["method"].as_str() {
            Some("notifications/progress") => progress.push(message["params"]["progress"].as_u64()),
            Some(_) => {}
            None => break assert_eq!(text(&message), "5 steps"),
        }
    }
    assert_eq!(progress, [1, 2, 3, 4, 5].map(Some));
}

#[tokio::test]
async fn old_clients_of_the_sdks_use_every_path_of_the_gateway() {
    let folder = Folder::new();
    let (_asking, url) = asking_http(&folder.path().join("log"));
    folder.write("manifests.yaml", &(main("") + &external("asking", &url) + &everything("every")));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["asking", "every"]).await;
    let base = format!("http://{}", gateway.address());
    for sdk in SSE_SDKS {
        for (path, tool) in [("/sse", "every__echo"), ("/mcp", "every__echo"), ("/every/sse", "echo")] {
            let lines = sdk.run(&format!("{base}{path}"), &["--repeat", "20", "call", tool, r#"{"message":"hi"}"#], "");
            assert!(
                lines.len() == 20 && lines.iter().all(|line| text(line).contains("hi")),
                "{sdk:?} {path} {lines:?}"
            );
        }
        let steps = sdk.run(&format!("{base}/sse"), &["call", "asking__steps", r#"{"count":5}"#], "").remove(0);
        assert!(text(&steps) == "5 steps" && has_five_steps(&sdk, &steps), "{sdk:?} {steps}");
    }
    every_step_is_told(&gateway).await;
    // The server asks an old client too.
    for (tool, capability) in [("sample", "sampling"), ("elicit", "elicitation"), ("roots", "roots")] {
        let tool = format!("asking__{tool}");
        let lines = SSE_SDKS[1].run(&format!("{base}/sse"), &["call", &tool, "{}", "--answers", ANSWERS], "");
        let said: Value = serde_json::from_str(text(&lines[0])).unwrap_or_else(|e| panic!("{e}: {lines:?}"));
        assert_eq!(said, serde_json::from_str::<Value>(ANSWERS).unwrap()[capability], "{tool}");
    }
    // The streams end with their clients, and so do the sessions.
    let sessions = format!("http://{}/api/v1/sessions", gateway.admin());
    until("the sessions have ended", async || {
        Http::new().get(&sessions).await.json()["items"].as_array().is_some_and(Vec::is_empty)
    })
    .await;
}

#[tokio::test]
async fn a_stream_is_a_session_of_2024_11_05() {
    let folder = Folder::with(&(main("") + &everything("every")));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["every"]).await;
    let (mut first, mut second) = (Stream::open(&gateway, "/sse").await, Stream::open(&gateway, "/every/sse").await);
    assert_ne!(first.url, second.url);
    // A session is begun first, and once.
    let early = first.ask(7, "ping", json!({})).await;
    assert!(early["error"]["message"].as_str().unwrap().contains("initialize"), "{early}");
    assert_eq!(first.initialize().await["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(second.initialize().await["result"]["protocolVersion"], "2024-11-05");
    let call = |name: &str| json!({"name": name, "arguments": {"message": "hi"}});
    assert!(text(&first.ask(1, "tools/call", call("every__echo")).await).contains("hi"));
    assert!(text(&second.ask(1, "tools/call", call("echo")).await).contains("hi"));
    // What the stream of one endpoint names is worth nothing at another.
    let moved = second.url.replace("/every/", "/");
    let ping = r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#;
    assert_eq!(second.http.send(Method::POST, &moved, &JSON[..1], ping).await.status, 404);
    assert_eq!(second.http.send(Method::POST, &second.url, &[("content-type", "text/plain")], ping).await.status, 415);
    let foreign = [JSON[0], ("origin", "https://evil.example")];
    assert_eq!(second.http.send(Method::POST, &second.url, &foreign, ping).await.status, 403);
    // Its end ends the session.
    let (http, url) = (first.http.clone(), first.url.clone());
    drop(first);
    until("the stream is gone", async || http.send(Method::POST, &url, &JSON[..1], ping).await.status == 404).await;
}

#[tokio::test]
async fn without_the_setting_there_is_no_stream_for_old_clients() {
    let folder = Folder::with(&everything("every"));
    let gateway = Gateway::start(&folder);
    let http = Http::new();
    for (path, status) in [("/sse", 404), ("/messages", 404), ("/every/sse", 404), ("/mcp", 400)] {
        let url = format!("http://{}{path}", gateway.address());
        let answer = http.send(Method::GET, &url, &[("accept", "text/event-stream")], Bytes::new()).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn streams_are_bounded_by_the_limit_of_the_gateway() {
    let folder = Folder::with(&(main(", limits: {maxStreams: 2}") + &everything("every")));
    let gateway = Gateway::start(&folder);
    let url = format!("http://{}/sse", gateway.address());
    let _one = Stream::open(&gateway, "/sse").await;
    let refused =
        async || Http::new().open(Method::GET, &url, &[("accept", "text/event-stream")], Bytes::new()).await.status();
    assert_eq!(refused().await, 429, "one address leaves a half to others");
    let metrics = metrics(&gateway).await;
    assert!(metrics.contains("hawsepipe_calls_refused_total{reason=\"Streams\"} 1\n"), "{metrics}");
}

#[tokio::test]
async fn old_servers_of_the_sdks_are_found_by_themselves_and_by_name() {
    let folder = Folder::new();
    let log = folder.path().join("log");
    let ((_asking, asking), (_modern, modern)) = (asking_sse(&log), modern_sse(0));
    let named =
        |name: &str, url: &str| object("MCPUpstream", name, &format!("external: {{url: {url:?}, transport: SSE}}"));
    folder.write(
        "manifests.yaml",
        &(external("asking", &asking) + &external("modern", &modern) + &named("named", &modern)),
    );
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["asking", "modern", "named"]).await;
    for sdk in SDKS {
        for upstream in ["modern", "named"] {
            let tool = format!("{upstream}__echo");
            let lines = sdk.run(&gateway.url(), &["--repeat", "20", "call", &tool, r#"{"message":"hi"}"#], "");
            assert!(lines.len() == 20 && lines.iter().all(|line| text(line).contains("hi")), "{sdk:?} {lines:?}");
        }
        let steps = sdk.run(&gateway.url(), &["call", "asking__steps", r#"{"count":5}"#], "").remove(0);
        assert!(text(&steps) == "5 steps" && has_five_steps(&sdk, &steps), "{sdk:?} {steps}");
    }
    let answers: Value = serde_json::from_str(ANSWERS).unwrap();
    let lines = SDKS[3].run(&gateway.url(), &["call", "asking__elicit", "{}", "--answers", ANSWERS], "");
    assert_eq!(serde_json::from_str::<Value>(text(&lines[0])).unwrap(), answers["elicitation"]);
    let known: BTreeSet<String> = std::fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect();
    assert!(known.contains("{}") && known.len() == 2, "{known:?}");
}

#[tokio::test]
async fn an_old_server_that_comes_back_is_called_again() {
    let (server, url) = modern_sse(0);
    let folder = Folder::with(&external("modern", &url));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["modern"]).await;
    let session = Http::new().initialize(&gateway.url()).await;
    let works = async || {
        let answer = session.call_raw(1, "modern__echo", r#"{"message":"hi"}"#).await.json();
        answer["result"].is_object() && answer["result"]["isError"] != true
    };
    assert!(works().await);
    drop(server);
    assert!(!works().await);
    let port = url.rsplit_once(':').unwrap().1.split('/').next().unwrap().parse().unwrap();
    let (_server, again) = modern_sse(port);
    assert_eq!(again, url);
    until("it is called again", works).await;
}

/// A server that answers each GET with these events and reads on, and each POST with this status.
fn hostile(events: &'static str, more: &'static str, status: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(connection, events, more, status));
        }
    });
    format!("http://{address}/sse")
}

/// Reads the head of a request: its text, and the length of the body.
fn read_head(lines: &mut impl BufRead) -> std::io::Result<(String, usize)> {
    let (mut head, mut length) = (String::new(), 0);
    while lines.read_line(&mut head)? > 2 {
        let line = head.lines().next_back().unwrap_or_default().to_ascii_lowercase();
        length = line.strip_prefix("content-length: ").and_then(|text| text.parse().ok()).unwrap_or(length);
    }
    Ok((head, length))
}

fn answer(mut connection: TcpStream, events: &str, more: &str, status: u16) -> std::io::Result<()> {
    let mut lines = BufReader::new(connection.try_clone()?);
    loop {
        let (head, length) = read_head(&mut lines)?;
        if head.is_empty() {
            return Ok(());
        }
        lines.read_exact(&mut vec![0; length])?;
        if !head.starts_with("GET") {
            write!(connection, "HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n")?;
            continue;
        }
        write!(connection, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{events}")?;
        loop {
            connection.write_all(more.as_bytes())?;
            if more.is_empty() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// An upstream that is tried often: what is said is of the last attempt, and one that was late on a busy machine says less.
fn often_tried(name: &str, url: &str) -> String {
    let often = "health: {retryBackoffMs: [1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000]}";
    let spec = format!("external: {{url: {url:?}, transport: SSE}}, timeouts: {{connectMs: 700}}, {often}");
    object("MCPUpstream", name, &spec)
}

#[tokio::test]
async fn hostile_old_servers_harm_nobody_else() {
    let elsewhere = "event: endpoint\ndata: http://127.0.0.1:1/messages\n\n";
    let endless = ": x\n".repeat(10_000).leak();
    let huge = format!("data: {}", "x".repeat(1 << 20)).leak();
    let named = "event: endpoint\ndata: /messages\n\n";
    let cases = [
        ("silent", hostile("", "", 202), "its event stream sent no event `endpoint`"),
        ("elsewhere", hostile(elsewhere, "", 202), "another origin"),
        ("endless", hostile("", endless, 202), "its event stream sent no event `endpoint`"),
        ("mute", hostile(named, "", 202), "no handshake within 700ms (spec.timeouts.connectMs is 700)\""),
        ("huge", hostile(named, huge, 202), "no handshake within|is larger than"),
        ("refusing", hostile(named, "", 500), "HTTP 500"),
        ("leading", hostile(named, "", 302), "HTTP 302"),
    ];
    let manifests: String = cases.iter().map(|(name, url, _)| often_tried(name, url)).collect();
    let folder = Folder::with(&(manifests + &everything("every")));
    let gateway = Gateway::start(&folder);
    let upstreams = format!("http://{}/api/v1/upstreams", gateway.admin());
    let calls = async {
        tools_of(&gateway, &["every"]).await;
        let session = Http::new().initialize(&gateway.url()).await;
        for _ in 0..20 {
            let answer = session.call_raw(1, "every__echo", r#"{"message":"hi"}"#).await.json();
            assert!(text(&answer).contains("hi"));
        }
    };
    let mut left: BTreeSet<_> = cases.iter().map(|(name, ..)| *name).collect();
    let all_say_why = until("each says why", async || {
        let listed = Http::new().get(&upstreams).await.json();
        let items = listed["items"].as_array().unwrap();
        for (name, _, why) in &cases {
            let item = items.iter().map(Value::to_string).find(|item| item.contains(&format!("\"{name}\"")));
            if why.split('|').any(|why| item.as_ref().unwrap().contains(why)) {
                left.remove(name);
            }
        }
        left.is_empty()
    });
    tokio::join!(calls, all_say_why);
}
