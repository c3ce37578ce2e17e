//! Edits of plugins whose new form loads slowly or fails to load.

use super::*;
use crate::config::compile::tests::gateway;
use crate::config::input::{InputValue, NamedInput, WrapperInput};
use crate::domain::item::ItemKind;
use crate::domain::plan::InterpreterPlan;
use crate::domain::ports::Loading;
use crate::engine::plan::snapshot::Lookup;

/// A gateway whose only chain, in the response phase, runs the plugin `c0` with the script `put old`. Calls are
/// answered with `old`.
async fn running(role: Role) -> (Inputs, Gateway) {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Response, &[(role, "put old")]);
    let engine = start(&inputs).await;
    assert_eq!(said(&engine).await, "old");
    (inputs, engine)
}

/// Returns the text of the answer to a call, or the whole answer if it has none.
async fn said(engine: &Gateway) -> String {
    let value = call(engine, "{}").await;
    value["result"]["content"][0]["text"].as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn write(inputs: &mut Inputs, script: &str) {
    inputs.plugins[0].source = SourceInput::Inline(script.into());
    know(inputs, script, "index.js", &["default"]);
}

fn digest(script: &str) -> String {
    crate::domain::digest::sha256_hex(script.as_bytes())
}

/// Returns the revision of the code that ran on the last call, from the record of the call.
fn ran(engine: &Gateway) -> String {
    last_call(engine).entries[0].revision.clone()
}

#[tokio::test]
async fn while_the_new_form_is_loaded_the_old_one_runs_on() {
    let (mut inputs, engine) = running(Role::Guard).await;
    engine.plugins.is("put new", Loading::Underway);
    write(&mut inputs, "put new");
    apply(&engine, &inputs).await;
    assert_eq!(engine.in_force.snapshot().plan().plugins[0].digest, digest("put new"), "the plan is in force at once");
    assert_eq!((said(&engine).await.as_str(), ran(&engine)), ("old", digest("put old")[..12].to_owned()));
    assert!(engine.views.report().not_loaded.is_empty());
    engine.plugins.is("put new", Loading::Loaded);
    until(|| engine.in_force.snapshot().linked.stand_ins.is_empty()).await;
    assert_eq!((said(&engine).await.as_str(), ran(&engine)), ("new", digest("put new")[..12].to_owned()));
    until(|| engine.plugins.kept.lock().unwrap().values().eq(["put new"])).await;
}

#[tokio::test]
async fn a_form_that_cannot_be_loaded_changes_nothing_that_runs_and_is_told() {
    let (mut inputs, engine) = running(Role::Guard).await;
    engine.plugins.is("put new", Loading::Underway);
    write(&mut inputs, "put new");
    apply(&engine, &inputs).await;
    engine.plugins.cannot_load("put new");
    until(|| !engine.in_force.snapshot().linked.not_loaded.is_empty()).await;
    assert_eq!((said(&engine).await.as_str(), ran(&engine)), ("old", digest("put old")[..12].to_owned()));
    let report = engine.views.report();
    let lost = &report.not_loaded[0];
    assert_eq!((lost.plugin.as_str(), &lost.digest), ("default/c0", &digest("put new")));
    assert_eq!(lost.message, "cannot be started: Error: no");
    assert_eq!(report.plugins[0].digest, digest("put old"), "what runs");
    let view = &engine.views.plugins()[0];
    assert_eq!((&view.revision, view.not_loaded.as_ref()), (&digest("put old"), Some(&digest("put new"))));
    let problem = engine.in_force.snapshot().problems()[0].to_string();
    let wanted = format!(
        "Plugin default/c0: spec.source: cannot be started: Error: no. Not loaded; the code loaded before (revision {:.8}) still runs on its calls (NotLoaded)",
        digest("put old")
    );
    assert_eq!(problem, wanted);
    // An unrelated edit does not change what runs, nor does a later form that also fails to load.
    inputs.chains[0].order = 7;
    apply(&engine, &inputs).await;
    assert_eq!(said(&engine).await, "old");
    engine.plugins.cannot_load("put newer");
    write(&mut inputs, "put newer");
    apply(&engine, &inputs).await;
    assert_eq!(said(&engine).await, "old");
    // The cause may have been the machine, so a later load can succeed.
    engine.plugins.is("put newer", Loading::Loaded);
    until(|| engine.in_force.snapshot().linked.not_loaded.is_empty()).await;
    assert_eq!(said(&engine).await, "newer");
    assert!(engine.in_force.snapshot().problems().is_empty());
}

#[tokio::test]
async fn a_first_form_that_cannot_be_loaded_fails_closed() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Response, &[(Role::Guard, "absent")]);
    let engine = engine(Server::default());
    engine.plugins.cannot_load("absent");
    apply(&engine, &inputs).await;
    let _ = engine.list(Endpoint::All, ItemKind::Tool, None, None).await;
    let value = call(&engine, "{}").await;
    assert_eq!(value["result"]["_meta"]["hawsepipe.dev/refused"]["reason"], "NotLoaded", "{value}");
    assert!(sent(&engine).is_empty());
    let problem = engine.in_force.snapshot().problems()[0].message.clone();
    assert!(problem.ends_with("No form of it was ever loaded, so that its entries fail"), "{problem}");
}

