//! A private folder of this process among the system's temporary files.
//!
//! The folder stays locked while its [`PrivateFolder`] exists, and the system releases the lock however the process
//! ends. So the next start, or another gateway of the user that runs, recognizes and removes the folders of processes that were
//! killed. systemd-tmpfiles does not touch locked folders either.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The beginning of the names of private folders. A process id and a random word follow.
const PREFIX: &str = "hawsepipe-plugins-";
/// The maximum number of entries of the temporary folder that are examined in search of private folders.
const MAX_LOOKED_AT: usize = 100_000;
/// How old a folder is whose process was killed before it had locked the folder. Each process does so at once.
const NOT_LOCKED: Duration = Duration::from_secs(60);

/// A folder that is removed with all its content on drop.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    _lock: File,
}

impl PrivateFolder {
    /// Creates a folder in the system's temporary folder that nobody else can access. First removes what killed
    /// processes left there.
    ///
    /// # Errors
    /// If the folder cannot be created or locked.
    pub fn create() -> io::Result<Self> {
        Self::remove_stale();
        Self::create_in(&std::env::temp_dir())
    }

    /// Removes what killed processes left in the system's temporary folder.
    pub fn remove_stale() {
        let among = std::env::temp_dir();
        let removed = sweep(&among);
        if removed > 0 {
            tracing::info!(removed, folder = %among.display(), "folders of gateways that were killed are removed");
        }
    }

    fn create_in(among: &Path) -> io::Result<Self> {
        let name = format!("{PREFIX}{}-{}", std::process::id(), uuid::Uuid::new_v4().simple());
        // No gateway removes a new folder whose name begins with a dot, so this one cannot be removed before it is locked.
        let hidden = among.join(format!(".{name}"));
        DirBuilder::new().mode(0o700).create(&hidden)?;
        let lock = File::open(&hidden)?;
        lock.try_lock()?;
        let path = among.join(name);
        fs::rename(hidden, &path)?;
        Ok(Self { path, _lock: lock })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the folder now.
    pub fn remove(&self) {
        // If it cannot be removed, the next start tries again.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes this user's private folders that no process has locked any more. Returns how many were removed.
fn sweep(among: &Path) -> usize {
    let own = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(among).into_iter().flatten().take(MAX_LOOKED_AT).filter_map(Result::ok);
    let stale = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        let is_old =
            |found: &Metadata| found.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= NOT_LOCKED));
        // Links and the folders of other users are left alone.
        let is_ours =
            |found: &Metadata| found.is_dir() && found.uid() == own && (!name.starts_with('.') || is_old(found));
        is_private(name.trim_start_matches('.'))
            && fs::symlink_metadata(entry.path()).is_ok_and(|found| is_ours(&found))
            && remove_stale(&entry.path()).unwrap_or(false)
    });
    stale.count()
}

/// Whether [`PrivateFolder::create`] gives such names to folders.
fn is_private(name: &str) -> bool {
    let words = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    words.is_some_and(|(process, word)| {
        let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
        is_number && word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Removes the folder unless a process holds its lock. Returns whether it was removed.
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
        let [new, old] = ["5", "6"].map(|process| among.join(format!(".{PREFIX}{process}-{word}")));
        [&new, &old].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        File::open(&old).unwrap().set_modified(std::time::SystemTime::now() - NOT_LOCKED).unwrap();
        assert_eq!(sweep(&among), 2);
        assert!(!old.exists() && new.exists(), "a process may be about to lock the new one");
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
