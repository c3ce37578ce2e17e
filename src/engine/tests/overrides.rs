//! Tests of overrides of tools: what clients see, what they may give, what is sent, and what the gateway answers itself.

use super::*;
use crate::config::compile::tests::{add_phase, pipeline, pipeline_plan};
use crate::domain::plan::{ArgumentOverride, ArgumentValidation, ToolOverride};
use crate::domain::record::CallOutcome;

/// A tool that requires a key and takes a number.
const TOOL: &str = r#"[{"name":"read","description":"Reads.","outputSchema":{"type":"object"},"inputSchema":{"type":"object",
    "properties":{"n":{"type":"number"},"key":{"type":"string"},"mode":{"type":"string"}},"required":["key","n"],
    "additionalProperties":false}}]"#;

fn argument(name: &str, value: Option<Value>, hidden: bool) -> ArgumentOverride {
    ArgumentOverride { name: name.into(), value, hidden, description: None }
}

/// Inputs whose upstream has this override of its tool.
fn changed(change: ToolOverride) -> Inputs {
    let mut inputs = bare();
    inputs.upstreams[0].plan.overrides = vec![ToolOverride { name: "read".into(), ..change }];
    inputs
}

fn with_arguments(arguments: Vec<ArgumentOverride>) -> Inputs {
    changed(ToolOverride { arguments, ..ToolOverride::default() })
}

/// Inputs whose upstream fills in `key`, which clients do not see.
fn with_key() -> Inputs {
    with_arguments(vec![argument("key", Some(json!("sk-1")), true)])
}

async fn started(inputs: &Inputs) -> Gateway {
    let engine = start_with(inputs, Server::with(TOOL)).await;
    until(|| engine.in_force.snapshot().routes.all().len() == 1).await;
    engine
}

fn text(reply: &Value) -> &str {
    reply["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{reply}"))
}

