//! Tools as the owner of an upstream wants them, with real servers and the SDKs as clients.

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, run};
use super::http::Http;
use super::parts::{SDKS, chain, plugin, tools_of, until};
use crate::fixtures::{fixture, node_module, python};

const OVERRIDES: &str = r#"
    - {name: blob, rename: five, title: Five bytes, deprecated: Use echo instead., annotations: {destructiveHint: false},
       arguments: [{name: size, value: 5, hidden: true}]}
    - {name: echo, arguments: [{name: message, description: What to say.}]}
    - {name: structured, answer: "It is warm, ann@example.com says."}
    - {name: nothing, answer: never}
"#;

/// The Python SDK's server over stdio, with overrides of its tools.
fn changed(name: &str, overrides: &str) -> String {
    let (program, script) = (python(), fixture("servers/modern.py"));
    format!(
        "---\napiVersion: hawsepipe.dev/v1alpha1\nkind: MCPUpstream\nmetadata: {{name: {name}}}\nspec:\n  process: \
         {{command: {program:?}, args: [{script:?}, --stdio]}}\n  tools:\n    overrides:{overrides}"
    )
}

fn tool<'a>(tools: &'a [Value], name: &str) -> &'a Value {
    tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("no {name}: {tools:?}"))
}

#[tokio::test]
async fn clients_of_both_eras_see_and_call_the_changed_tools() {
    let redact =
        "export default ({ rawContent }) => ({ text: rawContent.replace(/\\S+@\\S+/, '[mail]'), continue: true });";
    let manifests = changed("up", OVERRIDES)
        + &plugin("redact", redact, "role: Guard")
        + &chain("r", "Response", &["up"], &["redact"]);
    let folder = Folder::with(&manifests);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    for sdk in SDKS {
        let listed = sdk.run(&gateway.url(), &["list"], "");
        let five = tool(&listed, "up__five");
        assert_eq!(five["title"], "Five bytes", "{five}");
        assert_eq!(five["description"], "Use echo instead.\n\nA text of this many bytes.");
        assert_eq!(
            (&five["annotations"]["destructiveHint"], &five["annotations"]["readOnlyHint"]),
            (&json!(false), &json!(true))
        );
        assert!(!five["inputSchema"].to_string().contains("size"), "{five}");
        assert_eq!(tool(&listed, "up__echo")["inputSchema"]["properties"]["message"]["description"], "What to say.");
        assert!(tool(&listed, "up__structured").get("outputSchema").is_none());

        let call = |tool: &str, arguments: Value| {
            sdk.run(&gateway.url(), &["call", tool, &arguments.to_string()], "")[0].clone()
        };
        let answered = call("up__five", json!({}));
        assert_eq!(answered["result"]["content"][0]["text"], "The q", "{answered}");
        let refused = call("up__five", json!({"size": 6}));
        assert_eq!(refused["result"]["isError"], true, "{refused}");
        let told = refused["result"]["content"][0]["text"].as_str().unwrap();
        assert!(told.contains("arguments/size: the tool has no such argument"), "{told}");
        let fixed = call("up__structured", json!({"city": "Rome"}));
        assert_eq!(
            fixed["result"]["content"],
            json!([{"type": "text", "text": "It is warm, [mail] says."}]),
            "{fixed}"
        );
    }
    recorded(&gateway).await;
}

