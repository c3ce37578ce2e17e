//! The gateway's own tools, `search_tools` and `call_tool`, with real clients and servers of both eras.

use serde_json::{Value, json};

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::parts::{
    SDKS, Sdk, asking_http, everything, external, interview_http, modern_http, modern_stdio, object, plugin, tools_of,
};

const SEARCH: &str = "authentication: {anonymous: {}}, upstreams: {toolDiscovery: Search}";

fn text(line: &Value) -> &str {
    line["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{line}"))
}

/// Lists, searches and calls in one session. Returns the names that were listed, and the lines of the calls.
fn session(sdk: Sdk, url: &str, calls: &[(&str, Value)]) -> (Vec<String>, Vec<Value>) {
    let mut script = String::from("{\"list\": true}\n");
    for (tool, arguments) in calls {
        script += &format!("{}\n", json!({"tool": tool, "arguments": arguments}));
    }
    let lines = sdk.run(url, &["script"], &script);
    let (tools, lines) = lines.split_at(lines.len() - calls.len());
    (tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect(), lines.to_vec())
}

/// What every client calls.
fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("search_tools", json!({"query": "structured content of a location"})),
        ("call_tool", json!({"name": "everything__get-structured-content", "arguments": {"location": "Chicago"}})),
        ("call_tool", json!({"name": "modern__structured", "arguments": {"city": "Oslo"}})),
        ("call_tool", json!({"name": "stdio__slow", "arguments": {"seconds": 0.1, "steps": 2}})),
        ("call_tool", json!({"name": "modern__fail", "arguments": {"message": "secret"}})),
        ("call_tool", json!({"name": "modern__fail", "arguments": {"message": "no paper"}})),
        ("everything__echo", json!({"message": "ü"})),
        ("call_tool", json!({"name": "everything__echo", "arguments": {"message": 1}})),
        ("search_tools", json!({"query": "echo", "limit": 0})),
        ("call_tool", json!({"arguments": {}})),
        ("call_tool", json!({"name": "call_tool", "arguments": {"name": "everything__echo"}})),
        ("call_tool", json!({"name": "nobody__echo"})),
    ]
}

/// Checks what a client got for [`calls`].
fn check(sdk: Sdk, lines: &[Value]) {
    let found = &lines[0]["result"]["structuredContent"]["tools"];
    assert_eq!(found[0]["name"], "everything__get-structured-content", "{sdk:?}: {found}");
    assert!(found[0]["inputSchema"]["properties"]["location"].is_object(), "{found}");
    assert_eq!(serde_json::from_str::<Value>(text(&lines[0])).unwrap()["tools"], *found);
    assert!(lines[1]["result"]["structuredContent"]["conditions"].is_string(), "{sdk:?}: {}", lines[1]);
    assert_eq!(lines[2]["result"]["structuredContent"]["city"], "Oslo", "{sdk:?}: {}", lines[2]);
    let steps = lines[3]["progress"].as_array().unwrap().iter().map(|step| step["progress"].as_f64());
    assert!(steps.eq([Some(1.0), Some(2.0)]), "{sdk:?}: {}", lines[3]);
    assert_eq!(text(&lines[4]), "not that");
    assert_eq!(lines[4]["result"]["_meta"]["hawsepipe.dev/denied"]["plugin"], "default/deny", "{}", lines[4]);
    assert_eq!((&lines[5]["result"]["isError"], text(&lines[5])), (&json!(true), "no paper"));
    assert_eq!(text(&lines[6]), "Echo: ü");
    for (line, said) in [(7, "schema of everything__echo"), (8, "arguments/limit"), (9, "name"), (10, "directly")] {
        assert_eq!(lines[line]["result"]["isError"], true, "{sdk:?}: {}", lines[line]);
        assert!(text(&lines[line]).contains(said), "{sdk:?}: {}", lines[line]);
    }
    assert_eq!(lines[11]["error"]["code"], -32602, "{sdk:?}: {}", lines[11]);
}

/// A gateway with `toolDiscovery: Search` and a Guard on the tool `fail`, in front of servers of both eras. `url` is that of
/// one of them.
fn manifests(url: &str) -> String {
    let deny = "export default ({ rawContent }) => JSON.parse(rawContent).message === 'secret'
        ? { text: 'not that', continue: false, error: 'Forbidden' } : { text: rawContent, continue: true };";
    let spec =
        "phase: Request, tools: {include: [fail]}, entries: [{name: deny, when: \"tool.name == 'modern__fail'\"}]";
    [
        object("MCPGateway", "g", SEARCH),
        everything("everything"),
        external("modern", url),
        modern_stdio("stdio"),
        plugin("deny", deny, "role: Guard"),
        object("PluginChain", "c", spec),
    ]
    .concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_both_eras_search_for_tools_and_call_what_they_found() {
    let folder = Folder::new();
    let (_modern, url) = modern_http(&folder.path().join("log"));
    folder.write("manifests.yaml", &manifests(&url));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything", "modern", "stdio"]).await;
    let clients = SDKS.map(|sdk| {
        let url = gateway.url();
        tokio::task::spawn_blocking(move || (sdk, session(sdk, &url, &calls())))
    });
    for client in clients {
        let (sdk, (listed, lines)) = client.await.unwrap();
        assert_eq!(listed, ["search_tools", "call_tool"], "{sdk:?}");
        check(sdk, &lines);
    }
    let own = session(SDKS[2], &gateway.url_of("modern"), &[]).0;
    assert!(own.contains(&"structured".to_owned()) && !own.contains(&"search_tools".to_owned()), "{own:?}");
    let calls = Http::new().get(&format!("http://{}/api/v1/calls?limit=1000", gateway.admin())).await.json();
    let calls = calls["items"].as_array().unwrap().clone();
    let count = |tool: &str, upstream: &str| {
        calls.iter().filter(|call| call["tool"] == tool && call["upstream"] == upstream).count()
    };
    assert_eq!([count("fail", "modern"), count("slow", "stdio"), count("search_tools", "")], [8, 4, 8], "{calls:?}");
    assert_eq!(count("call_tool", ""), 8, "only those that name no other tool");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_both_eras_ask_through_call_tool() {
    const ANSWERS: &str = r#"{
        "sampling": {"role": "assistant", "content": {"type": "text", "text": "forty-two"}, "model": "m"},
        "elicitation": {"action": "accept", "content": {"name": "Ada"}},
        "roots": {"roots": [{"uri": "file:///work", "name": "work"}]}
    }"#;
    let folder = Folder::new();
    let (_interview, modern) = interview_http();
    let (_asking, legacy) = asking_http(&folder.path().join("log"));
    let upstreams = [external("interview", &modern), external("asking", &legacy)].concat();
    folder.write("manifests.yaml", &(object("MCPGateway", "g", SEARCH) + &upstreams));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["interview", "asking"]).await;
    for (sdk, tool) in
        [2, 3].into_iter().flat_map(|sdk| ["interview__interview", "asking__elicit"].map(|t| (SDKS[sdk], t)))
    {
        let url = gateway.url();
        let results = tokio::task::spawn_blocking(move || {
            let named = json!({"name": tool}).to_string();
            let call = |tool: &str, arguments: &str| {
                sdk.run(&url, &["call", tool, arguments, "--answers", ANSWERS], "").remove(0)["result"].clone()
            };
            (call(tool, "{}"), call("call_tool", &named))
        });
        let (direct, named) = results.await.unwrap();
        assert!(direct["content"][0]["text"].as_str().unwrap().contains("Ada"), "{sdk:?}: {direct}");
        assert_eq!(named, direct, "{sdk:?}");
    }
}
