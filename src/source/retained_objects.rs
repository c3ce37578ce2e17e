//! Decides whether a file from which objects are missing counts as it was at the last reading.
//!
//! A program that saves in several steps, or a slip of the hand, must not take a guard away. So only two things delete an
//! object: its file goes, or its document goes from a file that declares others and whose documents are all understood.

use std::collections::BTreeSet;
use std::path::Path;

use super::document::{FileObject, FileObjects};
use super::located::Located;
use crate::api::check::check;
use crate::domain::ids::Kind;
use crate::domain::problem::{Level, Problem};
use crate::domain::reason::Reason;

/// The maximum number of missing objects that a message names.
const MOST_NAMED: usize = 3;

/// Returns what counts instead of `found`, if objects of `before` are missing in it and it is not clear that they were
/// deleted: the objects of `before`, with the Problems of `found` and one that names what is missing and why it stays.
/// `before` is what counted at the last reading of the file at `path`.
pub(super) fn as_before(found: &FileObjects, before: &FileObjects, path: &Path) -> Option<FileObjects> {
    let declared: BTreeSet<_> = found.objects.iter().map(|object| &object.id).collect();
    let missing: Vec<_> = before.objects.iter().filter(|object| !declared.contains(&object.id)).collect();
    if missing.is_empty() {
        return None;
    }
    let why = why_kept(found, before, &missing)?;
    let mut problems = found.problems.clone();
    problems.push(stays(&missing, &why, path));
    Some(FileObjects { problems, ..before.clone() })
}

/// Returns why it is not clear that the objects in `missing` were deleted; `None` if it is clear.
fn why_kept(found: &FileObjects, before: &FileObjects, missing: &[&FileObject]) -> Option<String> {
    if found.unclear {
        return Some("not everything in it can be read; put that right".to_owned());
    }
    if found.objects.is_empty() {
        return Some("it declares no object now; put that right, or delete the file".to_owned());
    }
    let names: BTreeSet<_> = missing.iter().map(|object| object.id.key.name.as_str()).collect();
    let mut foreign = found.foreign.difference(&before.foreign);
    if let Some(foreign) = foreign.find(|foreign| names.contains(foreign.name.as_str())) {
        let (kind, version) = (&foreign.kind, &foreign.version);
        return Some(format!(
            "{kind:.64} ({version:.64}) in it has that name; put that right, or move it to another file"
        ));
    }
    let fault = found.objects.iter().find_map(fault)?;
    Some(format!("it declares what may be the same, and is not valid: {fault}"))
}

/// Returns what is wrong with an object that can be the beginning of a document whose end is not written yet, such as one
/// whose name is cut.
fn fault(object: &FileObject) -> Option<String> {
    let FileObject { id, document, .. } = object;
    if matches!(id.kind, Kind::Secret | Kind::ConfigMap) {
        let has_data = ["data", "stringData", "binaryData"].iter().any(|member| document.get(member).is_some());
        return (!has_data).then(|| format!("{id} has no data"));
    }
    check(id, document, None).into_iter().find(Problem::is_error).map(|problem| problem.to_string())
}

fn stays(missing: &[&FileObject], why: &str, path: &Path) -> Located {
    let named: Vec<_> = missing.iter().take(MOST_NAMED).map(|object| object.id.to_string()).collect();
    let more = missing.len().checked_sub(MOST_NAMED).filter(|more| *more > 0);
    let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
    let message = format!("the file counts as it was, with {}{more}: {why}", named.join(", "));
    let problem = Problem::without_object(Level::Error, Reason::PreviousRevision, message);
    Located { problem, file: Some(path.to_owned()), place: None }
}
