//! Plugins: protocol, phases, file names, environment, configuration.

use super::*;
use crate::config::compile::merge_config;
use crate::config::input::{FileCode, InputValue, NamedInput};
use crate::domain::plan::ImagePlan;
use crate::domain::plugin::Protocol::{self, Lines, Module, Once};
use crate::domain::reason::Reason;

/// Returns the protocol and phases of code with these exports, or why it is not accepted.
fn serve(
    exports: &[&str],
    protocol: ProtocolSetting,
    phases: Option<&[Phase]>,
) -> Result<(Protocol, Vec<Phase>), String> {
    let mut inputs = empty();
    add_plugin(&mut inputs, "p", |p| (p.protocol, p.phases) = (protocol, phases.map(<[_]>::to_vec)));
    know(&mut inputs, "p", "index.js", exports);
    let (plan, problems) = compile(&inputs, None);
    match problems.first() {
        Some(problem) => Err(format!("{} {}", problem.reason, problem.field)),
        None => Ok((plan.plugins[0].protocol, plan.plugins[0].phases.clone())),
    }
}

#[test]
fn exports_say_protocol_and_phases() {
    use Phase::{Request, Response};
    use ProtocolSetting as Setting;
    let both = || vec![Request, Response];
    let wrong = |field: &str| Err(format!("UnsupportedExports spec.{field}"));
    for (exports, protocol, phases, expected) in [
        (&["default"][..], Setting::Auto, None, Ok((Module, both()))),
        (&["onRequest"], Setting::Auto, None, Ok((Module, vec![Request]))),
        (&["onResponse"], Setting::Auto, None, Ok((Module, vec![Response]))),
        (&["onRequest", "onResponse"], Setting::Module, None, Ok((Module, both()))),
        (&[], Setting::Auto, None, Ok((Once, both()))),
        (&["helper"], Setting::Auto, None, wrong("source.inline")),
        (&["default"], Setting::Once, None, Ok((Once, both()))),
        (&[], Setting::Lines, None, Ok((Lines, both()))),
        (&["onRequest"], Setting::Lines, Some(&[Response][..]), Ok((Lines, vec![Response]))),
        (&[], Setting::Module, None, wrong("protocol")),
        (&["helper"], Setting::Module, None, wrong("protocol")),
        (&["default"], Setting::Auto, Some(&[Response]), Ok((Module, vec![Response]))),
        (&["default"], Setting::Auto, Some(&[Response, Request]), Ok((Module, both()))),
        (&[], Setting::Auto, Some(&[Request]), Ok((Once, vec![Request]))),
        (&["onRequest"], Setting::Auto, Some(&[Response]), wrong("phases")),
    ] {
        assert_eq!(serve(exports, protocol, phases), expected, "{exports:?} {protocol:?} {phases:?}");
    }
}

#[test]
fn a_js_file_is_named_after_what_it_is() {
    let mut inputs = empty();
    for (name, is_module) in [("a.js", true), ("b.js", false), ("c.mjs", true), ("d.cjs", false), ("sub/e.js", false)] {
        let code = FileCode { text: name.into(), folder: "/srv".into(), descriptor: None, siblings: String::new() };
        inputs.files.insert(name.into(), Ok(code));
        let facts = CodeFacts { is_module, ..CodeFacts::default() };
        inputs.facts.insert(code_key(&sha256_hex(name.as_bytes()), name), facts);
        let made = plugin(&name.replace(['.', '/'], "-"));
        inputs.plugins.push(PluginInput { source: SourceInput::Path(name.into()), ..made });
    }
    let plan = accepted(&inputs);
    let files: Vec<_> = plan.plugins.iter().map(|p| p.file_name.as_str()).collect();
    assert_eq!(files, ["a.mjs", "b.cjs", "c.mjs", "d.cjs", "e.cjs"]);
    assert!(plan.plugins.iter().all(|p| p.folder == Some(PathBuf::from("/srv"))));
}

