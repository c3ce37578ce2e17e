//! What one run of the suite found: a verdict for each check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::suite;

/// What `-2026-11-24T12-13-22-478Z` takes at the end of a folder's name.
const STAMP: usize = 25;

/// The verdicts of a run; a check is named `scenario:check`.
pub struct Checks {
    verdicts: BTreeMap<String, Verdict>,
    not_scored: Vec<String>,
}

/// From good to bad: a check that the suite made several times counts as its worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Verdict {
    Passed,
    Warned,
    Skipped,
    Failed,
}

impl Checks {
    /// Runs what a revision requires against `url`.
    pub async fn of(revision: &str, url: &str) -> Self {
        let results = Results::new();
        suite::run(revision, url, &results.0).await;
        let verdicts = results.verdicts();
        assert!(verdicts.len() > 50, "the suite checked next to nothing: {:?}", verdicts.keys());
        Self { verdicts, not_scored: suite::not_scored(revision) }
    }

    /// Runs these scenarios once more, each by itself. What the others found stays.
    pub async fn again(&self, revision: &str, url: &str, scenarios: &BTreeSet<&str>) -> Self {
        let of_those = |check: &String| check.split(':').next().is_some_and(|scenario| scenarios.contains(scenario));
        let mut verdicts = self.verdicts.clone();
        verdicts.retain(|check, _| !of_those(check));
        for scenario in scenarios {
            let results = Results::new();
            suite::run_one(revision, scenario, url, &results.0).await;
            verdicts.append(&mut results.verdicts());
        }
        Self { verdicts, not_scored: self.not_scored.clone() }
    }

    /// Runs a scenario of clients with `program`, and returns the checks of it that failed or warned. Some checks are for
    /// clients that say what this one does not, such as `initialize` in the newer era: these are skipped.
    pub async fn of_client(revision: &str, scenario: &str, program: &Path, gateway: &Path) -> Vec<String> {
        let results = Results::new();
        suite::run_client(revision, scenario, program, gateway, &results.0).await;
        let mut verdicts = BTreeMap::new();
        for folder in std::fs::read_dir(&results.0).unwrap().map(|entry| entry.unwrap().path()) {
            collect(scenario, &folder, &mut verdicts);
        }
        assert!(!verdicts.is_empty(), "{scenario} checked nothing");
        let failing = |verdict: &Verdict| matches!(verdict, Verdict::Failed | Verdict::Warned);
        verdicts.into_iter().filter(|(_, verdict)| failing(verdict)).map(|(check, _)| check).collect()
    }

    /// Whether a check decides about conformance.
    pub fn is_scored(&self, check: &str) -> bool {
        !self.not_scored.iter().any(|scenario| check.split(':').next() == Some(scenario))
    }

    /// The scored checks that failed.
    pub fn failing_scored(&self) -> Vec<&String> {
        self.failing().filter(|check| self.is_scored(check)).collect()
    }

    /// Those that failed and are not scored.
    pub fn failing_unscored(&self) -> Vec<&String> {
        self.failing().filter(|check| !self.is_scored(check)).collect()
    }

    fn failing(&self) -> impl Iterator<Item = &String> {
        self.verdicts.iter().filter(|(_, verdict)| **verdict == Verdict::Failed).map(|(check, _)| check)
    }

    /// The checks that were better in another run: one that is skipped, or not made at all, did not pass.
    pub fn lost_since(&self, other: &Self) -> BTreeSet<String> {
        let lost = |check: &str, before: Verdict| self.verdicts.get(check).is_none_or(|now| *now > before);
        other.verdicts.iter().filter(|(check, before)| lost(check, **before)).map(|(check, _)| check.clone()).collect()
    }
}

fn read(folder: &Path, verdicts: &mut BTreeMap<String, Verdict>) {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap();
    let scenario = name.strip_prefix("server-").and_then(|name| name.get(..name.len() - STAMP)).unwrap();
    collect(scenario, folder, verdicts);
}

fn collect(scenario: &str, folder: &Path, verdicts: &mut BTreeMap<String, Verdict>) {
    let text = std::fs::read_to_string(folder.join("checks.json")).unwrap();
    for check in serde_json::from_str::<Vec<Value>>(&text).unwrap() {
        let verdict = match check["status"].as_str().unwrap() {
            // Some checks have nothing to judge, such as the streams of a server that answers in one piece.
            "SUCCESS" | "INFO" => Verdict::Passed,
            "WARNING" => Verdict::Warned,
            "SKIPPED" => Verdict::Skipped,
            "FAILURE" => Verdict::Failed,
            other => panic!("{scenario} has a check of the status {other}"),
        };
        let worst = verdicts.entry(format!("{scenario}:{}", check["id"].as_str().unwrap())).or_insert(verdict);
        *worst = verdict.max(*worst);
    }
}

/// A folder that goes with its value.
struct Results(PathBuf);

impl Results {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("hawsepipe-conformance-{}", uuid::Uuid::new_v4().simple())))
    }

    fn verdicts(&self) -> BTreeMap<String, Verdict> {
        let mut verdicts = BTreeMap::new();
        for folder in std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()) {
            read(&folder, &mut verdicts);
        }
        verdicts
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
