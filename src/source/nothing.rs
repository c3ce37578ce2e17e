//! The warning about manifests that declare no upstream.

use std::fs;
use std::path::{Path, PathBuf};

use super::files::is_manifest;
use super::located::Located;
use crate::domain::problem::{Level, Problem};
use crate::domain::reason::Reason;

/// The maximum number of subfolders that the warning names.
const MOST: usize = 3;

/// Returns the warning that no upstream is declared in `paths`. It mentions JavaScript files and subfolders with
/// manifests, because these were not read.
pub(super) fn nothing_to_serve(paths: &[PathBuf]) -> Located {
    let places: Vec<_> = paths.iter().map(|path| place(path)).collect();
    let message = format!("there is nothing to serve: no MCPUpstream is in {}", places.join("; nor in "));
    let problem = Problem::without_object(Level::Warning, Reason::NothingToServe, message);
    Located { problem, file: None, place: None }
}

/// Describes a path and, if it is a folder, what in it was not read.
fn place(path: &Path) -> String {
    let name = path.display();
    let Ok(found) = fs::read_dir(path) else { return name.to_string() };
    let mut found: Vec<_> = found.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.sort();
    let holds_manifests = |folder: &&PathBuf| {
        fs::read_dir(folder).is_ok_and(|mut inside| inside.any(|entry| entry.is_ok_and(|e| is_manifest(&e.path()))))
    };
    let below: Vec<_> = found.iter().filter(|path| path.is_dir()).filter(holds_manifests).take(MOST).collect();
    let mut words = name.to_string();
    if !found.iter().any(|path| is_manifest(path)) {
        words.push_str(", which has no *.yaml, *.yml or *.json");
    }
    if !below.is_empty() {
        let below: Vec<_> = below.iter().map(|folder| folder.display().to_string()).collect();
        words.push_str(&format!(" (folders in it are not read: name {} too)", below.join(", ")));
    } else if found.iter().any(|path| path.extension().is_some_and(|e| e == "js" || e == "mjs" || e == "cjs")) {
        words.push_str(" (its JavaScript is plugins' code: `hawsepipe plugin run FILE` tries it)");
    }
    words
}
