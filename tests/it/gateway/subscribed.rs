//! Subscriptions to resources and lists: clients of both eras at servers of both.

use std::path::Path;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Method, Response};
use serde_json::{Value, json};

use super::either::{Client, clients};
use super::harness::{Folder, Gateway, SOON};
use super::http::{Http, JSON, Session};
use super::parts::{
    SDKS, everything, external, logged, notes_at, notes_http, notes_stdio, object, process, tools_of, until,
};
use super::replicas::{KEY, at};

/// A stream of notifications.
pub struct Stream {
    response: Response<Incoming>,
    text: String,
}

impl Stream {
    /// The GET stream of a session.
    pub async fn of_session(session: &Session) -> Self {
        let headers = [("accept", "text/event-stream"), session.headers()[2], session.headers()[3]];
        let response = session.http.open(Method::GET, &session.url, &headers, "").await;
        assert_eq!(response.status(), 200);
        Self { response, text: String::new() }
    }

    /// The stream of a modern client that asks for these notifications, once it is acknowledged.
    async fn listen(http: &Http, url: &str, filter: Value) -> (Self, Value) {
        let mut headers = JSON.to_vec();
        headers.extend([("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")]);
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"notifications": filter, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": "a stream", "method": "subscriptions/listen", "params": params});
        let response = http.open(Method::POST, url, &headers, body.to_string()).await;
        let mut stream = Self { response, text: String::new() };
        let first = stream.next().await;
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
        assert_eq!(first["params"]["_meta"], stream_id());
        (stream, first["params"]["notifications"].clone())
    }

    /// The next message.
    pub async fn next(&mut self) -> Value {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: ")).map(str::to_owned);
                self.text = rest.to_owned();
                match data {
                    Some(data) => return serde_json::from_str(&data).unwrap(),
                    None => continue,
                }
            }
            let frame = tokio::time::timeout(SOON, self.response.body_mut().frame()).await.expect("there is a message");
            let frame = frame.unwrap_or_else(|| panic!("the stream has ended: {}", self.text)).unwrap();
            self.text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        }
    }

    /// Reads until a resource changes, and returns its URI.
    async fn updated(&mut self) -> Value {
        loop {
            let message = self.next().await;
            if message["method"] == "notifications/resources/updated" {
                return message["params"]["uri"].clone();
            }
        }
    }
}

fn stream_id() -> Value {
    json!({"io.modelcontextprotocol/subscriptionId": "a stream"})
}

/// A legacy server over stdio that logs what it is asked. Its tool `touch` says that a resource changed; `die` ends it.
fn watched(folder: &Folder) -> (String, std::path::PathBuf) {
    let code = r"import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const capabilities = { tools: {}, resources: { subscribe: true } }, serverInfo = { name: 'own', version: '1' };
const tool = (name) => ({ name, inputSchema: { type: 'object' } });
const results = {
  initialize: { protocolVersion: '2025-11-25', capabilities, serverInfo },
  ping: {},
  'tools/list': { tools: [tool('touch'), tool('die')] },
  'resources/list': { resources: ['text:/a', 'text:/b'].map((uri) => ({ uri, name: uri })) },
  'resources/templates/list': { resourceTemplates: [] },
  'resources/subscribe': {},
  'resources/unsubscribe': {},
  'tools/call': { content: [] },
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  appendFileSync(process.argv[2], `${method} ${params?.uri ?? ''}\n`);
  if (id === undefined) continue;
  if (params?.name === 'die') process.exit(1);
  if (params?.name === 'touch') say({ method: 'notifications/resources/updated', params: params.arguments });
  if (params?.uri === 'text:/b') say({ id, error: { code: -32050, message: 'not this one' } });
  else say({ id, result: results[method] });
}";
    folder.write("server.mjs", code);
    let (script, log) = (folder.path().join("server.mjs"), folder.path().join("log"));
    let manifest = process("up", Path::new("node"), &[script.to_str().unwrap(), log.to_str().unwrap()]);
    (manifest, log)
}

async fn touch(gateway: &Gateway, tool: &str, uri: &str) {
    let answer = Http::new().call(&gateway.url(), tool, &json!({"uri": uri}), &json!({})).await;
    assert!(answer["result"].is_object(), "{answer}");
}

