//! What plugins ask of a running gateway within a call: tools, progress.

use hyper::Method;
use serde_json::{Value, json};

use super::harness::{Folder, Gateway};
use super::http::{Http, call_body, call_headers};
use super::parts::{chain, object, plugin, raw_stdio, tools_of};

/// Asks for the tool that the arguments name, with the arguments that they hold, and answers with what came of it.
const ASKS: &str = "export default async ({ rawContent }, { callTool, progress }) => {
    progress(0.25, 1, 'asking');
    const { tool, args } = JSON.parse(rawContent);
    const said = await callTool(tool, args).catch(({ message, code, data }) => ({ message, code, data }));
    progress(0.5, 1, 'asked');
    return { text: JSON.stringify({ said }), continue: true };
};";

/// A gateway on whose upstream `outer` the plugin asks; `fenced` is denied to everybody.
async fn start(folder: &Folder) -> Gateway {
    let mut manifests =
        object("MCPGateway", "main", "authentication: {anonymous: {}}, plugins: {queueTimeoutMs: 20000}");
    for upstream in ["outer", "inner", "fenced"] {
        manifests += &raw_stdio(upstream, &folder.path().join(upstream));
    }
    manifests += &plugin("asks", ASKS, "phases: [Request], timeoutMs: 20000, pool: {size: 5}");
    let deny = "export default () => ({ text: 'not this', continue: false, error: 'no' });";
    manifests += &plugin("deny", deny, "role: Guard");
    manifests += &chain("asking", "Request", &["outer"], &["asks"]);
    manifests += &chain("fence", "Request", &["fenced"], &["deny"]);
    folder.write("manifests.yaml", &manifests);
    let gateway = Gateway::start(folder);
    tools_of(&gateway, &["outer", "inner", "fenced"]).await;
    gateway
}

#[tokio::test]
async fn a_plugin_calls_tools() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let http = Http::new();
    // What the plugin was told, as the server got it.
    let said = async |tool: &str, args: Value| {
        let arguments = json!({"tool": tool, "args": args});
        let answer = http.call(&gateway.url(), "outer__args", &arguments, &json!({})).await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        serde_json::from_str::<Value>(text).unwrap()["said"].take()
    };
    let inner = said("inner__args", json!({"n": [1, "é"]})).await;
    assert_eq!(inner["content"][0]["text"], r#"{"n":[1,"é"]}"#, "{inner}");
    let fenced = said("fenced__args", json!({})).await;
    assert_eq!(fenced["_meta"]["hawsepipe.dev/denied"]["plugin"], "default/deny", "{fenced}");
    assert_eq!(said("inner__error", json!({})).await["code"], -32_042);
    assert_eq!(said("none", json!({})).await["code"], -32602);
    assert_eq!(said("inner__huge", json!({"size": "x"})).await["isError"], true);
    // Itself, again and again: the innermost call is not let in.
    let args = (0..5).fold(json!({}), |args, _| json!({"tool": "outer__args", "args": args}));
    let deep = said("outer__args", args).await.to_string();
    assert!(deep.contains("TooDeep"), "{deep}");

    let calls = http.get(&format!("http://{}/api/v1/calls?limit=100", gateway.admin())).await.json();
    let calls = calls["items"].as_array().unwrap();
    let within = calls.iter().find(|call| call["upstream"] == "fenced").unwrap();
    let outer = calls.iter().find(|call| call["requestId"] == within["within"]).unwrap();
    assert_eq!((&outer["upstream"], &within["outcome"]), (&json!("outer"), &json!("denied")), "{within}");
}

#[tokio::test]
async fn its_progress_comes_before_the_answer() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let arguments = json!({"tool": "inner__args", "args": {}}).to_string();
    let body = call_body("outer__args", &arguments, &json!({"progressToken": "p"}));
    let answer = Http::new().send(Method::POST, &gateway.url(), &call_headers("outer__args"), body).await;
    let lines = answer.body.lines().filter_map(|line| line.strip_prefix("data:"));
    let events: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let step = |progress: f64, message: &str| {
        let params = json!({"progressToken": "p", "progress": progress, "total": 1, "message": message});
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    };
    let [first, second, last] = &events[..] else { panic!("three events: {}", answer.body) };
    assert_eq!((first, second), (&step(0.25, "asking"), &step(0.5, "asked")));
    assert!(last["result"].is_object(), "{last}");
}
