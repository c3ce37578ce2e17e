//! Plugins that are programs: who allows them, and what they cannot have.

use super::*;
use crate::config::input::{FileCode, WrapperInput};
use crate::domain::plan::{InterpreterPlan, program_text};
use crate::domain::plugin::Protocol;
use crate::domain::reason::Reason;

fn python() -> InterpreterPlan {
    InterpreterPlan { name: "python3".into(), path: "/usr/bin/python3".into(), read_paths: Vec::new() }
}

fn wrapper(command: Option<&str>) -> Option<WrapperInput> {
    Some(WrapperInput { interpreter: command.map(str::to_owned), ..WrapperInput::default() })
}

/// A gateway that allows the wrapper `p`.
fn inputs_with(source: SourceInput, command: Option<&str>) -> Inputs {
    let mut inputs = empty();
    let runtime = &mut declare(&mut inputs).plan.runtime;
    runtime.allowed_wrappers = vec![key("p")];
    runtime.interpreters = vec![python()];
    inputs.plugins = vec![PluginInput { source, wrapper: wrapper(command), ..plugin("p") }];
    inputs
}

fn inline() -> SourceInput {
    SourceInput::Inline("import sys".into())
}

fn faults(inputs: &Inputs) -> Vec<(Reason, String)> {
    compile(inputs, None).1.into_iter().map(|problem| (problem.reason, problem.field)).collect()
}

#[test]
fn a_wrapper_needs_no_parser_and_is_named_in_requires() {
    let (plan, problems) = compile(&inputs_with(inline(), Some("python3")), None);
    assert!(problems.is_empty(), "{problems:?}");
    let form = plan.plugin(&key("p")).unwrap();
    assert_eq!(form.wrapper.as_ref().unwrap().interpreter, Some(python()));
    assert_eq!((form.protocol, form.phases.len(), form.file_name.as_str()), (Protocol::Once, 2, "plugin"));
    assert_eq!(plan.requires, ["wrappers"]);
}

#[test]
fn each_fault_has_its_field() {
    type Edit = fn(&mut PluginInput);
    let edits: [(Edit, Reason, &str); 6] = [
        (|it| it.kind = PluginKind::Phase, Reason::InvalidDescriptor, "spec.wrapper"),
        (|it| it.protocol = ProtocolSetting::Module, Reason::InvalidConfig, "spec.protocol"),
        (|it| it.reuse = true, Reason::InvalidConfig, "spec.reuse"),
        (|it| it.egress = vec!["a.example:1".into()], Reason::InvalidConfig, "spec.egress"),
        (|it| it.wrapper = wrapper(Some("ruby")), Reason::InvalidDescriptor, "spec.wrapper.command"),
        (
            |it| it.wrapper.as_mut().unwrap().protocol_version = Some("2.0".into()),
            Reason::InvalidDescriptor,
            "spec.wrapper.protocolVersion",
        ),
    ];
    for (edit, reason, field) in edits {
        let mut inputs = inputs_with(inline(), Some("python3"));
        edit(&mut inputs.plugins[0]);
        assert!(faults(&inputs).contains(&(reason, field.to_owned())), "{field}");
    }
}

#[test]
fn a_program_is_a_file_and_a_script_is_not() {
    let of_file = |text: &str, command, sha256: Option<String>| {
        let mut inputs = inputs_with(SourceInput::Path("guard".into()), command);
        let file = FileCode { text: text.into(), folder: "/plugins".into(), descriptor: None, siblings: String::new() };
        inputs.files.insert("guard".into(), Ok(file));
        inputs.plugins[0].sha256 = sha256;
        let (plan, problems) = compile(&inputs, None);
        (plan.plugin(&key("p")).is_some(), problems.first().map(|it| it.message.clone()).unwrap_or_default())
    };
    let digest = "a".repeat(64);
    let program = program_text(&digest);
    assert!(of_file(&program, None, None).0);
    assert!(of_file(&program, None, Some(digest)).0, "the digest is that of the program");
    assert!(of_file(&program, None, Some("b".repeat(64))).1.contains("SHA-256"));
    assert!(of_file("#!/bin/sh\n", None, None).1.contains("guard begins with #!"));
    assert!(of_file("text", None, None).1.contains("not a program"));
    assert!(of_file(&program, Some("python3"), None).1.contains("write its name as command"));
    assert!(of_file("import sys", Some("python3"), None).0);
}

