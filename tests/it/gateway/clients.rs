//! Real clients of both eras against real servers of both eras, over both transports.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Bytes;
use hyper::{Method, Response};
use serde_json::{Value, json};

use super::harness::{Folder, Gateway, SOON};
use super::http::{Http, Session, call_body, call_headers};
use super::parts::{
    SDKS, Sdk, everything, external, logged, modern_http, modern_stdio, object, raw_http, raw_stdio, tools_of, until,
};
use crate::upstream::{everything_http, free_port};

/// A call, and what must be true of its line.
type Case = (&'static str, Value, fn(&Value) -> bool);

fn text(line: &Value) -> &str {
    line["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

fn is_error(line: &Value) -> bool {
    line["result"]["isError"] == true
}

fn progress(line: &Value) -> Vec<(f64, Option<&str>)> {
    let steps = line["progress"].as_array().unwrap();
    steps.iter().map(|step| (step["progress"].as_f64().unwrap(), step["message"].as_str())).collect()
}

fn echoed(line: &Value) -> bool {
    text(line) == "Echo: ü"
}

fn structured(line: &Value) -> bool {
    let content = &line["result"]["structuredContent"];
    content["city"] == "Oslo" && content["celsius"] == 21.0 && text(line).contains("weather@oslo.example.com")
}

fn two_steps(line: &Value) -> bool {
    text(line).contains("slept") && progress(line) == [(1.0, Some("step 1")), (2.0, Some("step 2"))]
}

fn failed(line: &Value) -> bool {
    is_error(line) && text(line) == "no paper"
}

fn arguments_refused(line: &Value) -> bool {
    is_error(line) && text(line).contains("do not fit the input schema") && text(line).contains("message")
}

fn unknown(line: &Value) -> bool {
    let error = &line["error"];
    error["code"] == -32602 && error["message"].as_str().unwrap().contains("Unknown tool: ")
}

/// What every client calls.
fn cases() -> Vec<Case> {
    vec![
        ("everything__echo", json!({"message": "ü"}), echoed),
        ("everything-http__echo", json!({"message": "ü"}), echoed),
        ("everything__trigger-long-running-operation", json!({"duration": 0.1, "steps": 2}), |line| {
            progress(line).iter().map(|step| step.0).eq([1.0, 2.0])
        }),
        ("everything-http__get-structured-content", json!({"location": "Chicago"}), |line| {
            line["result"]["structuredContent"]["conditions"].is_string()
        }),
        ("everything__echo", json!({"message": 1}), arguments_refused),
        ("modern__structured", json!({"city": "Oslo"}), structured),
        ("modern-stdio__structured", json!({"city": "Oslo"}), structured),
        ("modern__slow", json!({"seconds": 0.1, "steps": 2}), two_steps),
        ("modern-stdio__slow", json!({"seconds": 0.1, "steps": 2}), two_steps),
        ("modern__fail", json!({"message": "no paper"}), failed),
        ("modern__mixed", json!({}), |line| line["result"]["content"][1]["type"] == "image"),
        ("modern__echo_not", json!({}), unknown),
        ("nobody__echo", json!({}), unknown),
    ]
}

/// The names of tools as a client printed them, sorted.
fn listed(tools: &[Value]) -> Vec<String> {
    assert!(tools.iter().all(|tool| tool["inputSchema"]["type"] == "object"), "{tools:?}");
    let mut names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// Lists and calls in one session.
fn list_and_call(sdk: Sdk, url: &str, expected: &[String]) {
    let cases = cases();
    let mut script = String::from("{\"list\": true}\n");
    for (tool, arguments, _) in &cases {
        script += &format!("{}\n", json!({"tool": tool, "arguments": arguments}));
    }
    let lines = sdk.run(url, &["script"], &script);
    let (tools, lines) = lines.split_at(lines.len().saturating_sub(cases.len()));
    assert_eq!(listed(tools), expected, "{sdk:?}");
    for ((tool, _, holds), line) in cases.iter().zip(lines) {
        assert!(holds(line), "{sdk:?}, {tool}: {line}");
    }
}

fn names(upstreams: &[(&str, &[String])]) -> Vec<String> {
    let mut all: Vec<_> =
        upstreams.iter().flat_map(|(up, tools)| tools.iter().map(move |t| format!("{up}__{t}"))).collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: make test-long"]
async fn clients_of_both_eras_on_servers_of_both() {
    let folder = Folder::new();
    let port = free_port();
    let _everything = everything_http(port);
    let (_modern, url) = modern_http(&folder.path().join("log"));
    let manifests = [
        everything("everything"),
        external("everything-http", &format!("http://127.0.0.1:{port}/mcp")),
        external("modern", &url),
        modern_stdio("modern-stdio"),
    ];
    folder.write("manifests.yaml", &manifests.concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything", "everything-http", "modern", "modern-stdio"]).await;
    let own: Vec<String> = ["binary", "blob", "echo", "fail", "mixed", "slow", "structured"].map(String::from).into();
    let of_everything = listed(&SDKS[3].run(&gateway.url_of("everything"), &["list"], ""));
    assert!(of_everything.len() > 5 && of_everything.contains(&"echo".to_owned()), "{of_everything:?}");
    let of_modern = listed(&SDKS[0].run(&gateway.url_of("modern"), &["list"], ""));
    assert_eq!(of_modern, own, "one upstream's tools have their own names");
    let expected = names(&[
        ("everything", &of_everything),
        ("everything-http", &of_everything),
        ("modern", &own),
        ("modern-stdio", &own),
    ]);
    let clients = SDKS.map(|sdk| {
        let (url, expected) = (gateway.url(), expected.clone());
        tokio::task::spawn_blocking(move || list_and_call(sdk, &url, &expected))
    });
    for client in clients {
        client.await.unwrap();
    }
    let (_, ended_well) = gateway.end();
    assert!(ended_well);
}

/// Starts a stateless call and lets its answer wait; to drop what comes back closes the stream.
fn begin(
    http: &Http,
    url: &str,
    tool: &str,
    arguments: &str,
) -> tokio::task::JoinHandle<Response<hyper::body::Incoming>> {
    let (http, url, tool) = (http.clone(), url.to_owned(), tool.to_owned());
    let body = call_body(&tool, arguments, &json!({}));
    tokio::spawn(async move { http.open(Method::POST, &url, &call_headers(&tool), body).await })
}

#[tokio::test]
async fn a_cancelled_call_is_taken_back_at_the_server() {
    let folder = Folder::new();
    let log = |name: &str| folder.path().join(name);
    let (_raw, raw_url) = raw_http(&log("legacy-http"));
    let (_modern, modern_url) = modern_http(&log("modern-http"));
    let manifests = [
        raw_stdio("legacy-stdio", &log("legacy-stdio")),
        external("legacy-http", &raw_url),
        external("modern-http", &modern_url),
    ];
    folder.write("manifests.yaml", &manifests.concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["legacy-stdio", "legacy-http", "modern-http"]).await;
    let http = Http::new();
    let session = http.initialize(&gateway.url()).await;
    // (upstream, a call that does not end, what its server writes down on cancellation)
    let taken_back = "notifications/cancelled";
    for (upstream, tool, arguments, sign) in [
        ("legacy-stdio", "silent", "{}", taken_back),
        ("legacy-http", "silent", "{}", taken_back),
        ("modern-http", "slow", r#"{"seconds":60}"#, r#"{"cancelled": "slow"}"#),
    ] {
        let name = format!("{upstream}__{tool}");
        let arrived = format!(r#""{tool}""#);
        let calls = || logged(&log(upstream), &arrived) - logged(&log(upstream), r#""cancelled": "#);
        let (before, signs) = (calls(), logged(&log(upstream), sign));

        // A client of the stateless era closes the stream.
        let waiting = begin(&http, &gateway.url(), &name, arguments);
        until("the call is at the server", async || calls() > before).await;
        waiting.abort();
        until("the server hears of it", async || logged(&log(upstream), sign) > signs).await;

        // One of the older era sends a notification; its POST still gets an answer.
        let (caller, call) = (session.clone(), name.clone());
        let answer = tokio::spawn(async move { caller.call_raw(41, &call, arguments).await });
        until("the call is at the server", async || calls() > before + 1).await;
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":41}}"#;
        assert_eq!(session.send(cancel).await.status, 202);
        until("the server hears of it", async || logged(&log(upstream), sign) > signs + 1).await;
        let answer = tokio::time::timeout(SOON, answer).await.unwrap().unwrap().json();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(41), &json!(-32800)), "{answer}");
    }
}

#[tokio::test]
async fn a_disconnect_of_the_older_era_cancels_nothing() {
    let folder = Folder::new();
    let log = folder.path().join("log");
    folder.write("manifests.yaml", &raw_stdio("up", &log));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let session = Http::new().initialize(&gateway.url()).await;
    let waiting = tokio::spawn(async move { session.call_raw(42, "up__silent", "{}").await });
    until("the call is at the server", async || logged(&log, r#""silent""#) > 0).await;
    waiting.abort();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(logged(&log, "notifications/cancelled"), 0);
}

/// The next bytes of a stream that hold `wanted`.
async fn told(stream: &mut Response<hyper::body::Incoming>, wanted: &str) {
    let read = async {
        let mut heard = String::new();
        while !heard.contains(wanted) {
            let frame = stream.body_mut().frame().await.expect("the stream ended").unwrap();
            heard.push_str(&String::from_utf8_lossy(frame.data_ref().unwrap()));
        }
    };
    tokio::time::timeout(SOON, read).await.unwrap();
}

async fn open_stream(session: &Session) -> Response<hyper::body::Incoming> {
    let headers = session.headers();
    session.http.open(Method::GET, &session.url, &headers, Bytes::new()).await
}

#[tokio::test]
async fn sessions_are_told_of_new_tools_and_end_by_delete() {
    let folder = Folder::new();
    let server = |name: &str| raw_stdio(name, &folder.path().join(name));
    folder.write("manifests.yaml", &server("first"));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["first"]).await;
    let http = Http::new();
    let (one, other) = (http.initialize(&gateway.url()).await, http.initialize(&gateway.url()).await);
    assert_ne!(one.id, other.id);
    assert!(one.id.len() >= 32 && one.id.bytes().all(|b| b.is_ascii_graphic()), "{}", one.id);
    assert_eq!(one.call_raw(1, "first__exact", "{}").await.status, 200);

    let mut stream = open_stream(&one).await;
    assert_eq!(
        (stream.status().as_u16(), &stream.headers()["content-type"]),
        (200, &"text/event-stream".parse().unwrap())
    );
    folder.write("more.yaml", &server("second"));
    told(&mut stream, "notifications/tools/list_changed").await;
    assert_eq!(one.call_raw(2, "second__exact", "{}").await.status, 200);
    // An edit that disables the server: told again, and its tools are gone.
    folder.write("more.yaml", &object("MCPUpstream", "second", "process: {command: node}, enabled: false"));
    told(&mut stream, "notifications/tools/list_changed").await;
    let gone = one.call_raw(3, "second__exact", "{}").await.json();
    assert_eq!(gone["error"]["code"], -32602, "{gone}");

    let ended = http.send(Method::DELETE, &one.url, &one.headers(), Bytes::new()).await;
    assert_eq!((ended.status, ended.body.as_str()), (204, ""));
    let after = one.call_raw(4, "first__exact", "{}").await;
    assert_eq!(after.status, 404);
    assert!(after.body.contains("Session not found"), "{}", after.body);
    let again = http.send(Method::DELETE, &one.url, &one.headers(), Bytes::new()).await;
    assert_eq!(again.status, 404);
    tokio::time::timeout(SOON, async { while let Some(Ok(_)) = stream.body_mut().frame().await {} }).await.unwrap();
    assert_eq!(other.call_raw(5, "first__exact", "{}").await.status, 200, "the other session goes on");
}

/// Answers of one client reached another by an equal id where clients shared a transport (CVE-2026-25536).
#[tokio::test]
async fn clients_whose_ids_collide_get_their_own_answers() {
    let folder = Folder::new();
    let (_raw, url) = raw_http(&folder.path().join("http"));
    let manifests = [raw_stdio("stdio", &folder.path().join("stdio")), external("http", &url)];
    folder.write("manifests.yaml", &manifests.concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["stdio", "http"]).await;
    let http = Http::new();
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..10 {
        for upstream in ["stdio", "http"] {
            let (http, url) = (http.clone(), gateway.url());
            calls.spawn(async move {
                let tool = format!("{upstream}__args");
                let session = http.initialize(&url).await;
                let arguments = format!(r#"{{"from":"{upstream} {number}"}}"#);
                let (legacy, modern) = tokio::join!(session.call_raw(7, &tool, &arguments), async {
                    http.call_raw(&url, &tool, &arguments, &json!({"progressToken": 7})).await
                });
                for answer in [legacy, modern] {
                    let answer = answer.json();
                    assert_eq!(answer["id"], 7);
                    assert_eq!(answer["result"]["content"][0]["text"], arguments);
                }
            });
        }
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
}
