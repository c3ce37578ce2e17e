//! A call whose guards cannot run is refused before anything is sent.

use super::*;
use crate::config::compile::tests::entry;
use crate::domain::plan::ArgumentValidation;
use crate::domain::plugin::FailurePolicy;

fn refused(value: &Value) -> &Value {
    assert_eq!(value["result"]["isError"], json!(true), "{value}");
    &value["result"]["_meta"]["hawsepipe.dev/refused"]
}

#[tokio::test]
async fn an_entry_that_cannot_run_refuses_in_either_phase() {
    for phase in [Phase::Request, Phase::Response] {
        for place in 0..3 {
            let mut inputs = bare();
            let made = scripts(&mut inputs, "c", phase, &[(Role::Transform, "same"), (Role::Transform, "same")]);
            made.entries.insert(place, entry("gone"));
            let engine = start(&inputs).await;
            let (value, seen) = traced(&engine, "{}").await;
            let expected = json!({"chain": "default/c", "plugin": "default/gone", "reason": "PluginNotFound"});
            assert_eq!(refused(&value), &expected);
            assert!(sent(&engine).is_empty() && engine.plugins.ran.lock().unwrap().is_empty());
            let mut all = vec!["skipped(stopped)"; 3];
            all[place] = "failed(PluginNotFound)";
            assert_eq!(seen, all);
            let record = last_call(&engine);
            assert_eq!((record.outcome.as_label(), record.upstream_ms), ("refused", None), "it was not asked");
        }
    }
}

#[tokio::test]
async fn a_written_policy_lets_it_pass() {
    for policy in [FailurePolicy::LastGood, FailurePolicy::Ignore] {
        let mut inputs = bare();
        let made = scripts(&mut inputs, "c", Phase::Request, &[(Role::Transform, "same")]);
        made.entries.insert(0, entry("gone"));
        made.entries[0].failure_policy = Some(policy);
        let engine = start(&inputs).await;
        assert_eq!(traced(&engine, "{}").await.1, ["failed(PluginNotFound)", "ran"]);
        assert_eq!(sent(&engine).len(), 1);
    }
}

#[tokio::test]
async fn a_plugin_that_does_not_start_here_refuses_by_its_policy() {
    for phase in [Phase::Request, Phase::Response] {
        let mut inputs = bare();
        scripts(&mut inputs, "c", phase, &[(Role::Guard, "absent")]);
        let engine = start(&inputs).await;
        assert_eq!(refused(&call(&engine, "{}").await)["reason"], "NotLoaded");
        assert!(sent(&engine).is_empty());
    }
}

#[tokio::test]
async fn a_request_guard_whose_when_is_false_refuses_nothing() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "absent")]).entries[0].when =
        Some("content.size > 1000".into());
    let engine = start(&inputs).await;
    assert_eq!(traced(&engine, "{}").await.1, ["skipped(when)"]);
    assert_eq!(sent(&engine).len(), 1);
}

#[tokio::test]
async fn a_shadow_that_cannot_run_refuses_nothing() {
    let mut inputs = bare();
    let made = scripts(&mut inputs, "c", Phase::Request, &[]);
    made.entries.push(entry("gone"));
    made.entries[0].mode = crate::domain::plugin::Mode::Shadow;
    let engine = start(&inputs).await;
    assert_eq!(traced(&engine, "{}").await.1, ["failed(PluginNotFound)"]);
    assert_eq!(sent(&engine).len(), 1);
}

#[tokio::test]
async fn settings_of_a_plugin_that_is_not_shared_excuse_nothing() {
    let mut inputs = bare();
    script(&mut inputs, "lib/p", Role::Transform, "same");
    (inputs.plugins[0].enabled, inputs.plugins[0].filter_tools) = (false, vec!["other".into()]);
    inputs.chains.push(chain("c", &["lib/p"]));
    let engine = start(&inputs).await;
    assert_eq!(refused(&call(&engine, "{}").await)["reason"], "RefNotPermitted");
}

#[tokio::test]
async fn a_chain_that_was_never_accepted_refuses_what_it_selects() {
    let mut inputs = bare();
    let made = scripts(&mut inputs, "c", Phase::Response, &[(Role::Transform, "same")]);
    (made.include, made.entries[0].when) = (vec!["re*".into()], Some("(".into()));
    let engine = start(&inputs).await;
    let expected = json!({"chain": "default/c", "reason": "InvalidExpression"});
    assert_eq!(refused(&call(&engine, "{}").await), &expected);
    inputs.chains[0].include = vec!["write*".into()];
    apply(&engine, &inputs).await;
    assert_eq!(call(&engine, "{}").await["result"]["content"][0]["text"], "hello");
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_by_place() {
    let engine = start(&bare()).await;
    let value = call(&engine, r#"{"n":"x"}"#).await;
    let text = value["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("input schema of up__read. Nothing was sent.") && text.contains("arguments/n"), "{text}");
    assert!(sent(&engine).is_empty());
    let mut inputs = bare();
    inputs.upstreams[0].plan.argument_validation = ArgumentValidation::Off;
    apply(&engine, &inputs).await;
    call(&engine, r#"{"n":"x"}"#).await;
    assert_eq!(sent(&engine).len(), 1);
}

#[tokio::test]
async fn arguments_that_a_plugin_spoiled_are_not_sent() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Transform, r#"put {"n":"x"}"#)]);
    let engine = start(&inputs).await;
    assert_eq!(call(&engine, "{}").await["result"]["isError"], true);
    assert!(sent(&engine).is_empty());
}