/// Checks that the calls which the gateway answered itself are recorded and counted.
async fn recorded(gateway: &Gateway) {
    let calls = Http::new().get(&format!("http://{}/api/v1/calls", gateway.admin())).await.body;
    assert!(calls.contains(r#""tool":"structured""#), "{calls}");
    let metrics = Http::new().get(&format!("http://{}/metrics", gateway.admin())).await.body;
    // Two of the four clients are of each era.
    let counted = metrics.lines().find(|line| line.contains("calls_total") && line.contains("structured")).unwrap();
    assert!(counted.contains(r#"outcome="ok""#) && counted.ends_with(" 2"), "{counted}");
}

#[tokio::test]
async fn an_edit_of_overrides_counts_for_the_next_list_and_mistakes_are_told() {
    let folder = Folder::with(&changed("up", OVERRIDES));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let problems = format!("http://{}/api/v1/plan", gateway.admin());
    let http = Http::new();
    until("the override of no tool is told", async || {
        http.get(&problems).await.body.contains("the server has no tool")
    })
    .await;
    let wrong = r#"
    - {name: blob, arguments: [{name: size, value: five}]}
    - {name: echo, arguments: [{name: message, hidden: true}, {name: volume, value: 3}]}
"#;
    folder.write("manifests.yaml", &changed("up", wrong));
    let told = async |wanted: &str| http.get(&problems).await.body.contains(wanted);
    until("the value of the wrong type is told", async || told("does not fit the server's input schema").await).await;
    assert!(told("hidden and has no value, and the server requires it").await);
    assert!(told("has no argument").await);
    let reply = http.call(&gateway.url(), "up__blob", &json!({}), &json!({})).await;
    assert_eq!(reply["result"]["isError"], true, "{reply}");
}

#[tokio::test]
async fn a_server_of_the_legacy_era_gets_the_values_that_clients_do_not_see() {
    let script = node_module("@modelcontextprotocol/server-everything/dist/index.js");
    let folder = Folder::with(&format!(
        "apiVersion: hawsepipe.dev/v1alpha1\nkind: MCPUpstream\nmetadata: {{name: all}}\nspec:\n  process: {{command: node, \
         args: [{script:?}, stdio]}}\n  tools:\n    overrides:\n    - {{name: get-sum, arguments: [{{name: b, value: 40, \
         hidden: true}}]}}\n"
    ));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["all"]).await;
    let http = Http::new();
    let reply = http.call(&gateway.url(), "all__get-sum", &json!({"a": 2}), &json!({})).await;
    assert!(reply["result"]["content"][0]["text"].as_str().unwrap().contains("42"), "{reply}");
}

#[tokio::test]
async fn pins_that_the_command_prints_approve_what_the_server_lists() {
    let pinned = |pinning: &str| changed("up", " []\n").replace("  tools:", &format!("  pinning: {pinning}\n  tools:"));
    let folder = Folder::with(&pinned("{mode: Enforce, approved: []}"));
    let gateway = Gateway::start(&folder);
    let (http, problems) = (Http::new(), format!("http://{}/api/v1/plan", gateway.admin()));
    until("the tools are withheld", async || http.get(&problems).await.body.contains("DefinitionChanged")).await;
    let refused = http.call(&gateway.url(), "up__echo", &json!({"message": "hello"}), &json!({})).await;
    assert!(refused["error"]["message"].as_str().unwrap().starts_with("Unknown tool"), "{refused}");

    let pin = |format: &str| {
        let output = run(&["tools", "pin", "up", "--admin", &gateway.admin().to_string(), "-o", format]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let json: Value = serde_json::from_str(&pin("json")).unwrap();
    assert_eq!(json["approved"].as_array().unwrap().len(), 7, "{json}");
    assert!(pin("yaml").starts_with("approved:\n"), "{}", pin("yaml"));
    let mut pinning = json.clone();
    pinning["mode"] = "Enforce".into();
    folder.write("manifests.yaml", &pinned(&pinning.to_string()));
    gateway.until_answer("up__echo", &json!({"message": "hello"}), "/result/content/0/text", &json!("hello")).await;

    pinning["approved"].as_array_mut().unwrap().retain(|tool| tool["name"] != "blob");
    folder.write("manifests.yaml", &pinned(&pinning.to_string()));
    until("what is not approved is withheld", async || {
        let listed = http.get(&format!("http://{}/api/v1/tools", gateway.admin())).await.json();
        listed["items"].as_array().unwrap().len() == 6
    })
    .await;
    let unknown = run(&["tools", "pin", "nobody", "--admin", &gateway.admin().to_string()]);
    assert!(
        !unknown.status.success() && String::from_utf8_lossy(&unknown.stderr).contains("has no upstream \"nobody\"")
    );
}