#[test]
fn no_form_runs_on_whose_wrapper_or_interpreter_is_allowed_no_more() {
    let accepted = compile(&inputs_with(inline(), Some("python3")), None).0;
    type Edit = fn(&mut Inputs);
    let edits: [(Edit, bool); 5] = [
        (|_| {}, true),
        (|it| it.gateway.as_mut().unwrap().plan.runtime.allowed_wrappers = vec![ObjectKey::new("other", "p")], false),
        (|it| it.gateway.as_mut().unwrap().plan.runtime.interpreters.clear(), false),
        (|it| it.plugins[0].wrapper = wrapper(Some("ruby")), true),
        (
            |it| {
                it.plugins[0].wrapper = wrapper(Some("ruby"));
                it.gateway.as_mut().unwrap().plan.runtime.allowed_wrappers.clear();
            },
            false,
        ),
    ];
    for (at, (edit, runs)) in edits.into_iter().enumerate() {
        let mut inputs = inputs_with(inline(), Some("python3"));
        edit(&mut inputs);
        let plan = compile(&inputs, Some(&accepted)).0;
        assert_eq!(plan.plugin(&key("p")).is_some(), runs, "{at}");
    }
}

#[test]
fn a_wrapper_that_is_allowed_no_more_is_revoked_from_older_revisions() {
    let mut inputs = inputs_with(inline(), Some("python3"));
    inputs.chains.push(chain("c", &["p"]));
    inputs.upstreams.push(upstream("up"));
    let mut plan = compile(&inputs, None).0;
    assert_eq!(restrictions(&inputs, &plan).revoked, []);
    // Pods run the older revision for a moment after each edit.
    gateway(&mut inputs).plan.runtime.interpreters[0].path = "/opt/python3".into();
    assert_eq!(restrictions(&inputs, &plan).revoked, []);
    inputs.gateway.as_mut().unwrap().plan.runtime.allowed_wrappers.clear();
    let revoked = restrictions(&inputs, &plan);
    restrict(&mut plan, &revoked);
    assert_eq!(plan.chains[0].entries[0].unavailable.as_ref().unwrap().reason, Reason::WrapperNotAllowed);
    assert!(plan.plugin(&key("p")).is_none());
}

#[test]
fn a_helper_is_revoked_like_a_step() {
    let mut inputs = inputs_with(inline(), Some("python3"));
    inputs.plugins[0].kind = PluginKind::GsPlugin;
    inputs.plugins[0].descriptor.description = Some("Solves.".into());
    inputs.plugins.push(PluginInput { kind: PluginKind::Phase, ..plugin("s") });
    inputs.pipelines.push(pipeline("default/one", "sum", &["s"]));
    let plan = compile(&inputs, None).0;
    let helpers =
        |plan: &Plan| plan.upstreams.iter().flat_map(|it| it.helpers()).map(|it| it.key.clone()).collect::<Vec<_>>();
    assert_eq!(helpers(&plan), [key("p")]);
    assert_eq!(restrictions(&inputs, &plan).revoked, []);
    type Edit = fn(&mut Inputs);
    let edits: [Edit; 2] =
        [|it| remove_plugin(it, "default/p"), |it| it.gateway.as_mut().unwrap().plan.runtime.allowed_wrappers.clear()];
    for edit in edits {
        let (mut inputs, mut older) = (inputs.clone(), plan.clone());
        edit(&mut inputs);
        let revoked = restrictions(&inputs, &older);
        restrict(&mut older, &revoked);
        assert!(helpers(&older).is_empty() && older.plugin(&key("p")).is_none(), "{revoked:?}");
    }
}
