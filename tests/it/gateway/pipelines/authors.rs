//! What authors of plugins for pipelines use: the types, templates, and runs of one function.

use std::process::{Command, Output};

use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway, run};
use super::super::parts::{object, plugin, until};
use super::{alone, call, tools};
use crate::fixtures::{checkout, node_module, program};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs a function of code with `plugin run`; its exit code and report.
fn ran(code: &str, method: &str, more: &[&str]) -> (i32, Value) {
    let folder = Folder::new();
    folder.write("code.mjs", code);
    let path = folder.path().join("code.mjs");
    let output = run(&[&["plugin", "run", path.to_str().unwrap(), "-o", "json", "--method", method], more].concat());
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code().unwrap(), report.unwrap_or_else(|_| panic!("{}", said(&output))))
}

#[tokio::test]
async fn a_step_gets_the_members_that_its_types_have() {
    let code = std::fs::read_to_string(checkout().join("plugins/sdk/test/members.mjs")).unwrap();
    let (_folder, gateway) = alone(&code, "").await;
    let answer = call(&gateway, "alone", &json!({"prompt": "x"})).await;
    assert_eq!(answer["structuredContent"], json!({"differ": []}), "{answer}");
    let (exit, report) = ran(&code, "execute", &[]);
    assert_eq!((exit, &report["result"]["output"]), (0, &json!({"differ": []})), "{report}");
}

/// Writes the template of a type into a folder, and runs it as the command says.
fn first_run(folder: &Folder, kind: &str) -> (i32, String) {
    let path = folder.path().to_str().unwrap();
    let made = run(&["plugin", "new", "--type", kind, "--dir", path]);
    let text = said(&made);
    assert!(made.status.success(), "{text}");
    let line = text.split_once("Run it once:\n").unwrap().1.split_once("\nStart a gateway").unwrap().0;
    let line = line.trim().replacen("hawsepipe", program().to_str().unwrap(), 1);
    let ran = Command::new("sh").arg("-c").arg(line).output().unwrap();
    let again = run(&["plugin", "new", "--type", kind, "--dir", path]);
    assert!(!again.status.success() && said(&again).contains("is there already"), "{}", said(&again));
    (ran.status.code().unwrap(), said(&ran))
}

#[tokio::test]
async fn plugin_new_writes_plugins_whose_first_run_works() {
    let folder = Folder::new();
    // `npx` takes packages from here, and fetches none.
    std::os::unix::fs::symlink(node_module(""), folder.path().join("node_modules")).unwrap();
    for (kind, words) in [
        ("phase", "\"text\": \"hi\""),
        ("tool-provider", "\"words\": 2"),
        ("prompt-provider", "primary sources"),
        ("pipeline-customizer", "\"disabledAgents\""),
        ("output-type", "\"sources\""),
    ] {
        let (exit, text) = first_run(&folder, kind);
        assert!(exit == 0 && text.contains(words), "{kind}: {text}");
    }
    // The server of the first manifest is that of the second one, too.
    let second = run(&["plugin", "new", "second", "--type", "phase", "--dir", folder.path().to_str().unwrap()]);
    assert!(second.status.success(), "{}", said(&second));
    let valid = run(&["validate", folder.path().to_str().unwrap()]);
    assert!(valid.status.success() && said(&valid).contains("0 errors, 0 warnings"), "{}", said(&valid));
    let tested = run(&["plugin", "test", folder.path().to_str().unwrap()]);
    assert!(tested.status.success() && said(&tested).contains("pass 6\n"), "{}", said(&tested));
    let gateway = Gateway::start(&folder);
    until("the tools are listed", async || {
        let listed = tools(&gateway).await;
        ["phase", "tool-provider__count_words", "everything__echo"]
            .iter()
            .all(|name| listed.iter().any(|it| it == name))
    })
    .await;
    let answer = call(&gateway, "phase", &json!({"prompt": "hello"})).await;
    assert_eq!(answer["structuredContent"]["text"], "Echo: hello", "{answer}");
    let answer = call(&gateway, "tool-provider__count_words", &json!({"text": "one two three"})).await;
    assert_eq!(answer["structuredContent"]["words"], 3, "{answer}");
    let named = run(&["plugin", "new", "Not a name", "--type", "phase", "--dir", folder.path().to_str().unwrap()]);
    assert!(!named.status.success() && said(&named).contains("is not such a name"), "{}", said(&named));
}

