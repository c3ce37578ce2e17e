//! The effect of a plugin's answer on a call, at each place of a chain, in both phases.

use super::*;
use crate::domain::item::ItemKind;

#[tokio::test]
async fn an_answer_is_held_until_the_client_has_it_and_the_record_says_where_it_found_no_room() {
    for (code, grows) in [("same", false), ("put", true)] {
        let mut inputs = bare();
        // The changed answer alone would fit, but the original is held until the chains are done.
        let long = if grows { format!("put {}", "y".repeat(350 << 10)) } else { code.to_owned() };
        scripts(&mut inputs, "c", Phase::Response, &[(Role::Transform, &long)]);
        let budget = Arc::new(ByteBudget::new(1 << 20));
        let engine = engine_within(Server::default(), Arc::clone(&budget));
        apply(&engine, &inputs).await;
        let _ = engine.list(Endpoint::All, ItemKind::Tool, None, None).await;
        let text = "x".repeat(400 << 10);
        let answer = json!({"content": [{"type": "text", "text": text}]}).to_string();
        *engine.server.answers.lock().unwrap() = Ok(Answer::Result(raw(&answer)));
        let client = Client::new(&engine, caller(Era::Legacy));
        let others = budget.reservation(Category::Answer);
        others.resize(300 << 10).unwrap();
        let reply = engine.calls.call(client.request(ItemKind::Tool, "up__read")).await;
        drop(others);
        let (is_there, reason) = (matches!(reply, Reply::Result(_)), last_call(&engine).reason);
        assert_eq!((is_there, reason.as_deref()), (!grows, grows.then_some("NoRoom")), "{code}");
        assert!(budget.held(Category::Answer) > 300 << 10, "its room is given up before it is written");
        drop(client);
        assert_eq!(budget.held(Category::Answer), 0);
    }
}

#[tokio::test]
async fn copies_for_plugins_beside_the_call_are_bounded_in_bytes() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Response, &[(Role::Observe, "same")]);
    let budget = Arc::new(ByteBudget::new(1 << 20));
    let engine = engine_within(Server::default(), Arc::clone(&budget));
    apply(&engine, &inputs).await;
    let _ = engine.list(Endpoint::All, ItemKind::Tool, None, None).await;
    for (size, outcome) in [(100 << 10, "ran"), (200 << 10, "failed(PoolExhausted)")] {
        let answer = json!({"content": [{"type": "text", "text": "x".repeat(size)}]}).to_string();
        *engine.server.answers.lock().unwrap() = Ok(Answer::Result(raw(&answer)));
        let (value, seen) = traced(&engine, "{}").await;
        assert_eq!((seen, value["result"]["content"].is_array()), (vec![outcome.to_owned()], true));
        assert_eq!(budget.held(Category::Beside), 0);
    }
}

use crate::domain::plugin::FailurePolicy;

