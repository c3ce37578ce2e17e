//! Metrics about chains change with the state of their plugins, even without a new plan.

use super::*;
use crate::config::compile::tests::entry;
use crate::domain::method::Method;
use crate::domain::plugin::{FailurePolicy, Mode};
use crate::engine::views::scrape::render_metrics;

/// The chains for which this gauge is 1, as `chain reason`.
fn chains(engine: &Gateway, gauge: &str) -> Vec<String> {
    let text = render_metrics(&engine.views);
    let lines = text.lines().filter_map(|line| line.strip_prefix(gauge)?.strip_suffix(" 1"));
    lines.map(|labels| labels.replace(['{', '}', '"'], "").replace("chain=", "").replace(",reason=", " ")).collect()
}

fn refusing(engine: &Gateway) -> Vec<String> {
    chains(engine, "hawsepipe_chain_refusing")
}

#[tokio::test]
async fn a_chain_refuses_while_its_workers_cannot_start() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "same")]);
    let engine = start(&inputs).await;
    for down in [false, true, false] {
        engine.plugins.down.store(down, Ordering::Relaxed);
        let expected: &[&str] = if down { &["default/c NotLoaded"] } else { &[] };
        assert_eq!(refusing(&engine), expected);
        let refused = call(&engine, "{}").await["result"]["_meta"]["hawsepipe.dev/refused"]["reason"].clone();
        assert_eq!(refused, if down { json!("NotLoaded") } else { Value::Null });
    }
}

#[tokio::test]
async fn views_and_the_report_say_which_plugin_makes_a_chain_refuse_and_why() {
    let mut inputs = bare();
    let roles = [(Role::Observe, "same"), (Role::Guard, "same")];
    scripts(&mut inputs, "c", Phase::Request, &roles);
    scripts(&mut inputs, "watch", Phase::Response, &roles[..1]);
    let engine = start(&inputs).await;
    for down in [false, true, false] {
        engine.plugins.down.store(down, Ordering::Relaxed);
        let chains: Vec<_> = engine.views.chains().into_iter().map(|chain| (chain.chain, chain.refusing)).collect();
        let words = down.then(|| "Plugin default/c1: it does not start".to_owned());
        assert_eq!(chains, [("default/c".to_owned(), words.clone()), ("default/watch".to_owned(), None)]);
        let reported =
            engine.views.report().refusing.into_iter().map(|told| (told.chain, told.reason, Some(told.message)));
        let expected = words.map(|words| ("default/c".to_owned(), "NotLoaded".to_owned(), Some(words)));
        assert_eq!(reported.collect::<Vec<_>>(), Vec::from_iter(expected));
        let explained = engine.views.explain("up__read", Method::CallTool, None).await.unwrap();
        let outcome = &explained.chains[0].entries[1].outcome;
        assert_eq!(outcome, if down { "fails(NotLoaded): it does not start" } else { "runs" });
    }
}

#[tokio::test]
async fn what_may_fail_refuses_nothing() {
    let mut inputs = bare();
    let roles = [(Role::Transform, "same"), (Role::Guard, "same"), (Role::Transform, "same")];
    let made = scripts(&mut inputs, "c", Phase::Request, &roles);
    made.entries[0].mode = Mode::Shadow;
    made.entries[1].failure_policy = Some(FailurePolicy::Ignore);
    made.entries[2].enabled = false;
    let engine = start(&inputs).await;
    engine.plugins.down.store(true, Ordering::Relaxed);
    assert_eq!(refusing(&engine), [""; 0]);
    assert_eq!(chains(&engine, "hawsepipe_chain_fails_open"), ["default/c GuardWeakened"]);
    assert_eq!(call(&engine, "{}").await["result"]["content"][0]["text"], "hello");
}

#[tokio::test]
async fn a_chain_whose_guard_is_a_shadow_fails_open() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "same")]);
    assert_eq!(chains(&start(&inputs).await, "hawsepipe_chain_fails_open"), [""; 0]);
    inputs.chains[0].entries[0].mode = Mode::Shadow;
    assert_eq!(chains(&start(&inputs).await, "hawsepipe_chain_fails_open"), ["default/c GuardWeakened"]);
}

#[tokio::test]
async fn what_a_plan_lacks_refuses_until_another_has_it() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[]).entries.push(entry("late"));
    scripts(&mut inputs, "d", Phase::Response, &[(Role::Transform, "same")]).entries[0].when = Some("(".into());
    let engine = start(&inputs).await;
    assert_eq!(refusing(&engine), ["default/c PluginNotFound", "default/d InvalidExpression"]);
    script(&mut inputs, "late", Role::Transform, "same");
    inputs.chains[1].entries[0].when = None;
    apply(&engine, &inputs).await;
    assert_eq!(refusing(&engine), [""; 0]);
}

#[tokio::test]
async fn series_of_what_a_plan_no_longer_names_are_taken_out() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "same")]);
    let engine = start(&inputs).await;
    let has = |label: &str| render_metrics(&engine.views).contains(label);
    call(&engine, "{}").await;
    let (plugin, chain, upstream) = (r#"plugin="default/c0""#, r#"chain="default/c""#, r#"upstream="up""#);
    assert!(has(plugin) && has(chain) && has(upstream));
    inputs.chains.clear();
    inputs.plugins.clear();
    apply(&engine, &inputs).await;
    assert!(!has(plugin) && !has(chain) && has(upstream));
    // A call that ends on the previous plan does not bring the series back.
    *engine.server.holds.lock().unwrap() = true;
    let last = engine.clone();
    let last = tokio::spawn(async move { call(&last, "{}").await });
    until(|| sent(&engine).len() == 2).await;
    inputs.upstreams.clear();
    apply(&engine, &inputs).await;
    assert!(!has(upstream));
    engine.server.go.notify_one();
    last.await.unwrap();
    assert!(!has(upstream));
}
