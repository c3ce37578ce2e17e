//! Plugins of type pipeline-customizer, which change a pipeline for one run.

use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway, run};
use super::super::parts::{object, plugin, until};
use super::{call, tools};

/// Notes its step and its configuration.
const NOTE: &str = "export const execute = ({ pluginData: { notes = [] } }, { config, run }) => {
  const all = [...notes, `${run.step}:${config?.a ?? ''}`];
  return { state: { pluginData: { notes: all } }, output: { all } };
};";

/// A pipeline of the steps one and two, with a phase after two, and these customizers.
fn manifests(customizers: &[(&str, &str)]) -> String {
    let names: Vec<_> = customizers.iter().map(|(name, _)| format!("{{name: {name}}}")).collect();
    let spec = format!(
        "tool: {{name: tuned, description: A test.}}, budgets: {{timeoutSeconds: 20}}, declared: {{startAgent: one, agents: [
          {{name: one, type: custom, plugin: {{name: note}}, config: {{a: 1}}, nextOnSuccess: two}},
          {{name: two, type: custom, plugin: {{name: note}}, config: {{a: 2}}}}],
          insertPhases: [{{name: last, plugin: {{name: note}}, after: two}}], customizers: [{}]}}",
        names.join(", ")
    );
    let plugins = customizers.iter().map(|(name, code)| plugin(name, code, "type: pipeline-customizer"));
    plugins.collect::<String>() + &plugin("note", NOTE, "type: phase") + &object("ToolPipeline", "tuned", &spec)
}

async fn started(customizers: &[(&str, &str)]) -> (Folder, Gateway) {
    let folder = Folder::with(&manifests(customizers));
    let gateway = Gateway::start(&folder);
    until("the tool is listed", async || tools(&gateway).await == ["tuned"]).await;
    (folder, gateway)
}

async fn steps(gateway: &Gateway, depth: &str) -> Value {
    let answer = call(gateway, "tuned", &json!({"prompt": "x", "depth": depth})).await;
    assert_eq!(answer["isError"], Value::Null, "{answer}");
    answer["structuredContent"]["all"].clone()
}

#[tokio::test]
async fn get_pipeline_config_replaces_the_pipeline_of_a_run() {
    let code = "export const getPipelineConfig = async ({ context }) => context.researchType === 'light'
      ? { start_agent: 'b', agents: [
        { name: 'a', agent_type: 'custom', plugin: 'note', config: { a: 8 } },
        { name: 'b', type: 'custom', plugin: 'default/note', config: { a: 9 }, nextOnSuccess: 'a' }] }
      : null;
    export const getPipelineCustomizations = ({ context }) => {
      if (context.researchType === 'light') throw new Error('the config counts alone');
      return null;
    };";
    let (_folder, gateway) = started(&[("tune", code)]).await;
    assert_eq!(steps(&gateway, "light").await, json!(["b:9", "a:8"]));
    assert_eq!(steps(&gateway, "medium").await, json!(["one:1", "two:2", "last:"]));
}

#[tokio::test]
async fn get_pipeline_customizations_and_get_phases_of_declared_customizers_change_a_run() {
    let tune = "export default { getPipelineCustomizations: () => ({ disabledAgents: [], agentOverrides: { two: { config: { a: 7 } } },
      insertPhases: [{ name: 'early', plugin: 'note', before: 'one', config: { a: 0 } }] }) };";
    let more = "export const getPhases = ({ context }) => context.researchType === 'light'
      ? [{ name: 'more', plugin: 'note', after: 'one', config: { a: 5 } }] : undefined;";
    let (_folder, gateway) = started(&[("tune", tune), ("more", more)]).await;
    assert_eq!(steps(&gateway, "light").await, json!(["early:0", "one:1", "more:5", "two:7", "last:"]));
    assert_eq!(steps(&gateway, "medium").await, json!(["early:0", "one:1", "two:7", "last:"]));
    let admin = gateway.admin();
    let explained = run(&["pipelines", "explain", "tuned", "--admin", &admin]);
    let shown = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(shown.contains("customizers: default/tune,default/more"), "{shown}");
}

#[tokio::test]
async fn a_customizer_that_fails_or_breaks_a_rule_fails_the_run_before_its_first_step() {
    for (code, text) in [
        (
            "() => { throw new Error('no database'); }",
            "PluginError: step customizer/tune: reported error: Error: no database",
        ),
        (
            "() => ({ agents: 'all' })",
            "InvalidOutput: step customizer/tune: its result has a member that is missing, or",
        ),
        (
            "() => ({ agents: [{ name: 'a', type: 'custom', plugin: 'note', next: 'b' }] })",
            "InvalidOutput: step customizer/tune: its result has an unknown member: expected one of `name`, ",
        ),
        (
            "() => ({ startAgent: 'none', agents: [{ name: 'a', type: 'custom', plugin: 'note' }] })",
            "InvalidCustomization: step customizer/tune: startAgent (default coordinator) must be one of agents",
        ),
        (
            "() => ({ startAgent: 'a', agents: [{ name: 'a', type: 'custom', plugin: 'note', loopCondition: '1 +', loopBackTo: 'a' }] })",
            "InvalidCustomization: step customizer/tune: agents: a loopCondition is not valid: line 1",
        ),
    ] {
        let (_folder, gateway) = started(&[("tune", &format!("export const getPipelineConfig = {code};"))]).await;
        let answer = call(&gateway, "tuned", &json!({"prompt": "x"})).await;
        let shown = answer["content"][0]["text"].as_str().unwrap_or_default();
        assert!(answer["isError"] == true && shown.starts_with(text), "{code}: {answer}");
        assert_eq!(answer["_meta"]["hawsepipe.dev/run"]["steps"], json!([]), "{answer}");
    }
}

#[test]
fn faults_of_a_customizer_are_found_before_it_runs() {
    for (manifests, words) in [
        (
            manifests(&[("tune", "export const getPhase = () => [];")]),
            "no function getPipelineConfig or getPipelineCustomizations or getPhases, which a pipeline-customizer needs",
        ),
        (
            manifests(&[("tune", NOTE)]).replace("type: pipeline-customizer", "type: phase"),
            "the field needs one of type pipeline-customizer",
        ),
    ] {
        let done = run(&["validate", Folder::with(&manifests).path().to_str().unwrap()]);
        let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_customization_changes_no_config_of_a_plugin_of_another_namespace() {
    let shared = plugin("note", NOTE, "type: phase, shareWith: {namespaces: {from: All}}")
        .replace("metadata: {name: note}", "metadata: {name: note, namespace: lib}");
    for (change, is_accepted) in [("enabled: true", true), ("config: {a: 1}", false)] {
        let spec = format!(
            "tool: {{description: A test.}}, declared: {{startAgent: one,
              agents: [{{name: one, type: custom, plugin: {{name: note, namespace: lib}}}}],
              customizations: [{{name: always, agentOverrides: [{{agent: one, {change}}}]}}]}}"
        );
        let folder = Folder::with(&(shared.clone() + &object("ToolPipeline", "t", &spec)));
        let done = run(&["validate", folder.path().to_str().unwrap()]);
        let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.success(), is_accepted, "{said}");
        assert_eq!(said.contains("lib/note does not let other namespaces change its config"), !is_accepted, "{said}");
    }
}