/// Runs a call through a chain of three entries with the script `same`; the entry at `place` has this role and script
/// instead. Returns the reply, the outcomes of the entries, and what was sent.
async fn at(phase: Phase, place: usize, role: Role, code: &str) -> (Value, Vec<String>, Vec<String>) {
    let mut inputs = bare();
    let mut entries = [(Role::Transform, "same"); 3];
    entries[place] = (role, code);
    scripts(&mut inputs, "c", phase, &entries);
    let engine = start(&inputs).await;
    let (value, outcomes) = traced(&engine, r#"{"n":1}"#).await;
    (value, outcomes, sent(&engine))
}

fn text(value: &Value) -> &str {
    value["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

const REST: [&str; 3] = ["ran", "ran", "ran"];

fn outcomes(place: usize, word: &str, rest: &str) -> Vec<String> {
    (0..3)
        .map(|index| match index.cmp(&place) {
            std::cmp::Ordering::Less => "ran".to_owned(),
            std::cmp::Ordering::Equal => word.to_owned(),
            std::cmp::Ordering::Greater => rest.to_owned(),
        })
        .collect()
}

#[tokio::test]
async fn changed_content_goes_on() {
    for place in 0..3 {
        let (_, seen, sent) = at(Phase::Request, place, Role::Transform, r#"put {"n":2.0}"#).await;
        assert_eq!((seen, sent), (REST.map(String::from).to_vec(), vec![r#"up/read {"n":2.0}"#.to_owned()]));
        let (value, seen, _) = at(Phase::Response, place, Role::Transform, "put bye").await;
        assert_eq!((text(&value), seen), ("bye", REST.map(String::from).to_vec()));
    }
}

#[tokio::test]
async fn a_stop_skips_the_rest_and_the_call_goes_on() {
    for place in 0..3 {
        let (_, seen, sent) = at(Phase::Request, place, Role::Transform, r#"stop {"n":2}"#).await;
        assert_eq!((seen, sent.len()), (outcomes(place, "ran", "skipped(stopped)"), 1));
        let (value, seen, _) = at(Phase::Response, place, Role::Guard, "stop bye").await;
        assert_eq!((text(&value), seen), ("bye", outcomes(place, "ran", "skipped(stopped)")));
    }
}

#[tokio::test]
async fn an_error_denies_a_request_and_fails_a_response() {
    for place in 0..3 {
        for role in [Role::Guard, Role::Transform] {
            let (value, seen, sent) = at(Phase::Request, place, role, "deny bad words").await;
            let denied = json!({"chain": "default/c", "plugin": format!("default/c{place}"), "error": "bad words"});
            assert_eq!(value["result"]["_meta"]["hawsepipe.dev/denied"], denied);
            assert_eq!((text(&value), &value["result"]["isError"]), ("not this", &json!(true)));
            assert_eq!((seen, sent.len()), (outcomes(place, "denied", "skipped(stopped)"), 0));
        }
        let (value, seen, _) = at(Phase::Response, place, Role::Guard, "deny bad words").await;
        let failed = json!({"chain": "default/c", "plugin": format!("default/c{place}"), "reason": "PluginError"});
        assert_eq!(value["result"]["_meta"]["hawsepipe.dev/failed"], failed);
        assert!(!value.to_string().contains("hello"), "content is withheld: {value}");
        assert_eq!(seen, outcomes(place, "failed(PluginError)", "skipped(stopped)"));
    }
}

#[tokio::test]
async fn a_failure_does_what_the_role_says() {
    for (code, word) in [
        ("fail Timeout", "failed(Timeout)"),
        ("fail PoolExhausted", "failed(PoolExhausted)"),
        ("fail Crashed", "failed(Crashed)"),
        ("put []", "failed(InvalidOutput)"),
        ("put no json", "failed(InvalidOutput)"),
    ] {
        for place in 0..3 {
            let (value, seen, sent) = at(Phase::Request, place, Role::Guard, code).await;
            assert_eq!((seen, sent.len()), (outcomes(place, word, "skipped(stopped)"), 0), "{value}");
            let (_, seen, sent) = at(Phase::Request, place, Role::Transform, code).await;
            assert_eq!((seen, sent), (outcomes(place, word, "ran"), vec![r#"up/read {"n":1}"#.to_owned()]));
        }
    }
    for place in 0..3 {
        let (value, seen, _) = at(Phase::Response, place, Role::Guard, "fail Timeout").await;
        assert_eq!(seen, outcomes(place, "failed(Timeout)", "skipped(stopped)"));
        assert!(!value.to_string().contains("hello"));
        let (value, seen, _) = at(Phase::Response, place, Role::Transform, "fail Timeout").await;
        assert_eq!((text(&value), seen), ("hello", outcomes(place, "failed(Timeout)", "ran")));
    }
}

#[tokio::test]
async fn last_good_is_what_entered_the_entry() {
    let mut inputs = bare();
    let entries = [(Role::Guard, "put redacted"), (Role::Transform, "fail Crashed"), (Role::Transform, "same")];
    scripts(&mut inputs, "c", Phase::Response, &entries);
    scripts(&mut inputs, "d", Phase::Response, &[(Role::Transform, "deny x"), (Role::Transform, "fail Timeout")]);
    assert_eq!(text(&call(&start(&inputs).await, "{}").await), "redacted");
}

#[tokio::test]
async fn a_written_policy_comes_before_the_roles() {
    for (role, policy, sends) in [
        (Role::Guard, FailurePolicy::LastGood, 1),
        (Role::Guard, FailurePolicy::Ignore, 1),
        (Role::Transform, FailurePolicy::Fail, 0),
    ] {
        let mut inputs = bare();
        scripts(&mut inputs, "c", Phase::Request, &[(role, "fail Crashed")]).entries[0].failure_policy = Some(policy);
        let engine = start(&inputs).await;
        call(&engine, "{}").await;
        assert_eq!(sent(&engine).len(), sends, "{role:?} {policy:?}");
    }
}

#[tokio::test]
async fn guards_run_in_spite_of_a_stop() {
    let mut inputs = bare();
    let entries = [(Role::Transform, "stop"), (Role::Transform, "put lost"), (Role::Guard, "put redacted")];
    scripts(&mut inputs, "c", Phase::Response, &entries);
    let (value, seen) = traced(&start(&inputs).await, "{}").await;
    assert_eq!((text(&value), seen), ("redacted", vec!["ran".into(), "skipped(stopped)".into(), "ran".into()]));
}

#[tokio::test]
async fn a_stop_ends_its_own_chain_alone() {
    let mut inputs = bare();
    scripts(&mut inputs, "a", Phase::Response, &[(Role::Transform, "stop one")]);
    scripts(&mut inputs, "b", Phase::Response, &[(Role::Transform, "put two")]);
    assert_eq!(text(&call(&start(&inputs).await, "{}").await), "two");
}

#[tokio::test]
async fn each_cause_of_a_skip_is_told() {
    let mut inputs = bare();
    let same = (Role::Transform, "same");
    let made = scripts(&mut inputs, "c", Phase::Request, &[same, same, same, (Role::Transform, "stop"), same]);
    made.entries[0].when = Some("content.size > 1000".into());
    made.entries[1].enabled = false;
    inputs.plugins[2].filter_tools = vec!["other".into()];
    let (_, seen) = traced(&start(&inputs).await, "{}").await;
    assert_eq!(seen, ["skipped(when)", "skipped(disabled)", "skipped(filter)", "ran", "skipped(stopped)"]);
}

#[tokio::test]
async fn a_when_that_errs_counts_as_true() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "deny x")]).entries[0].when =
        Some("call.arguments.missing == 1".into());
    let engine = start(&inputs).await;
    call(&engine, "{}").await;
    assert!(sent(&engine).is_empty());
}

#[tokio::test]
async fn a_tool_without_metadata_has_an_empty_map_of_it() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Transform, "same")]).entries[0].when =
        Some("has(tool._meta.audited) || tool._meta != {}".into());
    let (_, seen) = traced(&start(&inputs).await, "{}").await;
    assert_eq!(seen, ["skipped(when)"]);
}

#[tokio::test]
async fn a_when_holds_for_the_same_tool_on_every_endpoint() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "deny x")]).entries[0].when =
        Some(r#"call.name == "up__read" && tool.name == "up__read" && tool.upstreamName == "read""#.into());
    let engine = start(&inputs).await;
    for (endpoint, name) in [(Endpoint::All, "up__read"), (Endpoint::One("up"), "read")] {
        let client = Client::new(&engine, caller(Era::Legacy));
        let request = CallRequest { endpoint, ..client.request(ItemKind::Tool, name) };
        let Reply::Result(result) = engine.calls.call(request).await else { panic!("no result") };
        assert!(result.get().contains("hawsepipe.dev/denied"), "{name}: {result}");
    }
    assert!(sent(&engine).is_empty());
}

