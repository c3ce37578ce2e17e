//! Plugins of type output-type, which define the form of the output of a pipeline.

use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway, run};
use super::super::http::Http;
use super::super::invocations::Admin;
use super::super::parts::{object, plugin, until};
use super::models::{models, requests, secret, stand_in};
use super::{agents::FIND, call, tools};

const MEMO: &str = "export const getOutputSchema = () => ({ type: 'object', required: ['memo', 'sources'],
  properties: { memo: { type: 'string' }, sources: { type: 'array', items: { type: 'object' } } } });
export const getSynthesizerConfig = ({ context }) => ({ modelTier: 'small', max_tokens: 123, temperature: 0.25,
  systemPromptAddition: `Be ${context.researchType}.` });
export const getSynthesizerPrompt = async ({ config }) => config?.none ? null
  : 'A memo on {query} from {sources} and [{findings}] as {schema}. Cite [1].';";

/// A pipeline that finds two sources and writes, whose output is of this type.
fn manifests(code: &str, config: &str, synthesizer: &str, models: &str) -> String {
    let spec = format!(
        "tool: {{name: memo, description: A test.}}, {models}, output: {{plugin: {{name: memo}}}}, declared: {{startAgent: find,
          agents: [{{name: find, type: custom, plugin: {{name: find}}, nextOnSuccess: write}}, {{name: write, type: synthesizer}}],
          synthesizer: {synthesizer}}}"
    );
    let plugins = plugin("find", FIND, "type: phase") + &plugin("memo", code, &format!("type: output-type{config}"));
    secret() + &plugins + &object("ToolPipeline", "memo", &spec)
}

#[tokio::test]
async fn output_plugin_shapes_the_output_by_get_output_schema_get_synthesizer_config_and_get_synthesizer_prompt() {
    let folder = Folder::new();
    let invented = json!([{"id": "1", "url": "https://invented.example"}]);
    let (_model, url) =
        stand_in(&folder, &json!([{"json": {"memo": "rests on [2]", "sources": invented}, "repeat": true}]));
    let manifests = manifests(MEMO, "", "{maxTokens: 77}", &models(&url, &["small"]));
    folder.write("manifests.yaml", &manifests);
    let gateway = Gateway::start(&folder);
    until("the tool is listed", async || tools(&gateway).await == ["memo"]).await;
    let session = Http::new().initialize(&gateway.url()).await;
    let listed = session.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await.json();
    assert_eq!(listed["result"]["tools"][0]["outputSchema"]["required"], json!(["memo", "sources"]), "{listed}");

    let answer = call(&gateway, "memo", &json!({"prompt": "tides {schema}", "depth": "light"})).await;
    let output = &answer["structuredContent"];
    assert_eq!((&output["memo"], &output["sources"][0]["id"]), (&json!("rests on [2]"), &json!("2")), "{answer}");
    assert_eq!(output["sources"].as_array().map(Vec::len), Some(1), "{answer}");
    assert!(!answer.to_string().contains("invented"), "{answer}");
    let sent = &requests(&url).await[0]["body"];
    assert_eq!((&sent["max_tokens"], &sent["temperature"]), (&json!(77), &json!(0.25)), "the manifest has precedence");
    let system = sent["messages"][0]["content"].as_str().unwrap();
    let begin = "A memo on tides {schema} from [1] A https://example.com/a\n[2] B https://example.com/b and [] as {";
    assert!(system.starts_with(begin) && system.ends_with("Cite [1].\n\nBe light."), "{system}");
    let schema = &sent["response_format"]["json_schema"]["schema"];
    assert_eq!((&schema["required"], &schema["properties"]["sources"]), (&json!(["memo"]), &Value::Null), "{schema}");
    let admin = gateway.admin();
    let explained = run(&["pipelines", "explain", "memo", "--admin", &admin]);
    let shown = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(shown.contains("output type: default/memo"), "{shown}");
}

#[tokio::test]
async fn an_output_type_without_a_prompt_leaves_that_of_the_gateway_and_one_that_fails_ends_the_run() {
    let folder = Folder::new();
    let (_model, url) = stand_in(&folder, &json!([{"json": {"memo": 1}, "repeat": true}]));
    let models = models(&url, &["small"]);
    folder.write("manifests.yaml", &manifests(MEMO, ", config: {none: true}", "{validationStrict: false}", &models));
    let gateway = Gateway::start(&folder);
    until("the tool is listed", async || tools(&gateway).await == ["memo"]).await;
    let answer = call(&gateway, "memo", &json!({"prompt": "x"})).await;
    assert_eq!(answer["_meta"]["hawsepipe.dev/run"]["validation"]["valid"], false, "{answer}");
    let system = requests(&url).await[0]["body"]["messages"][0]["content"].as_str().unwrap().to_owned();
    assert!(system.starts_with("You write the answer to a question"), "{system}");

    for (code, text) in [
        ("({}).none.none", "PluginError: step output/memo: "),
        ("({ maxTokens: 0 })", "InvalidOutput: step output/memo: its maxTokens is not from 1 to 1000000"),
        ("({ outputFormat: 'pdf' })", "InvalidOutput: step output/memo: its result has a member"),
    ] {
        let code = MEMO.replace("({ context }) => ({", &format!("({{ context }}) => true ? {code} : ({{"));
        let folder = Folder::with(&manifests(&code, "", "{}", &models));
        let gateway = Gateway::start(&folder);
        until("the tool is listed", async || tools(&gateway).await == ["memo"]).await;
        let answer = call(&gateway, "memo", &json!({"prompt": "x"})).await;
        let shown = answer["content"][0]["text"].as_str().unwrap_or_default();
        assert!(answer["isError"] == true && shown.starts_with(text), "{text}: {answer}");
    }
}

#[tokio::test]
async fn an_output_type_without_a_valid_schema_keeps_its_tool_from_the_list_and_other_tools_answer_on() {
    let other = plugin("other", "export const execute = () => ({ output: { done: true } });", "type: phase")
        + &object(
            "ToolPipeline",
            "other",
            "tool: {description: A test.}, declared: {startAgent: a, agents: [{name: a, type: custom, plugin: {name: other}}]}",
        );
    for (code, words) in [
        ("null", "InvalidSchema: getOutputSchema of Plugin default/memo: not a JSON Schema of an object"),
        (
            "({ type: 'array' })",
            "InvalidSchema: getOutputSchema of Plugin default/memo: not a JSON Schema of an object",
        ),
        ("({ type: 'object' })", "MissingSources: getOutputSchema of Plugin default/memo: no property sources"),
    ] {
        let code = format!("export const getOutputSchema = () => {code};");
        let models = models("http://127.0.0.1:9/v1", &["complex"]);
        let folder = Folder::with(&(manifests(&code, "", "{}", &models) + &other));
        let gateway = Gateway::start(&folder);
        until("the fault is a problem of the pipeline", async || {
            let plan = Admin::of(&gateway).get("plan").await;
            let problems = plan["problems"].as_array().unwrap();
            problems.iter().any(|problem| {
                problem["object"]["kind"] == "ToolPipeline" && problem["message"].to_string().contains(words)
            })
        })
        .await;
        until("the other tool is listed", async || tools(&gateway).await == ["other"]).await;
        assert_eq!(call(&gateway, "other", &json!({"prompt": "x"})).await["structuredContent"]["done"], true);
    }
    let wrong = manifests("export const getSchema = 1;", "", "{}", "models: []");
    let done = run(&["validate", Folder::with(&wrong).path().to_str().unwrap()]);
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("no function getOutputSchema, which an output-type needs"), "{said}");
}
