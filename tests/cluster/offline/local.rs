//! What `hawsepipe validate` says of an object.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawsepipe::domain::reason::Reason;
use hawsepipe::source::{FileText, LoadedManifests, load};
use serde_json::Value;

use super::faults::{Kind, Verdict};

/// Reads the object as a file that holds nothing else. `before` is what the file held. `rules` are the messages of all.
pub fn verdict(object: &Value, before: Option<&Value>, rules: &BTreeSet<String>) -> Verdict {
    let before = before.map(|before| loaded(before, None));
    let mut verdict = Verdict::default();
    for located in &loaded(object, before.as_ref()).problems {
        let problem = &located.problem;
        // Other Problems are of what is accepted: it may lack something else, or be of no use here.
        if !problem.is_error() || problem.reason != Reason::InvalidObject {
            continue;
        }
        if let Some(rule) = rules.iter().find(|rule| problem.message.ends_with(*rule)) {
            verdict.broken.insert(rule.clone());
        } else if let Some(kind) = kind(&problem.message) {
            verdict.faults.insert((problem.field.clone(), kind));
        } else {
            verdict.other.push(problem.to_string());
        }
    }
    verdict
}

fn loaded(object: &Value, previous: Option<&LoadedManifests>) -> LoadedManifests {
    let path = Arc::new(PathBuf::from("object.json"));
    let file = FileText { path, folder: PathBuf::from("/"), text: Ok(object.to_string()) };
    load(vec![file], previous, Path::new("/plugins"))
}

/// The kind of fault that a message of ours is about.
fn kind(message: &str) -> Option<Kind> {
    let begins = |words: &[&str]| words.iter().any(|word| message.starts_with(word));
    if begins(&["unknown field"]) {
        Some(Kind::Unknown)
    } else if begins(&["is required"]) {
        Some(Kind::Required)
    } else if begins(&["must be one of"]) {
        Some(Kind::Word)
    } else if begins(&["may have at most"]) {
        Some(Kind::TooMany)
    } else if begins(&["must have at least", "must be from", "must be at least", "is out of range"]) {
        Some(Kind::Value)
    } else if begins(&["is the same", "has the same"]) {
        Some(Kind::Duplicate)
    } else if begins(&["must be "]) {
        Some(if message.contains("; it is ") { Kind::Type } else { Kind::Value })
    } else {
        None
    }
}
