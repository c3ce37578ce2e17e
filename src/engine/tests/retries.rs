//! Tests of calls that are sent again.

use super::*;
use crate::domain::plan::{AnnotationsOverride, RetryPlan, RetryWhen, ToolOverride};
use crate::domain::record::CallOutcome;

fn lost() -> UpstreamError {
    UpstreamError::Lost("it ended".into())
}

fn unreachable() -> UpstreamError {
    UpstreamError::Connect("nobody is there".into())
}

/// Inputs whose upstream sends calls again at once, as `when` says.
fn resends(when: RetryWhen) -> Inputs {
    let mut inputs = bare();
    inputs.upstreams[0].plan.retry = RetryPlan { attempts: 2, backoff_ms: 0, when };
    inputs
}

/// Calls a tool with these annotations while the server fails in this way. Returns the engine and the reply.
async fn called(inputs: &Inputs, annotations: &str, failures: &[UpstreamError]) -> (Gateway, Value) {
    let tool = format!(r#"[{{"name":"read","inputSchema":{{"type":"object"}},"annotations":{annotations}}}]"#);
    let engine = start_with(inputs, Server::with(tool)).await;
    until(|| engine.in_force.snapshot().routes.all().len() == 1).await;
    *engine.server.failures.lock().unwrap() = failures.iter().cloned().collect();
    let reply = call(&engine, r#"{"n":1.0}"#).await;
    (engine, reply)
}

#[tokio::test]
async fn what_may_have_been_executed_is_sent_again_where_that_is_safe() {
    for (when, annotations, sends) in [
        (RetryWhen::IfSafe, "{}", 1),
        (RetryWhen::IfSafe, r#"{"readOnlyHint":false,"idempotentHint":false}"#, 1),
        (RetryWhen::IfSafe, r#"{"readOnlyHint":true}"#, 3),
        (RetryWhen::IfSafe, r#"{"idempotentHint":true}"#, 3),
        (RetryWhen::Always, "{}", 3),
        (RetryWhen::Never, r#"{"readOnlyHint":true}"#, 1),
    ] {
        let (engine, reply) = called(&resends(when), annotations, &[lost(), lost()]).await;
        assert_eq!(sent(&engine), vec![r#"up/read {"n":1.0}"#; sends], "{when:?} {annotations}");
        let record = last_call(&engine);
        assert_eq!(record.retries as usize, sends - 1);
        assert_eq!(record.outcome == CallOutcome::Ok, sends == 3, "{reply}");
    }
}

#[tokio::test]
async fn what_was_not_sent_is_sent_again_in_any_case() {
    let (engine, reply) = called(&resends(RetryWhen::Never), "{}", &[unreachable(), unreachable()]).await;
    assert_eq!((sent(&engine).len(), &reply["result"]["content"][0]["text"]), (3, &json!("hello")));
    let failed = vec![unreachable(); 3];
    let (engine, reply) = called(&resends(RetryWhen::Never), "{}", &failed).await;
    assert_eq!((sent(&engine).len(), &reply["error"]["data"]["reason"]), (3, &json!("ConnectFailed")));
    let told = engine.metrics.catalog().render();
    assert!(told.contains(r#"hawsepipe_upstream_retries_total{reason="ConnectFailed",upstream="up"} 2"#), "{told}");
}

#[tokio::test]
async fn a_call_that_may_have_been_executed_is_not_said_to_be_unsent() {
    let no_place = || UpstreamError::OwnProcesses("all are taken".into());
    for (failures, said) in [
        (vec![lost(), unreachable(), unreachable()], "connection lost"),
        (vec![unreachable(), lost(), UpstreamError::NeverAsked], "connection lost"),
        (vec![lost(), no_place()], "connection lost"),
        (vec![no_place()], "all are taken"),
        (vec![unreachable(); 3], "cannot be reached"),
    ] {
        let (_, reply) = called(&resends(RetryWhen::Always), "{}", &failures).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains(said), "{failures:?}: {reply}");
    }
}

#[tokio::test]
async fn what_would_fail_again_is_not_sent_again() {
    let all = [
        UpstreamError::Timeout(Duration::from_secs(1)),
        UpstreamError::Unauthorized { status: 401, said: String::new() },
        UpstreamError::Protocol("no".into()),
        UpstreamError::TooLarge(1),
    ];
    for failure in all {
        let (engine, _) = called(&resends(RetryWhen::Always), r#"{"readOnlyHint":true}"#, &[failure]).await;
        assert_eq!((sent(&engine).len(), last_call(&engine).retries), (1, 0));
    }
}

#[tokio::test]
async fn the_timeout_is_for_all_attempts() {
    let mut inputs = resends(RetryWhen::Always);
    inputs.upstreams[0].plan.retry.backoff_ms = 60_000;
    let (engine, reply) = called(&inputs, "{}", &[lost()]).await;
    assert_eq!((sent(&engine).len(), &reply["error"]["data"]["reason"]), (1, &json!("ConnectFailed")));
}

#[tokio::test]
async fn chains_run_once_and_the_owners_annotations_count() {
    let mut inputs = resends(RetryWhen::IfSafe);
    let annotations = AnnotationsOverride { idempotent_hint: Some(true), ..AnnotationsOverride::default() };
    let change = ToolOverride { name: "read".into(), annotations, ..ToolOverride::default() };
    inputs.upstreams[0].plan.overrides = vec![change];
    scripts(&mut inputs, "q", Phase::Request, &[(Role::Transform, r#"put {"n":2}"#)]);
    scripts(&mut inputs, "r", Phase::Response, &[(Role::Transform, "put done")]);
    let (engine, reply) = called(&inputs, r#"{"idempotentHint":false}"#, &[lost()]).await;
    assert_eq!(sent(&engine), [r#"up/read {"n":2}"#; 2]);
    assert_eq!(reply["result"]["content"][0]["text"], "done");
    assert_eq!(engine.plugins.ran.lock().unwrap().len(), 2);
}
