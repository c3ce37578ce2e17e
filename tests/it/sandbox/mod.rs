//! Whether plugins get out of their sandbox.
//!
//! What a user without rights cannot do anyway shows nothing, and a superuser may do what nobody else may. So where these
//! tests run as root, they run themselves again as a user that owns nothing.

mod attempts;
mod escapes;
mod frames;
mod kernel;
mod lacking;
mod marks;
mod place;
mod wrappers;

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;

use crate::fixtures::{PROGRAM, program};
use crate::gateway::harness::Folder;

/// A user, and a group, that own nothing.
const NOBODY: u32 = 65534;

/// Runs the test of this name again as nobody, where this process is root. Says whether it did. What it runs is linked
/// into a folder of nobody's, since nobody may not enter a superuser's home.
fn as_nobody(test: &str) -> bool {
    if !geteuid().is_root() {
        return false;
    }
    let folder = Folder::new();
    chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let put = |file: &Path, name| put(file, folder.path().join(name));
    put(&find("node"), "node");
    let path = std::env::join_paths([folder.path().to_owned()].into_iter().chain(places())).unwrap();
    let ended = Command::new(put(&std::env::current_exe().unwrap(), "it"))
        .args([test, "--exact", "--nocapture"])
        .env("TMPDIR", folder.path())
        .env("PATH", path)
        .env(PROGRAM, put(&program(), "hawsepipe"))
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&ended.stderr));
    true
}

/// A second name of a file, or a copy where it lies on another disk.
fn put(file: &Path, at: PathBuf) -> PathBuf {
    let file = file.canonicalize().unwrap();
    fs::hard_link(&file, &at).or_else(|_| fs::copy(&file, &at).map(drop)).unwrap();
    at
}

/// The folders that programs are looked for in.
fn places() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect()
}

fn find(name: &str) -> PathBuf {
    places().iter().map(|place| place.join(name)).find(|file| file.is_file()).unwrap()
}
