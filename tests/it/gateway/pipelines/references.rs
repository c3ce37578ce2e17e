//! What pipelines refer to, and what becomes of their tools if it is not there.

use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway};
use super::super::invocations::Admin;
use super::super::parts::{object, plugin, until};
use super::{call, models, secret, tools};

const CODE: &str = "export const execute = ({ query }) => ({ output: { query } });";

/// The pipeline `sum` of one agent with this plugin, and a model with a key of a Secret.
fn sum(plugin: &str) -> String {
    let agents = format!("[{{name: a, type: custom, plugin: {{name: {plugin}}}}}]");
    let models = models("http://127.0.0.1:1/v1", &["own"]);
    let spec = format!("tool: {{name: sum, description: D.}}, {models}, declared: {{startAgent: a, agents: {agents}}}");
    object("ToolPipeline", "sum", &spec)
}

/// The reason and the text of the refusal of a call; nothing if it is answered.
async fn refusal(gateway: &Gateway, tool: &str) -> Option<(String, String)> {
    let answer = call(gateway, tool, &json!({"prompt": "x"})).await;
    let reason = answer["_meta"]["hawsepipe.dev/refused"]["reason"].as_str()?;
    let text = answer["content"][0]["text"].as_str().unwrap_or_default();
    Some((reason.to_owned(), text.to_owned()))
}

#[tokio::test]
async fn a_tool_stays_while_its_references_are_gone_and_says_so_and_a_mistake_changes_nothing() {
    let step = plugin("step", CODE, "type: phase");
    let all = [step.clone(), secret(), sum("step")];
    let folder = Folder::with(&all.concat());
    let gateway = Gateway::start(&folder);
    until("the tool is listed", async || tools(&gateway).await == ["sum"]).await;
    let answers =
        async || call(&gateway, "sum", &json!({"prompt": "x"})).await["structuredContent"] == json!({"query": "x"});
    assert!(answers().await);

    folder.write("manifests.yaml", &[step.clone(), secret(), sum("stepp")].concat());
    until("the mistake is reported", async || {
        let problems = Admin::of(&gateway).get("plan").await["problems"].to_string();
        problems.contains("there is no Plugin default/stepp") && problems.contains("The last accepted form runs on")
    })
    .await;
    assert!(answers().await, "a mistake changes nothing");

    for (manifests, reason, words) in [
        ([secret(), sum("step")].concat(), "PluginNotFound", "there is no Plugin default/step"),
        ([step, sum("step")].concat(), "SecretNotFound", "Secret default/llm"),
    ] {
        folder.write("manifests.yaml", &manifests);
        until(reason, async || refusal(&gateway, "sum").await.is_some_and(|(found, _)| found == reason)).await;
        let (_, text) = refusal(&gateway, "sum").await.unwrap();
        assert!(text.contains(words), "{reason}: {text}");
        assert_eq!(tools(&gateway).await, ["sum"], "{reason}");
        folder.write("manifests.yaml", &all.concat());
        until("it is answered again", answers).await;
    }

    // A tool whose definition clients cannot read is in no list, and its calls are refused for that.
    let schema = sum("step")
        .replace("name: sum", "name: odd")
        .replace("description: D.", "description: D., inputSchema: {type: objekt}");
    folder.write("odd.yaml", &schema);
    until("the schema is reported", async || {
        refusal(&gateway, "odd").await.is_some_and(|(reason, text)| {
            reason == "InvalidSchema" && text.contains("its type is \"objekt\", not \"object\"")
        })
    })
    .await;
    let listed: Vec<Value> = tools(&gateway).await.into_iter().map(Value::from).collect();
    assert_eq!(listed, ["sum"]);
}

/// A pipeline of a namespace with the tool `sum`, which says whose it is.
fn of_tenant(namespace: &str) -> String {
    let code = format!("export const execute = () => ({{ output: {{ who: '{namespace}' }} }});");
    let agents = "[{name: a, type: custom, plugin: {name: step}}]";
    let spec = format!("tool: {{name: sum, description: D.}}, declared: {{startAgent: a, agents: {agents}}}");
    let objects = plugin("step", &code, "type: phase") + &object("ToolPipeline", &format!("sum-{namespace}"), &spec);
    objects.replace("metadata: {", &format!("metadata: {{namespace: {namespace}, "))
}

#[tokio::test]
async fn a_mistake_of_one_tenant_gives_its_tool_to_no_other() {
    let folder = Folder::new();
    folder.write("b.yaml", &of_tenant("b"));
    let mut gateway = Gateway::start(&folder);
    let answers = async |gateway: &Gateway, who: &str| {
        let answer = call(gateway, "sum", &json!({"prompt": "x"})).await;
        answer["structuredContent"] == json!({"who": who})
    };
    until("b has the tool", async || answers(&gateway, "b").await).await;
    // Another tenant asks for the name, in a file that is read first.
    folder.write("a.yaml", &of_tenant("a"));
    until("the conflict is reported", async || {
        Admin::of(&gateway).get("plan").await["problems"].to_string().contains("NameConflict")
    })
    .await;
    folder.write("b.yaml", &of_tenant("b").replace("startAgent", "startAgnet"));
    until("the mistake is reported", async || {
        Admin::of(&gateway).get("plan").await["problems"].to_string().contains("startAgnet")
    })
    .await;
    assert!(answers(&gateway, "b").await, "it keeps its tool");
    gateway.end();
    gateway = Gateway::start(&folder);
    until("b has the tool after a restart", async || answers(&gateway, "b").await).await;
    assert_eq!(tools(&gateway).await, ["sum"]);
}
