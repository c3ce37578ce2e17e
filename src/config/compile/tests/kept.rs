//! A bad edit does not change what runs.

use super::*;
use crate::config::input::{InputValue, NamedInput};
use crate::domain::plan::ValueSource;

/// Compiles `folder`, edits it and compiles it again. Asserts that the Problems are `expected` and that everything runs
/// as before.
fn mistake(edit: impl FnOnce(&mut Inputs), expected: &[&str]) {
    let mut inputs = folder();
    let first = accepted(&inputs);
    edit(&mut inputs);
    let second = check(&inputs, Some(&first), expected);
    assert_eq!(second.revision, first.revision);
    assert_eq!(serde_json::to_string(&second).unwrap(), serde_json::to_string(&first).unwrap());
    let third = check(&inputs, Some(&second), expected);
    assert_eq!(third.revision, first.revision);
}

#[test]
fn of_a_plugin() {
    let field = |name: &str| format!("Plugin default/guard spec.{name}");
    let at = |reason: &str, name: &str| format!("{reason} {}", field(name));
    mistake(|i| break_code(i, "guard"), &[&at("SyntaxError", "source.inline")]);
    mistake(|i| plugin_of(i, "guard").sha256 = Some("0".repeat(64)), &[&at("DigestMismatch", "sha256")]);
    mistake(
        |i| {
            let guard = plugin_of(i, "guard");
            guard.config_schema = schema(&serde_json::json!({"required": ["a"]}));
        },
        &[&at("InvalidConfig", "config"), "InvalidConfig PluginChain default/checks spec.entries[0].config"],
    );
    mistake(|i| plugin_of(i, "guard").filter_tools = vec!["[".into()], &[&at("InvalidPattern", "filter.tools[0]")]);
    mistake(
        |i| {
            know(i, "guard", "index.js", &["onRequest"]);
            plugin_of(i, "guard").phases = Some(vec![Phase::Response]);
        },
        &[&at("UnsupportedExports", "phases")],
    );
    let config_map = SourceInput::ConfigMap { name: "code".into(), key: "a.js".into() };
    mistake(|i| plugin_of(i, "guard").source = config_map, &[&at("ConfigMapNotFound", "source.configMapKeyRef")]);
    mistake(|i| plugin_of(i, "guard").source = SourceInput::Path("a.js".into()), &[&at("FileNotFound", "source.path")]);
    mistake(|i| plugin_of(i, "guard").env = vec![from_config_map("A", false)], &[&at("ConfigMapNotFound", "env[0]")]);
    mistake(
        |i| {
            remove_plugin(i, "guard");
            i.invalid.push(invalid(Kind::Plugin, "guard"));
        },
        &[],
    );
}

/// Replaces a plugin's code by code with these exports.
fn edit_code(inputs: &mut Inputs, name: &str, exports: &[&str]) {
    know(inputs, "edited", "index.js", exports);
    plugin_of(inputs, name).source = SourceInput::Inline("edited".into());
}

#[test]
fn of_what_a_plugin_exports() {
    let lost = "UnsupportedExports Plugin default/guard spec.source.inline";
    for exports in [&["onResponse"][..], &["warmup"], &[]] {
        mistake(|i| edit_code(i, "guard", exports), &[lost]);
    }
    let mut inputs = folder();
    let first = accepted(&inputs);
    edit_code(&mut inputs, "guard", &[]);
    let (_, problems) = compile(&inputs, Some(&first));
    let message = "its code no longer exports onRequest or default, and PluginChain default/checks runs it in phase \
                   Request: export one of them, or take it out of the chain first; or write protocol: Once. Not loaded; \
                   the code accepted before (revision ";
    assert!(problems[0].message.starts_with(message), "{}", problems[0].message);
}

#[test]
fn what_no_chain_runs_need_not_be_exported() {
    let change = |edit: &dyn Fn(&mut Inputs), expected: &[&str]| {
        let mut inputs = folder();
        let first = accepted(&inputs);
        edit_code(&mut inputs, "guard", &["onResponse"]);
        edit(&mut inputs);
        let plan = check(&inputs, Some(&first), expected);
        assert_eq!(code_of(&plan, "guard"), "edited");
    };
    change(&|i| i.chains.clear(), &[]);
    change(&|i| drop(chain_of(i, "checks").entries.remove(0)), &[]);
    change(&|i| chain_of(i, "checks").entries[0].enabled = false, &[]);
    // Changes of settings in the manifest are intended, so they take effect.
    change(&|i| plugin_of(i, "guard").protocol = ProtocolSetting::Once, &[]);
    let wrong = "WrongPhase PluginChain default/checks spec.entries[0]";
    change(&|i| plugin_of(i, "guard").phases = Some(vec![Phase::Response]), &[wrong]);
}