#[test]
fn a_function_runs_with_the_answers_of_mock() {
    let code = "export async function* execute({ query, iteration, observations }, ctx) {
      yield 'begins';
      const sum = await ctx.callTool('math__sum', { a: 1 });
      const again = await ctx.callTool('math__sum', {});
      const refused = await ctx.callTool('math__product', {}).catch(({ name, data }) => [name, data.reason]);
      const schema = { type: 'object', properties: {} };
      const { json, model } = await ctx.llm('complex').complete({ messages: [] });
      const { action } = await ctx.ask({ message: 'Go on?', schema });
      const failed = await ctx.ask({ message: 'Go on?', schema }).catch(({ name, reason }) => [name, reason]);
      const { id } = await ctx.sources.add({ url: 'https://example.com/a' });
      await ctx.evidence.add('it rains');
      const found = [id, await ctx.sources.has('https://example.com/a'), await ctx.evidence.list()];
      const { toolCallsUsed, llmCallsUsed } = ctx.budgets;
      ctx.log('done');
      return { output: { query, iteration, observations, sum, again, refused, json, model, action, failed, found,
        used: [toolCallsUsed, llmCallsUsed], depth: ctx.context.researchType, style: ctx.config.style } };
    }";
    let folder = Folder::new();
    let mock = json!({"math__sum": [{"content": [1]}, {"content": [2]}], "llm": {"json": {"n": 7}}, "ask": [{"action": "accept"}]});
    folder.write("tools.json", &mock.to_string());
    folder.write(
        "state.json",
        &json!({"arguments": {"prompt": "why", "depth": "light"}, "observations": ["o"]}).to_string(),
    );
    let (state, mock) = (folder.path().join("state.json"), folder.path().join("tools.json"));
    let files = ["--input", state.to_str().unwrap(), "--mock", mock.to_str().unwrap()];
    let (exit, report) = ran(code, "execute", &[&files[..], &["--config", "{\"style\": \"short\"}"]].concat());
    let expected = json!({
        "query": "why", "iteration": 1, "observations": ["o"], "sum": {"content": [1]}, "again": {"content": [2]},
        "refused": ["CallToolError", "ToolNotAllowed"], "json": {"n": 7}, "model": "", "action": "accept",
        "failed": ["CallbackError", "CannotAsk"], "found": ["1", true, ["it rains"]], "used": [2, 1],
        "depth": "light", "style": "short",
    });
    assert_eq!((exit, &report["result"]["output"]), (0, &expected), "{report}");
    assert_eq!(report["requests"][0], json!({"name": "math__sum", "arguments": {"a": 1}}), "{report}");
    assert_eq!((&report["progress"][0]["message"], &report["log"][0]["text"]), (&json!("begins"), &json!("done")));
}

