//! Extensions of the protocol: what servers and clients say of them reaches the other side.

use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;

use hyper::Method;
use serde_json::{Value, json};

use super::either::{Client, clients, clients_with};
use super::harness::{Folder, Gateway};
use super::http::{Http, JSON};
use super::parts::{announced, apps_http, external, object, process, tools_of, until};
use crate::fixtures::fixture;

/// What a client declares that shows views of apps.
fn shows_views() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}})
}

/// What clients of both eras are told when they connect.
async fn told(url: &str) -> [Value; 2] {
    let http = Http::new();
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let legacy = http.send(Method::POST, url, &JSON, body.to_string()).await.json()["result"].clone();
    let modern = Client::Modern(http, url.to_owned(), json!({}));
    let mut modern = modern.ask("server/discover", json!({})).await["result"].clone();
    modern["serverInfo"] = modern["_meta"]["io.modelcontextprotocol/serverInfo"].clone();
    [legacy, modern]
}

#[tokio::test]
async fn what_servers_announce_is_told_to_clients() {
    let ((_one, one), (_two, two)) = (apps_http("one", "blue"), apps_http("two", "green"));
    let folder = Folder::with(&(external("one", &one) + &external("two", &two)));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["one", "two"]).await;
    let notes = |colours: Value| json!({"colours": colours, "paper": {"width": 210}});
    for result in told(&gateway.url_of("one")).await {
        let extensions = &result["capabilities"]["extensions"];
        assert_eq!(extensions["io.modelcontextprotocol/ui"], json!({}), "{result}");
        assert_eq!(extensions["dev.example/notes"], notes(json!(["red", "blue"])), "{result}");
        assert_eq!(result["instructions"], "Ask one for the time.", "{result}");
        assert_eq!(result["serverInfo"], json!({"name": "one", "version": "1.0.0"}), "{result}");
    }
    for result in told(&gateway.url()).await {
        let extensions = &result["capabilities"]["extensions"];
        assert_eq!(extensions["io.modelcontextprotocol/ui"], json!({}), "{result}");
        assert_eq!(extensions["dev.example/notes"], notes(json!(["red"])), "{result}");
        assert_eq!((&result["instructions"], &result["serverInfo"]["name"]), (&Value::Null, &json!("hawsepipe")));
    }
    // The method of an extension is not known to the gateway.
    for client in clients(&gateway.url_of("one")).await {
        assert_eq!(client.ask("notes/list", json!({})).await["error"]["code"], -32601);
    }
}

