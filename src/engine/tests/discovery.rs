//! Tests of the gateway's own tools: clients see two tools instead of all, find others, and call them.

use super::*;
use crate::config::compile::tests::upstream;
use crate::domain::plan::{Refusal, ToolDiscovery, ToolOverride};
use crate::domain::record::CallOutcome;

/// The items of two upstreams: tools, of which one has the name of a tool of the gateway, and a prompt.
const FILES: &str = r#"[
    {"name":"read","description":"Reads a file.","inputSchema":{"type":"object","properties":{"n":{"type":"number"}}}},
    {"name":"erase","description":"Erases a file.","inputSchema":{"type":"object"}},
    {"name":"greet","arguments":[]}]"#;
const MAIL: &str = r#"[
    {"name":"send","title":"Mail","inputSchema":{"type":"object","properties":{"recipient":{"type":"string"}}}},
    {"name":"call_tool","description":"Calls a file.","inputSchema":{"type":"object"}}]"#;

fn searched() -> Inputs {
    let mut inputs = bare();
    inputs.gateway.as_mut().unwrap().plan.tool_discovery = ToolDiscovery::Search;
    inputs.upstreams.push(upstream("mail"));
    inputs
}

async fn started(inputs: &Inputs) -> Gateway {
    let server = Server::with(FILES);
    server.own.lock().unwrap().insert("mail".into(), MAIL.into());
    let engine = start_with(inputs, server).await;
    let is_listed = |name: &str| engine.in_force.snapshot().routes.public(ItemKind::Tool, name).is_some();
    until(|| is_listed("up__read") && is_listed("mail__call_tool")).await;
    engine
}

