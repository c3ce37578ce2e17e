//! What is said of manifests that declare no upstream, and of folders that are not read.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::files::is_manifest;
use super::located::Located;
use crate::domain::code_file::is_code;
use crate::domain::problem::{Level, Problem};
use crate::domain::reason::Reason;

/// The maximum number of subfolders that are named.
const MOST: usize = 3;
/// How many files of a subfolder are looked at, and how many bytes of each.
const MOST_LOOKED_AT: usize = 100;
const LOOKED_AT: u64 = 4096;
/// What is in the `apiVersion` of the gateway's own kinds.
const GROUP: &str = "hawsepipe.dev/";

/// Returns the warning that no upstream is declared in `paths`. It mentions JavaScript files and subfolders with
/// manifests, because these were not read.
pub(super) fn nothing_to_serve(paths: &[PathBuf]) -> Located {
    let places: Vec<_> = paths.iter().map(|path| place(path, paths)).collect();
    let message = format!("there is nothing to serve: no MCPUpstream is in {}", places.join("; nor in "));
    let problem = Problem::without_object(Level::Warning, Reason::NothingToServe, message);
    Located { problem, file: None, place: None }
}

/// Returns what to say of the folders in `paths` that have manifests and are not read; `None` if there are none.
pub fn unread_folders(paths: &[PathBuf]) -> Option<String> {
    let inside = |path: &PathBuf| fs::read_dir(path).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let below = paths.iter().flat_map(inside).filter(|path| path.is_dir() && !is_hidden(path));
    let mut found: Vec<_> =
        below.filter(|folder| inside(folder).take(MOST_LOOKED_AT).any(|file| is_ours(&file))).collect();
    found.retain(|folder| !is_named(folder, paths));
    found.sort();
    let named: Vec<_> = found.iter().take(MOST).map(|folder| folder.display().to_string()).collect();
    let more = found.len().checked_sub(MOST).filter(|more| *more > 0).map(|more| format!(" and {more} more"));
    (!named.is_empty()).then(|| {
        let more = more.unwrap_or_default();
        format!(
            "manifests in {}{more} are not read: folders in a folder are not, unless they are named too",
            named.join(", ")
        )
    })
}

/// Whether one of `paths` leads to this folder, however the path is written.
fn is_named(folder: &Path, paths: &[PathBuf]) -> bool {
    let folder = fs::canonicalize(folder).ok();
    folder.is_some() && paths.iter().any(|path| fs::canonicalize(path).ok() == folder)
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Whether a file begins as a manifest of one of the gateway's kinds may: its first bytes name the API group.
fn is_ours(file: &Path) -> bool {
    let beginning = || {
        let mut bytes = Vec::new();
        fs::File::open(file).ok()?.take(LOOKED_AT).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    };
    is_manifest(file)
        && file.is_file()
        && beginning().is_some_and(|bytes| String::from_utf8_lossy(&bytes).contains(GROUP))
}

/// Describes a path and, if it is a folder, what in it was not read.
fn place(path: &Path, paths: &[PathBuf]) -> String {
    let name = path.display();
    let Ok(found) = fs::read_dir(path) else { return name.to_string() };
    let mut found: Vec<_> = found.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.sort();
    let holds_manifests = |folder: &&PathBuf| {
        fs::read_dir(folder).is_ok_and(|mut inside| inside.any(|entry| entry.is_ok_and(|e| is_manifest(&e.path()))))
    };
    let below = found.iter().filter(|path| path.is_dir()).filter(holds_manifests);
    let below: Vec<_> = below.filter(|folder| !is_named(folder, paths)).take(MOST).collect();
    let mut words = name.to_string();
    if !found.iter().any(|path| is_manifest(path)) {
        words.push_str(", which has no *.yaml, *.yml or *.json");
    }
    if !below.is_empty() {
        let below: Vec<_> = below.iter().map(|folder| folder.display().to_string()).collect();
        words.push_str(&format!(" (folders in it are not read: name {} too)", below.join(", ")));
    } else if found.iter().any(|path| is_code(path)) {
        words.push_str(" (its code is of plugins: `hawsepipe plugin run FILE` tries one)");
    }
    words
}