#[test]
fn faults_of_a_function_have_the_reasons_of_a_gateway() {
    let of = |body: &str| format!("export const execute = () => {body}; export const getTools = () => [{{}}];");
    for (code, method, more, reason, words) in [
        (of("{ throw new Error('it broke'); }"), "execute", &[][..], "PluginError", "it broke"),
        (of("({ output: 'text' })"), "execute", &[], "InvalidOutput", "its `output` is not an object"),
        (of("({ content: 1 })"), "execute", &["--input", "[\"sum\", {}]"], "InvalidOutput", "no object {content"),
        (of("1"), "getTools", &[], "InvalidOutput", "no array of {name, description, parameters}"),
        (
            of("1") + "export const getPhases = () => [{}];",
            "getPhases",
            &[],
            "InvalidOutput",
            "a member that is missing",
        ),
        (
            of("1") + "export const getOutputSchema = () => ({ type: 'object' });",
            "getOutputSchema",
            &[],
            "MissingSources",
            "",
        ),
        (of("1"), "getPromptOverrides", &[], "UnsupportedExports", "no function getPromptOverrides"),
        (of("1"), "run", &[], "PluginError", "exports no function run"),
        (of("new Promise(() => {})"), "execute", &["--timeout-ms", "500"], "Timeout", ""),
        ("import 'node:none';".to_owned() + &of("1"), "execute", &[], "NotLoaded", "node:none"),
    ] {
        let (exit, report) = ran(&code, method, more);
        let message = report["message"].as_str().unwrap_or_default();
        assert!(exit == 1 && report["reason"] == reason && message.contains(words), "{reason}: {report}");
    }
}

#[test]
fn a_function_is_of_a_plugin_that_has_one() {
    let folder = Folder::new();
    let code = "export const execute = () => ({ output: {} });";
    let guard = plugin("guard", "export default ({ rawContent }) => ({ text: rawContent, continue: true });", "");
    folder.write("all.yaml", &(plugin("step", code, "type: phase, config: {a: 1}") + &guard));
    folder.write("other.yaml", &object("Plugin", "other", "source: {inline: ''}"));
    let path = folder.path().join("all.yaml");
    for (more, words) in [
        (&["--plugin", "step", "--method", "execute"][..], "ran: execute"),
        (&["--plugin", "step", "--text", "x"], "default/step is of type phase: name the function to run"),
        (&["--plugin", "guard", "--method", "execute"], "default/guard is of type middleware"),
        (&["--plugin", "step", "--method", "execute", "--text", "x"], "cannot be used with"),
        (&["--plugin", "step", "--text", "x", "--mock", "{}"], "--method"),
        (&["--plugin", "step", "--method", "execute", "--mock", "[]"], "--mock: it is not an object of results"),
        (&["--plugin", "step", "--method", "execute", "--mock", "{\"a\": 1}"], "--mock: a: a result is an object"),
        (&["--plugin", "step", "--method", "execute", "--input", "1"], "cannot read 1"),
        (&["--plugin", "step", "--method", "execute", "--input", "{\"arguments\": 1}"], "`arguments` is not an object"),
    ] {
        let output = run(&[&["plugin", "run", path.to_str().unwrap()], more].concat());
        let is_run = words.starts_with("ran");
        assert!(output.status.success() == is_run && said(&output).contains(words), "{more:?}: {}", said(&output));
    }
}

#[tokio::test]
async fn plugins_shows_the_type_and_the_version_of_a_descriptor() {
    let step = plugin("step", "export const execute = () => {};", "type: phase, descriptor: {version: 1.2.0-rc.1}");
    let guard = plugin("guard", "export default ({ rawContent }) => ({ text: rawContent, continue: true });", "");
    let folder = Folder::with(&(step + &guard));
    let gateway = Gateway::start(&folder);
    let shown = |format: &str| said(&run(&["plugins", "-o", format, "--admin", &gateway.admin()]));
    let wide = shown("wide");
    let row =
        |name: &str| wide.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{wide}")).to_owned();
    assert!(row("default/step").contains(" phase ") && row("default/step").contains(" 1.2.0-rc.1 "), "{wide}");
    assert!(row("default/guard").contains(" middleware "), "{wide}");
    let json: Value = serde_json::from_str(&shown("json")).unwrap();
    assert_eq!(
        (&json["items"][1]["type"], &json["items"][1]["version"]),
        (&json!("phase"), &json!("1.2.0-rc.1")),
        "{json}"
    );
    assert!(!shown("table").contains("1.2.0-rc.1"), "{}", shown("table"));
}
