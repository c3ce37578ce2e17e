//! What authors of plugins for pipelines use: the types, and runs of one function.

use std::process::Output;

use serde_json::{Value, json};

use super::super::harness::{Folder, run};
use super::super::parts::{object, plugin};
use super::{alone, call};
use crate::fixtures::checkout;

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

#[test]
fn a_function_runs_with_the_answers_of_mock() {
    let code = "export async function* execute({ query, iteration, observations }, ctx) {
      yield 'begins';
      const sum = await ctx.callTool('math__sum', { a: 1 });
      const again = await ctx.callTool('math__sum', {});
      const refused = await ctx.callTool('math__product', {}).catch(({ name, data }) => [name, data.reason]);
      const { json, model } = await ctx.llm('complex').complete({ messages: [] });
      const { action } = await ctx.ask({ message: 'Go on?', schema: {} });
      const failed = await ctx.ask({ message: 'Go on?', schema: {} }).catch(({ name, reason }) => [name, reason]);
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
        "failed": ["CallbackError", "CannotAsk"], "found": ["1", true, ["it rains"]], "used": [3, 1],
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
