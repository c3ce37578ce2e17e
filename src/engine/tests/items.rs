//! Prompts and resources: where requests of them go, and which chains see them.

use super::*;
use crate::domain::method::Method;
use crate::domain::raw::RawObject;

pub(super) const ITEMS: &str = r#"[
    {"name":"read","inputSchema":{"type":"object"}},
    {"name":"greet","arguments":[]},
    {"uri":"file:///a","name":"a"},
    {"uriTemplate":"db:///{table}","name":"rows"}]"#;

/// Starts a gateway whose server has one item of each kind and answers with `result`.
pub(super) async fn items(inputs: &Inputs, result: &str) -> Gateway {
    let server = Server::with(ITEMS);
    *server.answers.lock().unwrap() = Ok(Answer::Result(raw(result)));
    start_with(inputs, server).await
}

pub(super) async fn ask_at(engine: &Gateway, endpoint: Endpoint<'_>, era: Era, kind: ItemKind, params: &str) -> Value {
    let (client, params) = (Client::new(engine, caller(era)), raw(params));
    let name = RawObject::parse(params.get()).unwrap().get_str(kind.name_member()).unwrap();
    said(engine.calls.call(CallRequest { endpoint, input: Some(&params), ..client.request(kind, &name) }).await)
}

pub(super) async fn ask(engine: &Gateway, kind: ItemKind, params: &str) -> Value {
    ask_at(engine, Endpoint::All, Era::Legacy, kind, params).await
}

