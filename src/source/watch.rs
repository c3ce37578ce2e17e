//! Tells when something in a set of folders changed.
//!
//! Folders are watched, not files: editors put a new file in a file's place, and ConfigMap volumes swap a link.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// Files are written in several steps: as long as changes follow each other within this time, they are one.
const QUIET: Duration = Duration::from_millis(25);
/// The longest that a change waits for quiet.
const LONGEST: Duration = Duration::from_millis(200);

/// A set of watched folders.
pub struct Watch {
    watcher: RecommendedWatcher,
    folders: BTreeSet<PathBuf>,
    changed: Arc<Notify>,
}

impl Watch {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// Where the system has no more watches to give.
    pub fn new() -> notify::Result<Self> {
        let changed = Arc::new(Notify::new());
        let notify = Arc::clone(&changed);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // An error means that events were lost: look again then too.
            if !event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_))) {
                notify.notify_one();
            }
        })?;
        Ok(Self { watcher, folders: BTreeSet::new(), changed })
    }

    /// Watches these folders and no others. A folder that is not there is not watched, and tried again next time.
    pub fn set(&mut self, folders: BTreeSet<PathBuf>) {
        for gone in self.folders.difference(&folders) {
            let _ = self.watcher.unwatch(gone);
        }
        let mut watched = BTreeSet::new();
        for folder in folders {
            let is_watched = self.folders.contains(&folder) && folder.is_dir();
            if is_watched || self.watcher.watch(&folder, RecursiveMode::NonRecursive).is_ok() {
                watched.insert(folder);
            }
        }
        self.folders = watched;
    }

    /// Waits for a change, and then for quiet.
    pub async fn changed(&self) {
        self.changed.notified().await;
        let quiet = async { while tokio::time::timeout(QUIET, self.changed.notified()).await.is_ok() {} };
        let _ = tokio::time::timeout(LONGEST, quiet).await;
    }
}
