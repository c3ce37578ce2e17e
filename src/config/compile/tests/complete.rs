//! Plugins whose code only the gateway has: they are planned without code, and the gateway completes the plan.

use std::collections::BTreeMap;

use super::*;
use crate::config::compile::complete;
use crate::config::input::{FileCode, Files, Unread};
use crate::config::shards::{join, split};
use crate::domain::plugin::Protocol;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// The plugin files in the gateway's pod, and what parsing them found.
#[derive(Default)]
struct Pod {
    files: Files,
    facts: BTreeMap<String, CodeFacts>,
}

impl Pod {
    /// Returns a pod with a file `a.js` of this text, an ES module with these exports.
    fn has(text: &str, exports: &[&str]) -> Self {
        let file =
            FileCode { text: text.into(), folder: "/plugins".into(), descriptor: None, siblings: "others".into() };
        let exports = exports.iter().map(|export| (*export).to_owned()).collect();
        let facts = CodeFacts { is_module: true, exports, reads_env: vec!["HOME".into()], error: None };
        Self {
            files: [("a.js".to_owned(), Ok(file))].into(),
            facts: [(code_key(&sha256_hex(text.as_bytes()), "a.js"), facts)].into(),
        }
    }

    /// Returns a pod that cannot read `a.js`.
    fn cannot_read() -> Self {
        Self {
            files: [("a.js".to_owned(), Err(Unread::new(Reason::FileNotFound, "a.js cannot be read")))].into(),
            ..Self::default()
        }
    }

    fn complete(&self, plan: &Plan, previous: Option<&Plan>) -> (Plan, Vec<String>) {
        let (plan, problems) = complete(plan.clone(), previous, &self.files, &self.facts);
        let seen = |problem: &Problem| format!("{} {}", problem.reason, problem.field);
        (plan, problems.iter().map(seen).collect())
    }
}

/// Returns the plan of [`folder`] as the gateway receives it. The plan does not contain the code of the Transform
/// `shape`, which is in the pod's file `a.js`.
fn plan(change: impl FnOnce(&mut PluginInput)) -> Plan {
    let mut inputs = folder();
    inputs.files_elsewhere = true;
    let shape = plugin_of(&mut inputs, "shape");
    shape.source = SourceInput::Path("a.js".into());
    change(shape);
    let pieces = split(&accepted(&inputs));
    join(pieces.iter().map(|piece| (piece.kind, piece.json.as_str()))).unwrap()
}

fn shape(plan: &Plan) -> &crate::domain::plan::PluginPlan {
    plan.plugin(&key("shape")).unwrap()
}

const UNKNOWN_VARIABLE: &str = "InvalidConfig spec.env";

#[test]
fn a_plugin_in_the_pod_is_planned_without_code_and_completed() {
    let open = plan(|_| {});
    assert_eq!((shape(&open).path.as_deref(), shape(&open).digest.as_str()), (Some("a.js"), ""));
    assert_eq!(runs(&open, "checks"), ["guard Fail", "shape LastGood"]);
    let (done, problems) = Pod::has("text", &["onRequest"]).complete(&open, None);
    assert_eq!(problems, [UNKNOWN_VARIABLE]);
    let plugin = shape(&done);
    assert_eq!((code_of(&done, "shape"), plugin.file_name.as_str()), ("text", "a.mjs"));
    assert_eq!((plugin.protocol, &plugin.phases[..]), (Protocol::Module, &[Phase::Request][..]));
    assert_eq!((plugin.folder.clone(), plugin.siblings.as_str()), (Some("/plugins".into()), "others"));
    assert_eq!(runs(&done, "checks"), ["guard Fail", "shape LastGood"]);
}

#[test]
fn what_the_manifest_wants_of_the_code_is_asked_in_the_pod() {
    let wanted = sha256_hex(b"text");
    let open = plan(|plugin| {
        (plugin.sha256, plugin.protocol) = (Some(wanted), ProtocolSetting::Once);
        plugin.phases = Some(vec![Phase::Request]);
    });
    let (done, _) = Pod::has("text", &[]).complete(&open, None);
    assert_eq!((shape(&done).protocol, &shape(&done).phases[..]), (Protocol::Once, &[Phase::Request][..]));
    let (without, problems) = Pod::has("other text", &[]).complete(&open, None);
    assert_eq!((problems, shape(&without).digest.as_str()), (vec!["DigestMismatch spec.sha256".to_owned()], ""));
    let open = plan(|plugin| plugin.phases = Some(vec![Phase::Request]));
    let (_, problems) = Pod::has("text", &["onResponse"]).complete(&open, None);
    assert_eq!(problems, ["UnsupportedExports spec.phases"]);
}

#[test]
fn an_entry_in_a_phase_that_the_code_does_not_serve_cannot_run() {
    let (done, problems) = Pod::has("text", &["onResponse"]).complete(&plan(|_| {}), None);
    assert_eq!(problems, [UNKNOWN_VARIABLE, "WrongPhase spec.entries[1]"]);
    assert_eq!(runs(&done, "checks"), ["guard Fail", "shape Fail WrongPhase"]);
}

#[test]
fn a_file_that_is_not_accepted_changes_nothing_that_runs() {
    let open = plan(|_| {});
    let (without, problems) = Pod::cannot_read().complete(&open, None);
    assert_eq!((problems, shape(&without).digest.as_str()), (vec!["FileNotFound spec.source.path".to_owned()], ""));
    let (running, _) = Pod::has("text", &["default"]).complete(&open, None);
    let (kept, problems) = Pod::cannot_read().complete(&open, Some(&running));
    assert_eq!((problems, code_of(&kept, "shape")), (vec!["FileNotFound spec.source.path".to_owned()], "text"));
    // The code does not export what a chain runs.
    for exports in [&["onResponse"][..], &[]] {
        let (kept, problems) = Pod::has("other", exports).complete(&open, Some(&running));
        assert_eq!(problems, [UNKNOWN_VARIABLE, "UnsupportedExports spec.source.path"]);
        assert_eq!((code_of(&kept, "shape"), &shape(&kept).phases), ("text", &shape(&running).phases));
    }
    let (edited, _) = Pod::has("edited", &["default"]).complete(&open, Some(&kept));
    assert_eq!((code_of(&edited, "shape"), edited.code.len()), ("edited", 2), "guard and shape");
}

#[test]
fn what_a_plugin_in_the_pod_was_forbidden_counts_although_its_file_is_not_accepted() {
    let (running, _) =
        Pod::has("text", &["default"]).complete(&plan(|p| p.egress = vec!["a.example:443".into()]), None);
    let bad = [Pod::cannot_read(), Pod::has("other", &["onResponse"])];
    for pod in &bad {
        let (off, _) = pod.complete(&plan(|plugin| plugin.enabled = false), Some(&running));
        assert!(!shape(&off).enabled);
        let (less, _) = pod.complete(&plan(|_| {}), Some(&running));
        assert!(shape(&less).egress.is_empty() && !less.code.contains_key(&shape(&running).digest));
    }
}
