//! Tests which upstream gets a tool name that several upstreams list, if tools keep their own names.

use super::*;
use crate::config::compile::tests::upstream;
use crate::domain::plan::PrefixMode;
use crate::domain::seen::{MAX_OF_NAMESPACE, MAX_OF_ONE, SeenNames};

/// Two upstreams with the same tools.
fn two_upstreams() -> Inputs {
    let mut inputs = bare();
    inputs.gateway.as_mut().unwrap().plan.prefix = PrefixMode::OnConflict;
    inputs.upstreams.push(upstream("second"));
    inputs
}

fn names(engine: &Gateway) -> Vec<String> {
    engine.in_force.snapshot().routes.all().iter().filter_map(|r| r.public.clone()).collect()
}

fn seen(upstream: &str, names: &[&str]) -> SeenNames {
    let mut seen = SeenNames::default();
    seen.add(&ObjectKey::new("default", upstream), names.iter().copied());
    seen
}

#[tokio::test]
async fn an_outage_frees_no_name() {
    let engine = start(&two_upstreams()).await;
    until(|| names(&engine) == ["read", "second__read"]).await;
    *engine.server.tools.lock().unwrap() = "[]".into();
    *engine.server.event.lock().unwrap() =
        Some(UpstreamEvent::ListChanged(ObjectKey::new("default", "up"), ItemKind::Tool));
    engine.server.told.notify_one();
    until(|| names(&engine) == ["second__read"]).await;
}

#[tokio::test]
async fn a_restart_frees_no_name() {
    let server = Server::with(r#"[{"name":"list"}]"#);
    let engine = engine(server);
    engine.in_force.merge_seen_names(&seen("up", &["list"]));
    let mut inputs = two_upstreams();
    // The first upstream is disabled, so it lists no tools.
    inputs.upstreams[0].plan.enabled = false;
    apply(&engine, &inputs).await;
    until(|| names(&engine) == ["second__list"]).await;
    let seen = Arc::clone(&engine.in_force.seen_names().borrow());
    assert_eq!(serde_json::to_string(&*seen).unwrap(), r#"{"default/second":["list"],"default/up":["list"]}"#);
}

#[tokio::test]
async fn names_that_come_later_count_at_once() {
    let mut inputs = two_upstreams();
    inputs.upstreams[0].plan.enabled = false;
    let engine = start(&inputs).await;
    until(|| names(&engine) == ["read"]).await;
    engine.in_force.merge_seen_names(&seen("up", &["read"]));
    assert_eq!(names(&engine), ["second__read"]);
}

#[tokio::test]
async fn a_deleted_upstream_gives_its_names_away() {
    let mut inputs = two_upstreams();
    let engine = start(&inputs).await;
    until(|| names(&engine) == ["read", "second__read"]).await;
    inputs.upstreams.remove(0);
    apply(&engine, &inputs).await;
    assert_eq!(names(&engine), ["read"]);
    assert_eq!(engine.in_force.seen_names().borrow().len(), 1);
}

#[tokio::test]
async fn names_of_upstreams_that_are_not_planned_give_way_where_room_is_needed() {
    let many: Vec<_> = (0..MAX_OF_ONE).map(|n| format!("tool{n}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    for (owner, expected) in [("gone", "read"), ("up", "up__read")] {
        let engine = engine(Server::default());
        for other in 1..MAX_OF_NAMESPACE / MAX_OF_ONE {
            engine.in_force.merge_seen_names(&seen(&format!("gone{other}"), &many));
        }
        engine.in_force.merge_seen_names(&seen(owner, &many));
        let mut inputs = two_upstreams();
        inputs.upstreams.pop();
        apply(&engine, &inputs).await;
        until(|| names(&engine) == [expected]).await;
        let said = engine.in_force.snapshot().problems().iter().any(|p| p.message.contains("as are kept"));
        assert_eq!(said, owner == "up");
    }
}

#[tokio::test]
async fn what_the_other_processes_do_not_know_is_reported_where_tools_keep_their_own_names() {
    let mut inputs = two_upstreams();
    let engine = start(&inputs).await;
    until(|| names(&engine) == ["read", "second__read"]).await;
    assert!(engine.views.report().seen_names.is_empty(), "nobody keeps names for others");
    engine.in_force.set_published_names(seen("up", &["read"]));
    assert_eq!(engine.views.report().seen_names, seen("second", &["read"]));
    inputs.gateway.as_mut().unwrap().plan.prefix = PrefixMode::Always;
    apply(&engine, &inputs).await;
    assert!(engine.views.report().seen_names.is_empty());
}

#[tokio::test]
async fn names_that_another_process_saw_count() {
    let mut inputs = two_upstreams();
    inputs.upstreams[0].plan.enabled = false;
    let engine = engine(Server::default());
    engine.in_force.set_published_names(seen("up", &["read"]));
    apply(&engine, &inputs).await;
    until(|| names(&engine) == ["second__read"]).await;
}
