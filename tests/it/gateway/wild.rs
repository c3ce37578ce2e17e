//! Clients and intermediaries as they are: each of these has cost some gateway an outage, or its users their data.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use hyper::Method;
use serde_json::{Value, json};

use super::harness::{Folder, Gateway, SOON};
use super::http::{Http, JSON, call_body, call_headers};
use super::parts::{external, raw_stdio, tools_of};
use crate::upstream::fake::{Fake, answer, legacy_or};

/// A server of the older era with one tool, which keeps what it was sent.
async fn server() -> Fake {
    Fake::start(|seen| match seen.rpc() {
        "tools/list" => answer(seen, r#"{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#),
        _ => legacy_or(seen, &|seen: &_| answer(seen, r#"{"content":[]}"#)),
    })
    .await
}

/// Gateways in front of one such server, known by two names.
async fn two_names(fake: &Fake) -> (Folder, Gateway) {
    let folder = Folder::with(&[external("up", &fake.url), external("other", &fake.url)].concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up", "other"]).await;
    (folder, gateway)
}

/// Posts over one connection, one after the other: the status and the body of each answer.
fn over_one_connection(address: SocketAddr, posts: &[(String, String)]) -> Vec<(u16, Value)> {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(SOON)).unwrap();
    let mut answers = Vec::new();
    for (headers, body) in posts {
        let common = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
        let length = body.len();
        let head =
            format!("POST /mcp HTTP/1.1\r\nHost: {address}\r\n{common}{headers}Content-Length: {length}\r\n\r\n");
        connection.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut read = Vec::new();
        let (head, length) = loop {
            let mut byte = [0];
            connection.read_exact(&mut byte).expect("the connection stays open");
            read.push(byte[0]);
            if read.ends_with(b"\r\n\r\n") {
                let head = String::from_utf8(std::mem::take(&mut read)).unwrap().to_ascii_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                break (head.clone(), length.expect("the answer is in one piece").parse().unwrap());
            }
        };
        let mut body = vec![0; length];
        connection.read_exact(&mut body).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        answers.push((status, serde_json::from_slice(&body).unwrap()));
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_with_discover_goes_on_with_initialize_on_the_same_connection() {
    let folder = Folder::new();
    folder.write("manifests.yaml", &raw_stdio("up", &folder.path().join("log")));
    let gateway = Gateway::start(&folder);
    let discover = |params: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover"{params}}}"#);
    let newer = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: server/discover\r\n".to_owned();
    let envelope = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "cli", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    let initialize = json!({"jsonrpc": "2.0", "id": "two", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "cli", "version": "1"}}});
    for (headers, params, status, code) in [
        (String::new(), String::new(), 400, json!(-32601)),
        (String::new(), r#","params":{}"#.to_owned(), 400, json!(-32601)),
        ("MCP-Protocol-Version: 2025-11-25\r\n".to_owned(), String::new(), 400, json!(-32601)),
        (newer, format!(r#","params":{envelope}"#), 200, Value::Null),
    ] {
        let posts = [(headers, discover(&params)), (String::new(), initialize.to_string())];
        let address = gateway.address();
        let answers = tokio::task::spawn_blocking(move || over_one_connection(address, &posts)).await.unwrap();
        assert_eq!((answers[0].0, &answers[0].1["error"]["code"]), (status, &code), "{answers:?}");
        assert_eq!((answers[1].0, &answers[1].1["id"]), (200, &json!("two")), "{answers:?}");
        assert_eq!(answers[1].1["result"]["protocolVersion"], "2025-11-25", "{answers:?}");
    }
}

#[tokio::test]
async fn accept_lists_of_all_sdks_and_ids_of_all_kinds() {
    let folder = Folder::new();
    folder.write("manifests.yaml", &raw_stdio("up", &folder.path().join("log")));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let http = Http::new();
    let session = http.initialize(&gateway.url()).await;
    for accept in [
        "application/json, text/event-stream",
        "text/event-stream, application/json",
        "application/json,text/event-stream",
        "application/json; charset=utf-8, text/event-stream",
        "application/json;q=0.9, text/event-stream;q=0.8, */*;q=0.1",
        "*/*",
    ] {
        // No header names the version: a client need not send it, and then has the session's.
        let older = [JSON[0], ("accept", accept), ("mcp-session-id", session.id.as_str())];
        let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"up__args","arguments":{"a":1}}}"#;
        let answered = http.send(Method::POST, &gateway.url(), &older, call).await;
        assert_eq!((answered.status, &answered.json()["id"]), (200, &json!(7)), "{accept}: {}", answered.body);
        let mut newer = call_headers("up__args");
        newer[1].1 = accept;
        let body = call_body("up__args", "{}", &json!({}));
        let answered = http.send(Method::POST, &gateway.url(), &newer, body).await;
        assert_eq!((answered.status, &answered.json()["id"]), (200, &json!(7)), "{accept}: {}", answered.body);
    }
    for id in ["0", "-1", "9007199254740993", "12345678901234567890", r#""""#, r#""7""#, r#""a \u00fc/\"b""#] {
        let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"up__args"}}}}"#);
        let answered = session.send(call).await;
        assert!(answered.body.contains(&format!(r#""id":{id}"#)), "{id}: {}", answered.body);
        assert!(answered.json()["result"].is_object(), "{id}: {}", answered.body);
    }
}

#[tokio::test]
async fn what_a_client_says_of_its_own_hop_reaches_no_server() {
    let fake = server().await;
    let (_folder, gateway) = two_names(&fake).await;
    let http = Http::new();
    let session = http.initialize(&gateway.url()).await;
    let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"up__echo","arguments":{}}}"#;
    for version in ["2025-03-26", "2025-06-18, 2025-06-18", "2099-01-01"] {
        let mut headers = session.headers().to_vec();
        headers[2].1 = version;
        headers.push(("x-client", "secret"));
        headers.push(("cookie", "secret"));
        headers.push(("authorization", "Bearer secret"));
        let answered = http.send(Method::POST, &gateway.url(), &headers, call).await;
        assert_eq!(answered.status, 200, "{version}: {}", answered.body);
    }
    assert_eq!(http.call_raw(&gateway.url(), "up__echo", "{}", &json!({})).await.status, 200);
    let calls = fake.seen("tools/call");
    assert_eq!(calls.len(), 4);
    for call in calls {
        assert_eq!((call.header("mcp-protocol-version"), call.header("mcp-session-id")), ("2025-11-25", "s1"));
        assert!(!format!("{:?}", call.headers).contains("secret"), "{:?}", call.headers);
    }
}

/// A session that was opened under the policy of one route was used under that of another (GHSA-mvgg-jvj2-4frq).
#[tokio::test]
async fn a_session_serves_at_the_endpoint_only_at_which_it_was_opened() {
    let fake = server().await;
    let (_folder, gateway) = two_names(&fake).await;
    let http = Http::new();
    let (all, up, other) = (gateway.url(), gateway.url_of("up"), gateway.url_of("other"));
    for (home, elsewhere) in [(&all, [&up, &other]), (&up, [&all, &other])] {
        let mut session = http.initialize(home).await;
        for url in elsewhere {
            session.url.clone_from(url);
            for tool in ["echo", "up__echo"] {
                assert_eq!(session.call_raw(1, tool, "{}").await.status, 404, "{home} at {url}");
            }
            let get = http.send(Method::GET, url, &session.headers(), "").await;
            let delete = http.send(Method::DELETE, url, &session.headers(), "").await;
            assert_eq!((get.status, delete.status), (404, 404), "{home} at {url}");
        }
        session.url.clone_from(home);
        assert_eq!(session.send(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#).await.status, 200, "it is still open");
    }
    assert!(fake.seen("tools/call").is_empty(), "nothing reached the server");
}

/// Names of tools became paths and headers of requests (CVE-2026-29791).
#[tokio::test]
async fn paths_and_names_carry_nothing_into_a_request_to_a_server() {
    let fake = server().await;
    let (_folder, gateway) = two_names(&fake).await;
    let http = Http::new();
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    for path in [
        "/up%2F..%2Fother/mcp",
        "/..%2Fup/mcp",
        "/up/../other/mcp/x",
        "/up%0d%0aX-Evil:1/mcp",
        "/up%00/mcp",
        "//up/mcp",
        "/up;a=b/mcp",
    ] {
        let url = format!("http://{}{path}", gateway.address());
        assert_eq!(http.send(Method::POST, &url, &JSON, list).await.status, 404, "{path}");
    }
    let session = http.initialize(&gateway.url()).await;
    for name in
        ["up__echo\r\nX-Evil: 1", "up__echo\0", "up__Echo", "UP__echo", "up__echo ", "up__../echo", "up__echo/.."]
    {
        let refused = session.call_raw(1, name, "{}").await;
        assert_eq!(refused.json()["error"]["code"], -32602, "{name:?}: {}", refused.body);
    }
    // A reader that takes no notice of case would take the second name, or the second object of parameters.
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"up__echo"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"Method":"tools/call","params":{"name":"up__echo"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"up__echo"}}"#,
    ] {
        let answered = session.send(body).await;
        assert!(answered.json()["result"]["content"].is_null(), "{body}: {}", answered.body);
    }
    assert!(fake.seen("tools/call").is_empty(), "nothing reached the server");
}
