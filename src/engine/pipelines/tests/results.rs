//! The use that runs make of their budgets, and the form of their results.

use serde_json::value::RawValue;

use super::super::context::{RunUse, research_type};
use super::super::output::{RunFailure, completed, failure};
use super::super::provider::{faults, listed, result};
use super::*;
use crate::domain::pipeline::{RunOutput, Sources};
use crate::domain::reason::Reason;
use crate::engine::plan::linked_pipeline::LinkedPipeline;

fn linked(change: impl FnOnce(&mut PipelinePlan)) -> LinkedPipeline {
    let mut input = pipeline("default/sum", "sum", &["p"]);
    change(pipeline_plan(&mut input.plan));
    LinkedPipeline::new(pipeline_plan(&mut input.plan))
}

fn used(op: &str, arguments: &Value) -> Result<Value, String> {
    let arguments = raw(&arguments.to_string());
    RunUse::default().answer(op, Some(&arguments), 0).map_err(|error| error.message)
}

fn parsed(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap()
}

#[test]
fn a_step_adds_evidence_and_reads_all_of_it() {
    let mut used = RunUse::default();
    let add = raw(r#"{"add":{"claim":"a"}}"#);
    assert_eq!(used.answer("evidence", Some(&add), 0).unwrap(), json!({"id": "1"}));
    assert_eq!(used.answer("evidence", None, 0).unwrap(), json!({"evidence": [{"claim": "a"}]}));
}

#[test]
fn evidence_has_limits() {
    let large = json!({"add": {"text": "x".repeat(16 << 10)}});
    assert!(used("evidence", &large).unwrap_err().contains("16384 are allowed"));
    let (mut used, add) = (RunUse::default(), raw(r#"{"add":1}"#));
    let refused = (0..1001).filter(|_| used.answer("evidence", Some(&add), 0).is_err()).count();
    assert_eq!(refused, 1);
}

#[test]
fn a_step_adds_sources_that_are_valid() {
    assert_eq!(used("sources", &json!({"add": {"url": "https://e.example/"}})), Ok(json!({"id": "1"})));
    assert_eq!(used("sources", &json!({})), Ok(json!({"sources": []})));
    for wrong in [json!({"add": 7}), json!({"add": {"url": "ftp://e.example/"}})] {
        assert!(used("sources", &wrong).is_err(), "{wrong}");
    }
}

#[test]
fn another_request_of_a_step_is_an_error() {
    assert!(used("delete", &json!({})).unwrap_err().contains("delete is no request"));
}

#[test]
fn the_depth_of_a_research_is_one_of_three() {
    let depths = [json!({"depth": "light"}), json!({"depth": "deep"}), json!({"depth": 7}), json!({})];
    assert_eq!(depths.each_ref().map(research_type), ["light", "medium", "medium", "medium"]);
}

#[test]
fn an_output_of_more_than_a_mebibyte_fails_the_run() {
    let members = serde_json::Map::from_iter([("text".to_owned(), json!("x".repeat(1 << 20)))]);
    let output = RunOutput { members, ..RunOutput::default() };
    let failed = completed(&linked(|_| {}), output, &Sources::default(), &mut json!({})).unwrap_err();
    assert_eq!(failed.reason, Reason::TooLarge);
}

#[test]
fn a_report_has_metadata_also_if_nothing_gives_it() {
    let of = |is_report, given: Option<Value>| {
        let members = given.map(|given| ("metadata".to_owned(), given)).into_iter().collect();
        let output = RunOutput { members, ..RunOutput::default() };
        let pipeline = linked(|plan| plan.is_report = is_report);
        completed(&pipeline, output, &Sources::default(), &mut json!({})).unwrap()["metadata"].clone()
    };
    assert_eq!((of(true, None), of(false, None)), (json!({}), Value::Null));
    assert_eq!(of(true, Some(json!({"model": "m"}))), json!({"model": "m"}));
}

#[test]
fn a_failure_names_its_step_and_has_structured_content_where_no_schema_forbids_it() {
    let failed = RunFailure { step: Some("a0".into()), ..RunFailure::new(Reason::Timeout, "late") };
    let free = parsed(&failure(&failed, false, json!({"id": "r"})));
    let error = json!({"code": "Timeout", "message": "late", "step": "a0"});
    assert_eq!(free["structuredContent"], json!({"error": error}));
    let result = parsed(&failure(&failed, true, json!({"id": "r"})));
    assert_eq!(result["content"][0]["text"], "Timeout: step a0: late");
    assert_eq!((&result["isError"], result.get("structuredContent")), (&json!(true), None));
    assert_eq!(result["_meta"]["hawsepipe.dev/run"]["id"], "r");
}

#[test]
fn only_a_message_without_content_is_shown_to_operators() {
    let shown = |quotes| RunFailure { quotes, ..RunFailure::new(Reason::PluginError, "words") }.fault().message;
    assert_eq!((shown(false), shown(true)), (Some("words".to_owned()), None));
}

#[test]
fn the_tools_of_a_provider_are_checked() {
    let tools = listed(r#"[{"name":"a","description":"d","parameters":{"type":"object"}}]"#).unwrap();
    assert_eq!(tools.items[0].name, "a");
    let two = listed(r#"[{"name":"a"},{"name":"a"}]"#).unwrap_err();
    assert_eq!(two, "getTools returns two tools of the name a");
    for wrong in ["{}", r#"[{"description":"d"}]"#, "["] {
        assert!(listed(wrong).unwrap_err().contains("returns no array"), "{wrong}");
    }
    let many: Vec<_> = (0..1001).map(|number| json!({"name": format!("t{number}")})).collect();
    assert!(listed(&json!(many).to_string()).unwrap_err().contains("1000 are allowed"));
}

#[test]
fn the_result_of_a_provided_tool_has_its_sources_as_links() {
    let json = r#"{"content":"c","data":{"n":1},"sources":[{"url":"https://e.example/","title":"E"}]}"#;
    let Ok(read) = result(json) else { panic!("is valid") };
    let read = parsed(&read);
    assert_eq!(
        read["content"][1],
        json!({"type": "resource_link", "uri": "https://e.example/", "name": "E", "title": "E"})
    );
    assert_eq!((&read["structuredContent"], &read["isError"]), (&json!({"n": 1}), &json!(false)));
    let Ok(failed) = result(r#"{"success":false,"error":"why"}"#) else { panic!("is valid") };
    let failed = parsed(&failed);
    assert_eq!((&failed["content"][0]["text"], &failed["isError"]), (&json!("why"), &json!(true)));
    assert!(result("[]").is_err() && result(r#"{"sources":[{"url":"data:x"}]}"#).is_err());
}

#[test]
fn faults_of_arguments_are_texts() {
    assert_eq!(faults(r#"["a","b"]"#), Ok(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(faults("null"), Ok(Vec::new()));
    assert!(faults("[1]").is_err());
}
