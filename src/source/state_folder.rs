//! A folder for data that a standalone gateway collects while it runs and uses again after a restart.
//!
//! The gateway also runs without this folder, so nothing here returns an error: a failure is logged as a warning, and
//! the data counts as never stored.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::durable::{self, ReadError};
use crate::domain::digest::sha256_hex;

/// The lock file. The gateway that writes into the folder holds it.
const LOCK: &str = "lock";

/// A file in the folder.
#[derive(Clone, Copy, Debug)]
pub struct StateFile {
    /// The file name.
    pub name: &'static str,
    /// The size limit of the content in bytes. Larger content is neither read nor written.
    pub max_bytes: u64,
}

/// The state folder of one gateway process. Several processes can open the same folder: all read it, only one writes.
pub struct StateFolder {
    path: Option<PathBuf>,
    /// The lock file, held from the first write until the process ends.
    lock: Mutex<Option<File>>,
    /// The last warning about writing, which is not repeated.
    warned: Mutex<Option<String>>,
}

/// Why the lock is not held or a file is not written.
enum NotLocked {
    Held,
    Failed(io::Error),
}

impl fmt::Display for NotLocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held => f.write_str("another gateway uses it"),
            Self::Failed(error) => write!(f, "{error}"),
        }
    }
}

impl StateFolder {
    /// Creates the state folder for `path`. The folder is created on disk at the first write. With `None`, nothing is
    /// stored.
    pub fn at(path: Option<PathBuf>) -> Self {
        Self { path, lock: Mutex::default(), warned: Mutex::default() }
    }

    /// Returns the path of the folder, which may not exist. `None` if there is no folder.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns an identifier of the folder, which differs from those of other folders. `None` if there is no folder.
    pub fn id(&self) -> Option<String> {
        let path = std::path::absolute(self.path.as_ref()?).ok()?;
        Some(sha256_hex(path.as_os_str().as_encoded_bytes())[..16].to_owned())
    }

    /// Returns the value that was last written to `file`, or `None` if there is none or the file cannot be used.
    pub fn read<T: DeserializeOwned>(&self, file: StateFile) -> Option<T> {
        let path = self.path.as_ref()?.join(file.name);
        let read = durable::read(&path, file.max_bytes)
            .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| ReadError::Damaged(error.to_string())));
        match read {
            Ok(value) => return Some(value),
            Err(ReadError::Unreadable(error)) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(file = %path.display(), "a file of the state folder {error}"),
        }
        None
    }

    /// Replaces the content of `file` with `value`. Blocks until the new content is on disk.
    pub fn write<T: Serialize>(&self, file: StateFile, value: &T) {
        let Some(path) = &self.path else {
            return self.warn("no state folder: neither XDG_STATE_HOME nor HOME is set. Give one with --state-dir");
        };
        let written = self.take_lock(path).and_then(|()| write(path, file, value).map_err(NotLocked::Failed));
        match written {
            Ok(()) => *self.warned.lock().unwrap_or_else(PoisonError::into_inner) = None,
            Err(why) => self.warn_of(&why),
        }
    }

    /// Takes the lock unless this process already holds it. Each write tries again, because the gateway that held the
    /// lock may have ended.
    fn take_lock(&self, path: &Path) -> Result<(), NotLocked> {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.is_some() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(NotLocked::Failed)?;
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(path.join(LOCK));
        let file = file.map_err(NotLocked::Failed)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => NotLocked::Held,
            TryLockError::Error(error) => NotLocked::Failed(error),
        })?;
        *lock = Some(file);
        Ok(())
    }

    fn warn_of(&self, why: &NotLocked) {
        let folder = self.path.as_deref().unwrap_or(Path::new("")).display();
        self.warn(&format!("the state folder {folder} is not written: {why}. Give another with --state-dir"));
    }

    /// Logs a warning, unless it is the same as the last one and no write has succeeded since.
    fn warn(&self, what: &str) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.as_deref() != Some(what) {
            tracing::warn!("{what}; what this gateway learns is forgotten when it ends");
            *warned = Some(what.to_owned());
        }
    }
}

fn write<T: Serialize>(folder: &Path, file: StateFile, value: &T) -> io::Result<()> {
    let json = serde_json::to_vec(value)?;
    if json.len() as u64 > file.max_bytes {
        return Err(io::Error::other(format!("{} would have more than {} bytes", file.name, file.max_bytes)));
    }
    durable::write(folder, file.name, &json)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NAMES: StateFile = StateFile { name: "names", max_bytes: 100 };

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("hawsepipe-state-folder-{name}-{}", std::process::id())).join("state")
    }

    fn names(folder: &StateFolder) -> Option<Vec<String>> {
        folder.read(NAMES)
    }

    #[test]
    fn what_is_written_is_read_by_the_next_process() {
        let path = path("next");
        let first = StateFolder::at(Some(path.clone()));
        assert_eq!(names(&first), None);
        first.write(NAMES, &["a", "b"]);
        drop(first);
        let next = StateFolder::at(Some(path.clone()));
        assert_eq!(names(&next).unwrap(), ["a", "b"]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn what_just_fits_is_written_and_read() {
        let path = path("fits");
        let folder = StateFolder::at(Some(path.clone()));
        for length in [NAMES.max_bytes as usize - 4, NAMES.max_bytes as usize - 60] {
            let name = "x".repeat(length);
            folder.write(NAMES, &[&name]);
            assert_eq!(names(&folder).unwrap(), [name]);
        }
        folder.write(NAMES, &["x".repeat(NAMES.max_bytes as usize - 3)]);
        assert_eq!(names(&folder).unwrap()[0].len() as u64, NAMES.max_bytes - 60, "what does not fit is not written");
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn of_two_gateways_one_writes_until_it_ends() {
        let path = path("two");
        let (first, second) = (StateFolder::at(Some(path.clone())), StateFolder::at(Some(path.clone())));
        first.write(NAMES, &["first"]);
        second.write(NAMES, &["second"]);
        assert_eq!(names(&second).unwrap(), ["first"], "the second reads what the first wrote");
        drop(first);
        second.write(NAMES, &["second"]);
        assert_eq!(names(&second).unwrap(), ["second"]);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn a_damaged_or_oversized_file_counts_as_none() {
        let path = path("damaged");
        let folder = StateFolder::at(Some(path.clone()));
        folder.write(NAMES, &["kept"]);
        let whole = fs::read(path.join("names")).unwrap();
        let mut changed = whole.clone();
        changed[70] ^= 1;
        for damaged in [&whole[..70], b"", &changed, "x".repeat(300).as_bytes()] {
            fs::write(path.join("names"), damaged).unwrap();
            assert_eq!(names(&folder), None);
        }
        fs::write(path.join("names"), &whole).unwrap();
        folder.write(NAMES, &["x".repeat(200)]);
        assert_eq!(names(&folder).unwrap(), ["kept"], "what could not be read again is not written");
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_made_keeps_nothing() {
        for path in [None, Some(PathBuf::from("/proc/hawsepipe"))] {
            let folder = StateFolder::at(path);
            folder.write(NAMES, &["a"]);
            assert_eq!(names(&folder), None);
        }
    }
}