#[tokio::test]
async fn a_call_waits_for_a_guard_that_is_still_being_loaded_before_it_is_sent() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Response, &[(Role::Guard, "put it")]);
    inputs.plugins[0].timeout_ms = Some(60_000);
    let engine = start(&bare()).await;
    engine.plugins.is("put it", Loading::Underway);
    apply(&engine, &inputs).await;
    let waiting = engine.clone();
    let waiting = tokio::spawn(async move { said(&waiting).await });
    until(|| engine.gate.calls.in_flight() == 1).await;
    assert!(sent(&engine).is_empty());
    engine.plugins.is("put it", Loading::Loaded);
    assert_eq!(waiting.await.unwrap(), "it");
    // A guard that is not loaded in time is treated like one that fails to load.
    inputs.plugins[0].timeout_ms = Some(1);
    inputs.gateway.as_mut().unwrap().plan.runtime.queue_timeout_ms = 1;
    let before = sent(&engine).len();
    engine.plugins.is("put it", Loading::Underway);
    apply(&engine, &inputs).await;
    let value = call(&engine, "{}").await;
    assert_eq!(value["result"]["_meta"]["hawsepipe.dev/refused"]["reason"], "NotLoaded", "{value}");
    assert_eq!(sent(&engine).len(), before);
}

#[tokio::test]
async fn a_call_that_waits_for_a_guard_goes_on_with_the_form_of_an_edit() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Response, &[(Role::Guard, "put old")]);
    // Longer than the test waits.
    inputs.plugins[0].timeout_ms = Some(600_000);
    let engine = start(&bare()).await;
    // The form of the edit is loaded either before the edit is in force or some time after.
    for loaded_at_once in [true, false] {
        engine.plugins.is("put old", Loading::Underway);
        write(&mut inputs, "put old");
        apply(&engine, &bare()).await;
        apply(&engine, &inputs).await;
        let waiting = engine.clone();
        let waiting = tokio::spawn(async move { said(&waiting).await });
        until(|| engine.gate.calls.in_flight() == 1).await;
        engine.plugins.is("put new", if loaded_at_once { Loading::Loaded } else { Loading::Underway });
        write(&mut inputs, "put new");
        apply(&engine, &inputs).await;
        if !loaded_at_once {
            assert!(!waiting.is_finished());
            engine.plugins.is("put new", Loading::Loaded);
        }
        let answer = tokio::time::timeout(Duration::from_secs(20), waiting).await;
        assert_eq!(answer.expect("it waits for what nobody loads").unwrap(), "new");
    }
}

#[tokio::test]
async fn a_call_on_a_plan_that_was_just_replaced_does_not_wait_for_its_guards() {
    let (mut inputs, engine) = running(Role::Guard).await;
    let before = engine.in_force.snapshot();
    write(&mut inputs, "put new");
    apply(&engine, &inputs).await;
    assert!(engine.plugins.kept.lock().unwrap().values().eq(["put new"]));
    let Lookup::Found(found) = Endpoint::All.find(&before, ItemKind::Tool, "up__read") else { panic!("unknown") };
    let waited = tokio::time::timeout(Duration::from_secs(20), engine.loads.waited_for_guards(&before, &found)).await;
    assert_eq!(waited, Ok(false), "its worker is started for the call");
}

