//! Revocations take effect immediately on the running plan, however old it is.

use super::*;
use crate::domain::plan::{Restrictions, Revoked};
use crate::domain::reason::Reason;

#[test]
fn edits_wait_and_nothing_else_changes() {
    let mut inputs = folder();
    let first = accepted(&inputs);
    chain_of(&mut inputs, "checks").entries.remove(0);
    inputs.upstreams[0].plan.enabled = false;
    break_code(&mut inputs, "guard");
    assert_eq!(restrictions(&inputs, &first), Restrictions::default());
    let kept = obeying(&first, &inputs);
    assert_eq!(serde_json::to_string(&kept).unwrap(), serde_json::to_string(&first).unwrap());
}

#[test]
fn a_deleted_guard_refuses_although_the_chain_was_deleted_too() {
    let mut inputs = folder();
    let first = accepted(&inputs);
    remove_plugin(&mut inputs, "guard");
    inputs.chains.clear();
    let plan = obeying(&first, &inputs);
    assert_eq!(runs(&plan, "checks"), ["guard Fail PluginNotFound", "shape LastGood"]);
    assert!(plan.plugin(&key("guard")).is_none() && plan.plugin(&key("shape")).is_some());
    assert!(plan.gateway.refusing.is_none() && !plan.restrictions.is_empty());
}

#[test]
fn a_deleted_upstream_goes_and_one_that_is_not_valid_stays() {
    let mut inputs = folder();
    let first = accepted(&inputs);
    inputs.upstreams.clear();
    assert_eq!(restrictions(&inputs, &first).revoked, [Revoked::Upstream(key("up"))]);
    assert!(obeying(&first, &inputs).upstreams.is_empty());
    inputs.invalid.push(invalid(Kind::MCPUpstream, "up"));
    assert_eq!(restrictions(&inputs, &first), Restrictions::default());
}

#[test]
fn withdrawn_consent_is_obeyed_chain_by_chain() {
    let mut inputs = folder();
    let all = || Some(Namespaces::All);
    gateway(&mut inputs).upstreams.namespaces = Namespaces::All;
    gateway(&mut inputs).chains.namespaces = Namespaces::All;
    inputs.upstreams.push(UpstreamInput { share_with: all(), ..upstream("team/far") });
    add_plugin(&mut inputs, "lib/p", |p| (p.share_with, p.config_overrides) = (all(), true));
    inputs.chains.push(ChainInput { gateways: vec![key("gw")], ..chain("lib/own", &["lib/p"]) });
    let mut configures = chain("uses", &["lib/p"]);
    configures.entries[0].config = Some(raw("{}"));
    inputs.chains.push(configures);
    let first = check(&inputs, None, &["?NoUpstreams PluginChain lib/own spec.upstreams"]);
    inputs.plugins.last_mut().unwrap().config_overrides = false;
    let plan = obeying(&first, &inputs);
    assert_eq!(runs(&plan, "uses"), ["p Fail RefNotPermitted"]);
    assert_eq!(runs(&plan, "lib/own"), ["p LastGood"]);
    inputs.upstreams[1].share_with = None;
    assert_eq!(obeying(&first, &inputs).upstreams.len(), 1);
}

#[test]
fn a_required_chain_that_is_gone_refuses_every_call() {
    let mut inputs = folder();
    gateway(&mut inputs).plan.required = vec![key("checks")];
    let first = accepted(&inputs);
    inputs.chains.clear();
    let refusing = obeying(&first, &inputs).gateway.refusing.unwrap();
    assert_eq!(refusing.reason, Reason::RequiredChainMissing);
    inputs.invalid.push(invalid(Kind::PluginChain, "checks"));
    assert!(obeying(&first, &inputs).gateway.refusing.is_none());
}

#[test]
fn the_stop_switch_is_the_newest_one() {
    let mut plan = accepted(&folder());
    plan.gateway.stopped = true;
    restrict(&mut plan, &Restrictions::default());
    assert!(!plan.gateway.stopped && plan.restrictions.is_empty());
    restrict(&mut plan, &Restrictions { stopped: true, stop_cancels: true, ..Restrictions::default() });
    assert!(plan.gateway.stopped && plan.gateway.stop_cancels && !plan.restrictions.is_empty());
}
