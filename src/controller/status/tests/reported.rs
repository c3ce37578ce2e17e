//! Statuses of objects that pods report to be unable to run.

use super::*;
use crate::domain::report::{PluginState, RefusingReport};

/// Returns pods that refuse the calls of `ns/checks` with these messages; `None` for a pod that does not refuse them.
fn refusing(revision: &str, messages: &[Option<&str>]) -> Pods {
    let ready = messages.iter().enumerate().map(|(number, message)| {
        let refusing = message.map(|message| RefusingReport {
            chain: "ns/checks".into(),
            reason: "NotLoaded".into(),
            message: message.to_owned(),
        });
        let report = Report { revision: revision.to_owned(), refusing: Vec::from_iter(refusing), ..Report::default() };
        (format!("pod-{number}"), Ok(Arc::new(Reported::new(report))))
    });
    Pods { all: u32::try_from(messages.len()).unwrap(), ready: ready.collect(), ..Pods::default() }
}

#[test]
fn a_chain_that_pods_refuse_is_not_ready_and_has_their_reason_and_words() {
    let objects = chain_for("up");
    let is_not = |input: &StatusInput| {
        let conditions = conditions(input, &objects[2]);
        assert!(conditions.iter().all(|condition| condition.r#type != "Refusing"), "{conditions:?}");
        assert_eq!(condition(input, &objects[2], "Ready").0, "True Ready");
    };
    is_not(&input(&objects, |revision| refusing(revision, &[None])));
    let input_of = |pods: &[Option<&str>]| input(&objects, |revision| refusing(revision, pods));
    let told = |pods: &[Option<&str>]| {
        let input = input_of(pods);
        let found = condition(&input, &objects[2], "Refusing");
        assert_eq!(condition(&input, &objects[2], "Ready"), (found.0.replace("True", "False"), found.1.clone()));
        assert_eq!(condition(&input, &objects[2], "Programmed").0, "True Programmed", "pods run it as it is written");
        assert_eq!(found.0, "True GuardUnavailable");
        found.1
    };
    let words = "Plugin ns/p: cannot be started: Error: not today";
    let expected = format!("each call that it selects is refused: {words} (NotLoaded)");
    assert_eq!(told(&[Some(words)]), expected);
    let of_some = told(&[None, Some(words), None]);
    assert_eq!(of_some, format!("{expected}; so say 1 of the 3 ready pods of ns/main"));
    assert!(told(&[Some("")]).ends_with("a plugin of it cannot run (NotLoaded)"));
}

#[test]
fn what_pods_with_another_form_of_a_chain_refuse_is_not_said_of_the_one_that_is_written() {
    let objects = chain_for("up");
    let mut mixed = input(&objects, |revision| {
        let mut pods = refusing(revision, &[Some("Plugin ns/p: new")]);
        pods.ready.extend(refusing("older", &[None, Some("Plugin ns/p: old")]).ready.into_iter().skip(1));
        pods
    });
    let told = |input: &StatusInput, object: usize| condition(input, &objects[object], "Refusing").1;
    assert_eq!(
        told(&mixed, 2),
        "each call that it selects is refused: Plugin ns/p: new (NotLoaded); so say 1 of the 2 ready pods of ns/main"
    );
    for state in mixed.gateways.values_mut() {
        let digests = state.revisions.remove("0123456789ab").unwrap();
        state.revisions.insert("older".into(), digests);
        state.current = Some("older".into());
    }
    assert!(told(&mixed, 2).contains("Plugin ns/p: old"), "{}", told(&mixed, 2));
    assert!(told(&mixed, 0).ends_with("are refused: Plugin ns/p: old (NotLoaded)"), "{}", told(&mixed, 0));
    let older = input(&objects, |_| refusing("older", &[Some("Plugin ns/p: old")]));
    assert_eq!(
        told(&older, 2),
        "pods of another revision of it refuse each call that their revision selects: Plugin ns/p: old (NotLoaded)"
    );
    assert_eq!(
        told(&older, 0),
        "calls that PluginChain ns/checks selects are refused by pods of revision older: Plugin ns/p: old (NotLoaded)"
    );
}

#[test]
fn a_gateway_says_which_chain_its_pods_refuse_and_stays_ready() {
    let objects = chain_for("up");
    let input = input(&objects, |revision| refusing(revision, &[None, Some("Plugin ns/p: no")]));
    let (is, message) = condition(&input, &objects[0], "Refusing");
    assert_eq!(is, "True GuardUnavailable");
    assert_eq!(message, "calls that PluginChain ns/checks selects are refused: Plugin ns/p: no (NotLoaded)");
    assert_eq!(condition(&input, &objects[0], "Ready").0, "True Ready");
}

/// Returns the statuses' input for a chain whose plugin is a file of the pods. The only pod cannot run it in any form
/// if `failed`, and has this Problem of it.
fn of_file(failed: bool, problem: Option<(Reason, &str)>) -> (Vec<LoweredObject>, StatusInput) {
    of_file_with(failed, Reason::NotLoaded, problem)
}

/// Like [`of_file`], with the reason for which the plugin does not run.
fn of_file_with(failed: bool, reason: Reason, problem: Option<(Reason, &str)>) -> (Vec<LoweredObject>, StatusInput) {
    let mut objects = chain_for("up");
    objects[3] = read(Kind::Plugin, "p", &json!({"source": {"path": "p.js"}}), &json!({}));
    let id = objects[3].id.clone();
    let problem = problem.map(|(reason, message)| Problem::error(reason, id, "spec.source.path", message));
    let state = if failed { PluginState::Failed } else { PluginState::Enabled };
    let plugin = json!({"plugin": "ns/p", "state": state, "reason": reason.as_str(), "message": "it does not run"});
    let report = |revision: &str| json!({"revision": revision, "problems": Vec::from_iter(problem.clone()), "plugins": [plugin]});
    let pods = |revision: &str| {
        let reported = Reported::new(serde_json::from_value(report(revision)).unwrap());
        Pods { all: 1, ready: [("pod".to_owned(), Ok(Arc::new(reported)))].into(), ..Pods::default() }
    };
    let input = input(&objects, pods);
    (objects, input)
}

/// Returns the conditions of the plugin of [`of_file`], as `Type Status Reason`.
fn plugin_of_file(failed: bool, problem: Option<(Reason, &str)>) -> Vec<String> {
    let (objects, input) = of_file(failed, problem);
    words(&conditions(&input, &objects[3]))
}

#[test]
fn a_plugin_has_the_reason_and_the_words_of_pods_that_do_not_accept_its_file() {
    assert!(plugin_of_file(false, None).contains(&"Ready True Ready".to_owned()));
    assert_eq!(
        plugin_of_file(true, Some((Reason::FileNotFound, "/plugins/p.js cannot be read"))),
        [
            "Accepted True Accepted",
            "ResolvedRefs False FileNotFound",
            "Programmed False NotLoaded",
            "Ready False FileNotFound"
        ]
    );
    let (objects, input) = of_file(true, Some((Reason::FileNotFound, "/plugins/p.js cannot be read")));
    let (_, message) = condition(&input, &objects[3], "ResolvedRefs");
    assert_eq!(message, "spec.source.path: /plugins/p.js cannot be read");
    assert_eq!(
        plugin_of_file(false, Some((Reason::SyntaxError, "p.js:1:2: no"))),
        [
            "Accepted False SyntaxError",
            "ResolvedRefs True ResolvedRefs",
            "Programmed False PreviousRevision",
            "Ready False SyntaxError"
        ],
        "an older form runs"
    );
}

#[test]
fn a_plugin_loops_only_if_nothing_else_keeps_it_from_running() {
    let loops = "CrashLooping True StartFailed".to_owned();
    assert!(plugin_of_file(true, None).contains(&loops));
    assert!(plugin_of_file(true, Some((Reason::NotLoaded, "it throws"))).contains(&loops));
    for other in [Reason::SyntaxError, Reason::SecretNotFound] {
        assert!(!plugin_of_file(true, Some((other, "no"))).contains(&loops), "{other}");
    }
}

#[test]
fn a_pod_without_a_sandbox_is_told_beside_another_cause() {
    for problem in [None, Some((Reason::SecretNotFound, "no"))] {
        let (objects, input) = of_file_with(true, Reason::SandboxUnavailable, problem);
        let told = condition(&input, &objects[3], "Programmed");
        assert_eq!(told, ("False SandboxUnavailable".to_owned(), "it does not run".to_owned()), "{problem:?}");
    }
}

#[test]
fn what_pods_find_wrong_with_another_form_of_a_plugin_is_not_told() {
    let (objects, mut input) = of_file(true, Some((Reason::FileNotFound, "no")));
    input.gateways.values_mut().for_each(|state| state.revisions.clear());
    assert_eq!(condition(&input, &objects[3], "ResolvedRefs").0, "True ResolvedRefs");
}

#[test]
fn a_chain_whose_entry_serves_another_phase_in_pods_says_so() {
    let objects = chain_for("up");
    let wrong = Problem::error(Reason::WrongPhase, objects[2].id.clone(), "spec.entries[0]", "not in this phase");
    let input = input(&objects, |revision| {
        let report = Report { revision: revision.into(), problems: vec![wrong], ..Report::default() };
        Pods { all: 1, ready: [("pod".into(), Ok(Arc::new(Reported::new(report))))].into(), ..Pods::default() }
    });
    let told = condition(&input, &objects[2], "ResolvedRefs");
    assert_eq!(told, ("False WrongPhase".to_owned(), "spec.entries[0]: not in this phase".to_owned()));
    assert_eq!(condition(&input, &objects[2], "Programmed").0, "True Programmed", "no older form runs");
}
