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

/// Compiles `inputs`, and twice more with an object that is invalid and after `edit`. Asserts that the third plan is the second
/// one. Returns the first and the last.
fn after_it_is_invalid(mut inputs: Inputs, (kind, name): (Kind, &str), edit: fn(&mut Inputs)) -> [Plan; 2] {
    let first = compile(&inputs, None).0;
    inputs.plugins.retain(|plugin| kind != Kind::Plugin || plugin.key != key(name));
    inputs.upstreams.retain(|upstream| kind != Kind::MCPUpstream || upstream.plan.key != key(name));
    inputs.invalid.push(invalid(kind, name));
    edit(&mut inputs);
    let plan = compile(&inputs, Some(&first)).0;
    assert_eq!(serde_json::to_string(&compile(&inputs, Some(&plan)).0).unwrap(), serde_json::to_string(&plan).unwrap());
    [first, plan]
}

#[test]
fn what_a_gateway_takes_no_more_is_refused_for_one_reason() {
    let mut inputs = across(Namespaces::All, Some(Namespaces::All), &["default/gw"]);
    let takes = gateway(&mut inputs);
    (takes.plugins.namespaces, takes.sections.namespaces) = (Namespaces::All, Namespaces::All);
    add_phase(&mut inputs, "team/step");
    plugin_of(&mut inputs, "team/step").share_with = Some(Namespaces::All);
    inputs.pipelines.push(pipeline("run", "run", &["team/step"]));
    let mut bound = section("bound");
    bound.plan.upstream = key("team/up");
    inputs.sections.push(bound);
    let refusal = |plan: &Plan| plan.sections[0].refusing.clone().map(|refusal| refusal.reason.to_string());

    let [first, plan] = after_it_is_invalid(inputs.clone(), (Kind::MCPUpstream, "team/up"), |inputs| {
        gateway(inputs).upstreams.namespaces = Namespaces::Same;
    });
    assert_eq!([refusal(&first), refusal(&plan)], [None, Some("UpstreamNotFound".to_owned())]);

    let [first, plan] = after_it_is_invalid(inputs, (Kind::Plugin, "team/step"), |inputs| {
        gateway(inputs).plugins.namespaces = Namespaces::Same;
    });
    let why = |plan: &Plan| plan.upstream("run").and_then(|run| Some(run.refusing.as_ref()?.message.clone()));
    assert_eq!(why(&first), None);
    let why = why(&plan).unwrap();
    assert!(why.contains("gateway default/gw does not take Plugin team/step"), "{why}");
}

#[test]
fn an_invalid_plugin_keeps_its_place_where_it_cannot_run() {
    let mut inputs = folder();
    add_plugin(&mut inputs, "lib/last", |plugin| plugin.order = 5);
    inputs.chains = vec![chain("checks", &["lib/last", "guard"])];
    let [first, plan] = after_it_is_invalid(inputs, (Kind::Plugin, "lib/last"), |_| {});
    assert_eq!(runs(&first, "checks"), ["guard Fail", "last Fail RefNotPermitted"]);
    assert_eq!(runs(&plan, "checks"), runs(&first, "checks"));
}