#[tokio::test]
async fn what_runs_beside_changes_and_delays_nothing() {
    let mut inputs = bare();
    scripts(&mut inputs, "log", Phase::Request, &[(Role::Observe, r#"wait {"n":9}"#)]);
    scripts(&mut inputs, "shadow", Phase::Response, &[(Role::Guard, "wait hidden"), (Role::Guard, "deny x")])
        .entries
        .iter_mut()
        .for_each(|entry| entry.mode = crate::domain::plugin::Mode::Shadow);
    let engine = start(&inputs).await;
    // The scripts are still waiting, so an answer proves that the call did not wait for them.
    let value = call(&engine, r#"{"n":1}"#).await;
    assert_eq!((text(&value), sent(&engine)), ("hello", vec![r#"up/read {"n":1}"#.to_owned()]));
    assert!(engine.records.calls.lock().unwrap().is_empty(), "the record waits for what runs beside");
    until(|| {
        engine.plugins.go.notify_waiters();
        !engine.records.calls.lock().unwrap().is_empty()
    })
    .await;
    let seen: Vec<_> = last_call(&engine).entries.iter().map(|e| json!(e.outcome).to_string()).collect();
    assert_eq!(seen, [r#""ran""#, r#""ran""#, r#""failed(PluginError)""#]);
    assert_eq!(engine.gate.background.in_flight(), 0);
}
