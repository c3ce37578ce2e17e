//! Detects changes of the files that a plan is made of.
//!
//! Folders are watched instead of files, because editors replace files and ConfigMap volumes replace links. The system
//! reports no change behind a link, such as a link to a folder that is pointed to another one. So where the paths lead is
//! looked at every second too.

use std::collections::{BTreeMap, BTreeSet};
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
/// How often it is looked at where paths lead.
const LOOK: Duration = Duration::from_secs(1);
/// The maximum number of links in the folders that are followed.
const MAX_LINKS: usize = 5000;

/// A set of watched folders.
pub struct FolderWatch {
    watcher: RecommendedWatcher,
    /// The requested folders. The watcher's thread uses them to decide which changes count.
    wanted: Arc<Mutex<Folders>>,
    /// The watched folders with their device and inode, which differ if another folder was moved to the same path.
    folders: BTreeMap<PathBuf, (u64, u64)>,
    /// What the requested folders and the links in them lead to; `None` if that does not exist.
    led_to: Arc<BTreeMap<PathBuf, Option<Stamp>>>,
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
        let (folders, led_to) = (BTreeMap::new(), Arc::default());
        Ok(Self { watcher, wanted, folders, led_to, changed })
    }

    /// Watches these folders and no others. The appearance of a missing folder counts as a change. A folder that is
    /// watched for the first time, or that replaced another at its path, counts as a change too, because its files may
    /// have changed before the watch began. So does a link that is new or leads to something else than before.
    pub fn set(&mut self, folders: Folders) {
        let folders = united(folders);
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = folders.clone();
        self.look(&folders);
        // The system has one watch of a folder, whatever paths lead to it. Where one path needs it no more, the others ask
        // for it again.
        let mut ended = BTreeSet::new();
        for (folder, was) in &self.folders {
            if !folders.contains(folder) || identity(folder) != Some(*was) {
                let _ = self.watcher.unwatch(folder);
                ended.insert(*was);
            }
        }
        self.folders.retain(|_, was| !ended.contains(was));
        let mut watched = BTreeMap::new();
        for folder in folders.paths() {
            let found = identity(folder);
            if let Some(same) = found.filter(|found| self.folders.get(folder) == Some(found)) {
                watched.insert(folder.clone(), same);
                continue;
            }
            let _ = self.watcher.unwatch(folder);
            let Some(new) = found else { continue };
            match self.watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    watched.insert(folder.clone(), new);
                    self.changed.notify_one();
                }
                Err(error) => tracing::warn!(
                    folder = %folder.display(),
                    "the folder cannot be watched, so a change in it is read with the next other one only: {error}"
                ),
            }
        }
        self.folders = watched;
    }

    /// Looks at what the folders and the links in them lead to.
    fn look(&mut self, folders: &Folders) {
        let links: Vec<_> = links(folders).collect();
        if links.len() == MAX_LINKS {
            tracing::warn!("changes behind the first {MAX_LINKS} links in the folders are noticed, and others are not");
        }
        let mut led_to: BTreeMap<_, _> = links.into_iter().map(|link| (link.clone(), stamp(&link))).collect();
        if led_to.iter().any(|(link, stamp)| self.led_to.get(link) != Some(stamp)) {
            self.changed.notify_one();
        }
        led_to.extend(folders.paths().map(|folder| (folder.clone(), stamp(folder))));
        self.led_to = Arc::new(led_to);
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
            () = self.leads_elsewhere() => {}
        }
        let quiet = async { while tokio::time::timeout(QUIET, self.changed.notified()).await.is_ok() {} };
        let _ = tokio::time::timeout(LONGEST, quiet).await;
    }

    /// Waits until a folder or a link leads to something else than when it was looked at, or to what was written since.
    async fn leads_elsewhere(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            let led_to = Arc::clone(&self.led_to);
            let look = move || led_to.iter().any(|(path, before)| stamp(path) != *before);
            if tokio::task::spawn_blocking(look).await.unwrap_or(true) {
                return;
            }
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

/// What distinguishes a folder from another at the same path, and a file from another or from an older version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    /// The time of the last change in seconds and nanoseconds, and the size. `None` for a folder.
    written: Option<(i64, i64, u64)>,
}

/// Returns the stamp of what `path` leads to, or `None` if that does not exist.
fn stamp(path: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(path).ok()?;
    let written = (!found.is_dir()).then(|| (found.ctime(), found.ctime_nsec(), found.len()));
    Some(Stamp { device: found.dev(), inode: found.ino(), written })
}

/// Returns those entries of the folders that count and are links to something outside their folder. The links of ConfigMap
/// and Secret volumes are left out: they lead through `..data` in the same folder, and that is watched.
fn links(folders: &Folders) -> impl Iterator<Item = PathBuf> {
    let entries = folders.paths().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink())).map(|entry| entry.path());
    let leads_out = |link: &PathBuf| std::fs::read_link(link).is_ok_and(|target| !target.starts_with("..data"));
    links.filter(|link| folders.counts(link)).filter(leads_out).take(MAX_LINKS)
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

    #[tokio::test]
    async fn what_is_behind_a_link_is_watched() {
        let folder = std::env::temp_dir().join(format!("hawsepipe-watch-behind-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        for below in ["one", "two", "linked"] {
            std::fs::create_dir_all(folder.join(below)).unwrap();
        }
        std::fs::write(folder.join("file"), "1").unwrap();
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(folder.join(to), folder.join("new")).unwrap();
            std::fs::rename(folder.join("new"), folder.join(name)).unwrap();
        };
        link("one", "current");
        link("file", "linked/a.yaml");
        let mut folders = Folders::default();
        folders.add_ending(folder.join("current"), &["yaml"]);
        folders.add_ending(folder.join("linked"), &["yaml"]);
        let mut watch = FolderWatch::new().unwrap();
        watch.set(folders);
        assert!(is_told(&watch).await, "of the folders themselves");
        let changes: [(&str, &dyn Fn()); 3] = [
            ("the folder behind a link", &|| link("two", "current")),
            ("a file in it", &|| std::fs::write(folder.join("two/b.yaml"), "1").unwrap()),
            ("the file behind a link", &|| std::fs::write(folder.join("file"), "22").unwrap()),
        ];
        for (what, change) in changes {
            let silent = tokio::time::timeout(Duration::from_millis(50), watch.changed());
            assert!(silent.await.is_err(), "before {what}");
            change();
            assert!(is_told(&watch).await, "of {what}");
            watch.renew();
            let _ = tokio::time::timeout(Duration::from_millis(50), watch.changed()).await;
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
