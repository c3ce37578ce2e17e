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

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::geteuid;

use crate::gateway::harness::Folder;

/// A user, and a group, that own nothing.
const NOBODY: u32 = 65534;

/// Runs the test of this name again as nobody, where this process is root. Says whether it did.
fn as_nobody(test: &str) -> bool {
    if !geteuid().is_root() {
        return false;
    }
    let folder = Folder::new();
    chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let ended = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env("TMPDIR", folder.path())
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&ended.stderr));
    true
}
