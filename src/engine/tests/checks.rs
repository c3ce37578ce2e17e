//! Calls whose arguments wait for their check: a stop that came meanwhile counts, and the wait has a limit.

use std::sync::mpsc::{Sender, channel};

use super::*;
use crate::domain::plan::{ArgumentOverride, ToolOverride};

/// Arguments that are too large to be checked on a thread that serves calls.
pub(super) fn long() -> String {
    format!(r#"{{"n":1,"text":"{}"}}"#, "x".repeat(300_000))
}

/// Runs a test on a runtime in which no check that takes a thread of its own begins before the test drops the sender.
pub(super) fn while_checks_wait(test: impl AsyncFnOnce(Sender<()>)) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    let (held, released) = channel();
    runtime.spawn_blocking(move || released.recv());
    runtime.block_on(test(held));
}

/// Inputs whose upstream adds a value to the arguments.
fn completing() -> Inputs {
    let mut inputs = bare();
    let added = ArgumentOverride { name: "n".into(), value: Some(json!(1)), hidden: false, description: None };
    let change = ToolOverride { name: "read".into(), arguments: vec![added], ..ToolOverride::default() };
    inputs.upstreams[0].plan.overrides = vec![change];
    inputs
}

#[test]
fn a_call_that_waits_for_its_check_is_not_sent_past_the_stop_switch() {
    for mut inputs in [bare(), completing()] {
        while_checks_wait(async |held| {
            let engine = start(&inputs).await;
            let calling = engine.clone();
            let waiting = tokio::spawn(async move { call(&calling, &long()).await });
            until(|| engine.gate.calls.in_flight() == 1).await;
            inputs.gateway.as_mut().unwrap().plan.stopped = true;
            apply(&engine, &inputs).await;
            drop(held);
            let value = waiting.await.unwrap();
            assert_eq!(value["error"]["data"]["reason"], "Stopped", "{value}");
            assert!(sent(&engine).is_empty());
        });
    }
}

#[test]
fn the_wait_for_a_check_ends_with_the_timeout_of_the_call() {
    let mut changed = bare();
    scripts(&mut changed, "c", Phase::Request, &[(Role::Transform, &format!("put {}", long()))]);
    for (mut inputs, arguments) in [(bare(), long()), (completing(), long()), (changed, "{}".to_owned())] {
        while_checks_wait(async |_held| {
            inputs.gateway.as_mut().unwrap().plan.limits.call_timeout_ms = 20;
            let engine = start(&inputs).await;
            let error = call(&engine, &arguments).await["error"].clone();
            assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32001), &json!("Timeout")), "{error}");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("not checked within 20ms"), "{message}");
            assert!(message.contains("Nothing was sent; spec.timeouts.callMs of MCPUpstream"), "{message}");
            assert_eq!(last_call(&engine).outcome.as_label(), "timeout");
            assert!(sent(&engine).is_empty());
        });
    }
}
