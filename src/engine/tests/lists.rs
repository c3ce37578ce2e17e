//! Lists of prompts, resources and templates: they are read beside the tools, and nothing that is wrong with them is of
//! any consequence to tools.

use super::items::{ITEMS, ask, ask_at, items};
use super::*;
use crate::config::compile::tests::upstream;
use crate::domain::health::ConnectionState;

pub(super) async fn listed(engine: &Gateway, kind: ItemKind) -> Vec<String> {
    let page = engine.list(Endpoint::All, kind, None, None).await.unwrap();
    let items: Vec<Value> = serde_json::from_str(page.items.get()).unwrap();
    items.iter().map(|item| item[kind.name_member()].as_str().unwrap().to_owned()).collect()
}

pub(super) fn asked(engine: &Gateway, kind: ItemKind) -> usize {
    engine.server.listed.lock().unwrap().iter().filter(|listed| **listed == kind).count()
}

pub(super) fn announce(engine: &Gateway, kind: ItemKind) {
    *engine.server.event.lock().unwrap() = Some(UpstreamEvent::ListChanged(ObjectKey::new("default", "up"), kind));
    engine.server.told.notify_one();
}

fn state(engine: &Gateway) -> crate::engine::catalogue::upstream_state::UpstreamState {
    engine.catalogues.upstream(&ObjectKey::new("default", "up"))
}

fn problems(engine: &Gateway) -> String {
    engine.in_force.snapshot().problems().iter().map(|problem| format!("{problem}\n")).collect()
}

