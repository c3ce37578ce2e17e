//! The tools that the gateway offers, and what the admin API shows.

use super::*;
use crate::domain::health::ConnectionState;
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::plan::{Refusal, ToolOverride, UpstreamPlan};
use crate::domain::ports::WorkerState;
use crate::domain::problem::Problem;
use crate::domain::report::PluginState;
use crate::domain::upstream::Probed;
use crate::engine::views::plugins::LivePluginState;

#[tokio::test]
async fn tools_that_an_upstream_leaves_out_are_not_offered() {
    let offered = async |change: &dyn Fn(&mut UpstreamPlan)| {
        let server = Server::default();
        *server.tools.lock().unwrap() = r#"[{"name":"read"},{"name":"write"}]"#.into();
        let mut inputs = bare();
        let engine = start_with(&inputs, server).await;
        until(|| engine.in_force.snapshot().routes.all().len() == 2).await;
        change(&mut inputs.upstreams[0].plan);
        apply(&engine, &inputs).await;
        engine.in_force.snapshot().routes.all().iter().map(|route| route.own.clone()).collect::<Vec<_>>()
    };
    assert_eq!(offered(&|_| ()).await, ["read", "write"]);
    assert_eq!(offered(&|plan| plan.include = vec!["re*".into()]).await, ["read"]);
    assert_eq!(offered(&|plan| plan.exclude = vec!["re*".into()]).await, ["write"]);
    let hidden = ToolOverride { name: "read".into(), hidden: true, ..ToolOverride::default() };
    assert_eq!(offered(&|plan| plan.overrides = vec![hidden.clone()]).await, ["write"]);
    assert_eq!(offered(&|plan| plan.enabled = false).await, [""; 0]);
}

#[tokio::test]
async fn an_upstream_is_shown_as_in_routing_or_not() {
    let engine = start(&bare()).await;
    let shown = || engine.views.upstreams().into_iter().map(|u| (u.name, u.auto_disabled, u.tools)).collect::<Vec<_>>();
    until(|| shown() == [("up".to_owned(), false, 1)]).await;
    engine
        .catalogues
        .update(&ObjectKey::new("default", "up"), |state| state.health.auto_disabled = Some(Duration::ZERO));
    assert_eq!(shown(), [("up".to_owned(), true, 1)]);
}

#[tokio::test]
async fn an_upstream_that_rests_is_shown_so_until_it_is_connected_again() {
    let engine = start(&bare()).await;
    let rests = || engine.views.upstreams()[0].resting_since.is_some();
    until(|| engine.views.upstreams()[0].server.is_some()).await;
    assert!(!rests());
    engine.server.probes.lock().unwrap().push_back(Ok(Probed::Resting));
    engine.probes.kick(&ObjectKey::new("default", "up"));
    until(rests).await;
    assert_eq!(engine.views.upstreams()[0].connection_state, ConnectionState::Connected, "calls are routed to it");
    engine.probes.kick(&ObjectKey::new("default", "up"));
    until(|| !rests()).await;
}

/// A worker of the plugin with this id.
fn worker(plugin_id: &str, state: WorkerState) -> WorkerInfo {
    WorkerInfo {
        pid: 1,
        plugin: String::new(),
        plugin_id: plugin_id.into(),
        revision: String::new(),
        spawned_at: 0,
        last_used_at: None,
        execution_count: 0,
        is_healthy: true,
        memory_bytes: None,
        state,
    }
}

#[tokio::test]
async fn a_plugin_is_shown_as_executing_while_one_of_its_own_workers_is() {
    let mut inputs = bare();
    let entries = [(Role::Transform, "same"), (Role::Transform, "same")];
    scripts(&mut inputs, "c", Phase::Request, &entries);
    script(&mut inputs, "off", Role::Transform, "same");
    script(&mut inputs, "unused", Role::Transform, "same");
    inputs.plugins[2].enabled = false;
    let engine = start(&inputs).await;
    let ids: Vec<_> = engine.views.plugins().into_iter().map(|plugin| plugin.id).collect();
    *engine.plugins.workers.lock().unwrap() = vec![
        worker(&ids[0], WorkerState::Available),
        worker(&ids[0], WorkerState::Executing),
        worker(&ids[1], WorkerState::Available),
    ];
    let shown: Vec<_> = engine.views.plugins().into_iter().map(|plugin| (plugin.state, plugin.workers)).collect();
    let expected =
        [LivePluginState::Executing, LivePluginState::Enabled, LivePluginState::Disabled, LivePluginState::Registered];
    assert_eq!(shown, expected.into_iter().zip([2, 1, 0, 0]).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_plugin_whose_file_was_never_accepted_says_what_is_wrong_with_it() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "same")]);
    let (mut plan, _) = compile(&inputs, None);
    plan.code.clear();
    plan.plugins[0].path = Some("c0.js".into());
    let object = ObjectId::new(Kind::Plugin, plan.plugins[0].key.clone());
    let problem = Problem::error(Reason::FileNotFound, object, "spec.source.path", "c0.js cannot be read");
    let engine = engine(Server::default());
    engine.applier.apply(plan, vec![problem], &NoSecrets).await;
    let words = "its code is not accepted: spec.source.path: c0.js cannot be read (FileNotFound)";
    let report = engine.views.report();
    assert_eq!(report.plugins[0].message.as_deref(), Some(words));
    assert_eq!(report.refusing[0].message, format!("Plugin default/c0: {words}"));
    assert_eq!(engine.views.plugins()[0].error.as_deref(), Some(words));
}

#[tokio::test]
async fn a_chain_that_may_not_run_a_plugin_does_not_make_the_plugin_fail() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "same")]);
    let (mut plan, _) = compile(&inputs, None);
    let refusal = Refusal { reason: Reason::WrongPhase, message: "Plugin default/c0 does not serve it".into() };
    plan.chains[0].entries[0].unavailable = Some(refusal);
    let engine = engine(Server::default());
    engine.applier.apply(plan, Vec::new(), &NoSecrets).await;
    let report = engine.views.report();
    assert_eq!((report.plugins[0].state, &report.plugins[0].message), (PluginState::Registered, &None));
    assert_eq!(report.refusing[0].message, "Plugin default/c0 does not serve it");
    let plugin = &engine.views.plugins()[0];
    assert_eq!((plugin.state, &plugin.error), (LivePluginState::Enabled, &None));
}

#[tokio::test]
async fn a_plugin_whose_newest_code_does_not_parse_runs_on_and_shows_the_error() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "same")]);
    let engine = start(&inputs).await;
    assert_eq!(engine.views.plugins()[0].error, None);
    crate::config::compile::tests::break_code(&mut inputs, "c0");
    apply(&engine, &inputs).await;
    let plugin = &engine.views.plugins()[0];
    assert_eq!(plugin.state, LivePluginState::Enabled);
    assert!(
        plugin.error.as_ref().is_some_and(|error| error.contains("an expression is expected")),
        "{:?}",
        plugin.error
    );
}

#[tokio::test]
async fn records_of_a_tool_are_found_by_the_name_that_clients_see() {
    let engine = start(&bare()).await;
    until(|| engine.in_force.snapshot().routes.all().len() == 1).await;
    assert_eq!(engine.views.tool_listed_as("up__read"), Some(("up".into(), "read".into())));
    assert_eq!((engine.views.tool_listed_as("read"), engine.views.tool_listed_as("up__none")), (None, None));
}
