//! Code whose exports are not those that a worker calls.

use super::*;
use crate::domain::plugin::Protocol;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Returns inputs with a plugin `p` whose code exports these names.
fn exporting(is_module: bool, exports: &[&str], protocol: ProtocolSetting) -> Inputs {
    let mut inputs = empty();
    add_plugin(&mut inputs, "p", |p| p.protocol = protocol);
    let exports: Vec<_> = exports.iter().map(|name| (*name).to_owned()).collect();
    for facts in inputs.facts.values_mut() {
        *facts = CodeFacts { is_module, exports: exports.clone(), ..CodeFacts::default() };
    }
    inputs
}

fn problem_of(inputs: &Inputs) -> Problem {
    let problems = compile(inputs, None).1;
    let [problem] = &problems[..] else { panic!("not one problem: {problems:#?}") };
    problem.clone()
}

#[test]
fn an_es_module_that_exports_nothing_that_is_called_is_refused_with_the_names() {
    let tail = "export default, onRequest or onResponse for a Module, or write protocol: Once for a script";
    for (exports, says) in [
        (&["onRequst"][..], r#"only "onRequst" (did you mean onRequest?)"#),
        (&["helper", "onresponse"], r#"only "helper" and "onresponse" (did you mean onResponse?)"#),
        (&["Default", "warmup"], r#"only "Default" and "warmup" (did you mean default?)"#),
        (&["warmup"], r#"only "warmup""#),
        (&["a", "b\n", "c", "d", "e", "f", "g"], r#"only "a", "b\n", "c", "d", "e" and 2 more"#),
        (
            &["*"],
            r#"only "*" (names behind `export * from` are not known: list them, as in `export { onRequest } from`)"#,
        ),
    ] {
        for (protocol, field) in [(ProtocolSetting::Auto, "source.inline"), (ProtocolSetting::Module, "protocol")] {
            let problem = problem_of(&exporting(true, exports, protocol));
            assert_eq!(problem.message, format!("its code exports {says}: {tail}"));
            assert_eq!((problem.reason, problem.field), (Reason::UnsupportedExports, format!("spec.{field}")));
            assert!(problem.level == crate::domain::problem::Level::Error);
        }
    }
    let nothing = problem_of(&exporting(true, &[], ProtocolSetting::Module));
    assert_eq!(nothing.message, format!("its code exports nothing: {tail}"));
}

#[test]
fn scripts_stay_scripts() {
    for (is_module, exports, protocol) in [
        (true, &[][..], ProtocolSetting::Auto),
        (false, &[], ProtocolSetting::Auto),
        (false, &["helper"], ProtocolSetting::Auto),
        (false, &["onRequst"], ProtocolSetting::Once),
        (true, &["onRequst"], ProtocolSetting::Once),
    ] {
        let plan = accepted(&exporting(is_module, exports, protocol));
        assert_eq!(plan.plugins[0].protocol, Protocol::Once, "{is_module} {exports:?} {protocol:?}");
    }
}

#[test]
fn common_js_that_nearly_exports_a_function_is_a_script_with_a_warning() {
    let inputs = exporting(false, &["helper", "onRequst"], ProtocolSetting::Auto);
    let plan = check(&inputs, None, &["?UnsupportedExports Plugin default/p spec.source.inline"]);
    assert_eq!(plan.plugins[0].protocol, Protocol::Once);
    let message = problem_of(&inputs).message;
    assert!(message.contains(r#"exports "onRequst""#) && message.contains("did you mean onRequest?"), "{message}");
}

#[test]
fn an_edit_that_misspells_the_export_leaves_the_form_before_in_force() {
    let mut inputs = folder();
    let before = accepted(&inputs);
    plugin_of(&mut inputs, "guard").source = SourceInput::Inline("an edit".into());
    know(&mut inputs, "an edit", "index.js", &["onRequst"]);
    let after = check(&inputs, Some(&before), &["UnsupportedExports Plugin default/guard spec.source.inline"]);
    let digest = |plan: &Plan| plan.plugin(&key("guard")).unwrap().digest.clone();
    assert_eq!(digest(&after), digest(&before));
    assert_eq!(runs(&after, "checks"), runs(&before, "checks"));
    let message = &compile(&inputs, Some(&before)).1[0].message;
    assert!(message.contains("still runs"), "{message}");
}
