//! Withdrawals take effect immediately: a plugin that was deleted or is no longer shared cannot run.

use super::*;
use crate::domain::plugin::FailurePolicy;

#[test]
fn a_deleted_plugin_refuses_whatever_its_role() {
    let mut inputs = folder();
    let first = accepted(&inputs);
    remove_plugin(&mut inputs, "shape");
    let plan = check(&inputs, Some(&first), &["PluginNotFound PluginChain default/checks spec.entries[1]"]);
    assert_eq!(runs(&plan, "checks"), ["guard Fail", "shape Fail PluginNotFound"]);
    assert_eq!(the_chain(&plan, "checks").entries[1].role, Role::Guard);
    assert!(plan.plugin(&key("shape")).is_none());
    // When the plugin exists again, it runs.
    add_plugin(&mut inputs, "shape", |_| {});
    assert_eq!(runs(&check(&inputs, Some(&plan), &[]), "checks"), ["guard Fail", "shape LastGood"]);
}

#[test]
fn a_deleted_plugin_counts_although_the_chain_has_a_bad_edit() {
    let mut inputs = folder();
    let first = accepted(&inputs);
    remove_plugin(&mut inputs, "guard");
    chain_of(&mut inputs, "checks").entries[1].when = Some("(".into());
    let expected = [
        "InvalidExpression PluginChain default/checks spec.entries[1].when",
        "PluginNotFound PluginChain default/checks spec.entries[0]",
    ];
    let plan = check(&inputs, Some(&first), &expected);
    assert_eq!(runs(&plan, "checks"), ["guard Fail PluginNotFound", "shape LastGood"]);
    assert!(the_chain(&plan, "checks").refusing.is_none());
}

#[test]
fn withdrawn_consent_counts_at_once() {
    let mut inputs = folder();
    add_plugin(&mut inputs, "lib/p", |p| p.share_with = Some(Namespaces::All));
    inputs.chains.push(chain("uses", &["lib/p"]));
    let first = accepted(&inputs);
    plugin_of(&mut inputs, "lib/p").share_with = None;
    let withdrawn = "RefNotPermitted PluginChain default/uses spec.entries[0]";
    assert_eq!(runs(&check(&inputs, Some(&first), &[withdrawn]), "uses"), ["p Fail RefNotPermitted"]);
    // The same holds if the new forms of the chain and of the plugin are invalid.
    break_code(&mut inputs, "lib/p");
    chain_of(&mut inputs, "uses").include = vec!["[".into()];
    let expected = [
        "SyntaxError Plugin lib/p spec.source.inline",
        "InvalidPattern PluginChain default/uses spec.tools.include[0]",
        withdrawn,
    ];
    assert_eq!(runs(&check(&inputs, Some(&first), &expected), "uses"), ["p Fail RefNotPermitted"]);
    // The same holds if the chain is invalid and cannot be read.
    inputs.chains.retain(|c| c.key != key("uses"));
    inputs.invalid.push(invalid(Kind::PluginChain, "uses"));
    let plan = check(&inputs, Some(&first), &[expected[0], withdrawn]);
    assert_eq!(runs(&plan, "uses"), ["p Fail RefNotPermitted"]);
}

#[test]
fn a_plugin_that_was_never_accepted_cannot_run() {
    let mut inputs = folder();
    break_code(&mut inputs, "shape");
    let expected = [
        "SyntaxError Plugin default/shape spec.source.inline",
        "PluginNotAccepted PluginChain default/checks spec.entries[1]",
    ];
    assert_eq!(runs(&check(&inputs, None, &expected), "checks")[1], "shape Fail PluginNotAccepted");
    remove_plugin(&mut inputs, "shape");
    inputs.invalid.push(invalid(Kind::Plugin, "shape"));
    assert_eq!(runs(&check(&inputs, None, &expected[1..]), "checks")[1], "shape Fail PluginNotAccepted");
}

#[test]
fn only_a_written_policy_softens_and_says_so() {
    let mut inputs = folder();
    let first = accepted(&inputs);
    for (policy, word) in [(FailurePolicy::LastGood, "LastGood"), (FailurePolicy::Ignore, "Ignore")] {
        remove_plugin(&mut inputs, "shape");
        chain_of(&mut inputs, "checks").entries[1].failure_policy = Some(policy);
        let expected = [
            "PluginNotFound PluginChain default/checks spec.entries[1]",
            "?GuardWeakened PluginChain default/checks spec.entries[1].failurePolicy",
        ];
        let plan = check(&inputs, Some(&first), &expected);
        assert_eq!(runs(&plan, "checks")[1], format!("shape {word} PluginNotFound"));
    }
}

#[test]
fn a_weakened_guard_is_said_and_a_transform_is_none() {
    let mut inputs = folder();
    let checks = chain_of(&mut inputs, "checks");
    checks.entries[0].failure_policy = Some(FailurePolicy::LastGood);
    checks.entries[1].failure_policy = Some(FailurePolicy::Ignore);
    let weak = ["?GuardWeakened PluginChain default/checks spec.entries[0].failurePolicy"];
    assert_eq!(runs(&check(&inputs, None, &weak), "checks"), ["guard LastGood", "shape Ignore"]);
    // An entry in shadow mode guards nothing, whatever its policy.
    for policy in [Some(FailurePolicy::LastGood), None] {
        let checks = chain_of(&mut inputs, "checks");
        (checks.entries[0].mode, checks.entries[0].failure_policy) = (Mode::Shadow, policy);
        check(&inputs, None, &["?GuardWeakened PluginChain default/checks spec.entries[0].mode"]);
    }
    // Disabling a Guard, or switching an entry that is not a Guard to shadow mode, is not a Problem.
    let checks = chain_of(&mut inputs, "checks");
    (checks.entries[0].enabled, checks.entries[1].mode) = (false, Mode::Shadow);
    accepted(&inputs);
}

#[test]
fn an_entry_that_is_off_and_cannot_run_is_no_problem() {
    let mut inputs = folder();
    remove_plugin(&mut inputs, "shape");
    chain_of(&mut inputs, "checks").entries[1].enabled = false;
    accepted(&inputs);
}

#[test]
fn a_plugin_that_no_longer_serves_the_phase_cannot_run() {
    let mut inputs = folder();
    let first = accepted(&inputs);
    plugin_of(&mut inputs, "guard").phases = Some(vec![Phase::Response]);
    let plan = check(&inputs, Some(&first), &["WrongPhase PluginChain default/checks spec.entries[0]"]);
    assert_eq!(runs(&plan, "checks")[0], "guard Fail WrongPhase");
}

#[test]
fn a_deleted_chain_and_a_deleted_upstream_are_gone() {
    let mut inputs = folder();
    let first = accepted(&inputs);
    inputs.chains.clear();
    inputs.upstreams.clear();
    let plan = check(&inputs, Some(&first), &[]);
    assert_eq!((plan.chains.len(), plan.upstreams.len(), plan.plugins.len()), (0, 0, 2));
}