#[test]
fn only_a_script_of_common_js_is_run_again() {
    let with = |name: &str, is_module| {
        let mut inputs = empty();
        let code = FileCode { text: name.into(), folder: "/srv".into(), descriptor: None, siblings: String::new() };
        inputs.files.insert(name.into(), Ok(code));
        let facts = CodeFacts { is_module, ..CodeFacts::default() };
        inputs.facts.insert(code_key(&sha256_hex(name.as_bytes()), name), facts);
        let (protocol, source) = (ProtocolSetting::Once, SourceInput::Path(name.into()));
        inputs.plugins.push(PluginInput { source, protocol, reuse: true, ..plugin("p") });
        inputs
    };
    assert!(accepted(&with("a.js", false)).plugins[0].reuse);
    assert!(accepted(&with("a.cjs", false)).plugins[0].reuse);
    for (name, is_module) in [("a.js", true), ("a.mjs", false)] {
        check(&with(name, is_module), None, &["InvalidConfig Plugin default/p spec.reuse"]);
    }
}

#[test]
fn code_comes_from_a_config_map_of_the_same_namespace() {
    let mut inputs = empty();
    let source = || SourceInput::ConfigMap { name: "code".into(), key: "p.mjs".into() };
    inputs.plugins.push(PluginInput { source: source(), ..plugin("team/p") });
    inputs.config_maps.insert(key("code"), Ok([("p.mjs".to_owned(), "text".to_owned())].into()));
    check(&inputs, None, &["ConfigMapNotFound Plugin team/p spec.source.configMapKeyRef"]);
    inputs.config_maps.insert(key("team/code"), Ok(Default::default()));
    check(&inputs, None, &["KeyNotFound Plugin team/p spec.source.configMapKeyRef"]);
    inputs.config_maps.insert(key("team/code"), Ok([("p.mjs".to_owned(), "text".to_owned())].into()));
    know(&mut inputs, "text", "p.mjs", &["default"]);
    assert_eq!(code_of(&accepted(&inputs), "team/p"), "text");
}

#[test]
fn a_variable_that_steers_how_node_starts_is_refused() {
    for name in ["NODE_OPTIONS", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "OPENSSL_CONF"] {
        let mut inputs = empty();
        let value = || InputValue::Literal("1".into());
        let given = |name: &str| NamedInput { name: name.into(), value: value(), field: String::new() };
        add_plugin(&mut inputs, "p", |p| p.env = vec![given("NODE_ENV"), given(name)]);
        check(&inputs, None, &["InvalidConfig Plugin default/p spec.env[1].name"]);
    }
}

#[test]
fn a_variable_that_is_read_and_not_given_is_a_warning() {
    let mut inputs = empty();
    add_plugin(&mut inputs, "p", |_| {});
    inputs.facts.values_mut().for_each(|facts| facts.reads_env = vec!["TOKEN".into()]);
    check(&inputs, None, &["?InvalidConfig Plugin default/p spec.env"]);
    let value = InputValue::Secret { name: "s".into(), key: "k".into(), optional: false };
    plugin_of(&mut inputs, "p").env = vec![NamedInput { name: "TOKEN".into(), value, field: "spec.env[0]".into() }];
    accepted(&inputs);
}

#[test]
fn each_missing_value_is_said_once() {
    let mut inputs = empty();
    let value = || InputValue::ConfigMap { name: "m".into(), key: "k".into(), optional: false };
    let named = |name: &str, field: &str| NamedInput { name: name.into(), value: value(), field: field.into() };
    add_plugin(&mut inputs, "p", |p| p.env = vec![named("A", "spec.env[0]"), named("B", "spec.env[1]")]);
    check(
        &inputs,
        None,
        &["ConfigMapNotFound Plugin default/p spec.env[1]", "ConfigMapNotFound Plugin default/p spec.env[0]"],
    );
}

