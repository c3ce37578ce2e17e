//! Reads the code of plugins from files below the plugin folder, and from nowhere else.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use super::files::open_regular;
use super::folders::{CODE, Folders};
use crate::config::compile::{FoundCode, plugin_code};
use crate::config::input::{FileCode, Files, Inputs, PluginInput, SourceInput, Unread, code_key};
use crate::domain::descriptor::MAX_DESCRIPTOR;
use crate::domain::digest::{DigestWriter, sha256_hex};
use crate::domain::plan::{in_image, program_text};
use crate::domain::reason::Reason;

/// The name of the file beside a plugin's code that describes it.
const DESCRIPTOR: &str = "plugin.json";
/// The largest plugin file, in bytes.
const MAX_CODE: u64 = 1 << 20;
/// The largest program, in bytes.
const MAX_PROGRAM: u64 = 512 << 20;
/// The first bytes of a program for Linux (ELF).
const PROGRAM: &[u8] = b"\x7fELF";
/// The maximum number of files beside a plugin that are checked for changes.
const MAX_SIBLINGS: usize = 200;

/// Returns the paths of all plugins whose code is in a file.
pub(super) fn paths_of(plugins: &[PluginInput]) -> impl Iterator<Item = &str> {
    plugins.iter().filter_map(|plugin| match &plugin.source {
        SourceInput::Path(path) => Some(path.as_str()),
        _ => None,
    })
}

/// Returns the folders in which changes can affect plugin code.
pub(super) fn folders_of_code(plugin_dir: &Path, files: &Files) -> Folders {
    let mut folders = Folders::default();
    folders.add_ending(plugin_dir, &CODE);
    for (path, file) in files {
        if let Ok(FileCode { folder, .. }) = file {
            folders.add_ending(folder, &CODE);
            folders.add_file(&folder.join(path.rsplit('/').next().unwrap_or(path)));
            folders.add_file(&folder.join(DESCRIPTOR));
            folders.add_file(&plugin_dir.join(path));
        }
    }
    folders
}

/// Reads these files below the plugin folder.
pub(super) fn read_plugin_files<'p>(plugin_dir: &Path, paths: impl Iterator<Item = &'p str>) -> Files {
    paths.map(|path| (path.to_owned(), read_one(plugin_dir, path))).collect()
}

/// Reads one file of a mounted image or below `plugin_dir`. Links that lead out of the image or folder are refused.
fn read_one(plugin_dir: &Path, path: &str) -> Result<FileCode, Unread> {
    match in_image(path) {
        Some((image, relative)) if !image.exists() => {
            let message =
                format!("this pod was started without the image of {relative}; pods of the new template mount it");
            Err(Unread::new(Reason::FileNotFound, message))
        }
        Some((image, relative)) => read_below(&image, relative, "image"),
        None => read_plugin_file(plugin_dir, path),
    }
}

/// Reads a file below `plugin_dir`.
///
/// # Errors
/// If the path, or a link on it, leads out of the folder, or the file cannot be read.
pub fn read_plugin_file(plugin_dir: &Path, path: &str) -> Result<FileCode, Unread> {
    read_below(plugin_dir, path, "plugin folder")
}

/// Reads the file `path` below the folder `top`, which is called `name` in messages.
fn read_below(top: &Path, path: &str, name: &str) -> Result<FileCode, Unread> {
    let not_found = |message| Unread::new(Reason::FileNotFound, message);
    let relative = Path::new(path);
    if !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(not_found(format!("{path} leaves the {name}")));
    }
    let missing = |what: &Path, error: io::Error| not_found(format!("{} cannot be read: {error}", what.display()));
    let root = top.canonicalize().map_err(|e| missing(top, e))?;
    let full = root.join(relative);
    let file = full.canonicalize().map_err(|e| missing(&top.join(relative), e))?;
    if !file.starts_with(&root) {
        return Err(not_found(format!("{path} is a link out of the {name} {}", top.display())));
    }
    let mut bytes = Vec::new();
    let opened = open_regular(&file).map_err(|e| missing(&file, e))?;
    opened.take(MAX_CODE + 1).read_to_end(&mut bytes).map_err(|e| missing(&file, e))?;
    let folder = full.parent().map_or_else(|| root.clone(), Path::to_owned);
    if bytes.starts_with(PROGRAM) {
        let text = program_text(&digest_of_program(&file).map_err(|e| missing(&file, e))?);
        let descriptor = descriptor_in(&folder);
        return Ok(FileCode { text, folder, descriptor, siblings: String::new() });
    }
    if bytes.len() as u64 > MAX_CODE {
        return Err(Unread::new(Reason::TooLarge, format!("{path} is larger than {MAX_CODE} bytes")));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Unread::new(Reason::SyntaxError, format!("{path} is not a text in UTF-8")))?;
    let (descriptor, siblings) = (descriptor_in(&folder), digest_of_siblings(&folder, &full));
    Ok(FileCode { text, folder, descriptor, siblings })
}

