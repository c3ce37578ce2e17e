//! Detects changes of the files that a plan is made of.
//!
//! Folders are watched instead of files, because editors replace files and ConfigMap volumes replace links.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

use super::folders::Folders;

/// Changes that follow each other within this time count as one, because files are written in several steps.
const QUIET: Duration = Duration::from_millis(25);
/// The longest time that a change is held back while others follow.
const LONGEST: Duration = Duration::from_millis(200);
/// How often a missing folder is looked for.
const LOOK: Duration = Duration::from_secs(1);

/// A set of watched folders.
pub struct FolderWatch {
    watcher: RecommendedWatcher,
    /// The requested folders. The watcher's thread uses them to decide which changes count.
    wanted: Arc<Mutex<Folders>>,
    /// The watched folders with their device and inode, which differ if another folder was moved to the same path.
    folders: BTreeMap<PathBuf, (u64, u64)>,
    /// The requested folders that do not exist and whose parent is not watched.
    missing: Vec<PathBuf>,
    changed: Arc<Notify>,
}

impl FolderWatch {
    /// Creates a watch without folders.
    ///
    /// # Errors
    /// If the system's limit of watches is reached.
    pub fn new() -> notify::Result<Self> {
        let changed = Arc::new(Notify::new());
        let wanted = Arc::<Mutex<Folders>>::default();
        let (notify, asked) = (Arc::clone(&changed), Arc::clone(&wanted));
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // An error, or an event without a path, can mean that events were lost, so it counts as a change.
            let says_nothing = event.is_ok_and(|event| {
                let wanted = asked.lock().unwrap_or_else(PoisonError::into_inner);
                let is_of_others = !event.paths.is_empty() && !event.paths.iter().any(|path| wanted.counts(path));
                is_of_others || matches!(event.kind, EventKind::Access(_))
            });
            if !says_nothing {
                notify.notify_one();
            }
        })?;
        let (folders, missing) = (BTreeMap::new(), Vec::new());
        Ok(Self { watcher, wanted, folders, missing, changed })
    }

    /// Watches these folders and no others. The appearance of a missing folder counts as a change. A folder that is
    /// watched for the first time, or that replaced another at its path, counts as a change too, because its files may
    /// have changed before the watch began.
    pub fn set(&mut self, folders: Folders) {
        let folders = united(folders);
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = folders.clone();
        for gone in self.folders.keys().filter(|folder| !folders.contains(folder)) {
            let _ = self.watcher.unwatch(gone);
        }
        let (mut watched, mut missing) = (BTreeMap::new(), Vec::new());
        for folder in folders.paths() {
            let found = identity(folder);
            if let Some(same) = found.filter(|found| self.folders.get(folder) == Some(found)) {
                watched.insert(folder.clone(), same);
                continue;
            }
            let _ = self.watcher.unwatch(folder);
            let Some(new) = found else {
                missing.push(folder.clone());
                continue;
            };
            if self.watcher.watch(folder, RecursiveMode::NonRecursive).is_ok() {
                watched.insert(folder.clone(), new);
                self.changed.notify_one();
            }
        }
        // A folder whose parent is watched needs no polling: the parent's watch reports it.
        missing.retain(|folder| !folder.parent().is_some_and(|parent| watched.contains_key(parent)));
        (self.folders, self.missing) = (watched, missing);
    }

    /// Checks again which of the requested folders exist, and watches those.
    pub fn renew(&mut self) {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.set(wanted);
    }

    /// Waits for a change, and then until no other change has followed for 25 ms, but for at most another 200 ms.
    pub async fn changed(&self) {
        tokio::select! {
            () = self.changed.notified() => {}
            () = self.appeared() => {}
        }
        let quiet = async { while tokio::time::timeout(QUIET, self.changed.notified()).await.is_ok() {} };
        let _ = tokio::time::timeout(LONGEST, quiet).await;
    }

    /// Waits until one of the missing folders exists.
    async fn appeared(&self) {
        if self.missing.is_empty() {
            std::future::pending::<()>().await;
        }
        while !self.missing.iter().any(|folder| identity(folder).is_some()) {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Makes all paths that lead to the same folder, such as links, count the same files: the system reports a change under
/// only one of the paths.
fn united(mut folders: Folders) -> Folders {
    let mut paths = BTreeMap::<_, Vec<PathBuf>>::new();
    for path in folders.paths() {
        if let Some(found) = identity(path) {
            paths.entry(found).or_default().push(path.clone());
        }
    }
    for same in paths.values().filter(|paths| paths.len() > 1) {
        // The first pass collects everything under the first path, the second copies it to the others.
        (0..2).for_each(|_| same[1..].iter().for_each(|other| folders.unite(&same[0], other)));
    }
    folders
}

/// Returns the device and inode of a folder, or `None` if it does not exist.
fn identity(folder: &Path) -> Option<(u64, u64)> {
    let found = std::fs::metadata(folder).ok().filter(std::fs::Metadata::is_dir)?;
    Some((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_of(folder: &Path) -> Folders {
        let mut folders = Folders::default();
        folders.add_all(folder);
        folders
    }

    async fn is_told(watch: &FolderWatch) -> bool {
        tokio::time::timeout(Duration::from_secs(5), watch.changed()).await.is_ok()
    }

    #[tokio::test]
    async fn a_folder_that_is_not_there_is_waited_for() {
        let folder = std::env::temp_dir().join(format!("hawsepipe-watch-later-{}", std::process::id()));
        let inside = folder.join("a/b");
        let mut watch = FolderWatch::new().unwrap();
        watch.set(all_of(&inside));
        let waiting = tokio::time::timeout(Duration::from_millis(50), watch.changed());
        assert!(waiting.await.is_err(), "nothing is there");
        std::fs::create_dir_all(&inside).unwrap();
        assert!(is_told(&watch).await, "of the folder itself");
        watch.renew();
        assert!(is_told(&watch).await, "that it is watched from now on");
        std::fs::write(inside.join("c"), "1").unwrap();
        assert!(is_told(&watch).await, "of a file in it");
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(is_told(&watch).await, "of its end");
        watch.renew();
        std::fs::create_dir_all(&inside).unwrap();
        assert!(is_told(&watch).await, "of the next one");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn a_file_that_no_plan_is_made_of_wakes_nobody() {
        let folder = std::env::temp_dir().join(format!("hawsepipe-watch-log-{}", std::process::id()));
        let link = folder.with_extension("link");
        std::fs::create_dir_all(&folder).unwrap();
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        let mut folders = Folders::default();
        folders.add_ending(&folder, &["yaml"]);
        folders.add_ending(&link, &["mjs"]);
        let mut watch = FolderWatch::new().unwrap();
        watch.set(folders);
        assert!(is_told(&watch).await, "of the folder itself");
        std::fs::write(folder.join("log"), "a line").unwrap();
        // The system reports changes in order. If `log` counted, its change would be reported during the silence.
        for counts in ["a.yaml", "a.mjs"] {
            let silent = tokio::time::timeout(Duration::from_millis(50), watch.changed());
            assert!(silent.await.is_err(), "before {counts}");
            std::fs::write(folder.join(counts), "a: 1").unwrap();
            assert!(is_told(&watch).await, "of {counts}");
        }
        std::fs::remove_file(link).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn a_folder_that_took_anothers_path_is_watched_anew() {
        let folder = std::env::temp_dir().join(format!("hawsepipe-watch-{}", std::process::id()));
        let old = folder.with_extension("old");
        std::fs::create_dir_all(&folder).unwrap();
        let mut watch = FolderWatch::new().unwrap();
        watch.set(all_of(&folder));
        assert!(is_told(&watch).await, "of the folder itself");
        std::fs::write(folder.join("a"), "1").unwrap();
        assert!(is_told(&watch).await, "of a file");
        std::fs::rename(&folder, &old).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        watch.set(all_of(&folder));
        assert!(is_told(&watch).await, "of the new folder");
        std::fs::write(folder.join("b"), "1").unwrap();
        assert!(is_told(&watch).await, "of a file in it");
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::remove_dir_all(&old).unwrap();
    }
}