#[tokio::test]
async fn a_kept_form_whose_code_was_changed_stands_in_for_nobody() {
    let (inputs, before) = running(Role::Guard).await;
    let mut kept = before.applier.kept_forms();
    kept[0].code = "put other".into();
    let changed = engine(Server::default());
    changed.applier.restore_forms(kept);
    assert!(changed.applier.kept_forms().is_empty());
    changed.plugins.cannot_load("put old");
    apply(&changed, &inputs).await;
    let _ = changed.list(Endpoint::All, ItemKind::Tool, None, None).await;
    assert!(said(&changed).await.contains("NotLoaded"));
}

#[tokio::test]
async fn a_configuration_goes_with_the_form_that_it_was_written_for() {
    let mut inputs = bare();
    let made = scripts(&mut inputs, "c", Phase::Response, &[(Role::Guard, "config")]);
    made.entries[0].config = Some(raw(r#"{"take":"out"}"#));
    let engine = start(&inputs).await;
    assert_eq!(said(&engine).await, r#"{"take":"out"}"#);
    // The next form expects another key in its configuration, and fails to load.
    engine.plugins.cannot_load("config again");
    write(&mut inputs, "config again");
    inputs.chains[0].entries[0].config = Some(raw(r#"{"patterns":["out"]}"#));
    apply(&engine, &inputs).await;
    assert_eq!(said(&engine).await, r#"{"take":"out"}"#);
    // The older form never had a configuration from this entry, so it cannot run an entry that has one.
    let mut other = chain("d", &["c0"]);
    (other.phase, other.entries[0].config) = (Phase::Response, Some(raw(r#"{"patterns":["out"]}"#)));
    inputs.chains.push(other);
    apply(&engine, &inputs).await;
    let value = call(&engine, "{}").await;
    let refused = &value["result"]["_meta"]["hawsepipe.dev/refused"];
    assert_eq!((&refused["chain"], &refused["reason"]), (&json!("default/d"), &json!("NotLoaded")), "{value}");
    // Without a configuration, the entry runs the older form.
    inputs.chains[1].entries[0].config = None;
    apply(&engine, &inputs).await;
    assert!(said(&engine).await.starts_with('{'), "both ran");
    // When the new form is loaded, it gets the configuration that was written for it.
    engine.plugins.is("config again", Loading::Loaded);
    until(|| engine.in_force.snapshot().linked.stand_ins.is_empty()).await;
    inputs.chains.truncate(1);
    apply(&engine, &inputs).await;
    assert_eq!(said(&engine).await, r#"{"patterns":["out"]}"#);
}

#[tokio::test]
async fn switches_deletions_and_roles_of_the_plan_count_at_once() {
    let (mut inputs, engine) = running(Role::Guard).await;
    engine.plugins.cannot_load("put new");
    write(&mut inputs, "put new");
    apply(&engine, &inputs).await;
    assert_eq!(said(&engine).await, "old");
    // The old form keeps its role Guard. As an observer it could not change the answer.
    inputs.plugins[0].role = Role::Observe;
    apply(&engine, &inputs).await;
    assert_eq!(said(&engine).await, "old");
    inputs.plugins[0].enabled = false;
    apply(&engine, &inputs).await;
    assert_eq!(said(&engine).await, "hello");
    inputs.plugins[0].enabled = true;
    apply(&engine, &inputs).await;
    assert_eq!(said(&engine).await, "old");
    let deleted = inputs.plugins.pop().unwrap();
    apply(&engine, &inputs).await;
    let value = call(&engine, "{}").await;
    assert_eq!(value["result"]["_meta"]["hawsepipe.dev/refused"]["reason"], "PluginNotFound", "{value}");
    // A plugin that is created again under the same name does not get the form of the deleted one.
    inputs.plugins.push(deleted);
    inputs.plugins[0].role = Role::Guard;
    apply(&engine, &inputs).await;
    until(|| !engine.in_force.snapshot().linked.not_loaded.is_empty()).await;
    assert!(said(&engine).await.contains("NotLoaded"));
}

#[tokio::test]
async fn a_form_with_a_right_that_was_taken_from_the_plugin_stands_in_for_nobody() {
    let listing = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Response, &[(Role::Guard, "put old")]);
    inputs.plugins[0].egress = listing(&["a.example:443", "b.example:443"]);
    let engine = start(&inputs).await;
    engine.plugins.cannot_load("put new");
    write(&mut inputs, "put new");
    // A form that has fewer rights than the plan grants can run.
    inputs.plugins[0].egress = listing(&["b.example:443", "a.example:443", "c.example:443"]);
    let variable =
        NamedInput { name: "LEVEL".into(), value: InputValue::Literal("1".into()), field: "spec.env[0]".into() };
    inputs.plugins[0].env = vec![variable];
    apply(&engine, &inputs).await;
    assert_eq!(said(&engine).await, "old");
    inputs.plugins[0].egress = listing(&["a.example:443"]);
    apply(&engine, &inputs).await;
    assert!(said(&engine).await.contains("NotLoaded"));
    engine.plugins.is("put new", Loading::Loaded);
    until(|| engine.in_force.snapshot().linked.not_loaded.is_empty()).await;
    assert_eq!(said(&engine).await, "new");
}

#[tokio::test]
async fn what_an_earlier_process_had_loaded_stands_in_after_a_restart() {
    let (mut inputs, before) = running(Role::Guard).await;
    let kept = serde_json::to_string(&before.applier.kept_forms()).unwrap();
    let restarted = || {
        let engine = engine(Server::default());
        engine.applier.restore_forms(serde_json::from_str(&kept).unwrap());
        engine.plugins.cannot_load("put new");
        engine
    };
    write(&mut inputs, "put new");
    let after = restarted();
    apply(&after, &inputs).await;
    let _ = after.list(Endpoint::All, ItemKind::Tool, None, None).await;
    assert_eq!((said(&after).await.as_str(), ran(&after)), ("old", digest("put old")[..12].to_owned()));
    assert_eq!(serde_json::to_string(&after.applier.kept_forms()).unwrap(), kept, "it is kept on");
    let mut changes = after.applier.forms_changed();
    changes.mark_unchanged();
    after.plugins.is("put new", Loading::Loaded);
    tokio::time::timeout(Duration::from_secs(5), changes.changed()).await.unwrap().unwrap();
    assert_eq!(after.applier.kept_forms()[0].code, "put new");
    // The form of a plugin that was deleted meanwhile is forgotten.
    let after = restarted();
    let plugin = inputs.plugins.pop().unwrap();
    apply(&after, &inputs).await;
    assert!(after.applier.kept_forms().is_empty());
    inputs.plugins.push(plugin);
    apply(&after, &inputs).await;
    let _ = after.list(Endpoint::All, ItemKind::Tool, None, None).await;
    assert!(said(&after).await.contains("NotLoaded"));
}

#[tokio::test]
async fn the_form_of_a_wrapper_that_is_allowed_no_more_stands_in_for_nobody() {
    for (stays_allowed, expected) in [(true, "old"), (false, "NotLoaded")] {
        let mut inputs = bare();
        scripts(&mut inputs, "c", Phase::Response, &[(Role::Guard, "put old")]);
        let (key, name) = (inputs.plugins[0].key.clone(), "python3".to_owned());
        let runtime = &mut gateway(&mut inputs).plan.runtime;
        runtime.allowed_wrappers = vec![key];
        runtime.interpreters = vec![InterpreterPlan { name: name.clone(), path: "/p".into(), read_paths: Vec::new() }];
        inputs.plugins[0].wrapper = Some(WrapperInput { interpreter: Some(name), ..WrapperInput::default() });
        let engine = start(&inputs).await;
        assert_eq!(said(&engine).await, "old");
        engine.plugins.cannot_load("put new");
        inputs.plugins[0].wrapper = None;
        write(&mut inputs, "put new");
        if !stays_allowed {
            gateway(&mut inputs).plan.runtime.allowed_wrappers.clear();
        }
        apply(&engine, &inputs).await;
        let said = said(&engine).await;
        assert!(said.contains(expected), "{said}");
    }
}