/// Returns the text of the file beside the code that describes the plugin; `None` if there is none. Only as much is read as
/// shows that the file is too large.
fn descriptor_in(folder: &Path) -> Option<String> {
    let file = folder.join(DESCRIPTOR);
    // The text says why it is no descriptor. Code that runs in chains needs none.
    let unread = |error: io::Error| Some(format!("{}: {error}", file.display()));
    let opened = match open_regular(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return unread(error),
        Ok(opened) => opened,
    };
    let mut text = String::new();
    let read = opened.take(MAX_DESCRIPTOR as u64 + 1).read_to_string(&mut text);
    read.map_or_else(unread, |_| Some(text))
}

/// Returns the SHA-256 of a program in hex, without holding all of it.
fn digest_of_program(file: &Path) -> io::Result<String> {
    let mut digest = DigestWriter::new(io::sink());
    let read = io::copy(&mut open_regular(file)?.take(MAX_PROGRAM + 1), &mut digest)?;
    if read > MAX_PROGRAM {
        return Err(io::Error::other(format!("it is larger than {MAX_PROGRAM} bytes")));
    }
    Ok(digest.finish())
}

/// Returns a digest of the names and texts of the files beside `entry` that its code can import. It covers at most
/// [`MAX_SIBLINGS`] files, and only the names of files above [`MAX_CODE`].
fn digest_of_siblings(folder: &Path, entry: &Path) -> String {
    let imported = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        path != entry && ending.is_some_and(|ending| CODE.contains(&ending))
    };
    let listed = fs::read_dir(folder).into_iter().flatten().filter_map(|found| Some(found.ok()?.path()));
    let mut files: Vec<_> = listed.filter(imported).take(MAX_SIBLINGS).collect();
    files.sort();
    let mut all = String::new();
    for file in files {
        let small = fs::metadata(&file).is_ok_and(|found| found.is_file() && found.len() <= MAX_CODE);
        let digest = small.then(|| fs::read(&file).map(|bytes| sha256_hex(&bytes)).unwrap_or_default());
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        all.push_str(&format!("{name} {}\n", digest.unwrap_or_default()));
    }
    sha256_hex(all.as_bytes())
}

/// Returns the JavaScript of all plugins whose code is available, by the keys of [`code_key`].
pub(super) fn wanted_code(inputs: &Inputs) -> BTreeMap<String, FoundCode<'_>> {
    let scripts = inputs.plugins.iter().filter(|plugin| plugin.wrapper.is_none());
    by_key(scripts.filter_map(|plugin| plugin_code(inputs, plugin)))
}

/// Collects code by the keys of [`code_key`].
pub(super) fn by_key<'c>(code: impl Iterator<Item = FoundCode<'c>>) -> BTreeMap<String, FoundCode<'c>> {
    code.map(|code| (code_key(&sha256_hex(code.text.as_bytes()), &code.file_name), code)).collect()
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_plugin_file_that_is_not_regular_is_refused_at_once() {
        let folder = std::env::temp_dir().join(format!("hawsepipe-fifo-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        mknodat(CWD, folder.join("p.mjs"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let refused = read_one(&folder, "p.mjs").err().unwrap();
        assert_eq!(refused.reason, Reason::FileNotFound);
        assert!(refused.message.ends_with("it is not a regular file"), "{}", refused.message);
        fs::remove_dir_all(folder).unwrap();
    }
}
