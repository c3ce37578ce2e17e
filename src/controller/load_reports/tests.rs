//! A plugin that cannot be loaded, over several edits.

use serde_json::{Value, json};

use super::*;
use crate::config::compile::plugin_code;
use crate::config::input::code_key;
use crate::controller::compiled;
use crate::controller::dereference::Dereferenced;
use crate::controller::lowered::LoweredObject;
use crate::controller::pods::Reported;
use crate::controller::status::tests::{plugin, read};
use crate::domain::digest::sha256_hex;
use crate::domain::ports::CodeFacts;
use crate::domain::reason::Reason;
use crate::domain::report::{NotLoadedReport, PluginReport, Report};

/// A gateway with one Guard. Tests edit the Guard several times.
#[derive(Default)]
struct Edited {
    loading: LoadReports,
    last: Option<Arc<PlannedGateway>>,
}

impl Edited {
    /// Compiles with this code for the Guard. Returns the code that is planned.
    fn to(&mut self, code: &str) -> String {
        self.with(plugin(code, &json!({})))
    }

    fn with(&mut self, plugin: LoweredObject) -> String {
        let none = json!({});
        let chain = json!({"phase": "Request", "entries": [{"name": "p"}]});
        let objects = [
            read(Kind::MCPGateway, "main", &json!({"authentication": {"anonymous": {}}}), &none),
            read(Kind::PluginChain, "checks", &chain, &none),
            plugin,
        ];
        let mut inputs = compiled::inputs(&objects, &Dereferenced::default());
        let exports = CodeFacts { is_module: true, exports: vec!["default".into()], ..CodeFacts::default() };
        let code = inputs.plugins.iter().filter_map(|plugin| plugin_code(&inputs, plugin));
        inputs.facts =
            code.map(|code| (code_key(&sha256_hex(code.text.as_bytes()), &code.file_name), exports.clone())).collect();
        let previous = self.last.as_ref().map(|last| Arc::clone(&last.plan));
        let planned = compiled::plan(
            &objects[0],
            &mut inputs,
            previous.as_deref(),
            None,
            &std::collections::BTreeMap::new(),
            &mut self.loading,
        );
        let planned = Arc::new(planned);
        let code = planned.plan.code[&planned.plan.plugins[0].digest].clone();
        self.last = Some(planned);
        code
    }

    /// Processes a report from a pod that runs the last plan and loaded the Guard, or could not load it.
    fn hears(&mut self, loaded: bool) -> bool {
        let planned = Arc::clone(self.last.as_ref().unwrap());
        let guard = &planned.plan.plugins[0];
        let (plugin, digest) = (guard.key.to_string(), guard.digest.clone());
        let mut report = Report { revision: "0".into(), ..Report::default() };
        if loaded {
            let (reason, message, size_bytes, protocol) = (None, None, None, None);
            let state = PluginState::Enabled;
            report.plugins.push(PluginReport { plugin, state, reason, message, digest, size_bytes, protocol });
        } else {
            report.not_loaded.push(NotLoadedReport { plugin, digest, message: "it throws".into() });
        }
        let pods =
            Pods { all: 1, ready: [("pod".to_owned(), Ok(Arc::new(Reported::new(report))))].into(), ..Pods::default() };
        let revisions = [("0".to_owned(), Arc::clone(&planned.digests))].into();
        self.loading.hear(&planned, &revisions, &pods)
    }

    /// Returns the problems of the Guard.
    fn told(&self) -> Vec<(Reason, &str)> {
        let problems = self.last.as_ref().unwrap().problems.values().flatten();
        let problems = problems.filter(|problem| problem.object.as_ref().is_some_and(|o| o.kind == Kind::Plugin));
        problems.map(|problem| (problem.reason, problem.message.as_str())).collect()
    }

    /// Returns the state of the next operator process, which knows only what is stored: the failures to load, and these
    /// plans, newest first.
    fn restarted(&self, plans: &[&Arc<PlannedGateway>]) -> Self {
        let last = self.last.clone().unwrap();
        let not_loaded = Some(last.not_loaded.clone());
        let index = SnapshotIndex {
            current: "0".into(),
            revisions: Vec::new(),
            restrictions: None,
            not_loaded,
            seen_names: None,
        };
        let plans: Vec<_> = plans.iter().map(|planned| Arc::clone(&planned.plan)).collect();
        Self { loading: LoadReports::stored(Some(&index), &plans), last: Some(last) }
    }
}

