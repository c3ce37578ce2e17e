//! Definitions of real servers that pass chains over lists.

use std::path::Path;

use serde_json::{Value, json};

use super::either::{Client, clients};
use super::harness::{Folder, Gateway, run};
use super::http::Http;
use super::parts::{SDKS, object, plugin, process, until};
use crate::fixtures::fixture;

/// A Guard that takes out what speaks to the model, and denies what is forbidden.
const CLEAN: &str = "export default ({ rawContent, toolName, metadata }) => {
  const item = JSON.parse(rawContent);
  if (item.description?.includes('forbidden')) return { text: '', continue: false, error: `${toolName} is forbidden` };
  if (item.description) item.description = item.description.replace(/<IMPORTANT>.*<.IMPORTANT>/s, `[${metadata.method}]`);
  return { text: JSON.stringify(item), continue: true };
};";

const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "name"),
    ("prompts/list", "prompts", "name"),
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
];

fn poisoned() -> String {
    poisoned_with(&[])
}

fn poisoned_with(arguments: &[&str]) -> String {
    let script = fixture("servers/poisoned.mjs");
    let server = process("up", Path::new("node"), &[&[script.to_str().unwrap()], arguments].concat());
    let methods = LISTS.map(|(method, ..)| method).join(", ");
    let chain =
        object("PluginChain", "lists", &format!("phase: Response, methods: [{methods}], entries: [{{name: clean}}]"));
    server + &plugin("clean", CLEAN, "role: Guard") + &chain
}

/// Waits until the gateway offers as many items of each kind.
async fn offered(gateway: &Gateway, count: usize) {
    let [client, _] = clients(&gateway.url()).await;
    until("the lists are there", async || {
        for (method, list, _) in LISTS {
            let listed = client.ask(method, json!({})).await;
            if listed["result"][list].as_array().map(Vec::len) != Some(count) {
                return false;
            }
        }
        true
    })
    .await;
}

#[tokio::test]
async fn what_a_plugin_takes_out_of_definitions_no_client_gets() {
    let folder = Folder::with(&poisoned());
    let gateway = Gateway::start(&folder);
    offered(&gateway, 2).await;
    for client in clients(&gateway.url()).await {
        for (method, list, _) in LISTS {
            let listed = client.ask(method, json!({})).await;
            let text = listed.to_string();
            assert!(!text.contains("IMPORTANT") && !text.contains("A forbidden thing"), "{method}: {text}");
            let items = listed["result"][list].as_array().unwrap();
            assert_eq!(items[0]["description"], format!("Adds. [{method}]"), "{text}");
            assert_eq!(items[1]["description"], "Does what it says.", "{text}");
        }
        let good = client.ask("tools/call", json!({"name": "up__add", "arguments": {}})).await;
        assert_eq!(good["result"]["content"][0]["text"], "add", "{good}");
        for (method, params) in [
            ("tools/call", json!({"name": "up__bad", "arguments": {}})),
            ("prompts/get", json!({"name": "up__bad"})),
            ("resources/read", json!({"uri": "test:///bad"})),
        ] {
            let refused = client.ask(method, params).await;
            assert!(refused["error"]["code"].is_number(), "{method}: {refused}");
        }
    }
    for sdk in SDKS {
        let lines = sdk.run(&gateway.url(), &["list"], "");
        let text = Value::from(lines).to_string();
        assert!(text.contains("[tools/list]") && !text.contains("IMPORTANT") && !text.contains("up__bad"), "{text}");
    }
    let status = Http::new().get(&format!("http://{}/api/v1/status", gateway.admin())).await.body;
    assert!(status.contains("tool bad is not offered") && status.contains("up/bad is forbidden"), "{status}");
}

/// URIs that the lists of the server do not name, or that a Guard dropped. The last one fits a template that passed.
const DROPPED: [&str; 11] = [
    "test:///bad",
    "TEST:///bad",
    "test:///b%61d",
    "test:///bad/",
    "test:///./bad",
    "test:///bad?",
    "bad:///1",
    "BAD:///1",
    "bad:///1#x",
    "TEST:///fine",
    "fine:///1",
];

