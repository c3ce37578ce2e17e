//! Pipelines: tools that the gateway serves itself, by running plugins of type phase (document 002).

mod agents;
mod authors;
mod customized;
mod examples;
mod life;
mod models;
mod offered;
mod output_types;
mod places;
mod provided;
mod references;
mod room;
mod rows;
mod runs;
mod sdks;
mod sources;
mod steps;
mod taken;
mod tasks;
mod told;
mod traced;
mod values;
mod withdrawn;
mod within;

use serde_json::{Value, json};

pub(super) use self::models::{models, secret, stand_in};

use super::harness::{Folder, Gateway, run};
use super::http::Http;
use super::parts::{chain, everything, object, plugin, until};
use crate::fixtures::{checkout, node_module};

/// A composite tool over two servers: a sum that one of them makes goes into the graph of the other.
const NOTE_SUM: &str = "export async function execute({ arguments: { a, b, name } }, ctx) {
  const [sum, echo] = await Promise.all([
    ctx.callTool('math__get-sum', { a, b }), ctx.callTool('math__echo', { message: name })]);
  const observation = sum.content[0].text;
  const entities = [{ name: echo.content[0].text, entityType: 'sum', observations: [observation] }];
  await ctx.callTool('memory__create_entities', { entities });
  return { output: { noted: observation } };
}";
/// Denies every call whose arguments have a word in it.
const DENY: &str = "export const onRequest = ({ rawContent }) => rawContent.includes('forbidden')
  ? { text: 'this is forbidden', continue: false, error: 'forbidden' } : { text: rawContent, continue: true };";

/// The server of a graph of npm, with its file.
fn memory(folder: &Folder) -> String {
    let script = node_module("@modelcontextprotocol/server-memory/dist/index.js");
    let file = folder.path().join("memory.jsonl");
    let spec =
        format!("process: {{command: node, args: [{script:?}], env: [{{name: MEMORY_FILE_PATH, value: {file:?}}}]}}");
    object("MCPUpstream", "memory", &spec)
}

/// A pipeline of one agent, and its plugin. Objects are named after the tool, with hyphens.
fn pipeline(tool: &str, code: &str, more: &str) -> String {
    let name = tool.replace('_', "-");
    let plugin_name = format!("{name}-code");
    let agents = format!("[{{name: main, type: custom, plugin: {{name: {plugin_name}}}}}]");
    let spec = format!(
        "tool: {{name: {tool}, description: A test.}}, declared: {{startAgent: main, agents: {agents}}}, {more}"
    );
    plugin(&plugin_name, code, "type: phase") + &object("ToolPipeline", &name, &spec)
}

async fn call(gateway: &Gateway, tool: &str, arguments: &Value) -> Value {
    Http::new().call(&gateway.url(), tool, arguments, &json!({"hawsepipe.dev/trace": true})).await["result"].clone()
}

