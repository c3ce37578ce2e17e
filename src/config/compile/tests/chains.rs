//! Chains: what a chain that was never accepted refuses, and the order of entries and chains.

use super::*;

#[test]
fn one_that_was_never_accepted_refuses_what_it_selects() {
    let mut inputs = folder();
    let checks = chain_of(&mut inputs, "checks");
    (checks.upstreams, checks.include) = (names(&["up"]), vec!["read_*".into()]);
    checks.entries[0].when = Some("(".into());
    let plan = check(&inputs, None, &["InvalidExpression PluginChain default/checks spec.entries[0].when"]);
    let chain = the_chain(&plan, "checks");
    assert!(chain.refusing.is_some() && chain.entries.is_empty());
    assert_eq!((&chain.upstreams.names[..], &chain.include[..]), (&["up".to_owned()][..], &["read_*".to_owned()][..]));
    assert!(!chain.upstreams.all);
}

#[test]
fn what_of_its_selection_cannot_be_read_covers_everything() {
    for spoil in [
        (|c: &mut ChainInput| c.include = vec!["[".into()]) as fn(&mut ChainInput),
        |c| c.exclude = vec!["*".into(), "[".into()],
        |c| c.upstreams = names(&["["]),
    ] {
        let mut inputs = folder();
        spoil(chain_of(&mut inputs, "checks"));
        let (plan, problems) = compile(&inputs, None);
        assert_eq!(problems.len(), 1);
        let chain = the_chain(&plan, "checks");
        assert!(chain.refusing.is_some() && chain.upstreams.all);
        assert!(chain.include.is_empty() && chain.exclude.is_empty());
    }
}

#[test]
fn an_unreadable_chain_refuses_everything() {
    let mut inputs = folder();
    inputs.chains.clear();
    inputs.invalid.push(invalid(Kind::PluginChain, "checks"));
    let plan = check(&inputs, None, &[]);
    let chain = the_chain(&plan, "checks");
    assert!(chain.refusing.is_some() && chain.upstreams.all && chain.include.is_empty());
    assert_eq!((chain.phase, &chain.methods[..]), (Phase::Request, &Method::CHAINED[..]));
    // If its selection can be read, only the selected calls are refused.
    inputs.invalid[0].chain = Some(ChainInput { upstreams: names(&["up"]), ..chain_input() });
    let plan = check(&inputs, None, &[]);
    assert!(!the_chain(&plan, "checks").upstreams.all);
    // A chain of another namespace that does not name the gateway refuses nothing.
    inputs.invalid[0] = invalid(Kind::PluginChain, "team/checks");
    assert!(check(&inputs, None, &[]).chains.is_empty());
}

fn chain_input() -> ChainInput {
    chain("checks", &[])
}

#[test]
fn one_that_was_never_accepted_comes_into_force_when_it_is_put_right() {
    let mut inputs = folder();
    chain_of(&mut inputs, "checks").include = vec!["[".into()];
    let first = compile(&inputs, None).0;
    chain_of(&mut inputs, "checks").include = vec!["*".into()];
    assert!(the_chain(&check(&inputs, Some(&first), &[]), "checks").refusing.is_none());
}

#[test]
fn entries_run_by_order_then_by_place() {
    let mut inputs = folder();
    for (name, order) in [("a", 5), ("b", 0), ("c", -1), ("d", 0)] {
        add_plugin(&mut inputs, name, |p| p.order = order);
    }
    inputs.chains[0] = chain("checks", &["a", "b", "c", "d"]);
    let order = |inputs: &Inputs| {
        let plan = accepted(inputs);
        the_chain(&plan, "checks").entries.iter().map(|e| e.plugin.name.clone()).collect::<String>()
    };
    assert_eq!(order(&inputs), "cbda");
    // An entry's own order takes precedence over its plugin's.
    inputs.chains[0].entries[0].order = Some(-2);
    inputs.chains[0].entries[1].order = Some(7);
    assert_eq!(order(&inputs), "acdb");
}