/// Subscribes to these resources as a client of each era: the session of the one, the stream of the other.
async fn subscribe(url: &str, uris: &[&str]) -> (Session, Stream, Stream) {
    let [Client::Legacy(session), Client::Modern(http, url, _)] = clients(url).await else { panic!() };
    for uri in uris {
        let answer = Client::Legacy(session.clone()).ask("resources/subscribe", json!({"uri": uri})).await;
        assert_eq!(answer["result"], json!({}), "{answer}");
    }
    let (modern, agreed) = Stream::listen(&http, &url, json!({"resourceSubscriptions": uris})).await;
    assert_eq!(agreed, json!({"resourceSubscriptions": uris}));
    let legacy = Stream::of_session(&session).await;
    (session, legacy, modern)
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_resources_reach_clients_of_both_eras() {
    let (_notes, url) = notes_http();
    for (upstream, manifest) in [("http", external("http", &url)), ("stdio", notes_stdio("stdio"))] {
        let folder = Folder::with(&manifest);
        let gateway = Gateway::start(&folder);
        tools_of(&gateway, &[upstream]).await;
        let uris = ["text://note", "text://rows/users"];
        let (session, mut legacy, mut modern) = subscribe(&gateway.url(), &uris).await;
        for uri in uris {
            touch(&gateway, &format!("{upstream}__touch"), uri).await;
            assert_eq!((legacy.updated().await, modern.updated().await), (json!(uri), json!(uri)), "{upstream}");
        }
        // What a client does not subscribe to any more is not told to it.
        let client = Client::Legacy(session);
        assert_eq!(client.ask("resources/unsubscribe", json!({"uri": uris[0]})).await["result"], json!({}));
        for uri in uris {
            touch(&gateway, &format!("{upstream}__touch"), uri).await;
        }
        assert_eq!((legacy.updated().await, modern.updated().await), (json!(uris[1]), json!(uris[0])), "{upstream}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_at_a_server_with_sessions_reach_clients_of_both_eras() {
    let folder = Folder::with(&everything("everything"));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything"]).await;
    let uri = "demo://resource/static/document/architecture.md";
    let (_session, mut legacy, mut modern) = subscribe(&gateway.url(), &[uri]).await;
    // It tells of all resources that are subscribed to, at once and then every 5 seconds.
    touch(&gateway, "everything__toggle-subscriber-updates", "").await;
    assert_eq!((legacy.updated().await, modern.updated().await), (json!(uri), json!(uri)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_asked_once_for_all_clients_and_told_when_the_last_one_goes() {
    let folder = Folder::new();
    let (manifest, log) = watched(&folder);
    folder.write("manifests.yaml", &manifest);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let url = gateway.url();
    let subscribing = (0..10).map(|_| subscribe(&url, &["text:/a"]));
    let mut clients = futures_util::future::join_all(subscribing).await;
    assert_eq!(logged(&log, "resources/subscribe text:/a"), 1);
    touch(&gateway, "up__touch", "text:/a/part").await;
    for (_, legacy, modern) in &mut clients {
        // A modern client is told of what its stream reports only; a legacy one also of parts.
        assert_eq!((legacy.updated().await, modern.updated().await), (json!("text:/a/part"), json!("text:/a")));
    }
    touch(&gateway, "up__touch", "text:/other").await;
    touch(&gateway, "up__touch", "text:/a").await;
    for (_, legacy, modern) in &mut clients {
        assert_eq!((legacy.updated().await, modern.updated().await), (json!("text:/a"), json!("text:/a")));
    }
    let (last, _legacy, modern) = clients.pop().unwrap();
    for (session, ..) in clients {
        let ended = session.http.send(Method::DELETE, &session.url, &session.headers(), "").await;
        assert_eq!(ended.status, 204);
    }
    drop(modern);
    touch(&gateway, "up__touch", "text:/a").await;
    assert_eq!(logged(&log, "resources/unsubscribe"), 0, "one client is left");
    let left = Client::Legacy(last).ask("resources/unsubscribe", json!({"uri": "text:/a"})).await;
    assert_eq!(left["result"], json!({}));
    until("the server is told", async || logged(&log, "resources/unsubscribe text:/a") == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_outlive_the_server_that_has_them() {
    let folder = Folder::new();
    let (manifest, log) = watched(&folder);
    folder.write("manifests.yaml", &manifest);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let (_session, mut legacy, mut modern) = subscribe(&gateway.url(), &["text:/a"]).await;
    let died = Http::new().call(&gateway.url(), "up__die", &json!({}), &json!({})).await;
    assert!(died["error"].is_object(), "{died}");
    // What changed meanwhile was not reported, so that the resource may have.
    assert_eq!((legacy.updated().await, modern.updated().await), (json!("text:/a"), json!("text:/a")));
    assert_eq!(logged(&log, "resources/subscribe text:/a"), 2);
    touch(&gateway, "up__touch", "text:/a").await;
    assert_eq!((legacy.updated().await, modern.updated().await), (json!("text:/a"), json!("text:/a")));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_processes_a_session_is_told_by_the_one_at_which_it_subscribed_and_a_modern_client_by_each() {
    let (_notes, url) = notes_http();
    let (folder, keys) = (Folder::with(&external("notes", &url)), Folder::new());
    keys.write("key", KEY);
    let key = keys.path().join("key");
    let [one, two] = [(); 2].map(|()| Gateway::start_with(&folder, &["--seal-key-file", key.to_str().unwrap()]));
    for gateway in [&one, &two] {
        tools_of(gateway, &["notes"]).await;
    }
    let [note, rows] = ["text://note", "text://rows/users"];
    let (session, mut first, mut modern) = subscribe(&one.url(), &[note]).await;
    let there = at(&session, &two);
    let subscribed = Client::Legacy(there.clone()).ask("resources/subscribe", json!({"uri": rows})).await;
    assert_eq!(subscribed["result"], json!({}), "{subscribed}");
    let mut second = Stream::of_session(&there).await;
    let (mut other, _) = Stream::listen(&Http::new(), &two.url(), json!({"resourceSubscriptions": [note]})).await;
    touch(&two, "notes__touch", note).await;
    for stream in [&mut first, &mut modern, &mut other] {
        assert_eq!(stream.updated().await, json!(note));
    }
    touch(&one, "notes__touch", rows).await;
    assert_eq!(second.updated().await, json!(rows), "it was not told of the other one");
    Client::Legacy(there).ask("resources/unsubscribe", json!({"uri": note})).await;
    touch(&one, "notes__touch", note).await;
    assert_eq!(first.updated().await, json!(note), "it goes on where it was begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_a_modern_server_is_opened_again() {
    let (notes, url) = notes_http();
    let port = url.parse::<hyper::Uri>().unwrap().port_u16().unwrap();
    let folder = Folder::with(&external("notes", &url));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["notes"]).await;
    let (_session, mut legacy, mut modern) = subscribe(&gateway.url(), &["text://note"]).await;
    drop(notes);
    let (_notes, _) = notes_at(port);
    // What changed meanwhile was not reported, so that the resource may have.
    assert_eq!((legacy.updated().await, modern.updated().await), (json!("text://note"), json!("text://note")));
    touch(&gateway, "notes__touch", "text://note").await;
    assert_eq!((legacy.updated().await, modern.updated().await), (json!("text://note"), json!("text://note")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_subscribed_to_is_refused() {
    let folder = Folder::new();
    let (manifest, _log) = watched(&folder);
    folder.write("manifests.yaml", &manifest);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let [legacy, modern] = clients(&gateway.url()).await;
    for (params, code) in [
        (json!({"uri": "text:/b"}), -32050),
        (json!({"uri": "text:/unknown"}), -32002),
        (json!({"uri": 1}), -32602),
        (json!({"uri": "x".repeat(3000)}), -32602),
    ] {
        let answer = legacy.ask("resources/subscribe", params).await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    let filter = json!({"resourceSubscriptions": ["text:/a", "text:/b", "text:/unknown"], "toolsListChanged": false});
    let (_stream, agreed) = Stream::listen(&Http::new(), &gateway.url(), filter).await;
    assert_eq!(agreed, json!({"resourceSubscriptions": ["text:/a"]}));
    let many: Vec<_> = (0..257).map(|n| format!("text:/{n}")).collect();
    for filter in
        [json!(null), json!(["a"]), json!({"resourceSubscriptions": [1]}), json!({"resourceSubscriptions": many})]
    {
        let answer = modern.ask("subscriptions/listen", json!({"notifications": filter})).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    // Each era has its own way.
    assert_eq!(modern.ask("resources/subscribe", json!({"uri": "text:/a"})).await["error"]["code"], -32601);
    assert_eq!(legacy.ask("subscriptions/listen", json!({"notifications": {}})).await["error"]["code"], -32601);

    folder.write("gateway.yaml", &object("MCPGateway", "main", "stopped: true, authentication: {anonymous: {}}"));
    until("the gateway is stopped", async || {
        legacy.ask("resources/subscribe", json!({"uri": "text:/b"})).await["error"]["data"]["reason"] == "Stopped"
    })
    .await;
    let answer = modern.ask("subscriptions/listen", json!({"notifications": {}})).await;
    assert_eq!(answer["error"]["data"]["reason"], "Stopped", "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_client_hears_of_the_lists_that_it_asks_for() {
    let folder = Folder::new();
    let (manifest, _log) = watched(&folder);
    folder.write("manifests.yaml", &manifest);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let (http, url) = (Http::new(), gateway.url());
    // What is not known here, such as the member of an extension, is not agreed to (MCP 2026-07-28, `SubscriptionFilter`).
    let filter = json!({"toolsListChanged": true, "taskIds": ["a"]});
    let (mut tools, agreed) = Stream::listen(&http, &url, filter).await;
    assert_eq!(agreed, json!({"toolsListChanged": true}));
    let (mut all, _) =
        Stream::listen(&http, &url, json!({"toolsListChanged": true, "resourcesListChanged": true})).await;
    folder.write("more.yaml", &notes_stdio("more"));
    let first = tools.next().await;
    assert_eq!(first["method"], "notifications/tools/list_changed", "{first}");
    assert_eq!(first["params"], json!({"_meta": stream_id()}));
    let both = [all.next().await["method"].clone(), all.next().await["method"].clone()];
    assert!(both.contains(&json!("notifications/tools/list_changed")), "{both:?}");
    // Its resources are listed after its tools.
    until("its resources are told", async || {
        both.contains(&json!("notifications/resources/list_changed"))
            || all.next().await["method"] == "notifications/resources/list_changed"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sdks_of_both_eras_hear_of_changes_at_servers_of_both() {
    let folder = Folder::new();
    let (manifest, _log) = watched(&folder);
    let (_notes, url) = notes_http();
    folder.write("manifests.yaml", &format!("{manifest}{}", external("notes", &url)));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up", "notes"]).await;
    let watching = SDKS.into_iter().flat_map(|sdk| {
        [("text:/a", "up__touch"), ("text://note", "notes__touch")].map(|(uri, tool)| {
            let url = gateway.url();
            let heard = tokio::task::spawn_blocking(move || sdk.run(&url, &["watch", uri, tool], ""));
            async move { assert_eq!(heard.await.unwrap(), [json!({"updated": uri})], "{sdk:?} {uri}") }
        })
    });
    futures_util::future::join_all(watching).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_stream_reports_no_resource_that_its_client_may_not_see_any_more() {
    let folder = Folder::new();
    let (manifest, _log) = watched(&folder);
    folder.write("manifests.yaml", &manifest);
    let spec = |rules: &str| {
        format!("authentication: {{anonymous: {{}}}}, authorization: {{default: Allow, rules: [{rules}]}}")
    };
    folder.write("gateway.yaml", &object("MCPGateway", "main", &spec("")));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let session = Http::new().initialize(&gateway.url()).await;
    let subscribe = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "text:/a"}});
    assert!(session.send(subscribe.to_string()).await.json()["result"].is_object());
    let mut legacy = Stream::of_session(&session).await;
    let filter = json!({"resourceSubscriptions": ["text:/a"]});
    let (mut modern, _) = Stream::listen(&Http::new(), &gateway.url(), filter).await;
    touch(&gateway, "up__touch", "text:/a").await;
    assert_eq!((legacy.updated().await, modern.updated().await), (json!("text:/a"), json!("text:/a")));
    let hidden = "{name: no, effect: Deny, when: 'tool.upstreamName == \"text:/a\"'}";
    folder.write("gateway.yaml", &object("MCPGateway", "main", &spec(hidden)));
    let read = async || session.send(r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#).await.body;
    until("the rule is in force", async || !read().await.contains("text:/a")).await;
    touch(&gateway, "up__touch", "text:/a").await;
    // What comes after it shows that nothing of it was sent.
    folder.write("gateway.yaml", &object("MCPGateway", "main", &spec("")));
    until("the rule is gone", async || read().await.contains("text:/a")).await;
    let ends = async |stream: &mut Stream| {
        let heard = tokio::time::timeout(std::time::Duration::from_secs(1), stream.updated()).await;
        assert!(heard.is_err(), "{heard:?}");
    };
    tokio::join!(ends(&mut legacy), ends(&mut modern));
}
