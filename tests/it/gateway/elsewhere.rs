//! Servers that work with other clients and ask a little patience: schemas of older drafts, limits of requests, answers that are
//! almost as the specification says.

use std::process::Command;

use serde_json::{Value, json};

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::parts::{SDKS, announced, chain, external, plugin, process, tools_of};
use crate::fixtures::fixture;

#[tokio::test]
async fn a_tool_with_tuples_is_offered_in_2020_12_and_called_as_the_server_means_it() {
    let script = fixture("servers/tuples.mjs");
    let folder = Folder::with(&process("up", "node".as_ref(), &[script.to_str().unwrap()]));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let listed = SDKS[0].run(&gateway.url(), &["list"], "");
    let number = json!({"type": "number"});
    let pair = |item: Value| json!({"type": "array", "prefixItems": [item, item], "items": false, "minItems": 2, "maxItems": 2});
    let names = json!({"type": "array", "prefixItems": [{"type": "string"}], "items": number, "minItems": 1});
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "required": ["line"],
        "properties": {"line": pair(pair(number.clone())), "names": names},
    });
    assert_eq!(listed[0]["inputSchema"], schema, "{listed:?}");
    let call = async |line: Value| {
        let answer =
            Http::new().call(&gateway.url(), "up__draw", &json!({"line": line, "names": ["a", 1]}), &json!({})).await;
        answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(call(json!([[0, 1], [2, 3]])).await, r#"{"line":[[0,1],[2,3]],"names":["a",1]}"#);
    for (line, place) in
        [(json!([[0, 1], [2, "x"]]), "arguments/line/1/1"), (json!([[0, 1], [2, 3], 4]), "arguments/line")]
    {
        let said = call(line).await;
        assert!(said.contains("Nothing was sent") && said.contains(&format!("{place}: ")), "{said}");
    }
}

#[tokio::test]
async fn a_server_that_refuses_discovery_and_takes_few_requests_is_connected_and_called() {
    let mut server = Command::new("node");
    server.arg(fixture("servers/strict.mjs"));
    let (_server, url) = announced(server);
    let code = "export default ({ rawContent }) => ({ text: rawContent.replace(/^hello$/, 'HELLO'), continue: true });";
    let guarded = plugin("loud", code, "role: Guard") + &chain("loud", "Response", &["up"], &["loud"]);
    let folder = Folder::with(&(external("up", &url) + &guarded));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let (mut answered, mut refused) = (None, None);
    while answered.is_none() || refused.is_none() {
        let answer = Http::new().call(&gateway.url(), "up__hello", &json!({}), &json!({})).await;
        if answer["error"].is_null() { answered = Some(answer) } else { refused = Some(answer) }
    }
    let answered = answered.unwrap();
    assert_eq!(answered["result"]["content"][0]["text"], "HELLO", "the Guard sees the text alone: {answered}");
    let error = json!({"code": -32000, "message": "Too many requests", "data": {"limit": 1, "retryAfterMs": 1000}});
    assert_eq!(refused.unwrap()["error"], error);
}
