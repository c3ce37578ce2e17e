//! Copies this program to where another container can run it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The mode of the copy: everybody may run it, nobody may change it.
const MODE: u32 = 0o555;

/// Copies the program of this process to `target`, and replaces a file that is there. Nobody sees a part of it.
pub(super) fn install(target: &Path) -> io::Result<()> {
    let program = fs::read("/proc/self/exe")?;
    let mut name = target.file_name().ok_or_else(|| io::Error::other("it does not name a file"))?.to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside: PathBuf = target.with_file_name(name);
    let written = write(&beside, &program).and_then(|()| fs::rename(&beside, target));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(MODE).open(file)?;
    opened.write_all(bytes)?;
    // The umask may have taken bits away.
    opened.set_permissions(fs::Permissions::from_mode(MODE))?;
    opened.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_takes_the_place_of_what_is_there() {
        let folder = std::env::temp_dir().join(format!("hawsepipe-install-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let target = folder.join("bridge");
        fs::write(&target, "old").unwrap();
        install(&target).unwrap();
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o7777, MODE);
        assert_eq!(fs::read(&target).unwrap(), fs::read("/proc/self/exe").unwrap());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert!(install(&folder.join("nowhere/bridge")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
