//! HTTP+SSE of 2024-11-05: old servers, and clients, which it was removed for.

mod faulty;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use serde_json::Value;

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::parts::{SDKS, Sdk, asking_sse, everything, external, modern_sse, object, tools_of, until};

const ANSWERS: &str = r#"{
    "sampling": {"role": "assistant", "content": {"type": "text", "text": "forty-two"}, "model": "m"},
    "elicitation": {"action": "accept", "content": {"name": "Ada"}},
    "roots": {"roots": [{"uri": "file:///work", "name": "work"}]}
}"#;

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

/// The field stays for one version, and warns.
#[tokio::test]
async fn clients_of_http_sse_are_refused_even_where_a_listener_asks_for_them() {
    let spec = "listeners: [{name: web, port: 8080, legacySSE: true}], authentication: {anonymous: {}}";
    let folder = Folder::with(&(object("MCPGateway", "main", spec) + &everything("every")));
    let gateway = Gateway::start(&folder);
    let http = Http::new();
    for (path, status, says) in [
        ("/sse", 404, "MCP is spoken at /mcp"),
        ("/messages", 404, "MCP is spoken at /mcp"),
        ("/every/sse", 404, "MCP is spoken at /mcp"),
        ("/mcp", 400, "begin with initialize"),
    ] {
        let url = format!("http://{}{path}", gateway.address());
        let answer = http.send(Method::GET, &url, &[("accept", "text/event-stream")], Bytes::new()).await;
        assert!(answer.status == status && answer.body.contains(says), "{path}: {} {}", answer.status, answer.body);
    }
    let plan = http.get(&format!("http://{}/api/v1/plan", gateway.admin())).await.json();
    let problems = plan["problems"].to_string();
    assert!(problems.contains("spec.listeners[0].legacySSE") && problems.contains("Streamable HTTP"), "{problems}");
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