#[tokio::test]
async fn a_hidden_argument_is_filled_in_after_the_request_chains() {
    let mut inputs = with_key();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Transform, "put {\"n\":3}")]);
    let engine = started(&inputs).await;
    let definition = engine.in_force.snapshot().routes.all()[0].own_definition.get().to_owned();
    assert!(!definition.contains("key") && definition.contains(r#""required":["n"]"#), "{definition}");
    let reply = call(&engine, r#"{"n":1.0}"#).await;
    assert_eq!(text(&reply), "hello", "{reply}");
    assert_eq!(sent(&engine), [r#"up/read {"n":3,"key":"sk-1"}"#]);
    let seen = engine.plugins.ran.lock().unwrap().join(" ");
    assert!(!seen.contains("sk-1"), "plugins do not see it: {seen}");
}

#[tokio::test]
async fn a_client_that_gives_a_hidden_argument_is_told_that_there_is_none() {
    let engine = started(&with_key()).await;
    for given in [r#"{"n":1,"key":"mine"}"#, r#"{"n":1,"key":"sk-1"}"#, r#"{"n":1,"k\u0065y":null}"#] {
        let reply = call(&engine, given).await;
        assert!(text(&reply).contains("arguments/key: the tool has no such argument"), "{reply}");
        assert_eq!(reply["result"]["isError"], true);
        assert!(!reply.to_string().contains("sk-1"), "{reply}");
    }
    assert_eq!(last_call(&engine).reason.as_deref(), Some("InvalidArguments"));
    let doubled = call(&engine, r#"{"n":1,"n":2}"#).await;
    assert!(doubled.to_string().contains("stands twice"), "{doubled}");
    assert!(sent(&engine).is_empty());
}

#[tokio::test]
async fn hidden_arguments_are_kept_from_clients_where_the_schema_is_not_enforced_too() {
    let mut inputs = with_key();
    inputs.upstreams[0].plan.argument_validation = ArgumentValidation::Off;
    let engine = started(&inputs).await;
    let reply = call(&engine, r#"{"key":"mine"}"#).await;
    assert!(text(&reply).contains("no such argument"), "{reply}");
    call(&engine, r#"{"n":"not a number"}"#).await;
    assert_eq!(sent(&engine), [r#"up/read {"n":"not a number","key":"sk-1"}"#]);
}

#[tokio::test]
async fn a_fixed_argument_may_be_given_with_its_value_only() {
    let key = argument("key", Some(json!("a")), false);
    let engine = started(&with_arguments(vec![key, argument("n", Some(json!(5)), false)])).await;
    for given in ["{}", r#"{"key":"a"}"#] {
        assert_eq!(text(&call(&engine, given).await), "hello");
    }
    assert_eq!(sent(&engine), [r#"up/read {"key":"a","n":5}"#; 2]);
    let reply = call(&engine, r#"{"key":"b"}"#).await;
    assert!(text(&reply).contains("arguments/key: is fixed to another value"), "{reply}");
    assert_eq!(sent(&engine).len(), 2);
}

#[tokio::test]
async fn a_hidden_argument_without_a_value_is_left_to_plugins() {
    let mut inputs = with_arguments(vec![argument("key", None, true)]);
    let engine = started(&inputs).await;
    let found = |engine: &Gateway| {
        let snapshot = engine.in_force.snapshot();
        let found = snapshot.problems().iter().filter(|problem| problem.reason == Reason::InvalidOverride);
        found.map(|problem| (problem.is_error(), problem.field.clone(), problem.message.clone())).collect::<Vec<_>>()
    };
    let problems = found(&engine);
    assert_eq!((problems.len(), problems[0].0, &*problems[0].1), (1, false, "spec.tools.overrides[0].arguments[0]"));
    assert!(problems[0].2.contains("hidden and has no value, and the server requires it"), "{problems:?}");
    let reply = call(&engine, r#"{"n":1}"#).await;
    assert!(text(&reply).contains("an argument that the gateway sets does not fit"), "{reply}");
    assert!(sent(&engine).is_empty() && !text(&reply).contains("key"), "{reply}");
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Transform, r#"put {"n":1,"key":"mine"}"#)]);
    apply(&engine, &inputs).await;
    call(&engine, r#"{"n":1}"#).await;
    assert_eq!(sent(&engine), [r#"up/read {"n":1,"key":"mine"}"#]);
}

#[tokio::test]
async fn a_value_of_the_wrong_type_and_an_argument_that_is_not_there_are_told() {
    let engine = started(&with_arguments(vec![
        argument("key", Some(json!(7)), true),
        argument("mode", Some(json!("r")), true),
        argument("more", Some(json!(1)), true),
    ]))
    .await;
    let snapshot = engine.in_force.snapshot();
    let problems = snapshot.problems().iter().filter(|problem| problem.reason == Reason::InvalidOverride);
    let told: Vec<_> = problems.map(|problem| (problem.is_error(), problem.field.clone())).collect();
    assert_eq!(told, [0, 2].map(|at| (true, format!("spec.tools.overrides[0].arguments[{at}].value"))));
    let listed = engine.list(Endpoint::All, ItemKind::Tool, None, None).await.unwrap();
    assert_eq!(listed.items.get(), "[]");
    let reply = call(&engine, r#"{"n":1}"#).await;
    assert!(text(&reply).contains("its owner has to correct that"), "{reply}");
    assert!(!text(&reply).contains("key") && sent(&engine).is_empty(), "{reply}");
}

#[tokio::test]
async fn a_value_that_the_schema_does_not_name_is_sent_where_it_allows_others_and_that_is_told() {
    let inputs = with_arguments(vec![argument("more", Some(json!(1)), true)]);
    let engine = start_with(&inputs, Server::default()).await;
    let snapshot = engine.in_force.snapshot();
    let told: Vec<_> = snapshot.problems().iter().filter(|it| it.reason == Reason::InvalidOverride).collect();
    assert_eq!((told.len(), told[0].is_error(), &*told[0].field), (1, false, "spec.tools.overrides[0].arguments[0]"));
    assert!(
        told[0].message.ends_with(r#"has no argument "more": its value is sent all the same"#),
        "{}",
        told[0].message
    );
    call(&engine, "{}").await;
    assert_eq!(sent(&engine), [r#"up/read {"more":1}"#]);
}

#[tokio::test]
async fn an_answer_is_given_without_the_server_and_passes_the_chains() {
    let mut inputs = changed(ToolOverride { answer: Some("Use b.".into()), ..ToolOverride::default() });
    let engine = started(&inputs).await;
    assert!(!engine.in_force.snapshot().routes.all()[0].own_definition.get().contains("outputSchema"));
    let arguments = r#"{"n":1,"key":"a"}"#;
    let reply = call(&engine, arguments).await;
    assert_eq!(reply, json!({"result": {"content": [{"type": "text", "text": "Use b."}]}}));
    let record = last_call(&engine);
    assert_eq!((record.outcome, record.upstream_ms, &*record.tool), (CallOutcome::Ok, None, "read"));
    scripts(&mut inputs, "c", Phase::Response, &[(Role::Guard, "put redacted")]);
    scripts(&mut inputs, "q", Phase::Request, &[(Role::Guard, "same")]);
    apply(&engine, &inputs).await;
    let (reply, ran) = traced(&engine, arguments).await;
    assert_eq!((text(&reply), ran), ("redacted", vec!["ran".to_owned(), "ran".to_owned()]));
    assert!(sent(&engine).is_empty());
}

#[tokio::test]
async fn an_override_of_a_tool_that_is_not_there_is_told() {
    let mut inputs = changed(ToolOverride::default());
    inputs.upstreams[0].plan.overrides[0].name = "raed".into();
    let engine = started(&inputs).await;
    let snapshot = engine.in_force.snapshot();
    let told: Vec<_> = snapshot.problems().iter().map(|problem| (problem.reason, &*problem.field)).collect();
    assert_eq!(told, [(Reason::ToolNotFound, "spec.tools.overrides[0].name")]);
}

#[tokio::test]
async fn a_name_that_a_pipeline_includes_and_no_tool_has_is_told() {
    let mut inputs = bare();
    add_phase(&mut inputs, "step");
    let mut sum = pipeline("pipe", "sum", &["step"]);
    pipeline_plan(&mut sum.plan).include = ["up__read", "up__raed", "later__*"].map(Into::into).into();
    inputs.pipelines.push(sum);
    let engine = start(&inputs).await;
    until(|| engine.in_force.snapshot().routes.all().len() == 2).await;
    let told = engine.in_force.snapshot().problems().to_vec();
    let told: Vec<_> = told.iter().map(|problem| (problem.reason, &*problem.field)).collect();
    assert_eq!(told, [(Reason::ToolNotFound, "spec.tools.include[1]")]);
}

#[tokio::test]
async fn a_guard_whose_filter_leaves_it_no_tool_is_told() {
    let renamed = ToolOverride { rename: Some("say".into()), ..ToolOverride::default() };
    let mut inputs = changed(renamed);
    scripts(&mut inputs, "c", Phase::Response, &[(Role::Transform, "same"), (Role::Guard, "same")]);
    let told = async |inputs: &Inputs| {
        let engine = started(inputs).await;
        let snapshot = engine.in_force.snapshot();
        snapshot.problems().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let guard = inputs.plugins.iter().position(|plugin| plugin.key.name == "c1").unwrap();
    for (filter, hint) in [
        (&["zzz"][..], None),
        (&["raed"][..], Some(r#"did you mean "read"?"#)),
        (&["up__say"][..], Some(r#"that is "read" at its server"#)),
        (&["delete_*"][..], None),
        (&["zzz", "re*"][..], Some("")),
    ] {
        inputs.plugins[guard].filter_tools = filter.iter().map(|glob| (*glob).to_owned()).collect();
        let said = told(&inputs).await;
        if hint == Some("") {
            assert_eq!(said, "", "one of them fits");
            continue;
        }
        let expected =
            "PluginChain default/c: spec.entries[1]: the filter of Plugin default/c1 (spec.filter.tools) fits no tool";
        assert!(said.contains(expected) && said.contains(hint.unwrap_or("on none")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    // What stands there by its own name, and the chain does not select, is no slip.
    inputs.plugins[guard].filter_tools = vec!["read".into()];
    inputs.chains[0].include = vec!["other".into()];
    let said = told(&inputs).await;
    assert!(!said.contains("spec.entries") && said.contains("spec.tools.include[0]"), "{said}");
    // Only Guards are warned of.
    inputs.chains[0].include.clear();
    inputs.plugins[guard].filter_tools.clear();
    let transform = inputs.plugins.iter().position(|plugin| plugin.key.name == "c0").unwrap();
    inputs.plugins[transform].filter_tools = vec!["zzz".into()];
    assert_eq!(told(&inputs).await, "");
}

#[tokio::test]
async fn names_in_filters_that_no_tool_has_are_told_with_the_one_that_was_meant() {
    let renamed = ToolOverride { rename: Some("say".into()), ..ToolOverride::default() };
    let slips = ["raed", "up__say", "other", "delete_*"];
    let hints = [r#"did you mean "read"?"#, r#"that is "read" at its server"#, "", ""];
    let told = async |inputs: &Inputs| {
        let engine = started(inputs).await;
        let snapshot = engine.in_force.snapshot();
        snapshot.problems().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let mut inputs = changed(renamed);
    scripts(&mut inputs, "c", Phase::Response, &[(Role::Guard, "same")]).include = vec!["read".into(), "re*".into()];
    assert!(told(&inputs).await.is_empty());
    inputs.chains[0].include.extend(slips.map(str::to_owned));
    let said = told(&inputs).await;
    assert_eq!(said.len(), 3, "a glob can be for tools to come: {said:?}");
    for (place, said) in said.iter().enumerate() {
        let field = format!("PluginChain default/c: spec.tools.include[{}]: no tool of its upstreams has", place + 2);
        assert!(said.starts_with(&field) && said.contains(hints[place]) && said.ends_with("(ToolNotFound)"), "{said}");
    }
    inputs.chains[0].include = vec!["delete_*".into()];
    let said = told(&inputs).await.join("\n");
    assert!(said.contains("spec.tools.include: no tool of its upstreams fits"), "{said}");
    inputs.chains[0].include.clear();
    inputs.chains[0].exclude = vec!["delete_*".into()];
    assert!(told(&inputs).await.is_empty());
    inputs.chains[0].exclude.push("*".into());
    let said = told(&inputs).await.join("\n");
    assert!(said.contains("spec.tools.exclude: it excludes each tool of its upstreams"), "{said}");
    inputs.chains.clear();
    inputs.upstreams[0].plan.exclude = slips.map(str::to_owned).to_vec();
    let said = told(&inputs).await;
    assert_eq!(said.len(), 4, "{said:?}");
    for (place, said) in said.iter().enumerate() {
        let field = format!("MCPUpstream default/up: spec.tools.exclude[{place}]: no tool of the server fits");
        assert!(
            said.starts_with(&field) && said.contains(hints[place]) && said.contains("it excludes nothing"),
            "{said}"
        );
    }
}
