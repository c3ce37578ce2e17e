//! What servers say about the caching of their lists: what clients are told, and when the gateway reads the lists anew.

use super::items::{ITEMS, ask_at};
use super::lists::{announce, asked, listed};
use super::*;
use crate::config::compile::tests::upstream;
use crate::domain::caching::Caching;
use crate::domain::plan::ToolDiscovery;

fn caching(ttl_ms: u64, is_private: bool) -> Caching {
    Caching { ttl_ms: Some(ttl_ms), is_private }
}

/// Starts a gateway with the upstreams `up`, `second` and `third`, which say this about their lists, and waits for them.
async fn three(inputs: &mut Inputs, said: &[(&str, Caching)]) -> Gateway {
    inputs.upstreams.extend([upstream("second"), upstream("third")]);
    let server = Server::with(ITEMS);
    server.caching.lock().unwrap().extend(said.iter().map(|(name, caching)| ((*name).to_owned(), *caching)));
    let engine = start_with(inputs, server).await;
    until(|| engine.in_force.snapshot().routes.tools().count() == 3).await;
    listed(&engine, ItemKind::Prompt).await;
    engine
}

async fn hints(engine: &Gateway, endpoint: Endpoint<'_>, kind: ItemKind) -> String {
    let page = engine.list(endpoint, kind, None, None).await.unwrap();
    serde_json::to_string(&page.caching.hints()).unwrap()
}

const OWN: &str = r#"{"ttlMs":5000,"cacheScope":"public"}"#;

