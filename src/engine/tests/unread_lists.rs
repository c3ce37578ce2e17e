//! Lists that chains must see and that were not read, or not all of them: what they would withhold is not known.

use super::filters::{listing, problems, settled};
use super::items::{ITEMS, ask, ask_at};
use super::lists::announce;
use super::*;
use crate::config::input::UpstreamsInput;
use crate::domain::method::Method;
use crate::domain::plan::TransportPlan;
use crate::domain::upstream::Probed;

/// What is answered to the reading of a resource at the endpoint of its upstream.
async fn read(engine: &Gateway, uri: &str) -> Value {
    let params = json!({"uri": uri}).to_string();
    ask_at(engine, Endpoint::One("up"), Era::Legacy, ItemKind::Resource, &params).await
}

/// A server that fails to list items of this kind.
fn failing(kind: ItemKind, items: &str) -> Server {
    let server = Server::with(items);
    *server.answers.lock().unwrap() = Ok(Answer::Result(raw(r#"{"contents":[]}"#)));
    server.unlisted.lock().unwrap().insert(kind, Some(UpstreamError::Connect("it is busy".into())));
    server
}

#[tokio::test]
async fn while_the_list_was_never_read_what_a_guard_over_it_may_withhold_is_refused() {
    let mut inputs = listing(Method::ListResources, Role::Guard, "deny no");
    let engine = start_with(&inputs, failing(ItemKind::Resource, ITEMS)).await;
    for uri in ["x:///b", "file:///a", "file:///%61", "db:///users"] {
        let error = read(&engine, uri).await;
        assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32603), &json!("ListUnread")), "{error}");
        let said = error["message"].as_str().unwrap();
        assert!(said.contains("could not read resources/list of upstream up, "), "{said}");
        let explained =
            engine.views.explain(&format!("up/{uri}"), Method::ReadResource, None).await.unwrap().withheld.unwrap();
        assert!(explained.contains("could not read resources/list of its upstream, "), "{explained}");
    }
    assert!(sent(&engine).is_empty());
    assert_eq!(last_call(&engine).reason.as_deref(), Some("ListUnread"));
    let error = ask(&engine, ItemKind::Resource, r#"{"uri":"db:///users"}"#).await;
    assert_eq!(error["code"], -32002, "its template matches nothing: {error}");
    assert!(problems(&engine).contains("until it is read, resources that no list names"), "{}", problems(&engine));
    // The list is read as soon as the server is another one.
    engine.server.unlisted.lock().unwrap().clear();
    inputs.upstreams[0].plan.labels.insert("a".into(), "b".into());
    apply(&engine, &inputs).await;
    assert_eq!(read(&engine, "x:///b").await["code"], -32002);
    settled(&engine).await;
    assert_eq!(read(&engine, "file:///%61").await["code"], -32002);
    assert!(!problems(&engine).contains("ListUnread"), "{}", problems(&engine));
    // Another server whose list fails is as unknown as the first was.
    engine
        .server
        .unlisted
        .lock()
        .unwrap()
        .insert(ItemKind::Resource, Some(UpstreamError::Connect("it is busy".into())));
    inputs.upstreams[0].plan.labels.clear();
    apply(&engine, &inputs).await;
    assert_eq!(read(&engine, "x:///b").await["data"]["reason"], "ListUnread");
}

#[tokio::test]
async fn what_another_server_listed_counts_no_more() {
    let mut inputs = listing(Method::ListResources, Role::Guard, "same");
    let engine = start_with(&inputs, Server::with(ITEMS)).await;
    *engine.server.answers.lock().unwrap() = Ok(Answer::Result(raw(r#"{"contents":[]}"#)));
    settled(&engine).await;
    assert_eq!(read(&engine, "file:///a").await, json!({"contents": []}));
    assert_eq!(engine.in_force.snapshot().routes.tools().count(), 1);
    let mut fail = async |kind, url: &str| {
        let failure = Some(UpstreamError::Connect("it is busy".into()));
        engine.server.unlisted.lock().unwrap().insert(kind, failure);
        inputs.upstreams[0].plan.transport = TransportPlan::at(url);
        apply(&engine, &inputs).await;
        read(&engine, "file:///a").await
    };
    assert_eq!(fail(ItemKind::Resource, "http://other/mcp").await["data"]["reason"], "ListUnread");
    assert_eq!(engine.in_force.snapshot().routes.tools().count(), 1);
    assert_eq!(fail(ItemKind::Tool, "http://third/mcp").await["data"]["reason"], "UpstreamDown");
    assert_eq!(engine.in_force.snapshot().routes.tools().count(), 0, "another server can have others of these names");
}

#[tokio::test]
async fn a_list_that_fails_three_times_is_unread_until_it_is_read_again() {
    let engine = start_with(&listing(Method::ListResources, Role::Guard, "same"), Server::with(ITEMS)).await;
    *engine.server.answers.lock().unwrap() = Ok(Answer::Result(raw(r#"{"contents":[]}"#)));
    settled(&engine).await;
    let up = ObjectKey::new("default", "up");
    let failure = || Some(UpstreamError::TooLarge(1));
    engine.server.unlisted.lock().unwrap().insert(ItemKind::Resource, failure());
    for failures in 1..=3 {
        assert_eq!(read(&engine, "x:///b").await["code"], -32002, "{failures}");
        engine.clock.pass(Duration::from_secs(301));
        announce(&engine, ItemKind::Resource);
        until(|| engine.catalogues.upstream(&up).others.failures(ItemKind::Resource) == failures).await;
    }
    until(|| engine.in_force.snapshot().is_unread(&up, ItemKind::Resource)).await;
    assert_eq!(read(&engine, "x:///b").await["data"]["reason"], "ListUnread");
    assert_eq!(read(&engine, "file:///a").await, json!({"contents": []}), "a list names it");
    engine.server.unlisted.lock().unwrap().clear();
    engine.clock.pass(Duration::from_secs(301));
    announce(&engine, ItemKind::Resource);
    until(|| !engine.in_force.snapshot().is_unread(&up, ItemKind::Resource)).await;
    assert_eq!(read(&engine, "x:///b").await["code"], -32002);
}

#[tokio::test]
async fn a_list_that_was_never_read_is_no_hindrance_where_no_chain_must_see_it() {
    let guard = |method| listing(method, Role::Guard, "deny no");
    let mut elsewhere = guard(Method::ListResources);
    elsewhere.chains[0].upstreams = Some(UpstreamsInput { names: vec!["other".into()], selector: None });
    for inputs in [
        bare(),
        guard(Method::ListTools),
        guard(Method::ListPrompts),
        listing(Method::ListResources, Role::Transform, "same"),
        elsewhere,
    ] {
        let engine = start_with(&inputs, failing(ItemKind::Resource, "[]")).await;
        assert_eq!(read(&engine, "x:///b").await, json!({"contents": []}));
    }
    // What is listed by name is not there while its list was not read.
    let engine = start_with(&guard(Method::ListPrompts), failing(ItemKind::Prompt, ITEMS)).await;
    let error = ask_at(&engine, Endpoint::One("up"), Era::Legacy, ItemKind::Prompt, r#"{"name":"greet"}"#).await;
    assert_eq!((&error["code"], sent(&engine).len()), (&json!(-32602), 0), "{error}");
}

#[tokio::test]
async fn a_list_that_a_guard_must_see_is_read_although_the_connection_rests() {
    let inputs = listing(Method::ListResources, Role::Guard, "deny no");
    let engine = start_with(&inputs, failing(ItemKind::Resource, ITEMS)).await;
    assert_eq!(read(&engine, "x:///b").await["data"]["reason"], "ListUnread");
    let up = ObjectKey::new("default", "up");
    engine.server.probes.lock().unwrap().push_back(Ok(Probed::Resting));
    engine.probes.kick(&up);
    until(|| engine.catalogues.upstream(&up).resting_since.is_some()).await;
    engine.server.unlisted.lock().unwrap().clear();
    engine.clock.pass(Duration::from_secs(61));
    announce(&engine, ItemKind::Resource);
    until(|| engine.catalogues.was_read(&up, ItemKind::Resource)).await;
    assert_eq!(read(&engine, "x:///b").await["code"], -32002);
}
