//! Reads the texts of files and folders, within bounds. Nothing is parsed here.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use super::folders::MANIFESTS;
use crate::config::input::Unread;
use crate::domain::code_file::is_code;
use crate::domain::reason::Reason;

/// The largest file that is read, in bytes.
pub const MAX_FILE: u64 = 4 << 20;
/// The maximum number of files from all paths together. If there are more, the first one beyond the limit is reported.
pub const MAX_FILES: usize = 2000;

/// A file and its text. `Debug` leaves out the text, because it can hold a Secret.
#[derive(Clone)]
pub struct FileText {
    /// The path as the caller named it, or as found in a folder that the caller named.
    pub path: Arc<PathBuf>,
    /// The absolute path of the folder that contains the file. Relative paths in the file start there.
    pub folder: PathBuf,
    /// The text, or why it cannot be read.
    pub text: Result<String, Unread>,
}

impl fmt::Debug for FileText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileText").field("path", &self.path).finish_non_exhaustive()
    }
}

impl FileText {
    /// Whether the file name ends in `.json`.
    pub fn is_json(&self) -> bool {
        self.path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"))
    }
}

/// Reads the files in `paths`. Of a folder in `paths`, reads the files that end in `.yaml`, `.yml` or `.json`, in the
/// order of their names, in upper or lower case, and no hidden ones and no subfolders, like `kubectl apply -f`. A file that is
/// named several times is read once. A path that cannot be read is in the result too, with the reason.
///
/// `known` are the files that declared an object at the last reading. While there is anything at such a path, it is in the
/// result: other files do not crowd it out, and a folder or a socket that took its place is a file that cannot be read.
pub fn read_files(paths: &[PathBuf], known: &HashSet<PathBuf>) -> Vec<FileText> {
    let mut files = Vec::new();
    for path in paths {
        match list(path, known) {
            Ok(found) => files.extend(found.into_iter().map(|path| (path, None))),
            Err(error) => files.push((path.clone(), Some(not_found(&error)))),
        }
    }
    let mut seen = HashSet::new();
    files.retain(|(path, _)| seen.insert(std::path::absolute(path).unwrap_or_else(|_| path.clone())));
    limit(&mut files, known);
    let read = files.into_iter().map(|(path, error)| {
        let text = error.map_or_else(|| read_text(&path), Err);
        let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        let folder = absolute.parent().map_or_else(PathBuf::new, Path::to_owned);
        FileText { path: Arc::new(path), folder, text }
    });
    read.collect()
}

/// Drops what exceeds [`MAX_FILES`], but for the first such file, which gets an error instead, and for `known` files.
fn limit(files: &mut Vec<(PathBuf, Option<Unread>)>, known: &HashSet<PathBuf>) {
    let mut room = MAX_FILES.saturating_sub(files.iter().filter(|(path, _)| known.contains(path)).count());
    let mut is_first = true;
    files.retain_mut(|(path, error)| {
        if known.contains(path) {
            return true;
        }
        if room > 0 {
            room -= 1;
            return true;
        }
        let why = format!("there are more than {MAX_FILES} files, so this one and all new ones after it are left out");
        *error = Some(Unread::new(Reason::TooLarge, why));
        std::mem::take(&mut is_first)
    });
}

/// Lists the manifests of a folder, or returns `path` itself if it is a file or was one.
fn list(path: &Path, known: &HashSet<PathBuf>) -> io::Result<Vec<PathBuf>> {
    if known.contains(path) || !fs::metadata(path)?.is_dir() {
        if is_code(path) {
            return Err(io::Error::other("it is code, not a manifest; `hawsepipe plugin run FILE` tries a plugin"));
        }
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        // A file without readable metadata stays in the list: reading it fails, and that is reported.
        let is_file = || fs::metadata(&file).map_or(true, |found| found.is_file());
        if is_manifest(&file) && (known.contains(&file) || is_file()) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// The names of the files in a folder, in order; `None` if it cannot be read.
pub(super) fn file_names(folder: &Path) -> Option<Vec<String>> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Some(names)
}

/// The files of npm, which are often beside manifests and the code of plugins.
const OF_NPM: [&str; 2] = ["package.json", "package-lock.json"];

/// Whether the file has one of the extensions of manifests, is not hidden, as the files are that editors keep beside those that
/// are edited, and is none of npm.
pub(super) fn is_manifest(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default();
    let is_other = name.as_encoded_bytes().starts_with(b".") || OF_NPM.iter().any(|known| name == *known);
    !is_other && file.extension().is_some_and(|ending| MANIFESTS.iter().any(|known| ending.eq_ignore_ascii_case(known)))
}

fn read_text(path: &Path) -> Result<String, Unread> {
    let mut bytes = Vec::new();
    // What a shell passes on, such as /dev/stdin or /dev/fd/63, is a pipe, and is read to its end.
    let is_open = path.starts_with("/dev") || path.starts_with("/proc");
    let opened = if is_open { fs::File::open(path) } else { open_regular(path) };
    let opened = opened.map_err(|error| not_found(&error))?;
    opened.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|error| not_found(&error))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Unread::new(Reason::TooLarge, format!("larger than {MAX_FILE} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Unread::new(Reason::InvalidYaml, format!("line {line} is not a text in UTF-8"))
    })
}

/// Opens a regular file and refuses anything else without blocking: opening a FIFO would wait for a writer, and reading
/// a device might never end.
pub(super) fn open_regular(file: &Path) -> io::Result<fs::File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let opened = fs::OpenOptions::new().read(true).custom_flags(flags).open(file)?;
    match opened.metadata()?.is_file() {
        true => Ok(opened),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

fn not_found(error: &io::Error) -> Unread {
    Unread::new(Reason::FileNotFound, error.to_string())
}