#[test]
fn what_cannot_be_loaded_gives_way_to_the_form_before_it_until_it_is_edited() {
    let mut edited = Edited::default();
    assert_eq!((edited.to("one"), edited.hears(true)), ("one".into(), false));
    assert_eq!((edited.to("two"), edited.hears(false)), ("two".into(), true));
    assert!(!edited.hears(false), "it is known");
    assert_eq!(edited.to("two"), "one");
    let [(Reason::NotLoaded, message)] = edited.told()[..] else { panic!("{:?}", edited.told()) };
    assert!(message.starts_with("it throws. Not loaded; the code accepted before (revision "), "{message}");
    // Pods no longer report the failure, but it is not forgotten.
    assert_eq!((edited.hears(true), edited.to("two")), (false, "one".into()));
    assert_eq!((edited.to("three"), edited.told().len(), edited.hears(false)), ("three".into(), 0, true));
    assert_eq!(edited.to("three"), "one");
    assert_eq!((edited.to("four"), edited.hears(true), edited.told().len()), ("four".into(), false, 0));
}

#[test]
fn an_operator_that_starts_anew_knows_what_could_not_be_loaded() {
    let mut edited = Edited::default();
    edited.to("one");
    let one = edited.last.clone().unwrap();
    edited.to("two");
    let two = edited.last.clone().unwrap();
    // The previous operator process ended before a pod reported whether it could load "two".
    let mut next = edited.restarted(&[&two, &one]);
    assert!(next.hears(false));
    assert_eq!(next.to("two"), "one");
    let back = next.last.clone().unwrap();
    assert_eq!(next.restarted(&[&back]).to("two"), "one");
    let mut next = next.restarted(&[&back, &two, &one]);
    assert_eq!((next.to("two"), next.to("three"), next.hears(false)), ("one".into(), "three".into(), true));
    assert_eq!(next.to("three"), "one");
}

#[test]
fn of_hasty_edits_the_last_form_that_was_loaded_is_what_comes_back() {
    let mut edited = Edited::default();
    assert_eq!((edited.to("one"), edited.hears(true)), ("one".into(), false));
    for code in ["two", "three", "four"] {
        edited.to(code);
    }
    assert!(edited.hears(false));
    assert_eq!(edited.to("four"), "one");
}

#[test]
fn a_wrong_edit_of_what_cannot_be_loaded_keeps_the_form_that_can() {
    let mut edited = Edited::default();
    assert_eq!((edited.to("one"), edited.hears(true)), ("one".into(), false));
    assert_eq!((edited.to("two"), edited.hears(false)), ("two".into(), true));
    let digest = "0".repeat(64);
    let wrong = json!({"source": {"inline": "three"}, "sha256": digest});
    assert_eq!(edited.with(read(Kind::Plugin, "p", &wrong, &json!({}))), "one");
    assert_eq!(edited.told()[0].0, Reason::DigestMismatch);
    assert_eq!((edited.to("two"), edited.told()[0].0), ("one".into(), Reason::NotLoaded));
}

#[test]
fn what_was_never_loaded_is_nothing_to_go_back_to() {
    let mut edited = Edited::default();
    assert_eq!((edited.to("one"), edited.hears(false)), ("one".into(), false));
    assert_eq!((edited.to("two"), edited.hears(false)), ("two".into(), false));
    assert_eq!((edited.to("two"), edited.told().len()), ("two".into(), 0));
}

#[test]
fn a_form_with_a_right_that_an_edit_took_away_does_not_come_back() {
    let with_egress = |code: &str, egress: &Value| {
        let spec = json!({"source": {"inline": code}, "egress": egress});
        read(Kind::Plugin, "p", &spec, &json!({}))
    };
    let mut edited = Edited::default();
    let (both, one) = (json!(["a.example:443", "b.example:443"]), json!(["a.example:443"]));
    assert_eq!((edited.with(with_egress("one", &both)), edited.hears(true)), ("one".into(), false));
    assert_eq!(edited.with(with_egress("two", &one)), "two");
    // The new form stays in the plan, so pods try to load it again and report the failure. No compilation is due.
    for _ in 0..2 {
        assert!(!edited.hears(false), "there is nothing to go back to");
        assert_eq!((edited.with(with_egress("two", &one)), edited.told().len()), ("two".into(), 0));
    }
    // With its rights granted again, the earlier form can run.
    assert_eq!((edited.with(with_egress("two", &both)), edited.hears(false)), ("two".into(), true));
    assert_eq!((edited.with(with_egress("two", &both)), edited.told()[0].0), ("one".into(), Reason::NotLoaded));
}