/// The names of the tools that the gateway lists.
async fn tools(gateway: &Gateway) -> Vec<String> {
    let session = Http::new().initialize(&gateway.url()).await;
    let listed = session.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await.json();
    let tools = listed["result"]["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Waits until the tool and those that it calls are listed.
async fn until_listed(gateway: &Gateway) {
    let wanted = ["note_sum", "math__get-sum", "memory__create_entities"];
    until("all tools are listed", async || {
        let listed = tools(gateway).await;
        wanted.iter().all(|name| listed.iter().any(|listed| listed == name))
    })
    .await;
}

/// A pipeline without servers.
async fn alone(code: &str, more: &str) -> (Folder, Gateway) {
    let folder = Folder::with(&pipeline("alone", code, more));
    let gateway = Gateway::start(&folder);
    until("the tool is listed", async || tools(&gateway).await.contains(&"alone".to_owned())).await;
    (folder, gateway)
}

#[tokio::test]
async fn a_pipeline_is_a_tool_whose_calls_pass_guards_and_are_recorded() {
    let folder = Folder::new();
    let manifests = [
        everything("math"),
        memory(&folder),
        pipeline("note_sum", NOTE_SUM, "tools: {include: ['math__*', memory__create_entities]}"),
        plugin("deny", DENY, "role: Guard"),
        chain("guard", "Request", &["math"], &["deny"]),
    ];
    folder.write("manifests.yaml", &manifests.concat());
    let gateway = Gateway::start(&folder);
    until_listed(&gateway).await;

    let answer = call(&gateway, "note_sum", &json!({"prompt": "", "a": 2, "b": 3, "name": "five"})).await;
    assert!(answer["structuredContent"]["noted"].as_str().is_some_and(|noted| noted.contains('5')), "{answer}");
    let facts = &answer["_meta"]["hawsepipe.dev/run"];
    assert_eq!((&facts["status"], &facts["toolCalls"]), (&json!("completed"), &json!(3)), "{answer}");
    assert_eq!(facts["steps"], json!([{"name": "main", "status": "success"}]));
    let stored = std::fs::read_to_string(folder.path().join("memory.jsonl")).unwrap();
    assert!(stored.contains("five"), "{stored}");

    // One call of the client, and three within it.
    let id = facts["id"].as_str().unwrap().to_owned();
    let mut rows = Value::Null;
    until("four calls are recorded", async || {
        rows = Http::new().get(&format!("http://{}/api/v1/calls", gateway.admin())).await.json();
        rows["items"].as_array().is_some_and(|rows| rows.len() == 4)
    })
    .await;
    let within = rows["items"].as_array().unwrap().iter().filter(|row| row["within"] == *id).count();
    assert_eq!(within, 3, "{rows}");

    let denied = call(&gateway, "note_sum", &json!({"prompt": "", "a": 2, "b": 3, "name": "forbidden"})).await;
    assert_eq!(denied["isError"], Value::Null, "the denial is an answer for the step: {denied}");
    let stored = std::fs::read_to_string(folder.path().join("memory.jsonl")).unwrap();
    assert!(stored.contains("this is forbidden") && !stored.contains("\"name\":\"forbidden\""), "{stored}");
}

#[tokio::test]
async fn tools_include_of_a_pipeline_is_an_allow_list() {
    let code = "export async function execute(state, ctx) {
      try { await ctx.callTool('math__echo', { message: 'x' }); return { output: { called: true } }; }
      catch (error) { return { output: { message: error.message, reason: error.data.reason } }; }
    }";
    let (_folder, gateway) = alone(code, "tools: {include: [other]}").await;
    let answer = call(&gateway, "alone", &json!({"prompt": "x"})).await;
    assert_eq!(answer["structuredContent"]["reason"], "ToolNotAllowed", "{answer}");
    let listed = run(&["pipelines", "list", "--admin", &gateway.admin()]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("ready; no tool matches other"), "{listed}");
}

#[tokio::test]
async fn budgets_max_tool_calls_ends_calls_of_a_run() {
    let code = "export async function execute(state, ctx) {
      let reason;
      for (let i = 0; i < 3; i += 1) await ctx.callTool('none', {}).catch((error) => { reason = error.data?.reason; });
      return { output: { reason, used: ctx.budgets.toolCallsUsed, most: ctx.budgets.maxToolCalls } };
    }";
    let (_folder, gateway) = alone(code, "tools: {include: [none]}, budgets: {maxToolCalls: 2}").await;
    let answer = call(&gateway, "alone", &json!({"prompt": "x"})).await;
    assert_eq!(answer["structuredContent"], json!({"reason": "BudgetExhausted", "used": 2, "most": 2}), "{answer}");
}

#[tokio::test]
async fn budgets_timeout_seconds_may_be_longer_than_other_calls_may_take() {
    let code = "export async function execute() {
      await new Promise((resolve) => setTimeout(resolve, 1500));
      return { output: { done: true } };
    }";
    let limits = "authentication: {anonymous: {}}, limits: {callTimeoutMs: 1000, callCeilingMs: 1000}";
    let folder = Folder::with(&(object("MCPGateway", "main", limits) + &pipeline("alone", code, "")));
    let gateway = Gateway::start(&folder);
    until("the tool is listed", async || tools(&gateway).await == ["alone"]).await;
    let answer = call(&gateway, "alone", &json!({"prompt": "x"})).await;
    assert_eq!(answer["structuredContent"], json!({"done": true}), "{answer}");
}