fn from_config_map(name: &str, optional: bool) -> NamedInput {
    let value = InputValue::ConfigMap { name: "none".into(), key: "k".into(), optional };
    NamedInput { name: name.into(), value, field: "spec.env[0]".into() }
}

#[test]
fn of_a_chain() {
    let at = |reason: &str, field: &str| format!("{reason} PluginChain default/checks spec.{field}");
    mistake(|i| chain_of(i, "checks").include = vec!["[".into()], &[&at("InvalidPattern", "tools.include[0]")]);
    mistake(|i| chain_of(i, "checks").exclude = vec!["{".into()], &[&at("InvalidPattern", "tools.exclude[0]")]);
    mistake(|i| chain_of(i, "checks").upstreams = names(&["a", "["]), &[&at("InvalidPattern", "upstreams.names[1]")]);
    mistake(
        |i| chain_of(i, "checks").entries[1].when = Some("content.size >".into()),
        &[&at("InvalidExpression", "entries[1].when")],
    );
    mistake(
        |i| chain_of(i, "checks").entries[1].when = Some("1 + 1 + ".repeat(300)),
        &[&at("InvalidExpression", "entries[1].when")],
    );
    mistake(|i| chain_of(i, "checks").entries.push(entry("none")), &[&at("PluginNotFound", "entries[2]")]);
    mistake(
        |i| {
            add_plugin(i, "late", |p| p.phases = Some(vec![Phase::Response]));
            remove_plugin(i, "late");
            chain_of(i, "checks").entries[0] = entry("late");
        },
        &[&at("PluginNotFound", "entries[0]")],
    );
    mistake(
        |i| {
            i.chains.clear();
            i.invalid.push(invalid(Kind::PluginChain, "checks"));
        },
        &[],
    );
}

#[test]
fn of_a_phase() {
    let mut inputs = folder();
    add_plugin(&mut inputs, "only", |p| p.phases = Some(vec![Phase::Request]));
    inputs.chains.push(chain("c", &["only"]));
    let first = accepted(&inputs);
    let wrong = ["WrongPhase PluginChain default/c spec.entries[0]"];
    chain_of(&mut inputs, "c").phase = Phase::Response;
    assert_eq!(the_chain(&check(&inputs, Some(&first), &wrong), "c").phase, Phase::Request);
    // On the first compilation there is no form to keep.
    assert_eq!(runs(&check(&inputs, None, &wrong), "c"), ["only Fail WrongPhase"]);
}

#[test]
fn fail_on_an_observer_has_no_meaning() {
    let at = ["InvalidConfig PluginChain default/logs spec.entries[0].failurePolicy"];
    let mut inputs = folder();
    add_plugin(&mut inputs, "log", |p| p.role = Role::Observe);
    inputs.chains.push(chain("logs", &["log"]));
    let first = accepted(&inputs);
    assert_eq!(runs(&first, "logs"), ["log Ignore"]);
    chain_of(&mut inputs, "logs").entries[0].failure_policy = Some(crate::domain::plugin::FailurePolicy::Fail);
    assert_eq!(runs(&check(&inputs, Some(&first), &at), "logs"), ["log Ignore"]);
    let never = check(&inputs, None, &at);
    assert!(the_chain(&never, "logs").refusing.is_some());
}

