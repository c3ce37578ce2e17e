//! One user of a gateway must not fill it up for the others.

use super::*;
use crate::config::compile::bounds::{MAX_CODE, MAX_NAMESPACE, MAX_OBJECT, MAX_OBJECTS};
use crate::config::compile::keep_within_bounds;
use crate::config::input::{InputValue, NamedInput};
use crate::domain::digest::sha256_hex;

/// A JSON object of so many bytes that does not pack well.
fn config(size: usize) -> Box<RawValue> {
    let noise: String = (0..size / 64).map(|n| sha256_hex(&n.to_le_bytes())).collect();
    raw(&format!(r#"{{"noise":"{noise}"}}"#))
}

#[test]
fn what_is_too_large_is_the_problem_and_the_rest_ships() {
    let mut inputs = folder();
    plugin_of(&mut inputs, "shape").config = Some(config(MAX_OBJECT));
    let mut large = chain("large", &["guard"]);
    large.entries[0].config = Some(config(MAX_OBJECT));
    inputs.chains.push(large);
    inputs.upstreams.push(upstream("large"));
    inputs.config_maps.insert(key("values"), Ok([("k".to_owned(), "x".repeat(MAX_OBJECT))].into()));
    let value = InputValue::ConfigMap { name: "values".into(), key: "k".into(), optional: false };
    inputs.upstreams[1].values =
        vec![NamedInput { name: "X-A".into(), value, field: "spec.external.headers[0]".into() }];
    let expected = [
        "TooLarge MCPUpstream default/large spec",
        "TooLarge Plugin default/shape spec",
        "TooLarge PluginChain default/large spec",
        "PluginNotAccepted PluginChain default/checks spec.entries[1]",
    ];
    let plan = check(&inputs, None, &expected);
    assert!(plan.upstreams[1].refusing.is_some() && the_chain(&plan, "large").refusing.is_some());
    assert_eq!(runs(&plan, "checks"), ["guard Fail", "shape Fail PluginNotAccepted"]);
}

#[test]
fn an_edit_that_is_too_large_changes_nothing_that_runs() {
    let mut inputs = folder();
    let first = accepted(&inputs);
    plugin_of(&mut inputs, "guard").config = Some(config(MAX_OBJECT));
    let second = check(&inputs, Some(&first), &["TooLarge Plugin default/guard spec"]);
    assert_eq!(second.revision, first.revision);
}

#[test]
fn code_of_a_config_map_is_bounded() {
    for (code, fits) in
        [("x".repeat(MAX_CODE), true), ("x".repeat(MAX_CODE + 1), false), ("\u{1}".repeat(MAX_CODE / 4), false)]
    {
        let mut inputs = folder();
        know(&mut inputs, &code, "a.js", &["default"]);
        inputs.config_maps.insert(key("code"), Ok([("a.js".to_owned(), code)].into()));
        plugin_of(&mut inputs, "guard").source = SourceInput::ConfigMap { name: "code".into(), key: "a.js".into() };
        let large = ["TooLarge Plugin default/guard spec.source.configMapKeyRef"];
        let refused = ["PluginNotAccepted PluginChain default/checks spec.entries[0]"];
        let expected: Vec<_> = if fits { Vec::new() } else { large.into_iter().chain(refused).collect() };
        check(&inputs, None, &expected);
    }
}

#[test]
fn a_namespace_that_takes_too_much_is_refused_and_no_other() {
    let mut inputs = folder();
    let mut plan = accepted(&inputs);
    let far = || upstream("team/far").plan;
    plan.upstreams.extend(std::iter::repeat_with(far).take(MAX_OBJECTS + 1));
    let mut problems = Vec::new();
    keep_within_bounds(&mut plan, &mut problems);
    assert_eq!(problems.len(), 1, "{:?}", problems.first());
    assert!(plan.upstreams.last().unwrap().refusing.is_some());
    assert_eq!(plan.upstreams.iter().filter(|upstream| upstream.refusing.is_some()).count(), 1);

    add_plugin(&mut inputs, "huge", |_| {});
    inputs.chains.push(chain("uses", &["huge"]));
    let mut plan = accepted(&inputs);
    let digest = plan.plugin(&key("huge")).unwrap().digest.clone();
    plan.code.insert(digest.clone(), "x".repeat(MAX_NAMESPACE));
    keep_within_bounds(&mut plan, &mut problems);
    assert_eq!(runs(&plan, "uses"), ["huge Fail TooLarge"]);
    assert_eq!(runs(&plan, "checks"), ["guard Fail", "shape LastGood"]);
    assert!(plan.plugin(&key("huge")).is_none() && !plan.code.contains_key(&digest));
}
