//! Using an object of another namespace needs the consent of both sides.

use super::*;
use crate::domain::plan::{LabelExpression, LabelOperator};

/// Returns inputs with a gateway in `default`, and with an upstream, a chain and the chain's plugin in `team`.
fn across(takes: Namespaces, share_with: Option<Namespaces>, gateways: &[&str]) -> Inputs {
    let mut inputs = empty();
    let declared = declare(&mut inputs);
    declared.upstreams.namespaces = takes.clone();
    declared.chains.namespaces = takes;
    inputs.upstreams.push(UpstreamInput { share_with, ..upstream("team/up") });
    add_plugin(&mut inputs, "team/p", |_| {});
    let gateways = gateways.iter().map(|name| key(name)).collect();
    inputs.chains.push(ChainInput { gateways, ..chain("team/c", &["team/p"]) });
    inputs
}

fn taken(plan: &Plan) -> (usize, usize) {
    (plan.upstreams.len(), plan.chains.len())
}

#[test]
fn both_sides_must_agree() {
    let yes = || Some(only(&["default"]));
    let plan = accepted(&across(only(&["team"]), yes(), &["default/gw"]));
    assert_eq!(taken(&plan), (1, 1));
    let untaken = ["?NotTaken PluginChain team/c spec.gateways"];
    let plan = check(&across(Namespaces::Same, yes(), &["default/gw"]), None, &untaken);
    assert_eq!(taken(&plan), (0, 0));
    let unshared =
        ["?RefNotPermitted MCPUpstream team/up spec.shareWith", "?NotTaken PluginChain team/c spec.gateways"];
    assert_eq!(taken(&check(&across(Namespaces::All, None, &[]), None, &unshared)), (0, 0));
    assert_eq!(taken(&check(&across(Namespaces::All, Some(only(&["x"])), &["team/gw"]), None, &unshared)), (0, 0));
}

#[test]
fn namespaces_are_named_or_labelled() {
    let by_label = Namespaces::Selector(labelled("tier", "inner"));
    let mut inputs = across(by_label.clone(), Some(by_label), &["default/gw"]);
    check(&inputs, None, &["?NotTaken PluginChain team/c spec.gateways"]);
    for namespace in ["team", "default"] {
        inputs.namespaces.insert(namespace.into(), [("tier".to_owned(), "inner".to_owned())].into());
    }
    assert_eq!(taken(&accepted(&inputs)), (1, 1));
    let by_name = Namespaces::Selector(labelled("kubernetes.io/metadata.name", "team"));
    assert_eq!(taken(&accepted(&across(by_name, Some(Namespaces::All), &["default/gw"]))), (1, 1));
}

