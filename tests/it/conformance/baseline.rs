//! What is known to fail through the gateway. It can only shrink: what is in it and passes is an error too.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::checkout;

/// The checks of a file, and those of the file that it adds to.
pub struct Baseline {
    file: PathBuf,
    base: BTreeSet<String>,
    checks: BTreeSet<String>,
}

/// The checks of the file of this name; none at all is an empty one.
fn read(name: &str) -> (PathBuf, BTreeSet<String>) {
    let file = checkout().join(format!("tests/conformance/baseline/{name}.txt"));
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let checks = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect();
    (file, checks)
}

impl Baseline {
    /// The one of this name. What more is lost with `what`, if it is not empty, has a file of its own.
    pub fn read(name: &str, what: &str) -> Self {
        let (base_file, base) = read(name);
        if what.is_empty() {
            return Self { file: base_file, base: BTreeSet::new(), checks: base };
        }
        let (file, more) = read(&format!("{name}-{what}"));
        Self { file, checks: &base | &more, base }
    }

    /// The scenarios in which other checks were lost than those that are named here.
    pub fn misfits<'a>(&'a self, lost: &'a BTreeSet<String>) -> BTreeSet<&'a str> {
        self.checks.symmetric_difference(lost).filter_map(|check| check.split(':').next()).collect()
    }

    /// Fails if both runs agree that something was lost that is not named here, or that something was not that is.
    /// With `UPDATE_BASELINE=1` the file is written anew instead.
    pub fn assert(&self, first: &BTreeSet<String>, second: &BTreeSet<String>) {
        let both: BTreeSet<_> = first.intersection(second).cloned().collect();
        if std::env::var_os("UPDATE_BASELINE").is_some() {
            let lines: String = both.difference(&self.base).map(|check| format!("{check}\n")).collect();
            return std::fs::write(&self.file, lines).unwrap();
        }
        let lost: Vec<_> = both.difference(&self.checks).collect();
        let passing: Vec<_> =
            self.checks.iter().filter(|check| !first.contains(*check) && !second.contains(*check)).collect();
        assert!(lost.is_empty(), "these pass at the server itself and not through the gateway: {lost:#?}");
        assert!(passing.is_empty(), "these pass now: take them out of {}: {passing:#?}", self.file.display());
    }
}