#[tokio::test]
async fn budgets_timeout_seconds_and_faults_of_a_step_end_a_run_with_a_reason() {
    let code = "export async function execute({ arguments: { prompt } }, ctx) {
      if (prompt === 'hang') await new Promise(() => {});
      if (prompt === 'throw') throw new Error('it broke');
      if (prompt === 'shape') return { output: 'text' };
      if (prompt === 'nothing') return;
      if (prompt === 'member') return { answer: 'text' };
      if (prompt === 'source') return { output: {}, sources: [{ url: 'https://a.example' }, { sourceType: 'custom' }] };
      if (prompt === 'refused') {
        await ctx.callTool('elsewhere__tool', {}).catch(() => {});
        return { output: { used: ctx.budgets.toolCallsUsed } };
      }
      if (prompt === 'invents') return { output: { sources: [{ url: 'https://invented.example' }] } };
      return { output: { prompt } };
    }";
    let (_folder, gateway) = alone(code, "budgets: {timeoutSeconds: 2}").await;
    for (prompt, text) in [
        ("hang", "Timeout: "),
        ("throw", "PluginError: step main: reported error: Error: it broke"),
        ("shape", "InvalidOutput: step main: its `output` is not an object"),
        ("nothing", "NoOutput: "),
        (
            "member",
            "InvalidOutput: step main: its result has a member other than output, result, state, decision, sources",
        ),
        ("source", "InvalidSource: step main: its `sources[1]` is not valid: title: a source needs a title or a url"),
    ] {
        let answer = call(&gateway, "alone", &json!({"prompt": prompt})).await;
        let shown = answer["content"][0]["text"].as_str().unwrap_or_default();
        assert!(answer["isError"] == true && shown.starts_with(text), "{prompt}: {answer}");
    }
    let answer = call(&gateway, "alone", &json!({"prompt": "x"})).await;
    assert_eq!(answer["structuredContent"], json!({"prompt": "x"}), "{answer}");
    let answer = call(&gateway, "alone", &json!({"prompt": "refused"})).await;
    assert_eq!(answer["structuredContent"], json!({"used": 0}), "{answer}");
    let answer = call(&gateway, "alone", &json!({"prompt": "invents"})).await;
    assert_eq!(answer["structuredContent"], json!({"sources": []}), "the run has found none: {answer}");
}

#[tokio::test]
async fn declared_agents_follow_transitions_loops_and_inserted_phases() {
    let folder = Folder::new();
    let count = "export const execute = ({ pluginData: { n = 0 }, query }, { config, sources }) => {
      sources.add({ url: `https://example.com/${n}`, title: `Page ${n}` });
      return { state: { pluginData: { n: n + 1 } }, result: { n: n + 1, query }, decision: n < 2 ? 'CONTINUE' : 'COMPLETE' };
    };";
    let mark = "export async function* execute({ pluginData }, { config }) {
      yield 'marking';
      return { state: { pluginData: { [config.key]: (pluginData[config.key] ?? 0) + 1 } } };
    }";
    let write = "export const execute = ({ pluginData, agents, sources }) => (
      { output: { pluginData, n: agents.count.result.n, cited: sources.map(({ id, domain }) => [id, domain]) } });";
    let spec = "tool: {name: research, description: A test.}, declared: {startAgent: count, agents: [
      {name: count, type: custom, plugin: {name: count}, nextOnSuccess: check},
      {name: check, type: custom, plugin: {name: mark}, config: {key: checks}, nextOnSuccess: write,
       loopCondition: 'decision == \"CONTINUE\" && iteration < 9', loopBackTo: count},
      {name: write, type: custom, plugin: {name: write}}],
      insertPhases: [{name: before, plugin: {name: mark}, config: {key: before}, before: count}]}";
    let manifests = [
        plugin("count", count, "type: phase"),
        plugin("mark", mark, "type: phase"),
        plugin("write", write, "type: phase"),
        object("ToolPipeline", "research", spec),
    ];
    folder.write("manifests.yaml", &manifests.concat());
    let gateway = Gateway::start(&folder);
    until("the tool is listed", async || tools(&gateway).await == ["research"]).await;
    let answer = call(&gateway, "research", &json!({"prompt": "why"})).await;
    let output = &answer["structuredContent"];
    assert_eq!(output["pluginData"], json!({"n": 3, "checks": 3, "before": 3}), "{answer}");
    assert_eq!(output["cited"], json!([["1", "example.com"], ["2", "example.com"], ["3", "example.com"]]));
    assert_eq!(output["sources"][2]["title"], "Page 2", "{answer}");
    assert_eq!(answer["_meta"]["hawsepipe.dev/sources"], output["sources"]);
    let steps = answer["_meta"]["hawsepipe.dev/run"]["steps"].as_array().unwrap().len();
    assert_eq!(steps, 10, "{answer}");
}

/// The plugins of manifests with faults: a step, a middleware, and two that have not the function of their type.
fn parts_of_faults() -> String {
    plugin("p", "export const execute = () => {};", "type: phase")
        + &plugin("g", DENY, "")
        + &plugin("w", "export const onRequest = () => {};", "type: phase")
        + &plugin("f", "export default function execute() { return { output: {} }; }", "type: phase")
}

