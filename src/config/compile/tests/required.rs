//! Tests of `spec.chains.required`: every call is refused until the required chains are in force.

use super::*;
use crate::domain::reason::Reason;

const MISSING: &str = "RequiredChainMissing MCPGateway default/gw spec.chains.required";

fn requiring() -> Inputs {
    let mut inputs = folder();
    gateway(&mut inputs).plan.required = vec![key("checks")];
    inputs
}

fn refuses(plan: &Plan) -> bool {
    plan.gateway.refusing.as_ref().is_some_and(|r| r.reason == Reason::RequiredChainMissing)
}

#[test]
fn one_in_force_lets_calls_in() {
    assert!(accepted(&requiring()).gateway.refusing.is_none());
}

#[test]
fn one_that_is_not_there_refuses_every_call_until_it_is() {
    let mut inputs = requiring();
    let first = accepted(&inputs);
    let taken_out = std::mem::take(&mut inputs.chains);
    let second = check(&inputs, Some(&first), &[MISSING]);
    assert!(refuses(&second));
    inputs.chains = taken_out;
    assert!(!refuses(&check(&inputs, Some(&second), &[])));
}

#[test]
fn one_that_does_nothing_is_not_in_force() {
    let off = "?NothingEnabled PluginChain default/checks spec.entries";
    let mut inputs = requiring();
    chain_of(&mut inputs, "checks").entries.iter_mut().for_each(|e| e.enabled = false);
    assert!(refuses(&check(&inputs, None, &[off, MISSING])));
    let mut inputs = requiring();
    inputs.plugins.iter_mut().for_each(|p| p.enabled = false);
    assert!(refuses(&check(&inputs, None, &[off, MISSING])));
}

#[test]
fn one_that_was_never_accepted_is_not_in_force() {
    let mut inputs = requiring();
    chain_of(&mut inputs, "checks").include = vec!["[".into()];
    let bad = "InvalidPattern PluginChain default/checks spec.tools.include[0]";
    assert!(refuses(&check(&inputs, None, &[bad, MISSING])));
    let first = accepted(&requiring());
    assert!(!refuses(&check(&inputs, Some(&first), &[bad])));
}

#[test]
fn one_of_another_namespace_must_name_the_gateway() {
    let mut inputs = folder();
    gateway(&mut inputs).plan.required = vec![key("sec/dlp")];
    add_plugin(&mut inputs, "sec/p", |_| {});
    inputs.chains.push(chain("sec/dlp", &["sec/p"]));
    let untaken = "?NotTaken PluginChain sec/dlp spec.gateways";
    assert!(refuses(&check(&inputs, None, &[untaken, MISSING])));
    chain_of(&mut inputs, "sec/dlp").gateways = vec![key("gw")];
    let plan = accepted(&inputs);
    assert!(!refuses(&plan) && the_chain(&plan, "sec/dlp").owner);
}

#[test]
fn a_bad_edit_of_the_gateway_neither_keeps_nor_lifts_the_refusal() {
    let mut inputs = requiring();
    let checks = std::mem::take(&mut inputs.chains);
    let first = check(&inputs, None, &[MISSING]);
    inputs.gateway = None;
    inputs.invalid.push(invalid(Kind::MCPGateway, "gw"));
    let second = check(&inputs, Some(&first), &[MISSING]);
    assert!(refuses(&second));
    inputs.chains = checks;
    assert!(!refuses(&check(&inputs, Some(&second), &[])));
}
