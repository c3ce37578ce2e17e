//! Statuses of objects that pods report to be unable to run.

use super::*;
use crate::domain::report::RefusingReport;

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
fn a_gateway_says_which_chain_its_pods_refuse_and_stays_ready() {
    let objects = chain_for("up");
    let input = input(&objects, |revision| refusing(revision, &[None, Some("Plugin ns/p: no")]));
    let (is, message) = condition(&input, &objects[0], "Refusing");
    assert_eq!(is, "True GuardUnavailable");
    assert_eq!(message, "calls that PluginChain ns/checks selects are refused: Plugin ns/p: no (NotLoaded)");
    assert_eq!(condition(&input, &objects[0], "Ready").0, "True Ready");
}