/// Calls a tool as a client does, and returns the `result` or the `error`.
async fn call_at(engine: &Gateway, endpoint: Endpoint<'_>, caller: &Caller, name: &str, arguments: &str) -> Value {
    let (arguments, meta) = (raw(arguments), raw(r#"{"hawsepipe.dev/trace":true}"#));
    let client = Client::new(engine, caller.clone());
    let request = client.request(ItemKind::Tool, name);
    let (input, meta, wants_progress) = (Some(&*arguments), Some(&*meta), true);
    said(engine.calls.call(CallRequest { endpoint, input, meta, wants_progress, ..request }).await)
}

async fn call_own(engine: &Gateway, name: &str, arguments: &str) -> Value {
    call_at(engine, Endpoint::All, &caller(Era::Legacy), name, arguments).await
}

async fn listed(engine: &Gateway, endpoint: Endpoint<'_>, kind: ItemKind) -> Vec<String> {
    let page = engine.list(endpoint, kind, None, None).await.unwrap();
    let items: Vec<Value> = serde_json::from_str(page.items.get()).unwrap();
    items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

async fn found(engine: &Gateway, query: &str) -> Vec<String> {
    let result = call_own(engine, "search_tools", &json!({"query": query}).to_string()).await;
    let tools = result["structuredContent"]["tools"].as_array().unwrap_or_else(|| panic!("{result}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

#[tokio::test]
async fn clients_see_two_tools_and_find_the_others() {
    let engine = started(&searched()).await;
    assert_eq!(listed(&engine, Endpoint::All, ItemKind::Tool).await, ["search_tools", "call_tool"]);
    assert_eq!(listed(&engine, Endpoint::One("mail"), ItemKind::Tool).await, ["send", "call_tool"]);
    assert_eq!(listed(&engine, Endpoint::All, ItemKind::Prompt).await, ["up__greet"]);
    assert_eq!(found(&engine, "read a file").await, ["up__read", "up__erase", "mail__call_tool"]);
    assert_eq!(found(&engine, "recipient").await, ["mail__send"]);
    assert!(found(&engine, "nothing of that kind").await.is_empty());
    let result = call_own(&engine, "search_tools", r#"{"query":"reads a file","limit":1}"#).await;
    let content = &result["structuredContent"];
    assert_eq!(serde_json::from_str::<Value>(text(&result)).unwrap(), *content);
    let mut whole: Value = serde_json::from_str::<Vec<Value>>(FILES).unwrap().swap_remove(0);
    whole["name"] = json!("up__read");
    assert_eq!(content["tools"], json!([whole]));
    let call = last_call(&engine);
    assert_eq!((&*call.tool, &*call.upstream, call.outcome), ("search_tools", "", CallOutcome::Ok));
    assert!(sent(&engine).is_empty());
}

#[tokio::test]
async fn a_call_of_call_tool_is_a_call_of_the_tool_that_it_names() {
    let mut inputs = searched();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "deny no")]).entries[0].when =
        Some("tool.name == 'up__erase' && call.name == 'up__erase'".into());
    let engine = started(&inputs).await;
    let result = call_own(&engine, "call_tool", r#"{"name":"up__read","arguments":{"n": 1.0}}"#).await;
    assert_eq!(text(&result), "hello");
    assert_eq!(result["_meta"]["hawsepipe.dev/trace"][0]["outcome"], "skipped(when)");
    assert_eq!(sent(&engine), [r#"up/read {"n": 1.0}"#]);
    let call = last_call(&engine);
    assert_eq!((&*call.tool, &*call.upstream, call.outcome), ("read", "up", CallOutcome::Ok));
    assert_eq!(engine.records.calls.lock().unwrap().len(), 1, "one call, one record");

    let denied = call_own(&engine, "call_tool", r#"{"name":"up__erase"}"#).await;
    assert_eq!(denied["_meta"]["hawsepipe.dev/denied"]["plugin"], "default/c0", "{denied}");
    assert_eq!((last_call(&engine).outcome, &*last_call(&engine).tool), (CallOutcome::Denied, "erase"));
    let unfit = call_own(&engine, "call_tool", r#"{"name":"up__read","arguments":{"n":"one"}}"#).await;
    assert!(text(&unfit).contains("do not fit the input schema of up__read"), "{unfit}");
    let doubled = call_own(&engine, "call_tool", r#"{"name":"up__read","arguments":{"n":1,"n":2}}"#).await;
    assert_eq!(doubled["data"]["reason"], "DuplicateKey", "{doubled}");
    let unknown = call_own(&engine, "call_tool", r#"{"name":"up__write"}"#).await;
    assert!(unknown["message"].as_str().unwrap().starts_with("Unknown tool: up__write"), "{unknown}");
    assert_eq!(sent(&engine).len(), 1);

    call_own(&engine, "call_tool", r#"{"arguments":{},"name":"mail__call_tool"}"#).await;
    assert_eq!(text(&call_own(&engine, "up__read", r#"{"n":2}"#).await), "hello", "by its own name");
    assert_eq!(sent(&engine)[1..], ["mail/call_tool {}", r#"up/read {"n":2}"#]);
    let own =
        call_at(&engine, Endpoint::One("mail"), &caller(Era::Legacy), "call_tool", r#"{"name":"up__read"}"#).await;
    assert_eq!(text(&own), "hello", "of the one upstream");
    assert_eq!(sent(&engine)[3], r#"mail/call_tool {"name":"up__read"}"#);
}

#[tokio::test]
async fn what_is_wrong_with_a_call_of_the_gateway_s_own_tools_is_said() {
    let engine = started(&searched()).await;
    for (tool, arguments, said) in [
        ("search_tools", "{}", "arguments: \"query\" is a required property"),
        ("search_tools", r#"{"query":"a","limit":0}"#, "arguments/limit: 0 is less than the minimum of 1"),
        ("search_tools", r#"{"query":"a","limit":51}"#, "arguments/limit: "),
        ("call_tool", "{}", "arguments: \"name\" is a required property"),
        ("call_tool", r#"{"name":7}"#, "arguments/name: "),
        ("call_tool", r#"{"name":"up__read","arguments":[1]}"#, "arguments/arguments: "),
        ("call_tool", r#"{"name":"up__read","arguments":null}"#, "arguments/arguments: "),
        ("call_tool", r#"{"name":"call_tool","arguments":{"name":"up__read"}}"#, "are called directly"),
        ("call_tool", r#"{"name":"search_tools","arguments":{"query":"a"}}"#, "are called directly"),
    ] {
        let result = call_own(&engine, tool, arguments).await;
        assert_eq!(result["isError"], true, "{tool} {arguments}: {result}");
        assert!(text(&result).contains(said), "{tool} {arguments}: {result}");
        assert!(text(&result).contains(&format!("do not fit the input schema of {tool}")), "{result}");
        let call = last_call(&engine);
        assert_eq!((&*call.tool, call.reason.as_deref()), (tool, Some("InvalidArguments")));
    }
    for (tool, arguments) in [
        ("search_tools", r#"{"query":"a","quer\u0079":"b"}"#),
        ("call_tool", r#"{"name":"up__read","name":"up__erase"}"#),
        ("call_tool", r#"{"name":"up__read","arguments":{},"\u0061rguments":{}}"#),
    ] {
        let error = call_own(&engine, tool, arguments).await;
        assert_eq!(error["data"]["reason"], "DuplicateKey", "{arguments}: {error}");
    }
    assert!(sent(&engine).is_empty());
}

#[tokio::test]
async fn limits_and_the_stop_switch_count_for_own_tools_and_a_call_counts_once() {
    let mut inputs = searched();
    inputs.gateway.as_mut().unwrap().plan.limits.session_total_calls = Some(3);
    let engine = started(&inputs).await;
    let caller = caller(Era::Legacy);
    for (tool, arguments) in [
        ("call_tool", r#"{"name":"up__read"}"#),
        ("search_tools", r#"{"query":"a"}"#),
        ("call_tool", r#"{"name":"up__read"}"#),
    ] {
        let result = call_at(&engine, Endpoint::All, &caller, tool, arguments).await;
        assert!(result["content"].is_array(), "{result}");
    }
    for (tool, arguments) in [("call_tool", r#"{"name":"up__read"}"#), ("search_tools", r#"{"query":"a"}"#)] {
        let refused = call_at(&engine, Endpoint::All, &caller, tool, arguments).await;
        assert_eq!(refused["data"]["reason"], "SessionTotalCalls", "{refused}");
    }
    inputs.gateway.as_mut().unwrap().plan.stopped = true;
    apply(&engine, &inputs).await;
    let stopped = call_own(&engine, "search_tools", r#"{"query":"a"}"#).await;
    assert_eq!(stopped["data"]["reason"], "Stopped", "{stopped}");
}

#[tokio::test]
async fn what_is_found_follows_the_plan_and_the_lists() {
    let mut inputs = searched();
    let change = |name: &str| ToolOverride { name: name.into(), ..ToolOverride::default() };
    inputs.upstreams[0].plan.overrides = vec![
        ToolOverride { hidden: true, ..change("erase") },
        ToolOverride { description: Some("Opens a book.".into()), ..change("read") },
    ];
    let engine = started(&inputs).await;
    assert_eq!(found(&engine, "file").await, ["mail__call_tool"]);
    assert_eq!(found(&engine, "book").await, ["up__read"]);
    let hidden = call_own(&engine, "call_tool", r#"{"name":"up__erase"}"#).await;
    assert!(hidden["message"].as_str().unwrap().starts_with("Unknown tool"), "{hidden}");
    let more = r#"[{"name":"paint","inputSchema":{"type":"object"}}]"#;
    engine.server.own.lock().unwrap().insert("mail".into(), more.into());
    *engine.server.event.lock().unwrap() =
        Some(UpstreamEvent::ListChanged(ObjectKey::new("default", "mail"), ItemKind::Tool));
    engine.server.told.notify_one();
    until(|| engine.in_force.snapshot().routes.public(ItemKind::Tool, "mail__paint").is_some()).await;
    assert_eq!(found(&engine, "paint").await, ["mail__paint"]);
    inputs.gateway.as_mut().unwrap().plan.tool_discovery = ToolDiscovery::All;
    apply(&engine, &inputs).await;
    assert_eq!(listed(&engine, Endpoint::All, ItemKind::Tool).await, ["up__read", "mail__paint"]);
    let gone = call_own(&engine, "search_tools", r#"{"query":"paint"}"#).await;
    assert!(gone["message"].as_str().unwrap().starts_with("Unknown tool: search_tools"), "{gone}");
}

#[tokio::test]
async fn a_search_does_not_say_that_no_tool_fits_while_tools_are_not_known() {
    let server = Server::with(FILES);
    server.unlisted.lock().unwrap().insert(ItemKind::Tool, Some(UpstreamError::Protocol("no list".into())));
    let engine = start_with(&searched(), server).await;
    let search = async || call_own(&engine, "search_tools", r#"{"query":"file"}"#).await;
    let refused = search().await;
    let data = json!({"reason": "ToolsUnknown", "upstreams": ["mail", "up"], "retryAfterMs": 1000});
    let mut told = refused["data"].clone();
    told["upstreams"].as_array_mut().unwrap().sort_by_key(Value::to_string);
    assert_eq!(told, data, "{refused}");
    assert_eq!(last_call(&engine).reason.as_deref(), Some("ToolsUnknown"));

    engine.server.unlisted.lock().unwrap().clear();
    for name in ["up", "mail"] {
        let changed = UpstreamEvent::ListChanged(ObjectKey::new("default", name), ItemKind::Tool);
        *engine.server.event.lock().unwrap() = Some(changed);
        engine.server.told.notify_one();
        let tool = format!("{name}__read");
        until(|| engine.in_force.snapshot().routes.public(ItemKind::Tool, &tool).is_some()).await;
    }
    assert!(!found(&engine, "file").await.is_empty());
    assert!(found(&engine, "nothing of that kind").await.is_empty(), "all are known");
}

#[tokio::test]
async fn tools_whose_calls_are_refused_are_not_found_and_take_no_place() {
    let mut inputs = searched();
    let engine = started(&inputs).await;
    let first = json!({"query": "read a file", "limit": 1}).to_string();
    let best = async |engine: &Gateway, caller: &Caller| {
        let result = call_at(engine, Endpoint::All, caller, "search_tools", &first).await;
        result["structuredContent"]["tools"][0]["name"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(best(&engine, &caller(Era::Legacy)).await, "up__read");
    let refusing = Refusal { reason: Reason::NotImplemented, message: "it cannot be".into() };
    let change = ToolOverride { name: "read".into(), refusing: Some(refusing.clone()), ..ToolOverride::default() };
    inputs.upstreams[0].plan.overrides = vec![change];
    apply(&engine, &inputs).await;
    assert_eq!(best(&engine, &caller(Era::Legacy)).await, "up__erase");
    inputs.upstreams[0].plan.overrides.clear();
    inputs.upstreams[0].plan.refusing = Some(refusing);
    apply(&engine, &inputs).await;
    assert_eq!(found(&engine, "read a file").await, ["mail__call_tool"]);

    let tasks = r#"[{"name":"slow","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]"#;
    let engine = start_with(&searched(), Server::with(tasks)).await;
    until(|| engine.in_force.snapshot().routes.public(ItemKind::Tool, "up__slow").is_some()).await;
    for (era, count) in [(Era::Legacy, 1), (Era::Modern, 0)] {
        let result = call_at(&engine, Endpoint::All, &caller(era), "search_tools", r#"{"query":"slow up"}"#).await;
        let tools = result["structuredContent"]["tools"].as_array().unwrap();
        assert_eq!(tools.iter().filter(|tool| tool["name"] == "up__slow").count(), count, "{era:?}: {result}");
    }
}