#[test]
fn tenants_run_before_the_owner() {
    let mut inputs = folder();
    inputs.chains.clear();
    let declared = gateway(&mut inputs);
    declared.chains.namespaces = Namespaces::All;
    declared.plan.required = vec![key("team/must")];
    for namespace in ["default", "team", "zoo"] {
        let name = format!("{namespace}/p");
        add_plugin(&mut inputs, &name, |_| {});
        inputs
            .upstreams
            .push(UpstreamInput { share_with: Some(Namespaces::All), ..upstream(&format!("{namespace}/{namespace}")) });
    }
    gateway(&mut inputs).upstreams.namespaces = Namespaces::All;
    for (name, order) in [
        ("owner", 1),
        ("zoo/z", 100),
        ("team/b", 100),
        ("team/a", 100),
        ("zoo/first", 5),
        ("team/must", 0),
        ("after", 1),
    ] {
        let namespace = key(name).namespace;
        let made = chain(name, &[&format!("{namespace}/p")]);
        inputs.chains.push(ChainInput { order, gateways: vec![key("gw")], ..made });
    }
    let plan = accepted(&inputs);
    let order: Vec<_> = plan.chains.iter().map(|c| c.key.to_string()).collect();
    assert_eq!(order, ["zoo/first", "team/a", "team/b", "zoo/z", "team/must", "default/after", "default/owner"]);
    assert_eq!(plan.chains.iter().filter(|c| c.owner).count(), 3);
}

#[test]
fn a_kept_form_becomes_the_owners_when_it_is_required() {
    let mut inputs = folder();
    gateway(&mut inputs).chains.namespaces = Namespaces::All;
    add_plugin(&mut inputs, "team/p", |_| {});
    inputs.chains.push(ChainInput { gateways: vec![key("gw")], ..chain("team/c", &["team/p"]) });
    let nothing = "?NoUpstreams PluginChain team/c spec.upstreams";
    let first = check(&inputs, None, &[nothing]);
    gateway(&mut inputs).plan.required = vec![key("team/c")];
    chain_of(&mut inputs, "team/c").include = vec!["[".into()];
    let plan = check(&inputs, Some(&first), &["InvalidPattern PluginChain team/c spec.tools.include[0]"]);
    let chain = the_chain(&plan, "team/c");
    assert!(chain.owner && chain.upstreams.namespace.is_none());
}

#[test]
fn a_guard_whose_filter_fits_no_upstream_of_the_chain_is_told() {
    let mut inputs = folder();
    inputs.upstreams.push(upstream("down"));
    chain_of(&mut inputs, "checks").upstreams = names(&["up"]);
    plugin_of(&mut inputs, "shape").filter_upstreams = vec!["zzz".into()];
    accepted(&inputs);
    for (filter, fits) in [("zzz", false), ("down", false), ("d*", false), ("up", true), ("?p", true)] {
        plugin_of(&mut inputs, "guard").filter_upstreams = vec!["other".into(), filter.into()];
        let told = "?NoUpstreams PluginChain default/checks spec.entries[0]";
        check(&inputs, None, if fits { &[] } else { std::slice::from_ref(&told) });
    }
    // Of a chain that selects nothing, that is told alone.
    plugin_of(&mut inputs, "guard").filter_upstreams = vec!["zzz".into()];
    chain_of(&mut inputs, "checks").upstreams = names(&["other"]);
    check(&inputs, None, &["?NoUpstreams PluginChain default/checks spec.upstreams"]);
}

#[test]
fn a_name_that_no_upstream_has_is_warned_of_where_all_upstreams_are_known() {
    let mut inputs = folder();
    chain_of(&mut inputs, "checks").upstreams = names(&["up", "payments", "pay*"]);
    check(&inputs, None, &["?NoUpstreams PluginChain default/checks spec.upstreams.names[1]"]);
    inputs.files_elsewhere = true;
    accepted(&inputs);
}

#[test]
fn a_chain_that_does_nothing_says_so() {
    let mut inputs = folder();
    chain_of(&mut inputs, "checks").entries.iter_mut().for_each(|e| e.enabled = false);
    check(&inputs, None, &["?NothingEnabled PluginChain default/checks spec.entries"]);
    let mut inputs = folder();
    inputs.plugins.iter_mut().for_each(|p| p.enabled = false);
    check(&inputs, None, &["?NothingEnabled PluginChain default/checks spec.entries"]);
    let mut inputs = folder();
    chain_of(&mut inputs, "checks").upstreams = names(&["other"]);
    check(&inputs, None, &["?NoUpstreams PluginChain default/checks spec.upstreams"]);
    chain_of(&mut inputs, "checks").upstreams =
        Some(UpstreamsInput { names: Vec::new(), selector: Some(labelled("tier", "inner")) });
    check(&inputs, None, &["?NoUpstreams PluginChain default/checks spec.upstreams"]);
    inputs.upstreams[0].plan.labels.insert("tier".into(), "inner".into());
    accepted(&inputs);
}
