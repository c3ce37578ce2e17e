//! Tests of the warning about plugins that run twice on a call.

use super::*;
use crate::config::compile::tests::{chain, chain_of, upstream};
use crate::config::input::UpstreamsInput;
use crate::engine::plan::doubled_plugins::doubled_plugins;
use crate::engine::plan::link::link;

/// Which chains are warned of, if the second one differs from the first one in this way.
fn warned(change: impl FnOnce(&mut Inputs)) -> Vec<String> {
    let mut inputs = bare();
    script(&mut inputs, "p", Role::Transform, "same");
    inputs.upstreams = vec![upstream("a"), upstream("b")];
    inputs.chains = vec![chain("one", &["p"]), chain("two", &["p"])];
    change(&mut inputs);
    let plan = crate::config::compile::compile(&inputs, None).0;
    let linked = link(plan, &[], &NoSecrets, &Arc::default()).0;
    doubled_plugins(&linked).iter().map(|problem| problem.object.as_ref().unwrap().key.name.clone()).collect()
}

#[test]
fn a_plugin_in_two_chains_of_an_upstream_and_a_phase_is_told() {
    assert_eq!(warned(|_| ()), ["two"]);
    assert!(warned(|inputs| chain_of(inputs, "two").entries[0].when = Some("true".into())).is_empty());
    assert!(warned(|inputs| chain_of(inputs, "two").entries[0].enabled = false).is_empty());
    assert!(warned(|inputs| chain_of(inputs, "two").entries[0].config = Some(raw("{}"))).is_empty());
    assert!(warned(|inputs| chain_of(inputs, "two").include = vec!["x".into()]).is_empty());
    assert!(warned(|inputs| chain_of(inputs, "two").phase = Phase::Response).is_empty());
    let apart = |inputs: &mut Inputs| {
        for (name, upstream) in [("one", "a"), ("two", "b")] {
            let names = vec![upstream.to_owned()];
            chain_of(inputs, name).upstreams = Some(UpstreamsInput { names, selector: None });
        }
    };
    assert!(warned(apart).is_empty());
}