/// What a tool says that knows what its client can do.
async fn clock(client: &Client, tool: &str) -> String {
    let answer = client.ask("tools/call", json!({"name": tool, "arguments": {}})).await;
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[tokio::test]
async fn what_a_client_declares_reaches_a_server_without_sessions() {
    let (_server, url) = apps_http("apps", "blue");
    let folder = Folder::with(&external("up", &url));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    for (url, tool) in [(gateway.url(), "up__clock"), (gateway.url_of("up"), "clock")] {
        for client in clients_with(&url, &shows_views()).await {
            assert_eq!(clock(&client, tool).await, "with a view");
        }
        for client in clients(&url).await {
            assert_eq!(clock(&client, tool).await, "text only");
        }
    }
}

#[tokio::test]
async fn what_a_client_declares_reaches_a_server_with_sessions() {
    let folder = Folder::new();
    let log = folder.path().join("capabilities.log");
    let announces = json!({"dev.example/notes": {"pages": 1.5}, "io.modelcontextprotocol/skills": {}});
    let mut command = Command::new("node");
    command.arg(fixture("servers/asking.mjs")).arg("--log").arg(&log);
    command.args(["--extensions", &announces.to_string()]);
    let (_server, url) = announced(command);
    folder.write("manifests.yaml", &object("MCPUpstream", "up", &format!("external: {{url: {url:?}}}")));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    for result in told(&gateway.url_of("up")).await {
        // What the gateway could not keep is not promised.
        assert_eq!(result["capabilities"]["extensions"], json!({"dev.example/notes": {"pages": 1.5}}), "{result}");
        assert_eq!(result["instructions"], "Ask back.");
    }
    for client in clients_with(&gateway.url(), &shows_views()).await {
        let answer = client.ask("tools/call", json!({"name": "up__steps", "arguments": {"count": 1}})).await;
        assert_eq!(answer["result"]["content"][0]["text"], "1 steps", "{answer}");
    }
    let log = read_to_string(&log).unwrap();
    let known: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The gateway's own connection, one for the session, and one for clients without a session.
    assert_eq!(known, [json!({}), shows_views(), shows_views()]);
}

#[tokio::test]
async fn apps_of_several_servers_keep_their_views() {
    let ((_one, one), (_two, two)) = (apps_http("one", "blue"), apps_http("two", "green"));
    let folder = Folder::with(&(external("one", &one) + &external("two", &two)));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["one", "two"]).await;
    for client in clients_with(&gateway.url(), &shows_views()).await {
        let tools = client.ask("tools/list", json!({})).await["result"]["tools"].clone();
        let uris = client.names("resources/list", "resources", "uri").await;
        for name in ["one", "two"] {
            let uri = format!("ui://{name}/clock/view.html");
            assert!(uris.contains(&uri), "{uris:?}");
            let clock = tools.as_array().unwrap().iter().find(|tool| tool["name"] == format!("{name}__clock")).unwrap();
            let expected = json!({"ui": {"resourceUri": uri}, "ui/resourceUri": uri, "dev.example/n": 1.0});
            assert_eq!(clock["_meta"], expected, "{clock}");
            let read = client.ask("resources/read", json!({"uri": uri})).await;
            let view = &read["result"]["contents"][0];
            assert_eq!(view["text"], format!("<!doctype html><title>{name}</title><p>1.0"), "{read}");
            assert_eq!((&view["uri"], &view["mimeType"]), (&json!(uri), &json!("text/html;profile=mcp-app")));
            // A tool for the view alone is listed with that mark, by which clients hide it from the model.
            let wind = tools.as_array().unwrap().iter().find(|tool| tool["name"] == format!("{name}__wind")).unwrap();
            assert_eq!(wind["_meta"]["ui"]["visibility"], json!(["app"]), "{wind}");
            let answer = client.ask("tools/call", json!({"name": format!("{name}__wind"), "arguments": {}})).await;
            let result = &answer["result"];
            assert_eq!(result["_meta"]["ui"]["resourceUri"], uri, "{result}");
            assert_eq!(result["content"][0]["text"], "see ui://clock/view.html", "{result}");
            assert_eq!(result["content"][1]["uri"], uri, "{result}");
        }
        for unknown in ["ui://three/clock/view.html", "ui://clock/view.html", "ui://one"] {
            let answer = client.ask("resources/read", json!({"uri": unknown})).await;
            assert!(matches!(answer["error"]["code"].as_i64(), Some(-32002 | -32602)), "{unknown}: {answer}");
        }
    }
    // Of one server, everything is as the server has it.
    for client in clients_with(&gateway.url_of("one"), &shows_views()).await {
        assert_eq!(client.names("resources/list", "resources", "uri").await, ["ui://clock/view.html"]);
        let read = client.ask("resources/read", json!({"uri": "ui://clock/view.html"})).await;
        assert_eq!(read["result"]["contents"][0]["uri"], "ui://clock/view.html", "{read}");
        let answer = client.ask("tools/call", json!({"name": "wind", "arguments": {}})).await;
        assert_eq!(answer["result"]["_meta"]["ui"]["resourceUri"], "ui://clock/view.html", "{answer}");
    }
}

/// A server over stdio with one app, whose changes it does not report although it says that it does.
const NO_UPDATES: &str = r"import { createInterface } from 'node:readline';
const capabilities = { resources: { subscribe: true } }, serverInfo = { name: 'own', version: '1' };
const resources = [{ uri: 'ui://clock/view.html', name: 'clock' }];
const results = { initialize: { protocolVersion: '2025-11-25', capabilities, serverInfo }, 'resources/list': { resources } };
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const error = { code: -32602, message: 'no', data: { uri: params?.uri, n: 1.0 } };
  const answer = method === 'resources/subscribe' ? { error } : { result: results[method] ?? {} };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...answer })}\n`);
}";

#[tokio::test]
async fn the_refusal_of_a_subscription_names_the_app_as_the_client_does() {
    let folder = Folder::new();
    folder.write("server.mjs", NO_UPDATES);
    let script = folder.path().join("server.mjs");
    folder.write("manifests.yaml", &process("up", Path::new("node"), &[script.to_str().unwrap()]));
    let gateway = Gateway::start(&folder);
    let http = Http::new();
    for (url, uri) in [(gateway.url(), "ui://up/clock/view.html"), (gateway.url_of("up"), "ui://clock/view.html")] {
        let session = http.initialize(&url).await;
        let ask = async |method: &str, params: Value| {
            let message = json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params});
            session.send(message.to_string()).await.json()
        };
        until("the app is listed", async || {
            ask("resources/list", json!({})).await["result"]["resources"][0]["uri"] == uri
        })
        .await;
        let answer = ask("resources/subscribe", json!({"uri": uri})).await;
        assert_eq!(answer["error"]["data"], json!({"uri": uri, "n": 1}), "{answer}");
    }
}