#[tokio::test]
async fn only_uris_that_passed_the_guard_over_the_lists_are_used() {
    let folder = Folder::with(&poisoned());
    let gateway = Gateway::start(&folder);
    offered(&gateway, 2).await;
    for url in [gateway.url(), gateway.url_of("up")] {
        for client in clients(&url).await {
            for uri in DROPPED {
                let refused = client.ask("resources/read", json!({"uri": uri})).await;
                let unknown = [json!(-32002), json!(-32602)];
                assert!(unknown.contains(&refused["error"]["code"]), "{url} {uri}: {refused}");
            }
            let argument = json!({"name": "id", "value": "x"});
            for uri in ["bad:///1", "bad:///{id}", "test:///%62ad", "fine:///1"] {
                let params = json!({"ref": {"type": "ref/resource", "uri": uri}, "argument": argument});
                let refused = client.ask("completion/complete", params).await;
                assert_eq!(refused["error"]["code"], -32602, "{url} {uri}: {refused}");
            }
            let read = client.ask("resources/read", json!({"uri": "test:///fine"})).await;
            assert_eq!(read["result"]["contents"][0]["text"], "fine", "{read}");
        }
    }
    let [legacy, _] = clients(&gateway.url_of("up")).await;
    for uri in DROPPED {
        let refused = legacy.ask("resources/subscribe", json!({"uri": uri})).await;
        assert_eq!(refused["error"]["code"], -32002, "{uri}: {refused}");
    }
    let explained = run(&["explain", "bad:///1", "--method", "resources/read", "--admin", &gateway.admin()]);
    let explained = String::from_utf8(explained.stdout).unwrap();
    assert!(explained.contains("no list names it as it is written"), "{explained}");
}

#[tokio::test]
async fn an_edit_of_the_plugin_filters_anew() {
    let folder = Folder::with(&poisoned());
    let gateway = Gateway::start(&folder);
    offered(&gateway, 2).await;
    folder.write("manifests.yaml", &poisoned().replace("'forbidden'", "'nothing at all'"));
    offered(&gateway, 3).await;
}

/// URIs that lead to resources of the server that its lists name and a Guard drops.
const SPELLINGS: [&str; 13] = [
    "file:///bad/a",
    "file:/bad/a",
    "file:bad/a",
    "file://localhost/bad/a",
    "file:///bad\\a",
    "http://example.com/bad",
    "http://example.com:80/bad",
    "http:example.com/bad",
    "http:///example.com/bad",
    "http://example.com\\bad",
    "http:example.com/pages/1",
    "http://example.com/pages/?x",
    "http://example.com/pages/#x",
];

#[tokio::test]
async fn while_its_lists_were_never_read_nothing_is_read_that_they_may_hide_nor_afterwards_by_another_spelling() {
    let failing = Folder::new();
    let manifests = poisoned_with(&["--unlisted", failing.path().to_str().unwrap()]);
    let folder = Folder::with(&manifests);
    let gateway = Gateway::start(&folder);
    let read = async |client: &Client, uri: &str| client.ask("resources/read", json!({"uri": uri})).await;
    for client in clients(&gateway.url_of("up")).await {
        for uri in ["file:///bad/a", "http://example.com/pages/1", "test:///fine", "fine:///1"] {
            let refused = read(&client, uri).await;
            assert_eq!(refused["error"]["data"]["reason"], "ListUnread", "{uri}: {refused}");
            let argument = json!({"name": "id", "value": "x"});
            let params = json!({"ref": {"type": "ref/resource", "uri": uri}, "argument": argument});
            let refused = client.ask("completion/complete", params).await;
            assert_eq!(refused["error"]["data"]["reason"], "ListUnread", "{uri}: {refused}");
        }
        let called = client.ask("tools/call", json!({"name": "add", "arguments": {}})).await;
        assert_eq!(called["result"]["content"][0]["text"], "add", "{called}");
    }
    let [legacy, _] = clients(&gateway.url_of("up")).await;
    let refused = legacy.ask("resources/subscribe", json!({"uri": "file:///bad/a"})).await;
    assert_eq!(refused["error"]["data"]["reason"], "ListUnread", "{refused}");
    let explained = run(&["explain", "up/file:///bad/a", "--method", "resources/read", "--admin", &gateway.admin()]);
    let explained = String::from_utf8(explained.stdout).unwrap();
    assert!(explained.contains("could not read resources/list of its upstream"), "{explained}");
    drop(failing);
    // A changed upstream is read at once, others after a pause.
    folder.write("manifests.yaml", &manifests.replace("metadata: {name: up}", "metadata: {name: up, labels: {a: b}}"));
    let [client, modern] = clients(&gateway.url_of("up")).await;
    until("the lists are read", async || read(&client, "test:///fine").await["result"].is_object()).await;
    for uri in SPELLINGS {
        for client in [&client, &modern] {
            let refused = read(client, uri).await;
            assert!([json!(-32002), json!(-32602)].contains(&refused["error"]["code"]), "{uri}: {refused}");
            assert!(refused["error"]["message"].as_str().unwrap().starts_with("Unknown resource"), "{uri}: {refused}");
        }
    }
}
