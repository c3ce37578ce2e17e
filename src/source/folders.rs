//! The set of folders to watch, and which of their files can change the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The file name extensions of manifests.
pub(super) const MANIFESTS: [&str; 3] = ["yaml", "yml", "json"];
/// The extensions of files that plugin code can import.
pub(super) const CODE: [&str; 7] = ["js", "mjs", "cjs", "ts", "mts", "json", "py"];

/// The folders in which changes can affect the plan, each with the files that count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders(BTreeMap<PathBuf, Counting>);

/// Which files of a folder count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counting {
    all: bool,
    endings: BTreeSet<&'static str>,
    names: BTreeSet<OsString>,
}

impl Folders {
    /// Adds every file of `folder`.
    pub fn add_all(&mut self, folder: impl Into<PathBuf>) {
        self.0.entry(folder.into()).or_default().all = true;
    }

    /// Adds the files of `folder` that have one of these extensions.
    pub fn add_ending(&mut self, folder: impl Into<PathBuf>, endings: &[&'static str]) {
        self.0.entry(folder.into()).or_default().endings.extend(endings);
    }

    /// Adds one file. A path without a folder is ignored.
    pub fn add_file(&mut self, file: &Path) {
        if let (Some(folder), Some(name)) = (file.parent(), file.file_name()) {
            self.0.entry(folder.to_owned()).or_default().names.insert(name.to_owned());
        }
    }

    /// Adds everything in `others`.
    pub fn extend(&mut self, others: Self) {
        for (folder, other) in others.0 {
            let counting = self.0.entry(folder).or_default();
            counting.all |= other.all;
            counting.endings.extend(other.endings);
            counting.names.extend(other.names);
        }
    }

    /// Makes two paths that lead to the same folder count the same files, because a change is reported under only one
    /// of the paths.
    pub(super) fn unite(&mut self, one: &Path, other: &Path) {
        for (from, to) in [(one, other), (other, one)] {
            if let Some(counting) = self.0.get(from).cloned() {
                self.extend(Self([(to.to_owned(), counting)].into()));
            }
        }
    }

    /// Returns the paths of the folders.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.keys()
    }

    /// Whether `folder` is in the set.
    pub fn contains(&self, folder: &Path) -> bool {
        self.0.contains_key(folder)
    }

    /// Whether a change of `path` counts: if `path` is one of the folders, or one of their files that count. A name
    /// that begins with two dots always counts, because ConfigMap and Secret volumes replace their files through such
    /// links. A path outside the folders counts too, because its meaning is unknown.
    pub fn counts(&self, path: &Path) -> bool {
        if self.contains(path) {
            return true;
        }
        let Some(counting) = path.parent().and_then(|folder| self.0.get(folder)) else { return true };
        let (name, ending) = (path.file_name().unwrap_or_default(), path.extension());
        counting.all
            || name.as_encoded_bytes().starts_with(b"..")
            || counting.names.contains(name)
            || ending.is_some_and(|ending| counting.endings.iter().any(|one| ending.eq_ignore_ascii_case(one)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_folder_only_what_a_plan_is_made_of_counts() {
        let mut folders = Folders::default();
        folders.add_ending("/m", &MANIFESTS);
        folders.add_all("/secrets");
        let mut more = Folders::default();
        more.add_file(Path::new("/m/plugins/odd.txt"));
        more.add_ending("/m/plugins", &CODE);
        folders.extend(more);
        let counts = |path: &str| folders.counts(Path::new(path));
        for path in [
            "/m/a.yaml",
            "/m/a.yml",
            "/m/a.json",
            "/m/A.YAML",
            "/m/..data",
            "/m",
            "/m/plugins",
            "/m/plugins/a.mjs",
            "/m/plugins/odd.txt",
            "/secrets/token",
            "/elsewhere/a",
        ] {
            assert!(counts(path), "{path}");
        }
        for path in ["/m/log", "/m/a.yaml~", "/m/.git", "/m/a.mjs", "/m/plugins/a.txt", "/m/plugins/node_modules"] {
            assert!(!counts(path), "{path}");
        }
    }
}