#[tokio::test]
async fn tools_are_there_while_other_lists_fail_or_take_forever() {
    for fault in [
        None,
        Some(UpstreamError::Unauthorized { status: 401, said: String::new() }),
        Some(UpstreamError::Lost("it ended".into())),
        Some(UpstreamError::Timeout(Duration::from_secs(1))),
    ] {
        let server = Server::with(ITEMS);
        *server.unlisted.lock().unwrap() = ItemKind::OTHERS.map(|kind| (kind, fault.clone())).into();
        let mut inputs = bare();
        inputs.gateway.as_mut().unwrap().plan.limits.list_timeout_ms = 100;
        let engine = start_with(&inputs, server).await;
        assert_eq!(listed(&engine, ItemKind::Tool).await, ["up__read"]);
        assert!(call(&engine, "{}").await["result"].is_object());
        assert!(listed(&engine, ItemKind::Prompt).await.is_empty());
        until(|| asked(&engine, ItemKind::Prompt) == 1).await;
        tokio::time::sleep(Duration::from_millis(1200)).await;
        let state = state(&engine);
        assert_eq!((state.health.state, state.health.failures, state.stale), (ConnectionState::Connected, 0, false));
        let asked = ItemKind::ALL.map(|kind| asked(&engine, kind));
        assert_eq!(asked, if fault.is_some() { [1; 4] } else { [1, 1, 0, 0] }, "{fault:?}");
        assert_eq!(engine.server.probed.lock().unwrap().len(), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn a_list_that_cannot_be_read_keeps_its_items_and_is_read_again_after_a_pause() {
    let engine = items(&bare(), r#"{"messages":[]}"#).await;
    assert_eq!(listed(&engine, ItemKind::Prompt).await, ["up__greet"]);
    let fault = UpstreamError::Connect("403".into());
    engine.server.unlisted.lock().unwrap().insert(ItemKind::Prompt, Some(fault));
    engine.clock.pass(Duration::from_secs(2));
    announce(&engine, ItemKind::Prompt);
    until(|| problems(&engine).contains("prompts/list is not read anew: ")).await;
    assert!(problems(&engine).contains("(ListUnread)"), "{}", problems(&engine));
    for _ in 0..3 {
        announce(&engine, ItemKind::Prompt);
        until(|| engine.server.event.lock().unwrap().is_none()).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!((asked(&engine, ItemKind::Prompt), asked(&engine, ItemKind::Tool)), (2, 1));
    assert_eq!(listed(&engine, ItemKind::Prompt).await, ["up__greet"]);
    assert!(ask(&engine, ItemKind::Prompt, r#"{"name":"up__greet"}"#).await["messages"].is_array());
    engine.server.unlisted.lock().unwrap().clear();
    engine.clock.pass(Duration::from_secs(31));
    announce(&engine, ItemKind::Prompt);
    until(|| problems(&engine).is_empty()).await;
    assert_eq!(asked(&engine, ItemKind::Prompt), 3);
}

#[tokio::test]
async fn lists_without_room_leave_tools_theirs() {
    let budget = Arc::new(ByteBudget::new(1 << 20));
    let many: Vec<_> =
        (0..500).map(|n| json!({"uri": format!("file:///{n}"), "description": "x".repeat(500)})).collect();
    let mut all: Vec<Value> = serde_json::from_str(ITEMS).unwrap();
    all.extend(many);
    let server = Server::with(json!(all).to_string());
    let engine = engine_within(server, Arc::clone(&budget));
    apply(&engine, &bare()).await;
    assert_eq!(listed(&engine, ItemKind::Tool).await, ["up__read"]);
    assert_eq!(listed(&engine, ItemKind::Prompt).await, ["up__greet"]);
    until(|| problems(&engine).contains("resources/list is not read anew: ")).await;
    assert!(listed(&engine, ItemKind::Resource).await.is_empty());
    assert_eq!(budget.held(Category::List), 0);
}

#[tokio::test]
async fn what_rests_is_not_woken_for_other_lists_than_that_of_tools() {
    let engine = items(&bare(), "{}").await;
    listed(&engine, ItemKind::Template).await;
    engine.catalogues.update(&ObjectKey::new("default", "up"), |state| state.resting_since = Some(1));
    engine.clock.pass(Duration::from_secs(60));
    announce(&engine, ItemKind::Resource);
    until(|| engine.server.event.lock().unwrap().is_none()).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(asked(&engine, ItemKind::Resource), 1);
}

/// Starts a gateway with the upstreams `up` and `second`, which have these items.
async fn two(up: &str, second: &str) -> Gateway {
    let mut inputs = bare();
    inputs.upstreams.push(upstream("second"));
    let own = [("up".to_owned(), up.to_owned()), ("second".to_owned(), second.to_owned())].into();
    let engine = start_with(&inputs, Server { own: Mutex::new(own), ..Server::default() }).await;
    listed(&engine, ItemKind::Template).await;
    listed(&engine, ItemKind::Resource).await;
    engine
}

#[tokio::test]
async fn a_uri_that_fits_templates_of_two_upstreams_goes_to_neither() {
    let second = r#"[{"uriTemplate":"file:///b/{name}"},{"uri":"file:///b/listed"}]"#;
    let engine = two(r#"[{"uriTemplate":"file:///{+path}"}]"#, second).await;
    let error = ask(&engine, ItemKind::Resource, r#"{"uri":"file:///b/x"}"#).await;
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("the upstreams up and second"), "{error}");
    assert_eq!((&error["code"], &error["data"]["upstreams"]), (&json!(-32602), &json!(["up", "second"])));
    assert_eq!(last_call(&engine).reason.as_deref(), Some("ItemConflict"));
    assert!(sent(&engine).is_empty());
    ask(&engine, ItemKind::Resource, r#"{"uri":"file:///b/listed"}"#).await;
    ask(&engine, ItemKind::Resource, r#"{"uri":"file:///a"}"#).await;
    ask_at(&engine, Endpoint::One("second"), Era::Legacy, ItemKind::Resource, r#"{"uri":"file:///b/x"}"#).await;
    assert_eq!(sent(&engine), ["second/file:///b/listed {}", "up/file:///a {}", "second/file:///b/x {}"]);
}

#[tokio::test]
async fn equal_uris_are_a_warning_with_their_number_and_templates_that_are_not_matched_are_counted() {
    let uris: Vec<_> = (0..300).map(|n| json!({"uri": format!("file:///{n}")})).collect();
    let (uris, templates) = (json!(uris).to_string(), r#"[{"uriTemplate":"{+all}"},{"uriTemplate":"{x}"}]"#);
    let engine = two(&uris, &uris).await;
    let said = problems(&engine);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("300 of its resources have URIs that an upstream before it lists too"), "{said}");
    assert!(said.contains("default/second") && said.contains("(ItemConflict)"), "{said}");
    let engine = two("[]", templates).await;
    assert!(problems(&engine).contains("2 of its resource templates find no resources"), "{}", problems(&engine));
}

#[tokio::test]
async fn a_uri_that_a_template_fits_waits_for_other_upstreams_no_longer_than_a_list_does() {
    let mut inputs = bare();
    inputs.gateway.as_mut().unwrap().plan.limits.list_timeout_ms = 200;
    let engine = items(&inputs, "{}").await;
    listed(&engine, ItemKind::Template).await;
    engine.server.starting.store(true, Ordering::Relaxed);
    inputs.upstreams.push(upstream("second"));
    apply(&engine, &inputs).await;
    let began = Instant::now();
    ask(&engine, ItemKind::Resource, r#"{"uri":"db:///users"}"#).await;
    let took = began.elapsed();
    assert!((150..2000).contains(&took.as_millis()), "{took:?}");
    assert_eq!(sent(&engine), ["up/db:///users {}"]);
}
