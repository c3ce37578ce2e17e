//! What rules hide: tools that clients cannot tell from missing ones, and resources whose URIs are written in another way.

use hyper::Method;
use serde_json::{Value, json};

use crate::gateway::harness::{Folder, Gateway, run};
use crate::gateway::http::{Http, JSON};
use crate::gateway::manifests::{object, yaml};
use crate::gateway::parts::{logged, until};

/// A server that logs what it is asked, with two tools and a template of files.
const SERVER: &str = r"import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
const tools = ['read', 'hidden'].map((name) => ({ name, inputSchema: { type: 'object' } }));
const capabilities = { tools: {}, resources: {} }, serverInfo = { name: 'own', version: '1' };
const results = {
  initialize: { protocolVersion: '2025-11-25', capabilities, serverInfo },
  ping: {},
  'tools/list': { tools },
  'resources/list': { resources: [] },
  'resources/templates/list': { resourceTemplates: [{ uriTemplate: 'file:///{+path}', name: 'files' }] },
  'resources/read': { contents: [] },
  'tools/call': { content: [] },
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  appendFileSync(process.argv[2], `${method} ${params?.uri ?? params?.name ?? ''}\n`);
  if (id !== undefined) process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result: results[method] })}\n`);
}";

fn manifests(folder: &Folder) -> String {
    folder.write("server.mjs", SERVER);
    let [script, log] = ["server.mjs", "log"].map(|file| folder.path().join(file).display().to_string());
    let rules = json!([
        {"name": "by-argument", "effect": "Allow", "when": "tool.upstreamName == 'read' && call.arguments.n == 1"},
        {"name": "files", "effect": "Allow", "when": "call.method == 'resources/read' && !tool.name.startsWith('file:///etc/')"},
        {"name": "secret", "effect": "Deny", "when": "tool.name == 'file:///pub/secret'"},
    ]);
    let gateway = json!({"authentication": {"anonymous": {}}, "authorization": {"rules": rules}});
    let binding = json!({"document": {"glob": "**"}, "heading": {"text": "Up"}, "upstream": {"name": "up"}});
    let process = json!({"command": "node", "args": [script, log]});
    yaml(&[
        object("MCPGateway", "main", &gateway),
        object("MCPUpstream", "up", &json!({"process": process})),
        object("MCPUpstream", "other", &json!({"process": process})),
        object("SectionBinding", "section", &binding),
    ])
}

/// The status and the body of the answer to a request of the modern era, from a section or not.
async fn ask(url: &str, method: &str, params: Value, section: Option<&str>) -> (u16, String) {
    let named = params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    if let Some(section) = section {
        params["_meta"]["hawsepipe.dev/section"] =
            json!({"document": "a", "headings": [{"text": section, "level": 1}]});
    }
    let mut headers = vec![JSON[0], JSON[1], ("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    headers.extend((!named.is_empty()).then_some(("mcp-name", &*named)));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let answer = Http::new().send(Method::POST, url, &headers, body.to_string()).await;
    (answer.status, answer.body)
}

#[tokio::test]
async fn what_rules_hide_is_as_if_it_were_not_there_and_no_other_spelling_finds_it() {
    let folder = Folder::new();
    folder.write("manifests.yaml", &manifests(&folder));
    let gateway = Gateway::start(&folder);
    let (url, log) = (gateway.url(), folder.path().join("log"));
    until("the tool that may be called is listed", async || {
        ask(&url, "tools/list", json!({}), None).await.1.contains("other__read")
    })
    .await;
    let listed = ask(&url, "tools/list", json!({}), None).await.1;
    assert!(listed.contains("up__read") && !listed.contains("hidden"), "{listed}");
    for upstream in ["up", "other"] {
        for section in [None, Some("Up")] {
            let call =
                async |name: &str| ask(&url, "tools/call", json!({"name": name, "arguments": {}}), section).await;
            let hidden = call(&format!("{upstream}__hidden")).await;
            let absent = call(&format!("{upstream}__absent")).await;
            assert_eq!(hidden, (absent.0, absent.1.replace("absent", "hidden")), "{upstream} {section:?}");
        }
    }
    let own = gateway.url_of("up");
    for uri in [
        "file:///pub/secret",
        "FILE:///pub/secret",
        "file://localhost/pub/secret",
        "file:///pub/%73ecret",
        "file:///pub/x/../secret",
    ] {
        let (_, denied) = ask(&own, "resources/read", json!({"uri": uri}), None).await;
        assert!(denied.contains(r#""hawsepipe.dev/denied":{"rule":"secret"}"#), "{uri}: {denied}");
    }
    let (_, unknown) = ask(&own, "resources/read", json!({"uri": "file:///pub/../etc/passwd"}), None).await;
    assert!(unknown.contains("Unknown resource"), "{unknown}");
    assert_eq!((logged(&log, "tools/call"), logged(&log, "resources/read")), (0, 0));
    ask(&own, "resources/read", json!({"uri": "file:///pub/%6Fpen"}), None).await;
    assert_eq!(logged(&log, "resources/read file:///pub/%6Fpen"), 1, "the server gets what was sent");
}

#[test]
fn a_rule_that_shows_every_tool_is_said() {
    let rule = |when: &str| {
        let rules = json!({"rules": [{"name": "a", "effect": "Allow", "when": when}]});
        let gateway = json!({"authentication": {"anonymous": {}}, "authorization": rules});
        let folder = Folder::with(&yaml(&[object("MCPGateway", "main", &gateway)]));
        let output = run(&["validate", "--no-load", folder.path().to_str().unwrap()]);
        assert!(output.status.success());
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let said = rule("'staff' in identity.groups && call.arguments.n == 1");
    assert!(said.contains("spec.authorization.rules[0].when: the rule a allows calls because of"), "{said}");
    assert!(said.contains("(ItemsNotNamed)"), "{said}");
    for when in [
        "'staff' in identity.groups",
        "tool.name == 'up__a' && call.arguments.n == 1",
        "call.name == 'up__a' && call.arguments.n == 1",
        "upstream.name == 'up' && call.userQuery == ''",
        "upstream.labels['a'] == 'b' && call.arguments.n == 1",
    ] {
        assert!(!rule(when).contains("ItemsNotNamed"), "{when}");
    }
}
