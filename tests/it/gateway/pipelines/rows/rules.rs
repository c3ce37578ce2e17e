//! Rules that are checked before a pipeline runs.

use super::super::super::harness::{Folder, run};
use super::super::super::invocations::{err, out};
use super::super::super::parts::{object, plugin};

/// Asserts that a pipeline with this in `declared`, and with this in `spec`, is refused with these words.
fn is_refused(declared: &str, spec: &str, words: &[&str]) {
    let spec = format!("tool: {{description: A test.}}, declared: {{startAgent: a, {declared}}}{spec}");
    let phase = plugin("p", "export const execute = () => {};", "type: phase");
    let folder = Folder::with(&(phase + &object("ToolPipeline", "t", &spec)));
    let done = run(&["validate", folder.path().to_str().unwrap()]);
    let said = out(&done) + &err(&done);
    assert!(!done.status.success() && words.iter().all(|words| said.contains(words)), "{words:?}: {said}");
}

/// One agent.
const AGENTS: &str = "agents: [{name: a, type: custom, plugin: {name: p}}]";

#[test]
fn agent_type() {
    let banana = AGENTS.replace("type: custom", "type: banana");
    is_refused(&banana, "", &["spec.declared.agents[0].type", "coordinator", "reflector"]);
}

#[test]
fn phase_insertion() {
    let declared = format!("{AGENTS}, insertPhases: [{{name: x, plugin: {{name: p}}, after: none}}]");
    is_refused(&declared, "", &["insertPhases: before and after must name one of agents"]);
}

#[test]
fn rule_7_the_start_agent_exists() {
    let declared = AGENTS.replace("name: a,", "name: b,");
    is_refused(&declared, "", &["startAgent (default coordinator) must be one of agents"]);
}

#[test]
fn rule_8_transitions_exist() {
    for transition in ["nextOnSuccess: none", "nextOnFailure: none", "loopCondition: 'true', loopBackTo: none"] {
        let declared = AGENTS.replace("type: custom", &format!("type: custom, {transition}"));
        is_refused(&declared, "", &["agents: nextOnSuccess, nextOnFailure and loopBackTo must name one of agents"]);
    }
}

#[test]
fn rule_9_exactly_one_of_after_and_before() {
    for place in ["", ", after: a, before: a"] {
        let declared = format!("{AGENTS}, insertPhases: [{{name: x, plugin: {{name: p}}{place}}}]");
        is_refused(&declared, "", &["insertPhases: give exactly one of before, after"]);
    }
}

#[test]
fn rule_10_an_output_schema_is_a_json_schema() {
    for schema in ["{type: array}", "{type: object, properties: {sources: {type: banana}}}"] {
        let output = format!(", output: {{schema: {schema}}}");
        is_refused(AGENTS, &output, &["InvalidSchema", "spec.output.schema", "not a JSON Schema of an object"]);
    }
}

#[test]
fn rule_11_an_output_schema_has_sources() {
    let output = ", output: {schema: {type: object, properties: {title: {type: string}}}}";
    is_refused(AGENTS, output, &["MissingSources", "no property sources: citations could not be followed"]);
}