#[test]
fn a_namespace_that_was_not_seen_yet_is_no_match() {
    let line = |key: &str, operator, values: &[&str]| LabelExpression {
        key: key.into(),
        operator,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    let with = |line| Some(Namespaces::Selector(LabelSelector { match_expressions: vec![line], ..Default::default() }));
    for (line, seen) in [
        (line("tier", LabelOperator::NotIn, &["outer"]), true),
        (line("tier", LabelOperator::DoesNotExist, &[]), true),
        (line("kubernetes.io/metadata.name", LabelOperator::NotIn, &["x"]), false),
    ] {
        let mut inputs = across(only(&["team"]), with(line.clone()), &["default/gw"]);
        if seen {
            let unshared = [
                "?RefNotPermitted MCPUpstream team/up spec.shareWith",
                "?NoUpstreams PluginChain team/c spec.upstreams",
            ];
            assert_eq!(taken(&check(&inputs, None, &unshared)), (0, 1), "{line:?}");
            inputs.namespaces.insert("default".into(), Default::default());
        }
        assert_eq!(taken(&accepted(&inputs)), (1, 1), "{line:?}");
    }
}

#[test]
fn a_namespace_cannot_label_itself_with_another_name() {
    let by_name = Namespaces::Selector(labelled("kubernetes.io/metadata.name", "team"));
    let mut inputs = across(by_name, Some(Namespaces::All), &["default/gw"]);
    inputs.namespaces.insert("team".into(), [("kubernetes.io/metadata.name".to_owned(), "x".to_owned())].into());
    assert_eq!(taken(&accepted(&inputs)), (1, 1));
}

#[test]
fn labels_of_the_objects_count() {
    let mut inputs = folder();
    let declared = gateway(&mut inputs);
    declared.upstreams.selector = labelled("expose", "yes");
    declared.chains.selector = labelled("expose", "yes");
    let plan = check(&inputs, None, &["?NotTaken PluginChain default/checks spec.gateways"]);
    assert_eq!(taken(&plan), (0, 0));
    inputs.upstreams[0].plan.labels.insert("expose".into(), "yes".into());
    inputs.chains[0].labels.insert("expose".into(), "yes".into());
    assert_eq!(taken(&accepted(&inputs)), (1, 1));
}

#[test]
fn the_implicit_gateway_takes_everything() {
    let mut inputs = across(Namespaces::Same, None, &[]);
    inputs.gateway = None;
    assert_eq!(taken(&accepted(&inputs)), (1, 1));
}

#[test]
fn tenants_reach_their_own_upstreams_and_the_owner_all() {
    let mut inputs = across(Namespaces::All, Some(Namespaces::All), &["default/gw"]);
    add_plugin(&mut inputs, "p", |_| {});
    inputs.chains.push(chain("owner", &["p"]));
    let plan = accepted(&inputs);
    let reach = |name: &str| the_chain(&plan, name).upstreams.namespace.clone();
    assert_eq!((reach("team/c"), reach("owner")), (Some("team".to_owned()), None));
}

#[test]
fn a_plugin_is_used_elsewhere_only_where_it_is_shared() {
    let mut inputs = folder();
    add_plugin(&mut inputs, "lib/p", |_| {});
    inputs.chains.push(chain("uses", &["lib/p"]));
    let refused = ["RefNotPermitted PluginChain default/uses spec.entries[0]"];
    let plan = check(&inputs, None, &refused);
    assert_eq!(runs(&plan, "uses"), ["p Fail RefNotPermitted"]);
    for (share_with, expected) in
        [(only(&["default"]), &[][..]), (only(&["lib"]), &refused), (Namespaces::Same, &refused)]
    {
        plugin_of(&mut inputs, "lib/p").share_with = Some(share_with);
        check(&inputs, None, expected);
    }
}

#[test]
fn a_shared_plugin_keeps_its_config_unless_it_allows_others() {
    let mut inputs = folder();
    add_plugin(&mut inputs, "lib/p", |p| p.share_with = Some(Namespaces::All));
    inputs.chains.push(chain("uses", &["lib/p"]));
    let first = accepted(&inputs);
    chain_of(&mut inputs, "uses").entries[0].config = Some(raw(r#"{"a":1}"#));
    let refused = ["RefNotPermitted PluginChain default/uses spec.entries[0]"];
    assert_eq!(runs(&check(&inputs, None, &refused), "uses"), ["p Fail RefNotPermitted"]);
    // As an edit this is a mistake, and the older form is kept.
    assert_eq!(runs(&check(&inputs, Some(&first), &refused), "uses"), ["p LastGood"]);
    plugin_of(&mut inputs, "lib/p").config_overrides = true;
    let allowed = accepted(&inputs);
    assert_eq!(runs(&allowed, "uses"), ["p LastGood"]);
    // Withdrawing the consent is intended, and takes effect.
    plugin_of(&mut inputs, "lib/p").config_overrides = false;
    assert_eq!(runs(&check(&inputs, Some(&allowed), &refused), "uses"), ["p Fail RefNotPermitted"]);
}

#[test]
fn an_unreadable_plugin_is_used_elsewhere_only_where_it_was() {
    let mut inputs = folder();
    add_plugin(&mut inputs, "lib/p", |p| p.share_with = Some(only(&["default"])));
    inputs.chains.push(chain("uses", &["lib/p"]));
    let first = accepted(&inputs);
    remove_plugin(&mut inputs, "lib/p");
    inputs.invalid.push(invalid(Kind::Plugin, "lib/p"));
    inputs.chains.push(chain("newcomer", &["lib/p"]));
    let plan = check(&inputs, Some(&first), &["RefNotPermitted PluginChain default/newcomer spec.entries[0]"]);
    assert_eq!(runs(&plan, "uses"), ["p LastGood"]);
    assert_eq!(runs(&plan, "newcomer"), ["p Fail RefNotPermitted"]);
}
