//! Traces, records and metrics are consistent.

use super::*;
use crate::domain::item::ItemKind;
use crate::engine::views::scrape::render_metrics;

/// Returns the value of the counter of executions with this status and reason.
fn counted(engine: &Gateway, status: &str, reason: &str) -> usize {
    let (status, reason) = (format!("status=\"{status}\""), format!("reason=\"{reason}\""));
    let text = render_metrics(&engine.views);
    let lines = text.lines().filter(|line| line.starts_with("hawsepipe_plugin_executions_total{"));
    let of = lines.filter(|line| line.contains(&status) && line.contains(&reason));
    of.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum()
}

#[tokio::test]
async fn metadata_that_a_trace_has_no_room_for_is_said_to_be_left_out() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Transform, "metadata 20000"), (Role::Transform, "metadata 9")]);
    let engine = start(&inputs).await;
    let (value, seen) = traced(&engine, "{}").await;
    assert_eq!(seen, ["ran", "ran"]);
    let trace = &value["result"]["_meta"]["hawsepipe.dev/trace"];
    assert_eq!(trace[0]["metadataOmitted"], "it has 20002 bytes, and a trace has room for 16384");
    assert!(trace[0]["metadata"].is_null() && trace[1]["metadataOmitted"].is_null(), "{trace}");
    assert_eq!(trace[1]["metadata"], "mmmmmmmmm");
}

#[tokio::test]
async fn the_trace_is_in_the_data_of_a_servers_error_where_that_has_room_for_members() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Response, &[(Role::Guard, "same")]);
    let engine = start(&inputs).await;
    for (data, others) in [
        ("", Some(json!({}))),
        (r#","data":null"#, Some(json!({}))),
        (r#","data":{"a":1}"#, Some(json!({"a": 1}))),
        (r#","data":[1]"#, None),
    ] {
        let error = format!(r#"{{"code":-5,"message":"m"{data}}}"#);
        *engine.server.answers.lock().unwrap() = Ok(Answer::Error(raw(&error)));
        let mut seen = traced(&engine, "{}").await.0["error"].take();
        let mut expected: Value = serde_json::from_str(&error).unwrap();
        if let Some(others) = others {
            let trace = seen["data"].as_object_mut().unwrap().remove("hawsepipe.dev/trace").unwrap();
            assert_eq!((trace.as_array().unwrap().len(), &trace[0]["outcome"]), (1, &json!("ran")));
            expected["data"] = others;
        }
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn of_one_call() {
    let mut inputs = bare();
    let made = scripts(
        &mut inputs,
        "c",
        Phase::Request,
        &[(Role::Transform, r#"put {"n":5}"#), (Role::Transform, "fail Timeout"), (Role::Transform, "same")],
    );
    made.entries[2].enabled = false;
    scripts(&mut inputs, "d", Phase::Response, &[(Role::Guard, "fail Crashed"), (Role::Guard, "same")]);
    let engine = start(&inputs).await;
    let (value, seen) = traced(&engine, "{}").await;
    assert_eq!(seen, ["ran", "failed(Timeout)", "skipped(disabled)", "failed(Crashed)", "skipped(stopped)"]);
    let record = last_call(&engine);
    let trace = &value["result"]["_meta"]["hawsepipe.dev/trace"];
    assert_eq!(serde_json::to_value(&record.entries).unwrap(), *trace);
    assert_eq!((trace[0]["changed"].clone(), trace[0]["metadata"].clone()), (json!(true), json!({"m": 1})));
    assert_eq!((record.outcome.as_label(), record.reason.as_deref()), ("failed", Some("Crashed")));
    assert_eq!((record.upstream.as_str(), record.tool.as_str()), ("up", "read"));
    for (status, reason) in [
        ("success", ""),
        ("timeout", "Timeout"),
        ("skipped", "disabled"),
        ("failed", "Crashed"),
        ("skipped", "stopped"),
    ] {
        assert_eq!(counted(&engine, status, reason), 1, "{status} {reason}");
    }
    let rows = engine.records.executions.lock().unwrap();
    let statuses: Vec<_> = rows.iter().map(|row| row.status.as_label()).collect();
    assert_eq!(statuses, ["success", "timeout", "failed"]);
    assert!(rows.iter().all(|row| row.request_id == record.request_id));
    assert!(render_metrics(&engine.views).contains(r#"outcome="failed""#));
}

#[tokio::test]
async fn of_a_call_that_asks_for_none() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Transform, "same")]);
    let engine = start(&inputs).await;
    assert_eq!(call(&engine, "{}").await["result"].get("_meta"), None);
    assert_eq!(last_call(&engine).entries.len(), 1);
}

#[tokio::test]
async fn of_a_call_whose_upstream_fails() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Transform, "same")]);
    scripts(&mut inputs, "d", Phase::Response, &[(Role::Transform, "same")]);
    let engine = start(&inputs).await;
    *engine.server.answers.lock().unwrap() = Err(UpstreamError::Timeout(Duration::from_secs(1)));
    let value = call(&engine, "{}").await;
    assert_eq!((&value["error"]["code"], &value["error"]["data"]["reason"]), (&json!(-32001), &json!("Timeout")));
    let record = last_call(&engine);
    assert_eq!(record.outcome.as_label(), "timeout");
    let seen = serde_json::to_value(&record.entries).unwrap();
    assert_eq!((&seen[0]["outcome"], &seen[1]["outcome"]), (&json!("ran"), &json!("skipped(stopped)")));
}

#[tokio::test]
async fn of_a_call_that_was_given_up() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Transform, "same")]);
    scripts(&mut inputs, "d", Phase::Response, &[(Role::Guard, "same")]);
    let engine = start(&inputs).await;
    *engine.server.holds.lock().unwrap() = true;
    let (caller, heard) = (caller(Era::Legacy), Heard::default());
    let given_up = call_as(&engine, &caller, "{}", None, &heard);
    assert!(tokio::time::timeout(Duration::from_millis(20), given_up).await.is_err());
    let record = last_call(&engine);
    assert_eq!((record.outcome.as_label(), record.entries.len(), sent(&engine).len()), ("cancelled", 2, 1));
    assert!(record.upstream_ms.is_some_and(|ms| ms > 0.0), "the time until then");
    assert_eq!((engine.gate.calls.in_flight(), caller.tracker.in_flight()), (0, 0));
    assert!(render_metrics(&engine.views).contains("hawsepipe_calls_in_flight 0"));
}

