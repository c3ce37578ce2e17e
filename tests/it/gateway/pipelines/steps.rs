//! What steps of pipelines ask of users and share, and changes of pipelines for single runs.

use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway, run};
use super::super::parts::{ECHO_MODULE, SDKS, chain, object, plugin, until};
use super::{call, pipeline, tools};

async fn started(manifests: &[String], tool: &str) -> (Folder, Gateway) {
    let folder = Folder::with(&manifests.concat());
    let gateway = Gateway::start(&folder);
    until("the tool is listed", async || tools(&gateway).await.contains(&tool.to_owned())).await;
    (folder, gateway)
}

#[tokio::test]
async fn ctx_ask_asks_the_user_of_the_call_unless_a_guard_would_not_see_it() {
    let code = "export async function execute(state, ctx) {
      const schema = { type: 'object', properties: { name: { type: 'string' } } };
      try { return { output: await ctx.ask({ message: 'Who?', schema }) }; }
      catch (error) { return { output: { name: error.name, reason: error.reason, message: error.message } }; }
    }";
    let answers = r#"{"elicitation": {"action": "accept", "content": {"name": "Ada"}}}"#;
    let asked = |gateway: &Gateway, answers: &[&str]| {
        let arguments = [&["call", "ask", r#"{"prompt": "x"}"#], answers].concat();
        SDKS[3].run(&gateway.url(), &arguments, "")[0]["result"]["structuredContent"].clone()
    };
    let (_folder, gateway) = started(&[pipeline("ask", code, "")], "ask").await;
    assert_eq!(asked(&gateway, &["--answers", answers]), json!({"action": "accept", "content": {"name": "Ada"}}));
    let refused = asked(&gateway, &[]);
    assert_eq!((&refused["name"], &refused["reason"]), (&json!("CallbackError"), &json!("CannotAsk")), "{refused}");

    let guard =
        plugin("passes", ECHO_MODULE, "protocol: Module, role: Guard") + &chain("g", "Request", &["ask"], &["passes"]);
    let (_folder, gateway) = started(&[pipeline("ask", code, ""), guard], "ask").await;
    let refused = asked(&gateway, &["--answers", answers]);
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(refused["reason"] == "CannotAsk" && message.contains("Guard"), "{refused}");
}

#[tokio::test]
async fn ctx_evidence_is_shared_by_the_steps_of_a_run() {
    let add = "export const execute = async (state, { evidence }) => ({ result: [await evidence.add({ claim: 'a' }), await evidence.add('b')] });";
    let list = "export const execute = async ({ agents }, { evidence }) => ({ output: { ids: agents.add.result, all: await evidence.list() } });";
    let agents = "[{name: add, type: custom, plugin: {name: add}, nextOnSuccess: list}, {name: list, type: custom, plugin: {name: list}}]";
    let spec = format!("tool: {{name: proof, description: A test.}}, declared: {{startAgent: add, agents: {agents}}}");
    let manifests = [
        plugin("add", add, "type: phase"),
        plugin("list", list, "type: phase"),
        object("ToolPipeline", "proof", &spec),
    ];
    let (_folder, gateway) = started(&manifests, "proof").await;
    let answer = call(&gateway, "proof", &json!({"prompt": "x"})).await;
    let expected = json!({"ids": [{"id": "1"}, {"id": "2"}], "all": [{"claim": "a"}, "b"]});
    assert_eq!(answer["structuredContent"], expected, "{answer}");
}

#[tokio::test]
async fn customizations_change_the_steps_of_runs_whose_when_holds() {
    let note = "export const execute = ({ pluginData: { notes = [] } }, { config, run }) => {
      const all = [...notes, [run.step, config.a, config.b]];
      return { state: { pluginData: { notes: all } }, output: { all } };
    };";
    let spec = "tool: {name: depth, description: A test.}, declared: {startAgent: one, agents: [
      {name: one, type: custom, plugin: {name: note}, config: {a: 1, b: 1}, nextOnSuccess: two},
      {name: two, type: custom, plugin: {name: note}, config: {a: 2, b: 2}, nextOnSuccess: three},
      {name: three, type: custom, plugin: {name: note}, config: {a: 3, b: 3}}],
      customizations: [
        {name: light, when: 'call.arguments.depth == \"light\"', disabledAgents: [two],
         agentOverrides: [{agent: three, config: {b: 9}}],
         insertPhases: [{name: before, plugin: {name: note}, config: {a: 0, b: 0}, before: one}]},
        {name: always, agentOverrides: [{agent: one, config: {a: 7}}]}]}";
    let manifests = [plugin("note", note, "type: phase"), object("ToolPipeline", "depth", spec)];
    let (_folder, gateway) = started(&manifests, "depth").await;
    let steps = async |arguments: Value| call(&gateway, "depth", &arguments).await["structuredContent"]["all"].clone();
    let whole = json!([["one", 7, 1], ["two", 2, 2], ["three", 3, 3]]);
    assert_eq!(steps(json!({"prompt": "x", "depth": "medium"})).await, whole);
    assert_eq!(steps(json!({"prompt": "x"})).await, whole, "a condition that cannot be evaluated does not hold");
    let light = json!([["before", 0, 0], ["one", 7, 1], ["three", 3, 9]]);
    assert_eq!(steps(json!({"prompt": "x", "depth": "light"})).await, light);

    let wrong = [manifests[0].clone(), manifests[1].replace("call.arguments.depth", "calls.depth")].concat();
    let done = run(&["validate", Folder::with(&wrong).path().to_str().unwrap()]);
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(said.contains("spec.declared.customizations[0].when") && said.contains("InvalidExpression"), "{said}");
}

#[tokio::test]
async fn a_run_whose_output_does_not_fit_its_schema_has_failed() {
    let code =
        "export async function execute({ arguments: { prompt } }) { return { output: { n: JSON.parse(prompt) } }; }";
    let schema = "{type: object, properties: {n: {type: integer}, sources: {type: array}}}";
    let manifests = [pipeline("fits", code, &format!("output: {{schema: {schema}}}"))];
    let (_folder, gateway) = started(&manifests, "fits").await;
    let fits = call(&gateway, "fits", &json!({"prompt": "1"})).await;
    let run = &fits["_meta"]["hawsepipe.dev/run"];
    assert_eq!((&run["status"], &run["error"]), (&json!("completed"), &Value::Null), "{fits}");
    let failed = call(&gateway, "fits", &json!({"prompt": "true"})).await;
    let run = &failed["_meta"]["hawsepipe.dev/run"];
    let found = (&failed["isError"], &run["status"], &run["error"]["code"]);
    assert_eq!(found, (&json!(true), &json!("failed"), &json!("OutputInvalid")), "{failed}");
}
