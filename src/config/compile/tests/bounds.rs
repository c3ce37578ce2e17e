//! The objects of one namespace must not use up the room of the others.

use super::*;
use crate::config::compile::bounds::{MAX_CODE, MAX_NAMESPACE, MAX_OBJECT, MAX_OBJECTS, PARTS};
use crate::config::compile::keep_within_bounds;
use crate::config::input::{InputValue, NamedInput};
use crate::domain::digest::sha256_hex;

/// Returns a JSON object of about `size` bytes that compresses badly.
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
fn what_there_is_no_room_for_keeps_its_form_or_refuses() {
    let mut inputs = folder();
    let first = accepted(&inputs);
    inputs.upstreams[0].plan.include = vec!["other*".into()];
    chain_of(&mut inputs, "checks").include = vec!["other*".into()];
    plugin_of(&mut inputs, "guard").config = Some(raw(r#"{"other":1}"#));
    let objects = [(Kind::MCPUpstream, "up"), (Kind::PluginChain, "checks"), (Kind::Plugin, "guard")];
    inputs.no_room = objects.iter().map(|(kind, name)| (ObjectId::new(*kind, key(name)), "full".to_owned())).collect();
    let large = ["TooLarge MCPUpstream default/up spec", "TooLarge Plugin default/guard spec"];
    let of_chain = "TooLarge PluginChain default/checks spec";
    let second = check(&inputs, Some(&first), &[large[0], large[1], of_chain]);
    assert_eq!(second.revision, first.revision);
    // A deleted plugin is withdrawn from the kept form too.
    let mut without = inputs.clone();
    remove_plugin(&mut without, "shape");
    let withdrawn = ["PluginNotFound PluginChain default/checks spec.entries[1]"];
    let third = check(&without, Some(&first), &[large[0], large[1], of_chain, withdrawn[0]]);
    assert_eq!(runs(&third, "checks"), ["guard Fail", "shape Fail PluginNotFound"]);
    // Without earlier forms, the upstream and the chain refuse calls.
    let refused = check(&inputs, None, &[large[0], large[1], of_chain]);
    assert!(refused.upstreams[0].refusing.is_some() && the_chain(&refused, "checks").refusing.is_some());
    assert_eq!(refused.upstreams[0].transport, TransportPlan::None);
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
    let before = plan.clone();
    plan.upstreams = [many("default", MAX_OBJECTS), std::mem::take(&mut plan.upstreams)].concat();
    let mut problems = Vec::new();
    keep_within_bounds(&mut plan, Some(&before), &mut problems);
    // An upstream, a chain and two plugins existed before and stay, so four of the new upstreams are refused.
    assert_eq!(problems.len(), 4, "{:?}", problems.first());
    assert_eq!(refused(&plan), ["n8188", "n8189", "n8190", "n8191"]);

    add_plugin(&mut inputs, "huge", |_| {});
    inputs.chains.push(chain("uses", &["huge"]));
    let mut plan = accepted(&inputs);
    let digest = plan.plugin(&key("huge")).unwrap().digest.clone();
    plan.code.insert(digest.clone(), "x".repeat(MAX_NAMESPACE));
    keep_within_bounds(&mut plan, None, &mut problems);
    assert_eq!(runs(&plan, "uses"), ["huge Fail TooLarge"]);
    assert_eq!(runs(&plan, "checks"), ["guard Fail", "shape LastGood"]);
    assert!(plan.plugin(&key("huge")).is_none() && !plan.code.contains_key(&digest));
}

/// Returns `count` upstreams of a namespace.
fn many(namespace: &str, count: usize) -> Vec<UpstreamPlan> {
    (0..count).map(|number| upstream(&format!("{namespace}/n{number}")).plan).collect()
}

/// Returns the names of the upstreams and chains that refuse calls.
fn refused(plan: &Plan) -> Vec<&str> {
    let upstreams = plan.upstreams.iter().filter(|upstream| upstream.refusing.is_some());
    let chains = plan.chains.iter().filter(|chain| chain.refusing.is_some());
    upstreams.map(|upstream| &*upstream.key.name).chain(chains.map(|chain| &*chain.key.name)).collect()
}

#[test]
fn namespaces_beside_the_gateways_own_take_no_more_together_than_one_may_and_what_was_there_stays() {
    let own = accepted(&folder());
    let part = MAX_OBJECTS / PARTS;
    let of = |lists: &[Vec<UpstreamPlan>]| Plan { upstreams: lists.concat(), ..own.clone() };
    let enforced = |mut plan: Plan, previous: Option<&Plan>| {
        let mut problems = Vec::new();
        keep_within_bounds(&mut plan, previous, &mut problems);
        assert_eq!(problems.len(), refused(&plan).len(), "{:?}", problems.first());
        plan
    };
    // A namespace that takes all it can leaves half of the room for the reserved parts of the others.
    let greedy = enforced(of(&[many("greedy", MAX_OBJECTS)]), None);
    assert_eq!(refused(&greedy).len(), MAX_OBJECTS / 2 - part);
    let later: Vec<_> = (0..PARTS / 2 - 1).map(|number| many(&format!("later{number}"), part + 1)).collect();
    let all = [&[many("greedy", MAX_OBJECTS)], later.as_slice()].concat();
    let shared = enforced(of(&all), Some(&greedy));
    assert_eq!(refused(&shared).len(), MAX_OBJECTS / 2 - part + later.len(), "each has its part and no more");
    // Now there is no room left: a new object displaces no other, even if it comes first in the plan.
    let full = enforced(of(&[&[many("newcomer", 1)], all.as_slice()].concat()), Some(&shared));
    assert_eq!(refused(&full)[0], "n0");
    assert_eq!(refused(&full)[1..], refused(&shared));
    // The gateway's own namespace has separate room.
    let owner = enforced(of(&[all.as_slice(), &[many("default", part)]].concat()), Some(&shared));
    assert_eq!(refused(&owner), refused(&shared));
}
