//! The shapes of what functions of plugins return, and the texts that agents are given.

use super::super::agents::prompts::{observations, sections, sources};
use super::super::server::{listed, probed};
use super::super::{changed, check_result, overrides};
use super::*;
use crate::domain::pipeline::Changes;
use crate::domain::upstream::Probed;

#[test]
fn results_of_functions_are_checked_by_the_type_of_their_plugin() {
    let valid = [
        (PluginKind::Phase, "execute", r#"{"output":{}}"#),
        (PluginKind::PromptProvider, "getPromptOverrides", r#"{"planner":"more"}"#),
        (PluginKind::ToolProvider, "getTools", "[]"),
        (PluginKind::ToolProvider, "validateArguments", "[]"),
        (PluginKind::ToolProvider, "execute", "{}"),
        (PluginKind::PipelineCustomizer, "getPipelineCustomizations", "null"),
        (PluginKind::OutputType, "getOutputSchema", r#"{"type":"object","properties":{"sources":{}}}"#),
        (PluginKind::OutputType, "getSynthesizerConfig", "null"),
        (PluginKind::OutputType, "getSynthesizerPrompt", r#""text""#),
    ];
    for (kind, function, json) in valid {
        assert!(check_result(kind, function, json).is_ok(), "{function} of {kind:?}");
        assert!(check_result(kind, function, "7").is_err(), "{function} of {kind:?}");
    }
    assert!(check_result(PluginKind::Phase, "another", "7").is_ok(), "its result is not read");
}

#[test]
fn an_unknown_member_is_told_by_what_is_expected_and_not_by_its_name() {
    let why = changed::parse::<Changes>(r#"{"secretName":1}"#).unwrap_err();
    assert!(why.contains("expected") && !why.contains("secretName"), "{why}");
    assert!(changed::parse::<Changes>("null").unwrap().is_none());
}

#[test]
fn prompts_are_given_by_agent() {
    assert_eq!(overrides::parse(r#"{"planner":"more"}"#).unwrap()["planner"], "more");
    assert!(overrides::parse("null").unwrap().is_empty());
    assert!(overrides::parse("[]").is_err());
}

#[test]
fn the_tool_of_a_pipeline_is_listed_with_the_schema_of_its_output() {
    let mut input = pipeline("default/sum", "sum", &["p"]);
    let plan = pipeline_plan(&mut input.plan).clone();
    let schema = Some(("outputSchema", raw(r#"{"type":"object"}"#)));
    let definition = listed(&plan, schema).unwrap().items[0].definition.get().to_owned();
    assert!(definition.contains(r#""outputSchema":{"type":"object"}"#), "{definition}");
    assert!(listed(&PipelinePlan { definition: "[]".into(), ..plan }, None).is_err());
}

#[test]
fn a_pipeline_answers_probes_by_itself_and_has_tasks() {
    let Probed::Up(facts) = probed(&pipeline("default/sum", "sum", &["p"]).plan) else { panic!("is up") };
    assert!(facts.has_tools && facts.announcement.tasks.is_some_and(|tasks| tasks.cancel));
}

#[test]
fn agents_are_given_the_question_and_what_was_found() {
    let state = json!({
        "query": "why",
        "plan": {"steps": ["one"]},
        "observations": ["seen"],
        "sources": [{"id": "1", "title": "T", "url": "https://e.example/"}],
    });
    let text = sections(&state);
    let parts = ["# Question\nwhy", "# Plan\n{", "# Observations\n\"seen\"", "# Sources\n[1] T https://e.example/"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    assert_eq!(sections(&json!({"query": "why"})), "# Question\nwhy");
    assert_eq!(sources(&json!({})), "");
}

#[test]
fn the_oldest_observations_are_left_out_where_there_are_many() {
    let seen: Vec<_> = (0..100).map(|number| format!("{number} {}", "x".repeat(10_000))).collect();
    let text = observations(&json!({"observations": seen}));
    assert!(text.starts_with("(The ") && text.contains("\"99 ") && !text.contains("\"0 "), "{:.80}", text);
}
