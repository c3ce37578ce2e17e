//! Tests of invocations: how they name their server, and how they end.

use super::*;
use crate::domain::invocation::{InvocationSource, InvocationStatus, NewInvocation};
use crate::domain::plan::{RetryPlan, RetryWhen, SERVER_ID};

fn new(server: Option<&str>, tool: &str) -> NewInvocation {
    NewInvocation {
        server_id: server.map(str::to_owned),
        tool_name: tool.to_owned(),
        parameters: None,
        source: InvocationSource::default(),
        document_path: None,
        section_line: None,
        section: None,
    }
}

#[tokio::test]
async fn a_retried_invocation_is_pending_during_its_pause() {
    for server in [Some("up"), None] {
        let mut inputs = bare();
        inputs.upstreams[0].plan.retry = RetryPlan { attempts: 1, backoff_ms: 200, when: RetryWhen::Always };
        let engine = start(&inputs).await;
        until(|| engine.in_force.snapshot().routes.all().len() == 1).await;
        *engine.server.failures.lock().unwrap() = [UpstreamError::Lost("it ended".into())].into();
        let entry = engine.invocations.invoke(new(server, "read")).unwrap();
        let created = entry.view();
        assert_eq!((created.status, created.max_retries), (InvocationStatus::Pending, 1));
        until(|| entry.view().retry_attempt == 1).await;
        assert_eq!(entry.view().status, InvocationStatus::Pending);
        entry.wait().await;
        assert_eq!((entry.view().status, entry.view().retry_attempt), (InvocationStatus::Success, 1));
    }
}

#[tokio::test]
async fn the_stop_switch_cancels_invocations_that_run() {
    for cancels in [true, false] {
        let engine = start(&bare()).await;
        until(|| engine.in_force.snapshot().routes.all().len() == 1).await;
        *engine.server.holds.lock().unwrap() = true;
        let entry = engine.invocations.invoke(new(Some("up"), "read")).unwrap();
        until(|| sent(&engine).len() == 1).await;
        engine.gate.stop(cancels);
        if !cancels {
            engine.server.go.notify_one();
        }
        entry.wait().await;
        let expected = if cancels { InvocationStatus::Cancelled } else { InvocationStatus::Success };
        assert_eq!(entry.view().status, expected);
        let later = engine.invocations.invoke(new(Some("up"), "read")).unwrap();
        later.wait().await;
        assert_eq!(later.view().status, InvocationStatus::Error, "it never began");
    }
}

#[tokio::test]
async fn an_invocation_names_its_server_in_several_ways() {
    let mut inputs = bare();
    inputs.upstreams[0].plan.labels.insert(SERVER_ID.into(), "4b1c".into());
    let engine = start(&inputs).await;
    let key = inputs.upstreams[0].plan.key.to_string();
    for name in ["up", &key, "4b1c"] {
        let entry = engine.invocations.invoke(new(Some(name), "read")).unwrap();
        entry.wait().await;
        assert_eq!((entry.view().server_id.as_deref(), entry.view().status), (Some("up"), InvocationStatus::Success));
    }
    let why = engine.invocations.invoke(new(Some("4b1"), "read")).map(drop).unwrap_err().to_string();
    assert!(why.contains("no upstream \"4b1\""), "{why}");
    // Also a call of an unknown tool says at which server.
    let entry = engine.invocations.invoke(new(Some("4b1c"), "write")).unwrap();
    entry.wait().await;
    assert_eq!((entry.view().server_id.as_deref(), entry.view().status), (Some("up"), InvocationStatus::Error));
    assert_eq!((&*last_call(&engine).upstream, &*last_call(&engine).tool), ("up", "write"));
}
