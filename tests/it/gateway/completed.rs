//! Completions of arguments: clients of both eras at servers of both.

use std::path::Path;

use serde_json::{Value, json};

use super::either::{Client, clients};
use super::harness::{Folder, Gateway};
use super::parts::{everything, external, logged, modern_http, modern_stdio, object, process, tools_of, until};

async fn complete(client: &Client, reference: Value, value: &str) -> Value {
    let params = json!({"ref": reference, "argument": {"name": "name", "value": value}});
    client.ask("completion/complete", params).await
}

fn prompt(name: &str) -> Value {
    json!({"type": "ref/prompt", "name": name})
}

fn resource(uri: &str) -> Value {
    json!({"type": "ref/resource", "uri": uri})
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_completed_by_the_server_that_has_the_item() {
    let log = Folder::new();
    let (_modern, url) = modern_http(&log.path().join("log"));
    let folder = Folder::with(&[external("modern", &url), modern_stdio("stdio"), everything("everything")].concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything", "modern", "stdio"]).await;
    for client in clients(&gateway.url()).await {
        // The lists of prompts and resources are read after those of tools, so the requests wait for them.
        for upstream in ["modern", "stdio"] {
            let answer = complete(&client, prompt(&format!("{upstream}__greet")), "an").await;
            let values = json!(["ann", "anton", "greet", "name"]);
            assert_eq!(answer["result"]["completion"]["values"], values, "{answer}");
        }
        let answer = complete(&client, resource("text://rows/{table}"), "b").await;
        assert_eq!(answer["result"]["completion"]["values"], json!(["bea", "text://rows/{table}", "name"]), "{answer}");
        let answer = complete(&client, resource("text://rows/users"), "b").await;
        assert_eq!(answer["result"]["completion"]["values"][1], "text://rows/users", "{answer}");

        let params = json!({
            "ref": prompt("everything__completable-prompt"),
            "argument": {"name": "name", "value": "A"},
            "context": {"arguments": {"department": "Engineering"}},
        });
        let answer = client.ask("completion/complete", params).await;
        assert_eq!(answer["result"]["completion"]["values"], json!(["Alice"]), "{answer}");
        assert_eq!(answer["result"]["resultType"].is_null(), matches!(client, Client::Legacy(_)), "{answer}");

        for unknown in [prompt("modern__nothing"), prompt("nothing"), resource("nothing://{x}"), resource("nothing:x")]
        {
            let answer = complete(&client, unknown, "a").await;
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
        for wrong in [json!({"type": "ref/tool", "name": "modern__echo"}), json!({"type": "ref/prompt"}), json!("x")] {
            let answer = complete(&client, wrong, "a").await;
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(answer["error"]["code"] == -32602 && message.starts_with("`ref/"), "{answer}");
        }
        let answer = client.ask("completion/complete", json!({"ref": prompt("modern__greet"), "argument": {}})).await;
        assert!(answer["error"]["message"].as_str().unwrap().starts_with("`argument`"), "{answer}");
    }
    for client in clients(&gateway.url_of("modern")).await {
        let answer = complete(&client, prompt("greet"), "bea").await;
        assert_eq!(answer["result"]["completion"]["values"], json!(["bea", "greet", "name"]), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_completions_is_not_asked() {
    let folder = Folder::new();
    let code = r"import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
const capabilities = { tools: {}, prompts: {} }, serverInfo = { name: 'own', version: '1' };
const results = {
  initialize: { protocolVersion: '2025-11-25', capabilities, serverInfo },
  ping: {},
  'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
  'prompts/list': { prompts: [{ name: 'greet' }] },
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method } = JSON.parse(line);
  appendFileSync(process.argv[2], `${method}\n`);
  if (id === undefined) continue;
  const answer = results[method] ? { result: results[method] } : { error: { code: -32601, message: 'no such method' } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...answer })}\n`);
}";
    folder.write("server.mjs", code);
    let (script, log) = (folder.path().join("server.mjs"), folder.path().join("log"));
    let args = [script.to_str().unwrap(), log.to_str().unwrap()];
    folder.write("manifests.yaml", &process("up", Path::new("node"), &args));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    for client in clients(&gateway.url()).await {
        let answer = complete(&client, prompt("up__greet"), "a").await;
        assert_eq!(answer["result"]["completion"], json!({"values": [], "total": 0, "hasMore": false}), "{answer}");
    }
    assert_eq!(logged(&log, "completion/complete"), 0);

    let stopped = object("MCPGateway", "main", "stopped: true, authentication: {anonymous: {}}");
    folder.write("gateway.yaml", &stopped);
    for client in clients(&gateway.url()).await {
        until("the gateway is stopped", async || {
            complete(&client, prompt("up__greet"), "a").await["error"]["data"]["reason"] == "Stopped"
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_names_an_app_as_its_client_does() {
    let folder = Folder::new();
    let code = r"import { createInterface } from 'node:readline';
const capabilities = { tools: {}, resources: {}, completions: {} }, serverInfo = { name: 'own', version: '1' };
const results = {
  initialize: { protocolVersion: '2025-11-25', capabilities, serverInfo },
  ping: {},
  'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
  'resources/list': { resources: [] },
  'resources/templates/list': { resourceTemplates: [{ name: 'view', uriTemplate: 'ui://clock/{zone}' }] },
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const error = { code: -32602, message: 'no such zone', data: { uri: params?.ref?.uri } };
  const answer = results[method] ? { result: results[method] } : { error };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...answer })}\n`);
}";
    folder.write("server.mjs", code);
    let script = folder.path().join("server.mjs");
    folder.write("manifests.yaml", &process("up", Path::new("node"), &[script.to_str().unwrap()]));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    for (url, uri) in [(gateway.url(), "ui://up/clock/{zone}"), (gateway.url_of("up"), "ui://clock/{zone}")] {
        for client in clients(&url).await {
            let answer = complete(&client, resource(uri), "a").await;
            assert_eq!(
                (&answer["error"]["code"], &answer["error"]["data"]["uri"]),
                (&json!(-32602), &json!(uri)),
                "{answer}"
            );
        }
    }
}