#[tokio::test]
async fn of_a_call_over_the_ceiling() {
    let mut inputs = bare();
    inputs.gateway.as_mut().unwrap().plan.limits.call_ceiling_ms = 20;
    let engine = start(&inputs).await;
    *engine.server.holds.lock().unwrap() = true;
    assert_eq!(call(&engine, "{}").await["error"]["code"], -32001);
    assert_eq!(last_call(&engine).outcome.as_label(), "timeout");
    assert_eq!(engine.gate.calls.in_flight(), 0);
}

#[tokio::test]
async fn of_a_call_that_panics() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Transform, "same"), (Role::Transform, "no such script")]);
    let engine = start(&inputs).await;
    assert_eq!(call(&engine, "{}").await["error"]["code"], -32603);
    let record = last_call(&engine);
    assert_eq!((record.outcome.as_label(), record.reason.as_deref()), ("rpc_error", Some("Panicked")));
    let seen: Vec<_> = record.entries.iter().map(|entry| entry.outcome.to_string()).collect();
    assert_eq!((seen.as_slice(), sent(&engine).len()), (&["ran".to_owned(), "skipped(stopped)".to_owned()][..], 0));
    assert_eq!(engine.gate.calls.in_flight(), 0);
    assert!(render_metrics(&engine.views).contains("hawsepipe_calls_in_flight 0"));
}

#[tokio::test]
async fn of_an_observer_that_panics() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Observe, "no such script")]);
    let engine = start(&inputs).await;
    assert_eq!(traced(&engine, "{}").await.1, ["failed(Crashed)"]);
}

#[tokio::test]
async fn of_a_call_that_was_given_up_while_something_ran_beside_it() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Observe, "wait no JSON")]);
    let engine = start(&inputs).await;
    *engine.server.holds.lock().unwrap() = true;
    let running = engine.clone();
    let running = tokio::spawn(async move { call(&running, "{}").await });
    until(|| engine.plugins.ran.lock().unwrap().len() == 1 && !sent(&engine).is_empty()).await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    assert!(engine.records.calls.lock().unwrap().is_empty(), "the record waits for what runs still");
    engine.plugins.go.notify_one();
    until(|| !engine.records.calls.lock().unwrap().is_empty()).await;
    let record = last_call(&engine);
    assert_eq!(
        (record.outcome.as_label(), record.entries[0].outcome.to_string().as_str()),
        ("cancelled", "failed(InvalidOutput)")
    );
}

#[tokio::test]
async fn a_trace_is_left_out_where_there_is_no_room_for_it() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Response, &[(Role::Transform, "metadata 16000"); 20]);
    let budget = Arc::new(ByteBudget::new(1 << 20));
    let engine = engine_within(Server::default(), Arc::clone(&budget));
    apply(&engine, &inputs).await;
    let _ = engine.list(Endpoint::All, ItemKind::Tool, None, None).await;
    assert_eq!(traced(&engine, "{}").await.1.len(), 20);
    let others = budget.reservation(Category::Answer);
    others.resize(600 << 10).unwrap();
    let (value, seen) = traced(&engine, "{}").await;
    assert!(seen.is_empty() && value["result"]["content"].is_array(), "{value}");
}

#[tokio::test]
async fn a_call_whose_client_waits_for_its_trace_ends_at_its_ceiling_and_when_calls_are_cut() {
    for cuts in [false, true] {
        let mut inputs = bare();
        scripts(&mut inputs, "c", Phase::Response, &[(Role::Observe, "wait")]);
        inputs.gateway.as_mut().unwrap().plan.limits.call_ceiling_ms = if cuts { 600_000 } else { 200 };
        let engine = start(&inputs).await;
        let running = engine.clone();
        let running = tokio::spawn(async move { traced(&running, "{}").await.0 });
        until(|| engine.plugins.ran.lock().unwrap().len() == 1).await;
        if cuts {
            let gateway = &mut inputs.gateway.as_mut().unwrap().plan;
            (gateway.stopped, gateway.stop_cancels) = (true, true);
            apply(&engine, &inputs).await;
        }
        let answer = tokio::time::timeout(Duration::from_secs(10), running).await.expect("it does not end").unwrap();
        let code = if cuts { crate::domain::rpc::REFUSED } else { -32001 };
        assert_eq!(answer["error"]["code"], code, "{answer}");
        // The record waits for the entry that is still running.
        assert!(engine.records.calls.lock().unwrap().is_empty());
        engine.plugins.go.notify_one();
        until(|| !engine.records.calls.lock().unwrap().is_empty()).await;
        assert_eq!(last_call(&engine).entries[0].outcome.to_string(), "ran");
    }
}