/// A pipeline with this tool and this plugin.
fn faulty(name: &str, tool: &str, plugin: &str, more: &str) -> String {
    let agents = format!("[{{name: a, type: custom, plugin: {{name: {plugin}}}}}]");
    object("ToolPipeline", name, &format!("tool: {tool}, declared: {{startAgent: a, agents: {agents}}}{more}"))
}

/// Checks that `hawsepipe validate` finds faults in manifests: a reason, and words of its message.
fn finds(cases: &[(String, &str, &str)]) {
    for (manifests, reason, words) in cases {
        let folder = Folder::with(&(parts_of_faults() + manifests));
        let done = run(&["validate", folder.path().to_str().unwrap()]);
        let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && said.contains(reason) && said.contains(words), "{reason}: {said}");
    }
}

#[test]
fn faults_of_a_pipeline_are_found_before_it_runs() {
    let spec = |plugin: &str, more: &str| faulty("t", "{description: D}", plugin, more);
    let in_chain = chain("c", "Request", &["t"], &["p"]);
    finds(&[
        (spec("p", "") + &in_chain, "WrongType", "Plugin default/p is of type phase"),
        (spec("g", ""), "WrongType", "Plugin default/g is of type middleware: a step needs one of type phase"),
        (spec("pp", ""), "PluginNotFound", "there is no Plugin default/pp; did you mean p?"),
        (spec("w", ""), "UnsupportedExports", "and no function execute, which a phase needs"),
        (
            spec("f", ""),
            "NotLoaded",
            "it has no function execute (a default export that is a function is called as one",
        ),
        (spec("p", ", output: {schema: {type: object, properties: {}}}"), "MissingSources", "spec.output.schema"),
        (spec("p", ", output: {schema: {type: array}}"), "InvalidSchema", "its type is not object"),
        (spec("p", ", planned: {}"), "InvalidObject", "exactly one of declared, planned"),
    ]);
}

#[test]
fn faults_of_the_tool_of_a_pipeline_are_found_before_it_runs() {
    let takes = |schema: &str| faulty("t", &format!("{{description: D, inputSchema: {schema}}}"), "p", "");
    let named = |name: &str| faulty(name, "{name: same, description: D}", "p", "");
    let property = |schema: &str| takes(&format!("{{type: object, properties: {{a: {schema}}}}}"));
    finds(&[
        (takes("{type: string}"), "InvalidSchema", "spec.tool.inputSchema: its type is \"string\", not \"object\""),
        (property("{type: nubmer}"), "InvalidSchema", "inputSchema/properties/a/type"),
        (property("{$ref: '#/$defs/b'}"), "InvalidSchema", "inputSchema/properties/a/$ref"),
        (
            named("one") + &named("two"),
            "NameConflict",
            "spec.tool.name: ToolPipeline default/one has the tool same already: give it another name",
        ),
    ]);
}

/// The code block of a language in `docs/pipelines.md`.
fn block(language: &str) -> String {
    let page = std::fs::read_to_string(checkout().join("docs/pipelines.md")).unwrap();
    let after = page.split_once(&format!("```{language}\n")).unwrap().1;
    after.split_once("```").unwrap().0.to_owned()
}

#[tokio::test]
async fn the_page_on_pipelines_is_as_it_says() {
    let folder = Folder::new();
    // `npx` takes packages from here, and fetches none. The graph is kept here too, not in its package.
    std::os::unix::fs::symlink(node_module(""), folder.path().join("node_modules")).unwrap();
    let (manifest, graph) = (block("yaml"), folder.path().join("memory.jsonl"));
    let environment = format!("server-memory\"], env: [{{name: MEMORY_FILE_PATH, value: {graph:?}}}]}}");
    let manifest = manifest.replace("server-memory\"]}", &environment);
    assert!(manifest.contains("MEMORY_FILE_PATH"), "{manifest}");
    folder.write("manifests.yaml", &manifest);
    folder.write("plugins/note-sum.mjs", &block("js"));
    let gateway = Gateway::start(&folder);
    until_listed(&gateway).await;
    let command = block("sh");
    let words = command.split_whitespace().skip(1).map(|word| word.trim_matches('\''));
    let words: Vec<_> = words.chain(["--url"]).collect();
    let url = gateway.url();
    let output = run(&[words, vec![url.as_str()]].concat());
    assert!(String::from_utf8_lossy(&output.stdout).contains("is 5"), "{output:?}");
    assert!(std::fs::read_to_string(graph).unwrap().contains("2 + 3"));
}