#[test]
fn a_header_from_a_config_map_has_no_line_break() {
    let mut inputs = empty();
    inputs.upstreams.push(upstream("up"));
    inputs.config_maps.insert(key("m"), Ok([("k".to_owned(), "a\n".to_owned())].into()));
    let value = InputValue::ConfigMap { name: "m".into(), key: "k".into(), optional: false };
    let field = "spec.external.headers[0]".to_owned();
    inputs.upstreams[0].values = vec![NamedInput { name: "X-A".into(), value, field }];
    let plan = check(&inputs, None, &["InvalidConfig MCPUpstream default/up spec.external.headers[0]"]);
    assert!(plan.upstreams[0].refusing.is_some());
    inputs.config_maps.insert(key("m"), Ok([("k".to_owned(), "a\t".to_owned())].into()));
    accepted(&inputs);
    // A variable of a process can have lines.
    inputs.config_maps.insert(key("m"), Ok([("k".to_owned(), "a\n".to_owned())].into()));
    let process = TransportPlan::Process {
        command: "x".into(),
        args: Vec::new(),
        cwd: "/".into(),
        env: Vec::new(),
        per_session: false,
    };
    inputs.upstreams[0].plan.transport = process;
    accepted(&inputs);
}

#[test]
fn top_level_keys_of_a_config_are_replaced() {
    for (own, entry, expected) in [
        (None, None, None),
        (Some(r#"{"a":1.0}"#), None, Some(r#"{"a":1.0}"#)),
        (None, Some(r#"{"a":1}"#), Some(r#"{"a":1}"#)),
        (
            Some(r#"{"a":{"x":1,"y":2},"b":3}"#),
            Some(r#"{"a":{"x":9},"c":null}"#),
            Some(r#"{"a":{"x":9},"b":3,"c":null}"#),
        ),
    ] {
        let (own, entry) = (own.map(raw), entry.map(raw));
        let merged = merge_config(own.as_deref(), entry.as_deref());
        assert_eq!(merged.as_deref().map(RawValue::get), expected);
    }
}

#[test]
fn an_id_is_stable_over_edits_and_a_revision_follows_content() {
    let mut inputs = folder();
    let first = accepted(&inputs);
    know(&mut inputs, "edited", "index.js", &["default"]);
    plugin_of(&mut inputs, "guard").source = SourceInput::Inline("edited".into());
    let second = check(&inputs, Some(&first), &[]);
    let of = |plan: &Plan| plan.plugin(&key("guard")).unwrap().clone();
    assert_eq!((of(&first).id.len(), of(&first).id), (8, of(&second).id));
    assert_ne!(of(&first).digest, of(&second).digest);
    assert_ne!(first.revision, second.revision);
    assert_ne!(the_chain(&first, "checks").revision, the_chain(&second, "checks").revision);
    assert_eq!(check(&inputs, Some(&second), &[]).revision, second.revision);
}

#[test]
fn what_is_not_built_cannot_run() {
    let mut inputs = folder();
    let reason = crate::domain::reason::Reason::NotImplemented;
    plugin_of(&mut inputs, "guard").refusing =
        Some(crate::domain::plan::Refusal { reason, message: "not built".into() });
    let expected = ["PluginNotAccepted PluginChain default/checks spec.entries[0]"];
    assert_eq!(runs(&check(&inputs, None, &expected), "checks")[0], "guard Fail PluginNotAccepted");
    // An older form is kept, and the Problem is reported.
    let first = accepted(&folder());
    let plan = check(&inputs, Some(&first), &["NotImplemented Plugin default/guard spec"]);
    assert_eq!(runs(&plan, "checks")[0], "guard Fail");
}

#[test]
fn the_order_of_plugins_and_chains_in_a_folder_does_not_matter() {
    let mut inputs = folder();
    inputs.chains.push(chain("other", &["shape"]));
    let first = accepted(&inputs);
    inputs.plugins.reverse();
    inputs.chains.reverse();
    assert_eq!(accepted(&inputs).revision, first.revision);
}

#[test]
fn code_that_could_not_be_parsed_just_now_changes_nothing_that_runs() {
    let mut inputs = folder();
    let first = accepted(&inputs);
    plugin_of(&mut inputs, "guard").source = SourceInput::Inline("not looked at".into());
    let unread = "Unreadable Plugin default/guard spec.source.inline";
    let second = check(&inputs, Some(&first), &[unread]);
    assert_eq!(code_of(&second, "guard"), "guard");
    let never = check(&inputs, None, &[unread, "PluginNotAccepted PluginChain default/checks spec.entries[0]"]);
    assert_eq!(runs(&never, "checks")[0], "guard Fail PluginNotAccepted");

    inputs.parsing.insert(code_key(&sha256_hex(b"not looked at"), "index.js"));
    let pending = "Pending Plugin default/guard spec.source.inline";
    assert_eq!(code_of(&check(&inputs, Some(&first), &[pending]), "guard"), "guard");
    let new = check(&inputs, None, &[pending, "Pending PluginChain default/checks spec.entries[0]"]);
    assert_eq!(runs(&new, "checks")[0], "guard Fail Pending", "a call that it is to guard is not answered meanwhile");
    know(&mut inputs, "not looked at", "index.js", &["default"]);
    assert_eq!(code_of(&accepted(&inputs), "guard"), "not looked at");
}

#[test]
fn a_schema_that_is_none_is_said_where_it_stands() {
    let mut inputs = folder();
    plugin_of(&mut inputs, "shape").config_schema = schema(&serde_json::json!({"type": "objekt"}));
    let (_, problems) = compile(&inputs, None);
    assert_eq!((problems[0].field.as_str(), problems[0].reason.as_str()), ("spec.configSchema", "InvalidConfig"));
}

#[test]
fn a_plugin_from_an_image_is_checked_by_pods_and_is_of_the_gateways_namespace() {
    let image = ImagePlan { reference: "r/i:1".into(), pull_policy: None, pull_secrets: Vec::new() };
    let mut inputs = folder();
    let path = image.folder().join("dist/a.mjs").to_string_lossy().into_owned();
    plugin_of(&mut inputs, "guard").source = SourceInput::Image { image: image.clone(), path: "dist/a.mjs".into() };
    let plan = check(&inputs, None, &[]);
    let guard = plan.plugin(&key("guard")).unwrap();
    assert_eq!((guard.path.as_ref(), guard.image.as_ref(), guard.digest.as_str()), (Some(&path), Some(&image), ""));
    let nobody = Inputs { no_pods: true, ..inputs.clone() };
    let told = "FileNotFound Plugin default/guard spec.source.image";
    check(&nobody, None, &[told, "PluginNotAccepted PluginChain default/checks spec.entries[0]"]);
    gateway(&mut inputs).plan.key.namespace = "other".into();
    let (plan, problems) = compile(&inputs, None);
    assert!(plan.plugin(&key("guard")).is_none());
    let problem =
        problems.iter().find(|problem| problem.object.as_ref().is_some_and(|id| id.kind == Kind::Plugin)).unwrap();
    assert_eq!((problem.reason, problem.field.as_str()), (Reason::InvalidConfig, "spec.source.image"));
    assert!(problem.message.contains("create the Plugin in other"), "{}", problem.message);
}

#[test]
fn who_uses_a_plugin_of_another_namespace_is_told_why_it_was_never_accepted() {
    let image = ImagePlan { reference: "r/i:1".into(), pull_policy: None, pull_secrets: Vec::new() };
    let mut inputs = folder();
    inputs.chains.clear();
    add_plugin(&mut inputs, "lib/p", |plugin| {
        plugin.share_with = Some(Namespaces::All);
        plugin.source = SourceInput::Image { image, path: "a.mjs".into() };
    });
    inputs.chains.push(chain("uses", &["lib/p"]));
    let (_, problems) = compile(&inputs, None);
    let of_chain = problems.iter().find(|problem| problem.reason == Reason::PluginNotAccepted).unwrap();
    assert!(of_chain.message.contains("(spec.source.image: gateway default/gw mounts images for"), "{of_chain}");
}

#[test]
fn memory_that_holds_no_worker_is_refused() {
    for (memory, expected) in
        [((4 << 20) - 1, &["InvalidConfig Plugin default/p spec.limits.memory"][..]), (4 << 20, &[])]
    {
        let mut inputs = empty();
        add_plugin(&mut inputs, "p", |p| p.limits.memory = memory);
        check(&inputs, None, expected);
    }
}
