//! The requests of plugins during their execution: calls of tools, and progress.

use super::questions::{Asked, capable};
use super::*;
use crate::domain::extensions::TASKS;
use crate::domain::identity::IdentityMethod;
use crate::domain::method::Method;
use crate::domain::plugin::Mode;
use crate::domain::question::Question;

/// A gateway with tools `read` and `other`. Calls of `read` run a plugin with the script `code` before they are sent.
async fn asking(code: &str, change: impl FnOnce(&mut Inputs)) -> Gateway {
    let mut inputs = bare();
    scripts(&mut inputs, "q", Phase::Request, &[(Role::Transform, code)]).include = vec!["read".into()];
    change(&mut inputs);
    let server = Server::default();
    *server.tools.lock().unwrap() = r#"[{"name":"read"},{"name":"other"}]"#.into();
    start_with(&inputs, server).await
}

/// Returns the answer to the plugin's call, which the plugin put into the arguments that were sent last.
fn said(engine: &Gateway) -> Value {
    let sent = sent(engine);
    let last = sent.last().unwrap().strip_prefix("up/read ").unwrap();
    serde_json::from_str::<Value>(last).unwrap()["said"].clone()
}

#[tokio::test]
async fn a_plugins_call_takes_the_way_of_every_call() {
    let engine = asking("call up__other", |_| {}).await;
    let caller = caller(Era::Legacy);
    call_as(&engine, &caller, "{}", None, &Heard::default()).await;
    assert_eq!(sent(&engine)[0], r#"up/other {"n":1}"#);
    assert_eq!(said(&engine)["content"][0]["text"], "hello");
    // The inner call counts as a call of the client that made the outer one, and is recorded as such.
    assert_eq!(caller.tracker.total(), 2);
    let calls = engine.records.calls.lock().unwrap().clone();
    let [inner, outer] = &calls[..] else { panic!("two calls: {calls:?}") };
    assert_eq!((inner.tool.as_str(), inner.within.as_ref()), ("other", Some(&outer.request_id)));
    assert_eq!((outer.tool.as_str(), &outer.within, &inner.principal), ("read", &None, &outer.principal));
}

#[tokio::test]
async fn it_is_made_with_the_identity_that_the_api_key_has_now() {
    let engine = asking("call up__other", |_| {}).await;
    // The plan has no such key, as after it was removed.
    let gone = Identity::new(IdentityMethod::ApiKey, "", "ann".into()).unwrap();
    let caller = Caller { identity: Arc::new(gone), ..caller(Era::Legacy) };
    call_as(&engine, &caller, "{}", None, &Heard::default()).await;
    assert_eq!((sent(&engine).len(), &said(&engine)["data"]["reason"]), (1, &json!("NotAuthorized")));
}

#[tokio::test]
async fn it_has_the_client_of_the_enclosing_call() {
    let engine = asking("call up__other", |inputs| {
        let condition = "call.userQuery == 'why'".to_owned();
        let seen = scripts(inputs, "s", Phase::Request, &[(Role::Transform, "put {\"seen\":1}")]);
        seen.include = vec!["other".into()];
        seen.entries[0].when = Some(condition);
    })
    .await;
    *engine.server.asks.lock().unwrap() = Some(Question { method: Method::Elicit, params: Some(raw("{}")) });
    let (caller, client) = (Caller { session: "s".into(), ..capable(Era::Legacy) }, Asked::default());
    let (arguments, meta) = (raw("{}"), raw(r#"{"hawsepipe.dev/userQuery":"why"}"#));
    let reservation = engine.budget().reservation(Category::Answer);
    let request = request(&caller, &client, &reservation, ItemKind::Tool, "up__read");
    engine.calls.call(CallRequest { input: Some(&arguments), meta: Some(&meta), ..request }).await;
    let clients = engine.server.clients.lock().unwrap().clone();
    let [inner, outer] = &clients[..] else { panic!("two calls: {clients:?}") };
    assert_eq!((inner.session.as_str(), outer.session.as_str()), ("s", "s"));
    assert!(inner.capabilities.answers(Method::Elicit) && outer.capabilities == caller.capabilities);
    assert!(!inner.capabilities.has_extension(TASKS), "a call of a plugin cannot go on as a task");
    let heard = client.heard();
    let asked = heard.iter().filter(|heard| heard.starts_with("elicitation/create")).count();
    assert_eq!(
        (asked, heard.len()),
        (2, 3),
        "both ask the client, which gets the progress of the outer one: {heard:?}"
    );
    assert_eq!(sent(&engine)[0], r#"up/other {"seen":1}"#);
}

#[tokio::test]
async fn limits_and_guards_hold_for_it() {
    let limits = |i: &mut Inputs| {
        let plan = &mut i.gateway.as_mut().unwrap().plan;
        plan.limits.session_total_calls = Some(1);
    };
    let engine = asking("call up__other", limits).await;
    call(&engine, "{}").await;
    assert_eq!(said(&engine)["data"]["reason"], "SessionTotalCalls");
    let guarded = |i: &mut Inputs| {
        scripts(i, "g", Phase::Request, &[(Role::Guard, "deny secret")]).include = vec!["other".into()];
    };
    let engine = asking("call up__other", guarded).await;
    call(&engine, "{}").await;
    assert_eq!(sent(&engine).len(), 1, "what was denied was sent");
    assert_eq!(said(&engine)["_meta"]["hawsepipe.dev/denied"]["error"], "secret");
    let engine = asking("call up__none", |_| {}).await;
    call(&engine, "{}").await;
    assert_eq!(said(&engine)["code"], -32602);
}

#[tokio::test]
async fn a_call_within_one_that_was_let_in_is_not_refused_for_its_callers_calls_in_flight() {
    for by_address in [false, true] {
        let limits = |i: &mut Inputs| {
            let limits = &mut i.gateway.as_mut().unwrap().plan.limits;
            (limits.concurrent_calls, limits.session_concurrent_calls) = (2, Some(1));
        };
        let engine = asking("call up__other", limits).await;
        let caller = Caller { by_address, ..caller(Era::Modern) };
        call_as(&engine, &caller, "{}", None, &Heard::default()).await;
        assert_eq!(said(&engine)["content"][0]["text"], "hello", "{by_address}");
    }
}

#[tokio::test]
async fn nothing_more_is_sent_for_a_running_call_or_its_plugins_once_the_gateway_is_stopped() {
    let mut inputs = bare();
    let entries = [(Role::Transform, "wait"), (Role::Transform, "call up__other")];
    scripts(&mut inputs, "q", Phase::Request, &entries).include = vec!["read".into()];
    let server = Server::default();
    *server.tools.lock().unwrap() = r#"[{"name":"read"},{"name":"other"}]"#.into();
    let engine = start_with(&inputs, server).await;
    let running = engine.clone();
    let running = tokio::spawn(async move { call(&running, "{}").await });
    until(|| engine.plugins.ran.lock().unwrap().len() == 1).await;
    inputs.gateway.as_mut().unwrap().plan.stopped = true;
    apply(&engine, &inputs).await;
    assert_eq!(call(&engine, "{}").await["error"]["data"]["reason"], "Stopped", "a new call");
    engine.plugins.go.notify_one();
    assert_eq!(running.await.unwrap()["error"]["data"]["reason"], "Stopped");
    assert_eq!((engine.plugins.ran.lock().unwrap().len(), sent(&engine)), (2, Vec::<String>::new()));
}

#[tokio::test]
async fn calls_within_calls_end_at_a_depth() {
    let engine = asking("call up__read", |_| {}).await;
    call(&engine, "{}").await;
    // The client's call and three nested ones are sent. The fourth nested call is refused.
    let sent = sent(&engine);
    assert_eq!(sent.len(), 4);
    assert!(sent[0].contains("TooDeep") && !sent[1].contains("TooDeep"), "{sent:?}");
    let calls = engine.records.calls.lock().unwrap().clone();
    assert_eq!(calls.len(), 5);
    assert_eq!(calls[0].reason.as_deref(), Some("TooDeep"));
    assert_eq!(engine.gate.calls.in_flight(), 0);
}

#[tokio::test]
async fn one_execution_waits_for_so_many_calls_at_once() {
    let mut inputs = bare();
    scripts(&mut inputs, "q", Phase::Request, &[(Role::Transform, "flood")]).include = vec!["read".into()];
    let server = Server::default();
    *server.tools.lock().unwrap() = r#"[{"name":"read"},{"name":"other"}]"#.into();
    *server.holds.lock().unwrap() = true;
    let engine = start_with(&inputs, server).await;
    let running = engine.clone();
    let running = tokio::spawn(async move { call(&running, "{}").await });
    until(|| sent(&engine).len() == 8).await;
    *engine.server.holds.lock().unwrap() = false;
    engine.server.go.notify_waiters();
    running.await.unwrap();
    assert!(sent(&engine).last().unwrap().contains(r#"{"refused":2}"#), "{:?}", sent(&engine));
}

#[tokio::test]
async fn a_shadow_calls_nothing() {
    let engine = asking("call up__other", |i| i.chains[0].entries[0].mode = Mode::Shadow).await;
    let (value, outcomes) = traced(&engine, "{}").await;
    assert_eq!(outcomes, ["ran"], "{value}");
    assert_eq!(sent(&engine), ["up/read {}"]);
}

#[tokio::test]
async fn an_answer_larger_than_the_plugin_takes_is_refused() {
    let engine = asking("call up__other", |i| i.plugins[0].limits.max_input = 20).await;
    call(&engine, "{}").await;
    assert_eq!(said(&engine)["data"]["reason"], "TooLarge");
}

#[tokio::test]
async fn progress_goes_to_the_client_while_it_rises() {
    for (role, expected) in [
        (Role::Transform, [r#"{"progress":0.5,"message":"words"}"#, r#"{"progress":0.75,"message":"words"}"#]),
        (Role::Guard, [r#"{"progress":0.5}"#, r#"{"progress":0.75}"#]),
    ] {
        let mut inputs = bare();
        scripts(&mut inputs, "q", Phase::Request, &[(Role::Transform, "progress 0.5 0.25 0.5 0.75")]);
        scripts(&mut inputs, "r", Phase::Response, &[(role, "progress 0.9 0.99")]);
        let (engine, heard) = (start(&inputs).await, Heard::default());
        call_as(&engine, &caller(Era::Legacy), "{}", None, &heard).await;
        let heard = heard.0.lock().unwrap();
        assert_eq!(heard[..2], expected);
        // The progress of the server continues from the plugin's; lower numbers are dropped.
        assert!(heard.len() == 3 && heard[2].starts_with(r#"{"progress":1,"#), "{heard:?}");
    }
}

#[tokio::test]
async fn what_runs_beside_a_call_says_nothing_of_progress() {
    let mut inputs = bare();
    scripts(&mut inputs, "q", Phase::Request, &[(Role::Observe, "progress 0.5")]);
    let (engine, heard) = (start(&inputs).await, Heard::default());
    let meta = Some(r#"{"hawsepipe.dev/trace":true}"#);
    call_as(&engine, &caller(Era::Legacy), "{}", meta, &heard).await;
    assert_eq!(engine.plugins.ran.lock().unwrap().len(), 1);
    assert!(heard.0.lock().unwrap().iter().all(|progress| !progress.contains("0.5")));
}
