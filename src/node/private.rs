//! A folder of this process's own among the system's temporary files.
//!
//! It is locked for as long as its value lives, and the system lets go of the lock however the process ends. So the
//! next start can tell what a killed one left behind, and takes it away. systemd-tmpfiles, too, leaves alone what is
//! locked.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What names of these folders begin with; a process id and a random word follow.
const PREFIX: &str = "hawsepipe-plugins-";
/// The most entries among the temporary files that are looked at.
const MAX_LOOKED_AT: usize = 10_000;

/// The folder. Removed with all in it when it is dropped.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    _lock: File,
}

impl PrivateFolder {
    /// Makes one below the system's folder for temporary files, open to nobody else, after what killed processes left
    /// there was removed.
    ///
    /// # Errors
    /// Where it cannot be made or locked.
    pub fn create() -> io::Result<Self> {
        let among = std::env::temp_dir();
        let removed = sweep(&among);
        if removed > 0 {
            tracing::info!(removed, folder = %among.display(), "folders of gateways that were killed are removed");
        }
        Self::create_in(&among)
    }

    fn create_in(among: &Path) -> io::Result<Self> {
        let name = format!("{PREFIX}{}-{}", std::process::id(), uuid::Uuid::new_v4().simple());
        // Nobody sweeps it under this name, so that it is not taken away before it is locked.
        let hidden = among.join(format!(".{name}"));
        DirBuilder::new().mode(0o700).create(&hidden)?;
        let lock = File::open(&hidden)?;
        lock.try_lock()?;
        let path = among.join(name);
        fs::rename(hidden, &path)?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it now.
    pub fn remove(&self) {
        // Where it cannot be removed, the next start tries again.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes private folders of this user that no process holds any more, and says how many.
fn sweep(among: &Path) -> usize {
    let own = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(among).into_iter().flatten().take(MAX_LOOKED_AT).filter_map(Result::ok);
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_private)).map(|entry| entry.path());
    // A link, or what another user put there, is not followed.
    let ours = named.filter(|path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == own));
    ours.filter(|path| remove_stale(path).unwrap_or(false)).count()
}

/// Whether a folder's name is one that [`PrivateFolder::create`] gives.
fn is_private(name: &str) -> bool {
    let words = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    words.is_some_and(|(process, word)| {
        let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
        is_number && word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Removes the folder, unless a process holds its lock.
fn remove_stale(path: &Path) -> io::Result<bool> {
    let lock = File::open(path)?;
    if lock.try_lock().is_err() {
        return Ok(false);
    }
    fs::remove_dir_all(path)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_removed_and_nothing_else() {
        let among = std::env::temp_dir().join(format!("hawsepipe-sweep-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir(&among).unwrap();
        let held = PrivateFolder::create_in(&among).unwrap();
        let word = "0123456789abcdef0123456789abcdef";
        let [stale, other, link, file] = ["plugins-7", "plugins-it", "plugins-8", "plugins-9"]
            .map(|name| among.join(format!("hawsepipe-{name}-{word}")));
        for folder in [&stale, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("index.mjs"), "").unwrap();
        }
        std::os::unix::fs::symlink(&other, &link).unwrap();
        fs::write(&file, "").unwrap();
        assert_eq!(sweep(&among), 1);
        assert!(!stale.exists() && other.join("index.mjs").exists() && link.is_symlink() && file.exists());
        let path = held.path().to_owned();
        assert!(is_private(path.file_name().unwrap().to_str().unwrap()) && path.is_dir());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        drop(held);
        assert!(!path.exists());
        assert_eq!(sweep(&among), 0);
        fs::remove_dir_all(among).unwrap();
    }
}
