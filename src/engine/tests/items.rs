//! Prompts and resources: where requests of them go, and which chains see them.

use super::*;
use crate::domain::method::Method;
use crate::domain::raw::RawObject;

const ITEMS: &str = r#"[
    {"name":"read","inputSchema":{"type":"object"}},
    {"name":"greet","arguments":[]},
    {"uri":"file:///a","name":"a"},
    {"uriTemplate":"db:///{table}","name":"rows"}]"#;

/// Starts a gateway whose server has one item of each kind and answers with `result`.
async fn items(inputs: &Inputs, result: &str) -> Gateway {
    let server = Server { tools: Mutex::new(ITEMS.into()), ..Server::default() };
    *server.answers.lock().unwrap() = Ok(Answer::Result(raw(result)));
    start_with(inputs, server).await
}

async fn ask_at(engine: &Gateway, endpoint: Endpoint<'_>, era: Era, kind: ItemKind, params: &str) -> Value {
    let params = raw(params);
    let name = RawObject::parse(params.get()).unwrap().get_str(kind.name_member()).unwrap();
    let request = CallRequest {
        endpoint,
        caller: &caller(era),
        rpc_id: None,
        kind,
        name: &name,
        input: Some(&params),
        meta: None,
        wants_progress: false,
        log_level: None,
        client: &Heard::default(),
        reservation: &engine.budget().reservation(Category::Answer),
        check_mirrored: None,
        within: None,
    };
    match engine.call(request).await {
        Reply::Result(result) => serde_json::from_str(result.get()).unwrap(),
        Reply::UpstreamError(error) => serde_json::from_str(error.get()).unwrap(),
        Reply::Error(error) => json!(error),
    }
}

async fn ask(engine: &Gateway, kind: ItemKind, params: &str) -> Value {
    ask_at(engine, Endpoint::All, Era::Legacy, kind, params).await
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
        let page = engine.list(Endpoint::All, kind, None).await.unwrap();
        let listed: Vec<Value> = serde_json::from_str(page.items.get()).unwrap();
        assert_eq!((listed.len(), &listed[0][kind.name_member()]), (1, &json!(name)));
        let own = engine.list(Endpoint::One("up"), kind, None).await.unwrap();
        assert!(own.items.get().contains(name.trim_start_matches("up__")), "{}", own.items);
    }
}