/// Like [`ask`], for a request whose client wants the trace.
async fn ask_for_trace(engine: &Gateway, kind: ItemKind, params: &str) -> Value {
    let (client, params) = (Client::new(engine, caller(Era::Legacy)), raw(params));
    let name = RawObject::parse(params.get()).unwrap().get_str(kind.name_member()).unwrap();
    let meta = raw(r#"{"hawsepipe.dev/trace":true}"#);
    let request = CallRequest { input: Some(&params), meta: Some(&meta), ..client.request(kind, &name) };
    let Reply::Error(error) = engine.calls.call(request).await else { panic!("no error") };
    json!(error)
}

const GREET: &str = r#"{"name":"up__greet","arguments":{"n": 1.0},"new":[2.0],"_meta":{"x":1}}"#;

#[tokio::test]
async fn a_request_goes_to_the_server_with_its_own_name_and_everything_else_as_it_came() {
    let engine = items(&bare(), r#"{"messages":[]}"#).await;
    assert_eq!(ask(&engine, ItemKind::Prompt, GREET).await, json!({"messages": []}));
    ask(&engine, ItemKind::Resource, r#"{"uri":"file:///a"}"#).await;
    ask(&engine, ItemKind::Resource, r#"{"uri":"db:///users"}"#).await;
    ask_at(&engine, Endpoint::One("up"), Era::Legacy, ItemKind::Resource, r#"{"uri":"link:///b"}"#).await;
    let expected =
        [r#"up/greet {"arguments":{"n": 1.0},"new":[2.0]}"#, "up/file:///a {}", "up/db:///users {}", "up/link:///b {}"];
    assert_eq!(sent(&engine), expected);
    assert_eq!(last_call(&engine).method, Method::ReadResource);
}

#[tokio::test]
async fn what_no_upstream_has_is_unknown_in_the_words_of_its_kind_and_era() {
    let engine = items(&bare(), "{}").await;
    for (era, kind, params, code) in [
        (Era::Legacy, ItemKind::Prompt, r#"{"name":"up__read"}"#, -32602),
        (Era::Legacy, ItemKind::Resource, r#"{"uri":"link:///b"}"#, -32002),
        (Era::Modern, ItemKind::Resource, r#"{"uri":"link:///b"}"#, -32602),
    ] {
        let error = ask_at(&engine, Endpoint::All, era, kind, params).await;
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().unwrap().starts_with(&format!("Unknown {kind}: ")), "{error}");
        assert_eq!(error["data"]["uri"].is_string(), kind == ItemKind::Resource, "{error}");
    }
    assert!(sent(&engine).is_empty());
}

/// Returns inputs with a chain on these methods, which runs a plugin of this role and code on prompts and resources.
fn chained(phase: Phase, role: Role, code: &str) -> Inputs {
    let mut inputs = bare();
    let chain = scripts(&mut inputs, "c", phase, &[(role, code)]);
    chain.methods = vec![Method::GetPrompt, Method::ReadResource];
    // Globs over the names of tools say nothing of prompts and resources.
    chain.include = vec!["nothing".into()];
    inputs
}

#[tokio::test]
async fn chains_see_the_methods_that_they_name() {
    let engine =
        items(&chained(Phase::Request, Role::Guard, r#"put {"name":"greet","arguments":{"n":2}}"#), "{}").await;
    ask(&engine, ItemKind::Prompt, GREET).await;
    call(&engine, "{}").await;
    assert_eq!(*engine.plugins.ran.lock().unwrap(), [r#"c0 <- {"name":"greet","arguments":{"n": 1.0},"new":[2.0]}"#]);
    assert_eq!(sent(&engine), [r#"up/greet {"arguments":{"n":2}}"#, "up/read {}"]);
}

#[tokio::test]
async fn a_plugin_does_not_turn_a_request_to_another_item() {
    let engine = items(&chained(Phase::Request, Role::Guard, r#"put {"uri":"file:///b"}"#), "{}").await;
    let error = ask(&engine, ItemKind::Resource, r#"{"uri":"file:///a"}"#).await;
    assert_eq!(error["data"]["hawsepipe.dev/failed"]["reason"], "InvalidOutput", "{error}");
    assert!(sent(&engine).is_empty());
}

#[tokio::test]
async fn a_chain_of_tool_calls_sees_no_prompt() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "deny no")]);
    let engine = items(&inputs, r#"{"messages":[]}"#).await;
    assert!(ask(&engine, ItemKind::Prompt, GREET).await["messages"].is_array());
    assert_eq!(call(&engine, "{}").await["result"]["isError"], true);
}

#[tokio::test]
async fn a_denial_is_an_error_that_names_what_denied() {
    let engine = items(&chained(Phase::Request, Role::Guard, "deny secret"), "{}").await;
    for (kind, params) in [
        (ItemKind::Prompt, GREET),
        (ItemKind::Resource, r#"{"uri":"file:///a"}"#),
        (ItemKind::Resource, r#"{"uri":"db:///users"}"#),
    ] {
        let error = ask(&engine, kind, params).await;
        assert_eq!(error["message"], "not this", "{error}");
        assert_eq!(error["data"]["hawsepipe.dev/denied"]["error"], "secret", "{error}");
    }
    let unlisted = ask_at(&engine, Endpoint::One("up"), Era::Modern, ItemKind::Resource, r#"{"uri":"x:y"}"#).await;
    assert_eq!(unlisted["message"], "not this", "{unlisted}");
    assert!(sent(&engine).is_empty());
}

#[tokio::test]
async fn the_trace_of_a_denial_is_in_the_details_of_its_error() {
    let engine = items(&chained(Phase::Request, Role::Guard, "deny secret"), "{}").await;
    let error = ask_for_trace(&engine, ItemKind::Prompt, GREET).await;
    assert_eq!(error["data"]["hawsepipe.dev/trace"][0]["outcome"], "denied", "{error}");
    assert_eq!(error["data"]["hawsepipe.dev/denied"]["error"], "secret", "{error}");
}

#[tokio::test]
async fn what_is_refused_is_named_as_the_client_sent_it() {
    let engine = items(&chained(Phase::Request, Role::Guard, "same"), "{}").await;
    let twice = r#"{"name":"up__greet","arguments":{"x":1,"x":2}}"#;
    let error = ask(&engine, ItemKind::Prompt, twice).await;
    assert!(error["message"].as_str().unwrap().starts_with("params/arguments/x: "), "{error}");
    let mut inputs = bare();
    inputs.gateway.as_mut().unwrap().plan.limits.list_timeout_ms = 50;
    let server = Server::default();
    let down = || Err(UpstreamError::Start("nocmd".into()));
    server.probes.lock().unwrap().extend([down(), down()]);
    let engine = start_with(&inputs, server).await;
    // The call tries it once more.
    let error = ask(&engine, ItemKind::Prompt, GREET).await;
    assert!(error["message"].as_str().unwrap().contains("its prompts are not known"), "{error}");
    assert_eq!(error["data"]["retryAfterMs"], 1000, "{error}");
}

#[tokio::test]
async fn an_answer_that_is_withheld_or_recorded_shows_no_secret_of_its_uri() {
    let engine = items(&chained(Phase::Response, Role::Guard, "same"), r#"{"contents":[],"contents":[]}"#).await;
    let uri = r#"{"uri":"db://name:word@host/users?key=word"}"#;
    let error = ask_at(&engine, Endpoint::One("up"), Era::Legacy, ItemKind::Resource, uri).await;
    assert_eq!(error["data"]["reason"], "DuplicateKey", "{error}");
    let record = last_call(&engine);
    assert_eq!((record.tool.as_str(), record.upstream.as_str()), ("db://host/users", "up"));
}

#[tokio::test]
async fn plugins_are_told_the_method() {
    let mut inputs = chained(Phase::Response, Role::Guard, "same");
    inputs.chains[0].methods.push(Method::CallTool);
    inputs.chains[0].include.clear();
    let engine = items(&inputs, r#"{"contents":[],"messages":[],"content":[]}"#).await;
    ask(&engine, ItemKind::Prompt, GREET).await;
    ask(&engine, ItemKind::Resource, r#"{"uri":"file:///a"}"#).await;
    call(&engine, "{}").await;
    assert_eq!(*engine.plugins.methods.lock().unwrap(), ["prompts/get", "resources/read", "tools/call"]);
}

#[tokio::test]
async fn a_guard_that_cannot_run_refuses_what_its_chain_selects_and_nothing_else() {
    let engine = items(&chained(Phase::Response, Role::Guard, "absent"), r#"{"contents":[]}"#).await;
    let error = ask(&engine, ItemKind::Resource, r#"{"uri":"file:///a"}"#).await;
    assert_eq!(error["data"]["hawsepipe.dev/refused"]["reason"], "NotLoaded", "{error}");
    assert!(sent(&engine).is_empty());
    assert_eq!(call(&engine, "{}").await["result"]["contents"], json!([]));
}

#[tokio::test]
async fn a_guard_sees_results_whole_and_must_leave_them_valid() {
    let contents = r#"{"content":[{"type":"text","text":"ok"}],"contents":[{"uri":"file:///a","text":"secret"}]}"#;
    let read = |code: &'static str| async move {
        let mut inputs = chained(Phase::Response, Role::Guard, code);
        inputs.chains[0].entries[0].view = crate::domain::plugin::View::Text;
        let engine = items(&inputs, contents).await;
        let answer = ask(&engine, ItemKind::Resource, r#"{"uri":"file:///a"}"#).await;
        let ran = engine.plugins.ran.lock().unwrap().clone();
        (answer, ran)
    };
    let (answer, ran) = read(r#"put {"contents":[{"uri":"file:///a","text":"***"}]}"#).await;
    assert_eq!(ran, [format!("c0 <- {contents}")]);
    assert_eq!(answer["contents"][0]["text"], "***");
    for invalid in ["put text", r#"put {"content":[]}"#, r#"put {"contents":[{"uri":"file:///a"}]}"#] {
        let (answer, _) = read(invalid).await;
        assert_eq!(answer["data"]["hawsepipe.dev/failed"]["reason"], "InvalidOutput", "{invalid}: {answer}");
    }
}

#[tokio::test]
async fn a_modern_client_is_told_who_may_cache_a_resource() {
    let engine = items(&bare(), r#"{"contents":[]}"#).await;
    let params = r#"{"uri":"file:///a"}"#;
    let result = ask_at(&engine, Endpoint::All, Era::Modern, ItemKind::Resource, params).await;
    let expected = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "contents": []});
    assert_eq!(result, expected);
    let cached = r#"{"resultType":"complete","ttlMs":9,"cacheScope":"public","contents":[]}"#;
    let engine = items(&bare(), cached).await;
    let result = ask_at(&engine, Endpoint::All, Era::Modern, ItemKind::Resource, params).await;
    assert_eq!(result, serde_json::from_str::<Value>(cached).unwrap());
    let engine = items(&chained(Phase::Response, Role::Guard, "same"), cached).await;
    let result = ask_at(&engine, Endpoint::All, Era::Modern, ItemKind::Resource, params).await;
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")), "{result}");
}

#[tokio::test]
async fn each_kind_has_a_list_of_its_own() {
    let engine = items(&bare(), "{}").await;
    for (kind, name) in ItemKind::ALL.into_iter().zip(["up__read", "up__greet", "file:///a", "db:///{table}"]) {
        let page = engine.list(Endpoint::All, kind, None, None).await.unwrap();
        let listed: Vec<Value> = serde_json::from_str(page.items.get()).unwrap();
        assert_eq!((listed.len(), &listed[0][kind.name_member()]), (1, &json!(name)));
        let own = engine.list(Endpoint::One("up"), kind, None, None).await.unwrap();
        assert!(own.items.get().contains(name.trim_start_matches("up__")), "{}", own.items);
    }
}

#[tokio::test]
async fn the_error_of_an_unknown_resource_has_the_code_of_the_client_s_era() {
    let engine = items(&bare(), "{}").await;
    let of_modern = r#"{"code":-32602,"message":"none", "data":{"uri":"file:///a"}}"#;
    let of_legacy = r#"{"code":-32002,"message":"none", "data": 1.0}"#;
    let of_else = r#"{"code":-32602,"message":"bad cursor"}"#;
    for (error, legacy, modern) in [(of_modern, -32002, -32602), (of_legacy, -32002, -32602), (of_else, -32602, -32602)]
    {
        *engine.server.answers.lock().unwrap() = Ok(Answer::Error(raw(error)));
        for (era, code) in [(Era::Legacy, legacy), (Era::Modern, modern)] {
            let answer = ask_at(&engine, Endpoint::All, era, ItemKind::Resource, r#"{"uri":"file:///a"}"#).await;
            assert_eq!(answer["code"], code, "{answer}");
        }
        // A prompt has no such error.
        let answer = ask_at(&engine, Endpoint::All, Era::Modern, ItemKind::Prompt, r#"{"name":"up__greet"}"#).await;
        assert_eq!(answer, serde_json::from_str::<Value>(error).unwrap());
    }
}

#[tokio::test]
async fn the_error_of_an_unknown_app_has_the_uri_and_the_code_that_its_client_knows() {
    let engine = items(&bare(), "{}").await;
    let error = r#"{"code":-32602,"message":"none", "data":{"uri":"ui://clock", "n": 1.0}}"#;
    *engine.server.answers.lock().unwrap() = Ok(Answer::Error(raw(error)));
    for (endpoint, uri) in [(Endpoint::All, "ui://up/clock"), (Endpoint::One("up"), "ui://clock")] {
        for (era, code) in [(Era::Legacy, -32002), (Era::Modern, -32602)] {
            let params = json!({"uri": uri}).to_string();
            let answer = ask_at(&engine, endpoint, era, ItemKind::Resource, &params).await;
            assert_eq!((&answer["code"], &answer["data"]["uri"]), (&json!(code), &json!(uri)), "{answer}");
        }
    }
}