#[test]
fn of_a_chain_in_its_config() {
    let mut inputs = folder();
    plugin_of(&mut inputs, "shape").config_schema =
        schema(&serde_json::json!({"properties": {"n": {"type": "number"}}}));
    let first = accepted(&inputs);
    chain_of(&mut inputs, "checks").entries[1].config = Some(raw(r#"{"n":"x"}"#));
    let second = check(&inputs, Some(&first), &["InvalidConfig PluginChain default/checks spec.entries[1].config"]);
    assert_eq!(second.revision, first.revision);
}

#[test]
fn of_an_upstream() {
    mistake(
        |i| i.upstreams[0].plan.include = vec!["[".into()],
        &["InvalidPattern MCPUpstream default/up spec.tools.include[0]"],
    );
    mistake(
        |i| i.upstreams[0].values = vec![from_config_map("X-A", false)],
        &["ConfigMapNotFound MCPUpstream default/up spec.env[0]"],
    );
    mistake(
        |i| {
            i.upstreams.clear();
            i.invalid.push(invalid(Kind::MCPUpstream, "up"));
        },
        &[],
    );
}

#[test]
fn values_of_config_maps_are_read_and_optional_ones_left_out() {
    let mut inputs = folder();
    inputs.upstreams[0].values = vec![from_config_map("X-A", true)];
    let headers = |plan: &Plan| match &plan.upstreams[0].transport {
        TransportPlan::External { headers, .. } => headers.clone(),
        _ => Vec::new(),
    };
    assert!(headers(&accepted(&inputs)).is_empty());
    inputs.config_maps.insert(key("none"), Ok([("k".to_owned(), "v".to_owned())].into()));
    assert_eq!(headers(&accepted(&inputs))[0].value, ValueSource::Literal("v".into()));
}

#[test]
fn of_a_gateway() {
    mistake(
        |i| {
            i.gateway = None;
            i.invalid.push(invalid(Kind::MCPGateway, "gw"));
        },
        &[],
    );
}

#[test]
fn a_gateway_with_a_bad_edit_takes_no_more_than_before() {
    let mut inputs = folder();
    inputs.upstreams.push(upstream("team/hidden"));
    inputs.chains.push(ChainInput { gateways: vec![key("gw")], ..chain("team/foreign", &[]) });
    let untaken = ["?NotTaken PluginChain team/foreign spec.gateways"];
    let first = check(&inputs, None, &untaken);
    inputs.gateway = None;
    inputs.invalid.push(invalid(Kind::MCPGateway, "gw"));
    let second = check(&inputs, Some(&first), &untaken);
    assert_eq!(second.revision, first.revision);
    // A new upstream among those that the gateway takes is served.
    inputs.upstreams.push(upstream("new"));
    assert_eq!(check(&inputs, Some(&second), &untaken).upstreams.len(), 2);
}

#[test]
fn a_gateway_that_was_never_accepted_takes_nothing_and_refuses() {
    let mut inputs = folder();
    inputs.gateway = None;
    inputs.invalid.push(invalid(Kind::MCPGateway, "gw"));
    let plan = compile(&inputs, None).0;
    assert!(plan.gateway.refusing.is_some() && plan.gateway.declared);
    assert_eq!((plan.upstreams.len(), plan.chains.len()), (0, 0));
}

#[test]
fn the_code_that_runs_is_kept_and_no_other() {
    let mut inputs = folder();
    let first = accepted(&inputs);
    break_code(&mut inputs, "guard");
    let second = check(&inputs, Some(&first), &["SyntaxError Plugin default/guard spec.source.inline"]);
    assert_eq!((code_of(&second, "guard"), second.code.len()), ("guard", 2));
    know(&mut inputs, "other", "index.js", &["default"]);
    plugin_of(&mut inputs, "guard").source = SourceInput::Inline("other".into());
    let third = accepted_after(&inputs, &second);
    assert_eq!((code_of(&third, "guard"), third.code.len()), ("other", 2));
}

fn accepted_after(inputs: &Inputs, previous: &Plan) -> Plan {
    check(inputs, Some(previous), &[])
}

/// Returns the plans after two different edits. Before either edit, the guard can connect to a host and read a
/// Secret. Each edit makes `change`; one also breaks the code, the other removes the export that the chain runs.
fn after_a_bad_edit_with(change: impl Fn(&mut PluginInput)) -> [Plan; 2] {
    let secret = InputValue::Secret { name: "s".into(), key: "k".into(), optional: false };
    let mut inputs = folder();
    let guard = plugin_of(&mut inputs, "guard");
    guard.egress = vec!["a.example:443".into()];
    guard.env = vec![NamedInput { name: "TOKEN".into(), value: secret, field: "spec.env[0]".into() }];
    let first = accepted(&inputs);
    change(plugin_of(&mut inputs, "guard"));
    let mut broken = inputs.clone();
    break_code(&mut broken, "guard");
    edit_code(&mut inputs, "guard", &["onResponse"]);
    [broken, inputs].map(|inputs| {
        let plan = compile(&inputs, Some(&first)).0;
        assert_eq!(compile(&inputs, Some(&plan)).0.revision, plan.revision, "it stays so");
        plan
    })
}

#[test]
fn a_plugin_that_is_switched_off_is_off_whatever_its_code() {
    for plan in after_a_bad_edit_with(|guard| guard.enabled = false) {
        assert!(!plan.plugin(&key("guard")).unwrap().enabled);
        assert_eq!(code_of(&plan, "guard"), "guard", "the mistake does not count once it is switched on again");
    }
}

#[test]
fn no_form_runs_on_with_a_right_that_was_taken_away() {
    let kept = after_a_bad_edit_with(|guard| guard.egress.push("b.example:443".into()));
    assert!(kept.iter().all(|plan| code_of(plan, "guard") == "guard" && runs(plan, "checks")[0] == "guard Fail"));
    let edits: [fn(&mut PluginInput); 2] = [|guard| guard.egress.clear(), |guard| guard.env.clear()];
    for edit in edits {
        let [broken, lost] = after_a_bad_edit_with(edit);
        assert!(broken.plugin(&key("guard")).is_none());
        assert!(the_chain(&broken, "checks").entries[0].unavailable.is_some(), "{:?}", runs(&broken, "checks"));
        assert_eq!(code_of(&lost, "guard"), "edited");
        assert_eq!(runs(&lost, "checks")[0], "guard Fail WrongPhase");
    }
}