#[tokio::test]
async fn a_merged_list_is_fresh_as_long_as_all_of_its_parts_and_private_if_one_is() {
    let said = [("up", caching(9000, false)), ("second", caching(70, true))];
    let engine = three(&mut bare(), &said).await;
    for kind in [ItemKind::Tool, ItemKind::Prompt] {
        assert_eq!(hints(&engine, Endpoint::All, kind).await, r#"{"ttlMs":70,"cacheScope":"private"}"#);
        assert_eq!(hints(&engine, Endpoint::One("up"), kind).await, OWN, "no longer than the gateway's own");
        assert_eq!(hints(&engine, Endpoint::One("second"), kind).await, r#"{"ttlMs":70,"cacheScope":"private"}"#);
        assert_eq!(hints(&engine, Endpoint::One("third"), kind).await, OWN, "it says nothing");
    }
    let mut inputs = bare();
    inputs.gateway.as_mut().unwrap().plan.tool_discovery = ToolDiscovery::Search;
    let engine = three(&mut inputs, &said).await;
    assert_eq!(hints(&engine, Endpoint::All, ItemKind::Tool).await, OWN, "the tools are the gateway's own");
    inputs.upstreams.iter_mut().for_each(|upstream| upstream.plan.enabled = upstream.plan.key.name == "up");
    apply(&engine, &inputs).await;
    assert_eq!(hints(&engine, Endpoint::All, ItemKind::Prompt).await, OWN, "what is disabled takes no part");
}

#[tokio::test]
async fn a_list_is_serialized_once_for_a_snapshot_and_an_endpoint() {
    let engine = three(&mut bare(), &[]).await;
    let page = async |endpoint| engine.list(endpoint, ItemKind::Tool, None, None).await.unwrap().items;
    let (all, one) = (page(Endpoint::All).await, page(Endpoint::One("up")).await);
    assert!(Arc::ptr_eq(&all, &page(Endpoint::All).await) && Arc::ptr_eq(&one, &page(Endpoint::One("up")).await));
    assert_ne!(all.get(), one.get());
    assert_eq!(page(Endpoint::One("nobody")).await.get(), "[]");
    let more = r#"[{"name":"paint","inputSchema":{"type":"object"}}]"#;
    engine.server.own.lock().unwrap().insert("up".into(), more.into());
    announce(&engine, ItemKind::Tool);
    until(|| engine.in_force.snapshot().routes.public(ItemKind::Tool, "up__paint").is_some()).await;
    assert!(page(Endpoint::All).await.get().contains("up__paint"));
}

#[tokio::test]
async fn a_cursor_is_of_one_list_and_one_revision() {
    let tools: Vec<_> = (0..450).map(|n| json!({"name": format!("t{n}")})).collect();
    let engine = start_with(&bare(), Server::with(json!(tools).to_string())).await;
    until(|| engine.in_force.snapshot().routes.all().len() == 450).await;
    let (mut names, mut cursor) = (Vec::new(), None);
    loop {
        let page = engine.list(Endpoint::All, ItemKind::Tool, cursor.as_deref(), None).await.unwrap();
        let items: Vec<Value> = serde_json::from_str(page.items.get()).unwrap();
        names.extend(items.iter().map(|item| item["name"].as_str().unwrap().to_owned()));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(names, (0..450).map(|n| format!("up__t{n}")).collect::<Vec<_>>());
    let revision = engine.in_force.snapshot().list_revisions().of(ItemKind::Tool).to_owned();
    for bad in ["", "x.1", &format!("{revision}.3"), &format!("{revision}.-1"), &format!("{revision}1"), &revision] {
        let error = engine.list(Endpoint::All, ItemKind::Tool, Some(bad), None).await.unwrap_err();
        assert_eq!(error.code, -32602, "{bad}");
    }
}

/// Has the upstream probed, and waits until that is done.
async fn probe(engine: &Gateway) {
    let before = engine.server.probed.lock().unwrap().len();
    engine.clock.pass(Duration::from_secs(2));
    engine.probes.kick(&ObjectKey::new("default", "up"));
    until(|| engine.server.probed.lock().unwrap().len() > before).await;
    tokio::time::sleep(Duration::from_millis(30)).await;
}

async fn modern(ttl_ms: Option<u64>) -> Gateway {
    let server = Server { era: Mutex::new(Era::Modern), ..Server::with(ITEMS) };
    server.caching.lock().unwrap().insert("up".into(), Caching { ttl_ms, is_private: false });
    let engine = start_with(&bare(), server).await;
    listed(&engine, ItemKind::Template).await;
    until(|| ItemKind::OTHERS.iter().all(|kind| asked(&engine, *kind) == 1)).await;
    engine
}

#[tokio::test]
async fn a_list_is_read_anew_when_it_is_no_longer_fresh_or_has_changed() {
    let engine = modern(Some(600_000)).await;
    probe(&engine).await;
    assert_eq!(ItemKind::ALL.map(|kind| asked(&engine, kind)), [1; 4], "all are fresh");
    announce(&engine, ItemKind::Tool);
    until(|| asked(&engine, ItemKind::Tool) == 2).await;
    engine.clock.pass(Duration::from_secs(700));
    probe(&engine).await;
    until(|| ItemKind::ALL.map(|kind| asked(&engine, kind)) == [3, 2, 2, 2]).await;
}

#[tokio::test]
async fn a_server_that_says_nothing_is_asked_at_each_probe() {
    for ttl_ms in [None, Some(0)] {
        let engine = modern(ttl_ms).await;
        engine.clock.pass(Duration::from_secs(30));
        probe(&engine).await;
        until(|| ItemKind::ALL.map(|kind| asked(&engine, kind)) == [2; 4]).await;
    }
}

#[tokio::test]
async fn a_list_without_a_time_waits_for_no_other_list_and_is_read_no_more_often() {
    let server = Server { tools: Mutex::new(ITEMS.into()), era: Mutex::new(Era::Modern), ..Server::default() };
    server.caching.lock().unwrap().insert("up tool".into(), caching(3_600_000, false));
    let engine = start_with(&bare(), server).await;
    listed(&engine, ItemKind::Template).await;
    until(|| ItemKind::OTHERS.iter().all(|kind| asked(&engine, *kind) == 1)).await;
    probe(&engine).await;
    assert_eq!(ItemKind::ALL.map(|kind| asked(&engine, kind)), [1; 4], "it comes early");
    engine.clock.pass(Duration::from_secs(30));
    probe(&engine).await;
    until(|| ItemKind::ALL.map(|kind| asked(&engine, kind)) == [1, 2, 2, 2]).await;
}

#[tokio::test]
async fn clients_of_the_legacy_era_hear_nothing_of_caching() {
    const READ: &str = r#"{"contents":[{"uri":"file:///a","text":"x"}],"ttlMs":7,"cacheScope":"public","n":1.0,"resultType":"complete"}"#;
    for (server, client, expected) in [
        (Era::Modern, Era::Modern, [json!(7), json!("public")]),
        (Era::Modern, Era::Legacy, [Value::Null, Value::Null]),
        // Before 2026-07-28 the members are a server's own.
        (Era::Legacy, Era::Legacy, [json!(7), json!("public")]),
    ] {
        let fake = Server { era: Mutex::new(server), ..Server::with(ITEMS) };
        *fake.answers.lock().unwrap() = Ok(Answer::Result(raw(READ)));
        let engine = start_with(&bare(), fake).await;
        let result = ask_at(&engine, Endpoint::All, client, ItemKind::Resource, r#"{"uri":"file:///a"}"#).await;
        assert_eq!([result["ttlMs"].clone(), result["cacheScope"].clone()], expected, "{result}");
        assert_eq!(result["n"], 1.0);
        let is_rewritten = (server, client) == (Era::Modern, Era::Legacy);
        assert_eq!(result.get("resultType").is_none(), is_rewritten, "{result}");
    }
}
